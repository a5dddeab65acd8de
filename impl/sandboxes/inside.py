"""The process kept inside a sandbox: runs one command at a time and streams its output over a private descriptor.

Started as `python3 -I -S inside.py MODE FD SHELL [FILTER]` with the sandbox's own interpreter (3.8 or later), so it
uses the standard library alone and imports nothing of Artificer. MODE is `namespace` (this is PID 1 of a PID
namespace: one `kill(-1)` ends everything else), `container` (the same, and a control group bounds the number of
processes) or `tree` (no isolation: descendants are found and killed). FD is an inherited descriptor, or the path of
a Unix socket to connect to. FILTER is base64 of a seccomp program that this process and all it starts are held to.

Frames both ways are four bytes of big-endian length and a JSON object; bytes travel as base64.
To it: `{"op": "run", "id", "command", "timeout", "cap"}`, `{"op": "kill", "id"}`.
From it: `{"op": "hello", "problem"}` once (the errno of a failed write, or 0), then for every run
`{"op": "begin", "id"}` before anything is started, any number of `{"op": "out", "id", "data"}` (the first `cap`
bytes as they come), `{"op": "tail", "id", "data", "skipped"}` (the last bytes of what went beyond `cap`, and how
many were dropped between), and one
`{"op": "done", "id", "exit", "timed_out", "size"}` or `{"op": "unavailable", "id", "message"}`.
The descriptor's end of file ends the process and everything it started.
"""

from __future__ import annotations

import binascii
import collections
import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

CHUNK = 1 << 16
LARGE_PIPE = 1 << 20
PIECE = 1 << 18
GRACE_S = 0.1
"""How long output of what a finished command left behind is waited for."""
KILL_S = 0.7
"""How long killing everything may take before this process gives itself up."""
TICK_S = 0.25
PROCESS_LIMIT = 2048
MEMORY_PART = 0.75
MEMORY_BYTES = 8 << 30
"""What all processes of a sandbox may take of the machine's memory: this part of it, and no more than this."""
OPEN_FILES = 8192
FILE_BYTES = 8 << 30
F_SETPIPE_SZ = 1031
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
PR_SET_NO_NEW_PRIVS = 38
PR_SET_CHILD_SUBREAPER = 36
KEYCTL = {"x86_64": 250, "aarch64": 219}
KEYCTL_JOIN_SESSION_KEYRING = 1


class Channel:
    """Length-prefixed JSON frames on one descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = b""

    def send(self, **frame: Any) -> None:
        """Write one frame; OSError where the other side is gone."""
        body = json.dumps(frame).encode()
        rest = memoryview(len(body).to_bytes(4, "big") + body)
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def receive(self) -> dict[str, Any] | None:
        """The next frame, waiting for it; None at the end of file."""
        while not self.pending():
            data = os.read(self.fd, CHUNK)
            if not data:
                return None
            self._buffer += data
        size = int.from_bytes(self._buffer[:4], "big")
        body, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
        frame: dict[str, Any] = json.loads(body)
        return frame

    def pending(self) -> bool:
        """Whether a whole frame was read already."""
        return len(self._buffer) >= 4 and len(self._buffer) - 4 >= int.from_bytes(self._buffer[:4], "big")


class Relay:
    """Sends the first `cap` bytes as they come and keeps the last `cap // 2` of the rest for the end."""

    def __init__(self, channel: Channel, run: int, cap: int) -> None:
        self.size = 0
        self._channel = channel
        self._run = run
        self._cap = cap
        self._kept = cap // 2
        self._tail: collections.deque[bytes] = collections.deque()
        self._tail_size = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes of output."""
        room = self._cap - self.size
        self.size += len(data)
        if room > 0:
            self._send("out", data[:room])
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_size += len(data)
            while self._tail and self._tail_size - len(self._tail[0]) >= self._kept:
                self._tail_size -= len(self._tail.popleft())

    def finish(self) -> None:
        """Send what was kept."""
        if self._tail:
            data = b"".join(self._tail)
            data = data[max(0, len(data) - self._kept) :]
            self._send("tail", data, self.size - self._cap - len(data))

    def _send(self, op: str, data: bytes, skipped: int = 0) -> None:
        for start in range(0, len(data), PIECE):
            text = binascii.b2a_base64(data[start : start + PIECE], newline=False).decode("ascii")
            self._channel.send(op=op, id=self._run, data=text, skipped=skipped)


