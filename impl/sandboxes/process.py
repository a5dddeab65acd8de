"""The unsafe `process` kind: commands run on the host itself, tidied up after but isolated from nothing.

There is no `/work` here: commands start in the workspace's own directory, whose path stands in `$WORK` (as it does,
with the value `/work`, in the other kinds). On Linux every descendant is found and killed after each command; on
other systems those that start a session of their own may escape.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from core import SandboxUnavailable, Workspace
from impl.sandboxes.bubblewrap import QUIET, host_base
from impl.sandboxes.inside import descendants, kill_quietly
from impl.sandboxes.kept import Launched, Notice, spawn
from impl.sandboxes.options import Options
from impl.sandboxes.workspace import open_workspace

ALLOWED = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR")
"""What commands see of the host's environment, besides PATH. Proxy settings are not here: they hold passwords."""

VENV = ".local/venv"
"""The environment of a workspace, relative to it: `pip install` must never reach the host's own."""


def environment(host: Mapping[str, str], path: Path, prefix: str, base_prefix: str) -> dict[str, str]:
    """What commands see in their environment; pure. `prefix` is left out of PATH where it is Artificer's own venv."""
    own = f"{prefix}/bin" if prefix != base_prefix else None
    folders = [f"{path}/{VENV}/bin", f"{path}/.local/bin"]
    folders += [folder for folder in host.get("PATH", os.defpath).split(os.pathsep) if folder and folder != own]
    return {
        **QUIET,
        **{name: host[name] for name in ALLOWED if name in host},
        "PATH": os.pathsep.join(folders),
        "HOME": str(path),
        "WORK": str(path),
        "VIRTUAL_ENV": f"{path}/{VENV}",
    }


def make_environment(path: Path) -> None:
    """The workspace's Python environment, made where absent. It sees the host's packages and has no pip of its own.

    A copy of pip costs seconds; the host's, run by this interpreter, installs here just as well.
    """
    venv = path / VENV
    if (venv / "bin" / "pip").exists():
        return
    from venv import EnvBuilder

    EnvBuilder(system_site_packages=True, symlinks=True, with_pip=False).create(venv)
    for name in ("pip", "pip3"):
        script = venv / "bin" / name
        script.write_text('#!/bin/sh\nexec "$(dirname "$0")/python3" -m pip "$@"\n')
        script.chmod(0o755)


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to everything below the kept process, then to itself: while it lives it adopts the orphans."""
    if process.poll() is None:
        for _ in range(3):
            below = descendants(process.pid)
            for pid in below:
                kill_quietly(pid)
            if not below:
                break
        process.kill()


class ProcessSandbox:
    """The sandbox kind `process`: no isolation at all, and every screen says so."""

    name = "process"
    unsafe = True
    note = ""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or Options()

    async def probe(self) -> str | None:
        """None where there is a POSIX shell to run."""
        return None if os.name == "posix" and shutil.which("sh") else "there is no POSIX shell here."

    async def base(self) -> str:
        """This machine's own programs, and the interpreter that runs Artificer."""
        return host_base(sys.executable)

    async def no_network(self) -> str | None:
        """Always a reason: there is a network, and nothing that filters it."""
        return "it isolates nothing, so nothing holds its network to public addresses."

    async def open(self, path: Path, *, network: bool = False, shown: Mapping[str, Path] | None = None) -> Workspace:
        """A workspace on the host directory `path`, made where absent. Raises SandboxUnavailable.

        The network is the host's whatever `network` says: nothing here can be held back. What is `shown` stays
        where it is.
        """
        problem = await self.probe()
        if problem is not None:
            raise SandboxUnavailable(f"Commands cannot be run here: {problem}")
        return await open_workspace(self.name, path, self.unsafe, self._launch, self._options.lifetime)

    async def _launch(self, path: Path, notice: Notice) -> Launched:
        try:
            await asyncio.to_thread(make_environment, path)
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxUnavailable(f"The Python environment of {path} cannot be made: {error}.") from None
        inside = str(Path(__file__).with_name("inside.py"))
        shell = shutil.which("bash") or shutil.which("sh") or "/bin/sh"
        return spawn(
            lambda channel: [sys.executable, "-I", "-S", inside, "tree", str(channel), shell],
            environment(os.environ, path, sys.prefix, sys.base_prefix),
            kill_tree,
            cwd=path,
        )
