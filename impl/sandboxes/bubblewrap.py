"""The bubblewrap sandbox: Linux namespaces around one kept process; no host files, no root, and no network but the
filtered one a workspace asks for (`impl.sandboxes.pasta`)."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from core import SandboxUnavailable, Workspace
from impl.sandboxes import calls, pasta
from impl.sandboxes.kept import Launched, Notice, spawn
from impl.sandboxes.network import changed_since, resolv_conf
from impl.sandboxes.options import CA_INSIDE, Options, ca_environment
from impl.sandboxes.pasta import Pasta
from impl.sandboxes.workspace import open_workspace

PROBE_S = 0.5
TRIES = 4
"""How often a probe is tried that took too long: a machine may be busy, and what comes next does not isolate."""
UID = 1000
"""Who commands are inside, whoever runs Artificer: the one user of the sandbox's user namespace."""
TMP_BYTES = 256 << 20
SHM_BYTES = 64 << 20
HOME = "/work"
INSIDE = "/run/artificer/inside.py"

FILES: dict[str, str] = {
    "/etc/passwd": f"agent:x:{UID}:{UID}:agent:{HOME}:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "/etc/group": f"agent:x:{UID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
"""Made for the sandbox instead of showing the host's."""

ETC = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/ca-trust/extracted",
    "/etc/crypto-policies",
)
"""What programs need of the host's /etc and that holds no secret (never /etc/ssl/private)."""

SYSCTLS = {
    "kernel.unprivileged_userns_clone": "0",
    "kernel.apparmor_restrict_unprivileged_userns": "1",
    "user.max_user_namespaces": "0",
}
"""Settings that forbid user namespaces, and the value with which they do."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What of the host a sandbox shows, read once: `options` are those this bwrap knows, `mounts` and `etc`
    are shown read-only at their own place, `links` are (target, path) of symlinks, `inside` is our helper,
    `refused` the filter of system calls that it is given."""

    bwrap: str
    options: frozenset[str]
    python: str
    shell: str
    mounts: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    etc: tuple[str, ...]
    inside: str
    refused: str = ""


def argv(
    layout: Layout,
    work: str,
    channel: int,
    files: Mapping[str, int],
    *,
    share_net: bool = False,
    shown: Mapping[str, str] | None = None,
) -> list[str]:
    """The command line of a sandbox on the host directory `work`; pure.

    `channel` is the inherited descriptor the process inside talks over, `files` maps a path inside to an inherited
    descriptor with its content, `shown` one to a host file. `share_net` keeps the network namespace it is started
    in, which must be a filtered one. /proc, /dev and the root are read-only: where root runs Artificer, the sandbox's
    user is the host's uid 0 without capabilities, to whom a writable /proc/sys would belong.
    """
    line = [layout.bwrap, "--unshare-user", "--unshare-all"]
    if "--disable-userns" in layout.options:
        line += ["--disable-userns"]
    if share_net:
        line += ["--share-net"]
    line += ["--uid", str(UID), "--gid", str(UID), "--hostname", "sandbox"]
    line += ["--as-pid-1", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    for path in layout.mounts:
        line += ["--ro-bind", path, path]
    for target, path in layout.links:
        line += ["--symlink", target, path]
    for path in layout.etc:
        line += ["--ro-bind", path, path]
    for path, fd in files.items():
        line += ["--file", str(fd), path]
    for path, source in (shown or {}).items():
        line += ["--ro-bind", source, path]
    line += ["--ro-bind", layout.inside, INSIDE]
    line += ["--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    line += [*_tmpfs(layout, "/dev/shm", SHM_BYTES), *_tmpfs(layout, "/tmp", TMP_BYTES)]
    line += ["--bind", work, HOME, "--chdir", HOME, "--remount-ro", "/"]
    line += ["--", layout.python, "-I", "-S", INSIDE, "namespace", str(channel), layout.shell]
    return [*line, layout.refused] if layout.refused else line


def _tmpfs(layout: Layout, path: str, size: int) -> list[str]:
    limit = ["--size", str(size)] if "--size" in layout.options else []
    return [*limit, "--tmpfs", path]


def environment(layout: Layout) -> dict[str, str]:
    """All that commands see in their environment; nothing of the host's."""
    folders = [f"{HOME}/.local/bin", "/usr/local/bin", "/usr/bin", "/bin"]
    own = str(Path(layout.python).parent)
    if own not in folders:
        folders.insert(1, own)
    return {"PATH": ":".join(folders), "SHELL": layout.shell, **AGENT}


QUIET = {
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_SSH_COMMAND": "ssh -o BatchMode=yes",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
}
"""What keeps programs from asking, paging and colouring; for every kind of sandbox."""

AGENT = {
    "HOME": HOME,
    "USER": "agent",
    "LOGNAME": "agent",
    "WORK": HOME,
    # /usr is read-only, so pip installs into /work/.local by itself, where Python finds it again
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    **QUIET,
}
"""What commands see where `/work` is theirs, besides PATH."""


def survey(bwrap: str, options: frozenset[str]) -> Layout:
    """Look at the host: which directories, interpreter and shell a sandbox can be given."""
    mounts, links = ["/usr"], []
    for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(path):
            links.append((os.readlink(path).lstrip("/"), path))
        elif os.path.isdir(path):
            mounts.append(path)
    python, prefix = choose_python(Path("/usr"), Path(sys.base_prefix))
    if prefix is not None:
        mounts.append(prefix)
    shell = next(
        path for path in ("/usr/bin/bash", "/bin/bash", "/bin/sh") if path == "/bin/sh" or os.path.exists(path)
    )
    return Layout(
        bwrap=bwrap,
        options=options,
        python=python,
        shell=shell,
        mounts=tuple(mounts),
        links=tuple(links),
        etc=tuple(path for path in ETC if os.path.exists(path)),
        inside=str(Path(__file__).with_name("inside.py")),
        refused=calls.encoded_here(),
    )


def choose_python(usr: Path, running: Path) -> tuple[str, str | None]:
    """(interpreter inside, prefix to show besides /usr): the system's, else the one that runs Artificer."""
    system = usr / "bin" / "python3"
    if system.exists():
        return str(system), None
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(running / "bin" / name), None if running.is_relative_to(usr) else str(running)


def host_base(python: str) -> str:
    """What this machine's own programs stand on, with the interpreter that is shown: see `Sandbox.base`."""
    try:
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        libc = "another C library"
    machine = os.uname()
    return f"{machine.sysname} {machine.machine}, {libc}, {os.path.realpath(python)}"


def explain(stderr: str, sysctls: Mapping[str, str]) -> str:
    """Why bwrap could not make a sandbox, in words, with the next step; pure."""
    lines = stderr.strip().splitlines()
    said = lines[-1].removeprefix("bwrap: ") if lines else "it said nothing"
    for name, forbidding in SYSCTLS.items():
        if sysctls.get(name) == forbidding:
            allow = {"0": "1", "1": "0"}[forbidding] if name != "user.max_user_namespaces" else "15000"
            return f"no user namespaces ({said}): the kernel forbids them; `sysctl {name}={allow}` as root allows them."
    words = said.lower()
    if any(sign in words for sign in ("namespace", "uid map", "permission", "not permitted", "no space left")):
        return (
            f"no user namespaces ({said}): this container or system forbids them; "
            "allow them (for a container, its seccomp and capability settings) or name another sandbox."
        )
    return f"bwrap failed: {said}"


def read_sysctls() -> dict[str, str]:
    """The present values of the settings that matter."""
    values = {}
    for name in SYSCTLS:
        try:
            values[name] = Path("/proc/sys", *name.split(".")).read_text().strip()
        except OSError:
            continue  # this kernel does not have it
    return values


def _content(text: str) -> int:
    """An anonymous file's descriptor that reads as `text`."""
    fd = os.memfd_create("artificer")
    os.write(fd, text.encode())
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class BubblewrapSandbox:
    """The sandbox kind `bubblewrap`: one set of namespaces a workspace.

    `note` says, once known, why workspaces get no network here; empty where they get the filtered one. `instead_of`
    is why a kind that comes first was not taken, where that is worth a word at the first command.
    """

    name = "bubblewrap"
    unsafe = False

    def __init__(self, program: str = "bwrap", options: Options | None = None) -> None:
        self._program = program
        self._options = options or Options()
        self._layout: Layout | None = None
        self._problem: str | None = None
        self._pasta: Pasta | None = None
        self.note = ""
        self.instead_of = ""

    async def probe(self) -> str | None:
        """None where a sandbox can be made, else why not. At most TRIES × 500 ms; kept, but for a lack of time."""
        if self._layout is not None or self._problem is not None:
            return self._problem
        if not sys.platform.startswith("linux"):
            self._problem = "bubblewrap needs Linux."
            return self._problem
        bwrap = shutil.which(self._program)
        if bwrap is None:
            self._problem = "bwrap is not installed: `apt install bubblewrap` (or your system's package of that name)."
            return self._problem
        for _ in range(TRIES):
            try:
                async with asyncio.timeout(PROBE_S):
                    return await self._try(bwrap)
            except TimeoutError:
                continue
        return f"bwrap did not answer within {PROBE_S * 1000:.0f} ms, {TRIES} times."

    async def _try(self, bwrap: str) -> str | None:
        _, said = await _outcome([bwrap, "--help"])
        layout = survey(bwrap, frozenset(word for word in said.split() if word.startswith("--")))
        code, said = await _outcome(_nothing(layout))
        if code == 0:
            self._layout = layout
        else:
            self._problem = explain(said, read_sysctls())
        return self._problem

    async def open(self, path: Path, *, network: bool = False, shown: Mapping[str, Path] | None = None) -> Workspace:
        """A workspace on the host directory `path`, made where absent. Raises SandboxUnavailable."""
        problem = await self.probe()
        if problem is not None:
            raise SandboxUnavailable(f"The bubblewrap sandbox does not work here: {problem}")
        start = self._launch
        if network:
            start = self._launch_without
            if await self._can_network():
                start = self._launch_filtered
        places = {**self._shown(), **{inside: str(place) for inside, place in (shown or {}).items()}}

        async def launch(path: Path, notice: Notice) -> Launched:
            if self.instead_of and not shown:  # a session's own; where something is shown, a tool's or a server's
                notice(f"[This sandbox is bubblewrap. {self.instead_of}]\n")
            return await start(path, notice, places)

        return await open_workspace(self.name, path, self.unsafe, launch, self._options.lifetime)

    async def base(self) -> str:
        """This machine's own programs."""
        problem = await self.probe()
        if problem is not None:
            raise SandboxUnavailable(f"The bubblewrap sandbox does not work here: {problem}")
        return host_base(self._known().python)

    async def no_network(self) -> str | None:
        """Why workspaces get no network here; None where they get the filtered one."""
        problem = await self.probe()
        return problem or (None if await self._can_network() else self.note)

    async def _can_network(self) -> bool:
        """Whether the filtered network works here, tried once; `note` says why not."""
        if self._pasta is None and not self.note:
            found = pasta.find()
            if isinstance(found, str):
                self.note = found
            elif (problem := await pasta.trial(found, _nothing(self._known(), share_net=True))) is not None:
                self.note = problem
            else:
                self._pasta = found
        return self._pasta is not None

    async def _launch(self, path: Path, notice: Notice, shown: Mapping[str, str]) -> Launched:
        layout = self._known()
        files = {name: _content(text) for name, text in FILES.items()}
        try:
            # The death of bwrap is that of PID 1 inside (--die-with-parent), and so of the whole namespace. The
            # kernel means the parent's thread: the loop that opens workspaces must outlive them in its thread.
            return spawn(
                lambda channel: argv(layout, str(path), channel, files, shown=shown),
                self._environment(layout),
                subprocess.Popen.kill,
                passed=files.values(),
            )
        finally:
            for fd in files.values():
                os.close(fd)

    async def _launch_without(self, path: Path, notice: Notice, shown: Mapping[str, str]) -> Launched:
        """The same, for one who asked for a network."""
        notice(f"[No network in this sandbox: {self.note}]\n")
        return await self._launch(path, notice, shown)

    async def _launch_filtered(self, path: Path, notice: Notice, shown: Mapping[str, str]) -> Launched:
        layout, found = self._known(), self._pasta
        assert found is not None, "open() has tried it"
        reach, forward = pasta.reach(self._options.allow_cidrs)
        files = {**FILES, "/etc/resolv.conf": resolv_conf(reach.resolvers)}
        numbers = {name: pasta.FIRST_FILE + n for n, name in enumerate(files)}
        inner = argv(layout, str(path), pasta.CHANNEL, numbers, share_net=True, shown=shown)
        launched = spawn(
            lambda channel: pasta.command(found, reach, forward, inner, tuple(files.values())),
            self._environment(layout),
            subprocess.Popen.kill,
            as_stdin=True,
        )
        return replace(launched, outdated=changed_since(reach))

    def _known(self) -> Layout:
        assert self._layout is not None, "open() has probed"
        return self._layout

    def _shown(self) -> dict[str, str]:
        bundle = self._options.ca_bundle
        return {} if bundle is None else {CA_INSIDE: str(bundle)}

    def _environment(self, layout: Layout) -> dict[str, str]:
        return {**environment(layout), **ca_environment(self._options)}


def _nothing(layout: Layout, *, share_net: bool = False) -> list[str]:
    """A sandbox that only ends: any directory serves as its workspace, and no descriptor is passed."""
    line = argv(layout, "/usr", 0, {}, share_net=share_net)
    return [*line[: line.index("--") + 1], layout.shell, "-c", "exit 0"]


async def _outcome(line: list[str]) -> tuple[int, str]:
    """(exit status, what it printed); killed, and TimeoutError, where it takes longer than a probe may."""
    try:
        done = await asyncio.to_thread(
            subprocess.run,
            line,
            env={},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return done.returncode, done.stdout.decode("utf-8", "replace")