def parents() -> dict[int, int]:
    """Every visible process's parent, read from /proc; empty where there is none."""
    found: dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    found[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue  # it ended while we looked
    return found


def descendants(root: int) -> list[int]:
    """The pids of all processes below `root`, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found.extend(below)
        queue.extend(below)
    return found


def kill_quietly(pid: int, group: bool = False) -> None:
    """SIGKILL to a process or group that may have ended already."""
    try:
        if group:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def own_memory(pid: str) -> int:
    """Bytes of memory that a process has for itself alone; 0 for one that has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            pages = file.read().split()
    except OSError:
        return 0
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize() if len(pages) > 2 else 0


class Children:
    """The processes below this one: started, reaped, killed."""

    def __init__(self, namespace: bool, shell: str) -> None:
        self._namespace = namespace
        self._shell = shell
        self._memory = min(MEMORY_BYTES, int(MEMORY_PART * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
        self.main = 0
        self.status: int | None = None

    def start(self, command: bytes, output: int) -> None:
        """Start `command` in a session of its own, stdin at its end, both outputs to `output`."""
        self.status = None
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ]
        # Python ignores these two; a command must not inherit that, or `yes | head` prints an error
        defaults = [signal.SIGPIPE, signal.SIGXFSZ]
        argv: list[str | bytes] = [self._shell, "-c", command]
        self.main = os.posix_spawn(
            self._shell,
            argv,
            os.environ,
            file_actions=actions,
            setsid=True,
            setsigdef=defaults,
            setsigmask=[],
        )

    def reap(self) -> bool:
        """Collect whatever ended, adopted orphans included; True where no child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self.main:
                self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

    def end(self) -> bool:
        """Kill and reap everything below this process; False where something would not die in time."""
        until, pause = time.monotonic() + KILL_S, 0.0002
        while not self.reap():
            if self._namespace:
                kill_quietly(-1)
            else:
                if self.main and self.status is None:
                    kill_quietly(self.main, group=True)
                for pid in descendants(os.getpid()):
                    kill_quietly(pid)
            if time.monotonic() > until:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.01)
        return True

    def excess(self) -> bytes:
        """What the sandbox holds too much of, in words: processes (a fork bomb) or memory; nothing where all is well.

        RLIMIT_NPROC does not bind root, and no limit is of all processes together: so they are counted.
        """
        if not self._namespace:
            return b""
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
        if len(pids) > PROCESS_LIMIT:
            return b"more than %d processes" % PROCESS_LIMIT
        if sum(map(own_memory, pids)) > self._memory:
            return b"more than %d MB of memory" % (self._memory // 1_000_000)
        return b""


class Run:
    """One command, from its start to its last frame."""

    def __init__(self, channel: Channel, children: Children, wake: int, request: dict[str, Any]) -> None:
        self._channel = channel
        self._children = children
        self._wake = wake
        self._id = int(request["id"])
        self._deadline = time.monotonic() + float(request["timeout"])
        self._command = str(request["command"]).encode("utf-8", "replace")
        self._relay = Relay(channel, self._id, int(request["cap"]))
        self._pipe = -1
        self._enlarged = False
        self._excess = b""

    def go(self) -> None:
        """Run it. OSError from the channel means that the host is gone."""
        self._channel.send(op="begin", id=self._id)
        self._pipe, output = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            try:
                self._children.start(self._command, output)
            finally:
                os.close(output)
        except OSError as error:
            os.close(self._pipe)
            self._refuse(error)
            return
        why = self._follow()
        ended = self._children.end()
        self._drain()
        if self._pipe >= 0:
            os.close(self._pipe)
        self._finish(why)
        if not ended:
            os._exit(1)  # the kernel, or the host, ends what would not die

    def _refuse(self, error: OSError) -> None:
        if error.errno == errno.E2BIG:
            self._relay.feed(b"The command is too long for a shell's argument: write it to a file first.\n")
            self._channel.send(op="done", id=self._id, exit=126, timed_out=False, size=self._relay.size)
            return
        message = f"the sandbox cannot start a shell: {error.strerror}"
        self._channel.send(op="unavailable", id=self._id, message=message)

    def _follow(self) -> str:
        """Relay until the command ended (`ended`), its time is up (`deadline`), or it must die (`kill`, `limit`)."""
        poller = select.poll()
        for fd in (self._channel.fd, self._wake, self._pipe):
            poller.register(fd, select.POLLIN)
        until, counted = self._deadline, time.monotonic()
        while True:
            now = time.monotonic()
            left = until - now
            if left <= 0:
                return "deadline" if self._children.status is None else "ended"
            if self._channel.pending():
                ready = {self._channel.fd}
            else:
                ready = {fd for fd, _ in poller.poll(min(left, TICK_S) * 1000 + 0.5)}
            if self._channel.fd in ready and self._told_to_stop():
                return "kill"
            if self._pipe in ready and not self._read(poller):
                ready.discard(self._pipe)
            if self._wake in ready:
                os.read(self._wake, CHUNK)
                alive = self._children.status is None
                self._children.reap()
                if alive and self._children.status is not None:
                    until = min(until, time.monotonic() + GRACE_S)
            if self._children.status is not None and self._pipe < 0:
                return "ended"
            if now - counted >= TICK_S:
                counted = now
                self._excess = self._children.excess()
                if self._excess:
                    return "limit"

    def _told_to_stop(self) -> bool:
        frame = self._channel.receive()
        if frame is None:
            raise BrokenPipeError("the host is gone")
        return frame.get("op") == "kill" and frame.get("id") == self._id

    def _read(self, poller: select.poll) -> bool:
        """Relay what the pipe holds; False once it ended."""
        data = os.read(self._pipe, LARGE_PIPE if self._enlarged else CHUNK)
        if data:
            self._relay.feed(data)
            if not self._enlarged and self._relay.size > PIECE:
                self._enlarged = True
                enlarge(self._pipe)
            return True
        poller.unregister(self._pipe)
        os.close(self._pipe)
        self._pipe = -1
        return False

    def _drain(self) -> None:
        """Relay what was still in the pipe when its writers died."""
        while self._pipe >= 0:
            try:
                data = os.read(self._pipe, LARGE_PIPE)
            except BlockingIOError:
                return
            if not data:
                return
            self._relay.feed(data)

    def _finish(self, why: str) -> None:
        if why == "limit":
            self._relay.feed(b"\n[%s: all processes were killed]\n" % self._excess)
        self._relay.finish()
        late = why == "deadline"
        code = None if late else self._children.status
        self._channel.send(op="done", id=self._id, exit=code, timed_out=late, size=self._relay.size)


def enlarge(pipe: int) -> None:
    """Give a busy pipe a larger buffer where the system lets us: fewer and larger frames."""
    with contextlib.suppress(OSError):  # the user's allowance of pipe pages is spent, or this is not Linux
        fcntl.fcntl(pipe, F_SETPIPE_SZ, LARGE_PIPE)


def write_problem(directory: str) -> int:
    """The errno with which a byte cannot be written to `directory`; 0 where it could be."""
    path = os.path.join(directory, f".write-check-{os.getpid()}-{time.monotonic_ns()}")
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        return error.errno or errno.EIO
    try:
        os.write(fd, b"\n")
    except OSError as error:
        return error.errno or errno.EIO
    finally:
        os.close(fd)
        os.unlink(path)
    return 0


def lower(limit: int, value: int) -> None:
    """Lower a resource limit to `value` where it is not lower already."""
    _, hard = resource.getrlimit(limit)
    if hard == resource.RLIM_INFINITY or value < hard:
        resource.setrlimit(limit, (value, value))


def set_limits(count_processes: bool) -> None:
    """Bound what commands may use; they inherit it."""
    os.umask(0o022)
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    release = os.uname().release.split(".")
    # Older kernels count all of the user's processes, outside the sandbox too, against the limit.
    if count_processes and release[0].isdigit() and (int(release[0]), int(release[1])) >= (5, 14):
        lower(resource.RLIMIT_NPROC, PROCESS_LIMIT)


def harden(namespace: bool) -> None:
    """Keep commands out of this process's memory and descriptors, and of the host's keys; adopt orphans."""
    try:
        import ctypes
    except ImportError:  # a minimal system interpreter
        return
    libc = ctypes.CDLL(None)
    prctl = getattr(libc, "prctl", None)
    if prctl is not None:
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        if not namespace:
            prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    keyctl = KEYCTL.get(os.uname().machine)
    if namespace and keyctl is not None:
        libc.syscall(keyctl, KEYCTL_JOIN_SESSION_KEYRING, None)  # the caller's keyring is inherited otherwise


def refuse_calls(encoded: str) -> None:
    """Hold this process and all it starts to a filter of system calls; it ends where that cannot be done."""
    program = binascii.a2b_base64(encoded)
    try:
        import ctypes

        class Program(ctypes.Structure):
            _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_char_p)]

        prctl = ctypes.CDLL(None, use_errno=True).prctl
        given = Program(len(program) // 8, program)
        failed = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(
            PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(given)
        )
        why = os.strerror(ctypes.get_errno()) if failed else ""
    except (ImportError, AttributeError) as error:
        why = str(error)
    if why:
        sys.exit(f"the filter of system calls cannot be set: {why}")


def serve(channel: Channel, children: Children, wake: int) -> None:
    """Answer run frames until the host goes away."""
    while True:
        request = channel.receive()
        if request is None:
            return
        if request.get("op") == "run":  # a kill that comes after its run's end means nothing
            Run(channel, children, wake, request).go()


def connected(where: str) -> int:
    """The descriptor of the channel, which only this process has."""
    if where.isdigit():
        os.set_inheritable(int(where), False)
        return int(where)
    import socket

    channel = socket.socket(socket.AF_UNIX)
    channel.connect(where)
    return channel.detach()


def main(mode: str, where: str, shell: str, filter: str = "") -> None:
    """Serve until the end of file on the channel, then leave nothing behind."""
    namespace = mode != "tree"
    if namespace and os.getpid() != 1:
        sys.exit("inside: this mode kills every process it sees, so it must be PID 1")
    fd = connected(where)
    set_limits(mode == "namespace")
    harden(namespace)
    if filter:
        refuse_calls(filter)
    wake, tick = os.pipe()
    os.set_blocking(tick, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tick, warn_on_full_buffer=False)
    channel, children = Channel(fd), Children(namespace, shell)
    try:
        channel.send(op="hello", problem=write_problem(os.getcwd()))
        serve(channel, children, wake)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the host died: its sandbox dies with it
    children.end()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:5])
