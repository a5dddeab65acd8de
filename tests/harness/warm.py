"""Commands in forked children of one warm process: starting one costs milliseconds, and killing it is real.

    with Warm() as warm:
        command = warm.start(["sessions", "--json"], env)
        lines = command.read()          # what it printed
        command.code                    # its exit code, -9 where SIGKILL ended it

The warm process has the command line imported and runs nothing itself. A child may be told to die by its own
SIGKILL at an exact moment (`Death`), which no signal sent from outside could hit.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import IO, Any, Literal

MOST = 1_000_000
#: What depends on the clock: how much of it there is differs from run to run, so it is not counted.
UNCOUNTED = ("log", "draft")


@dataclass(frozen=True, slots=True)
class Death:
    """When a command dies: with its `count`th transaction of events `unsaved` (just before it would be stored) or
    `stored` (before anyone was shown it), or once the `count`th event was `shown`. `kind` counts only that kind."""

    when: Literal["unsaved", "stored", "shown"]
    count: int
    kind: str | None = None

    def counts(self, kind: str) -> bool:
        """Whether an event of this kind is one of those that are counted."""
        return kind == self.kind if self.kind else kind not in UNCOUNTED


class Command:
    """One command that was started."""

    def __init__(self, warm: Warm, pid: int, stdout: IO[str], stderr: IO[str]) -> None:
        self._warm = warm
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.lines: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Its JSON lines as they come; a line that was cut by its death is none."""
        for line in self.stdout:
            if line.endswith("\n"):
                self.lines.append(json.loads(line))
                yield self.lines[-1]

    def read(self) -> list[dict[str, Any]]:
        """All its lines, once it has ended."""
        for _ in self:
            pass
        return self.lines

    @property
    def code(self) -> int:
        """Its exit code, or minus the signal that ended it; waits for it."""
        return self._warm.code(self.pid)

    def kill(self, name: signal.Signals = signal.SIGKILL) -> None:
        """Send it a signal; one that has ended stays as it is."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, name)


class Warm:
    """The warm process. Its children are killed with it."""

    def __init__(self) -> None:
        self._codes: dict[int, int] = {}
        self._pids: list[int] = []
        self._lock = threading.Lock()
        self._news = threading.Condition()

    def __enter__(self) -> Warm:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()]
            )
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.shutdown(socket.SHUT_RDWR)
        self._process.wait(20)
        self._link.close()

    def start(self, argv: Sequence[str], env: Mapping[str, str], death: Death | None = None) -> Command:
        """Start one command."""
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        wanted = {"argv": list(argv), "env": dict(env), "death": asdict(death) if death else None}
        with self._lock:
            socket.send_fds(self._link, [json.dumps(wanted).encode()], [out_end, err_end])
            os.close(out_end)
            os.close(err_end)
            with self._news:
                assert self._news.wait_for(lambda: self._pids, 60), "the warm process started nothing"
                pid = self._pids.pop()
        return Command(self, pid, open(out, encoding="utf-8"), open(err, encoding="utf-8"))

    def code(self, pid: int) -> int:
        """The exit code of a child; waits for it."""
        with self._news:
            assert self._news.wait_for(lambda: pid in self._codes, 60), f"child {pid} does not end"
            return self._codes[pid]

    def _receive(self) -> bytes:
        try:
            return self._link.recv(4096)
        except OSError:  # it has ended
            return b""

    def _listen(self) -> None:
        while packet := self._receive():
            news = json.loads(packet)
            with self._news:
                if "started" in news:
                    self._codes.pop(news["started"], None)  # a number that an earlier child had
                    self._pids.append(news["started"])
                else:
                    self._codes[news["ended"]] = news["code"]
                self._news.notify_all()


# --- in the warm process -------------------------------------------------------------------------------


#: What a run over HTTP in bubblewrap imports.
_USED = (
    "anyio._backends._asyncio",
    "anyio.streams.tls",
    "core.compaction",
    "core.doors",
    "core.drive",
    "encodings.utf_8_sig",
    "httpcore",
    "httpx",
    "impl.compose",
    "impl.drivers.bundle",
    "impl.providers.openai_compatible",
    "impl.sandboxes.bubblewrap",
    "jsonschema",
    "platformdirs.unix",
    "pydantic.type_adapter",
    "referencing",
    "tui.commands.driving",
    "typer._adapters",
)


def _preload() -> None:
    """Import it all, and make what of it is made once a process; nothing runs."""
    import gc
    import importlib

    for name in _USED:
        importlib.import_module(name)
    import httpx

    from core import ProgressGuard, Step
    from impl.providers import _http, _pricing

    _http.tls(httpx)
    _pricing.warm()
    ProgressGuard().observe(Step("tool", tool="t", args={"command": "sleep 1"}, output="0: line 1 failed at 12:00:00"))
    gc.freeze()


def _serve(link: socket.socket) -> None:
    """Fork a child for every request, and report how each ended."""
    selector = selectors.DefaultSelector()
    selector.register(link, selectors.EVENT_READ)
    pids: dict[int, int] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is link:
                packet, descriptors, _, _ = socket.recv_fds(link, MOST, 2)
                if not packet:
                    for pid in pids.values():
                        os.kill(pid, signal.SIGKILL)
                    return
                pid = os.fork()
                if not pid:
                    link.close()
                    selector.close()
                    _child(json.loads(packet), *descriptors)
                for descriptor in descriptors:
                    os.close(descriptor)
                pids[watch := os.pidfd_open(pid)] = pid
                selector.register(watch, selectors.EVENT_READ)
                link.send(json.dumps({"started": pid}).encode())
            else:
                selector.unregister(watch := key.fd)
                _, status = os.waitpid(pid := pids.pop(watch), 0)
                os.close(watch)
                with contextlib.suppress(BrokenPipeError):  # nobody waits any more
                    link.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _child(wanted: Mapping[str, Any], out: int, err: int) -> None:
    """Be the command: its environment, its output, its exit code."""
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.closerange(3, 1024)
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if wanted["death"]:
        _doom(Death(**wanted["death"]))
    from tui.commands import run

    code = 70
    try:
        code = run(wanted["argv"])
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _doom(death: Death) -> None:
    """Arrange for this process to kill itself at that moment."""
    from impl.store.sqlite import SqliteStore
    from tui.commands import output

    left = death.count

    def met(kinds: Sequence[str]) -> None:
        nonlocal left
        if any(death.counts(kind) for kind in kinds):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def around(name: str, kinds_of: Any) -> None:
        real = getattr(SqliteStore, name)

        def doomed(self: Any, *args: Any) -> Any:
            kinds = kinds_of(*args)
            if death.when == "unsaved":
                met(kinds)
            made = real(self, *args)
            if death.when == "stored":
                met(kinds)
            return made

        setattr(SqliteStore, name, doomed)

    if death.when == "shown":
        real_line = output.line

        def line(value: Mapping[str, Any]) -> None:
            real_line(value)
            if value.get("type") == "event":
                met([value["kind"]])

        output.line = line
        return
    around("append", lambda session, pairs, columns=None: [kind for kind, _ in pairs])
    around("create_session", lambda info, pairs: [kind for kind, _ in pairs])
    around("set_draft", lambda *_: ["draft"])


if __name__ == "__main__":
    _preload()
    _serve(socket.socket(fileno=int(sys.argv[1])))
