"""What tools declare to need, installed once per set of requirements: in a sandbox, before anything runs, never on the
host.

`ARTIFICER_HOME/environments/KEY/TAG` holds the packages of one set for one Python and processor
(`cpython-311-x86_64`); KEY is a digest of the requirements, the kind of sandbox and what its programs stand on: another
image, C library or interpreter has another one. Tools see it read-only. What is installed is as untrusted as a tool.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from core import Sandbox, SandboxUnavailable

DIRECTORY: Final = "environments"
INSTALL_S: Final = 600.0
PROBE_S: Final = 30.0
_ABANDONED_S: Final = 6 * 3600
_TAG: Final = re.compile(r"[a-z0-9_-]{1,60}")
_TAG_COMMAND: Final = (
    "python3 -I -S -c 'import os, sys; print(sys.implementation.cache_tag + chr(45) + os.uname().machine)'"
)
_MARK: Final = ".new-"
_SAID: Final = 1500


class EnvironmentFailed(Exception):
    """Requirements could not be installed; the message says why, with the installer's last words."""


def environment_key(kind: str, base: str, requirements: Iterable[str]) -> str:
    """The name of a set of requirements for a kind of sandbox on a base: 32 hex digits, whatever their order."""
    facts = [kind, base, sorted({" ".join(text.split()) for text in requirements})]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Environments:
    """The environments of a home for one kind of sandbox, on its present `base`.

    `options` are further ones of `pip install`, `shown` directories it may read, by their path inside.
    """

    home: Path
    sandbox: Sandbox
    base: str
    options: Sequence[str] = ()
    shown: Mapping[str, Path] = field(default_factory=dict)

    def key(self, requirements: Iterable[str]) -> str:
        """The name of a set."""
        return environment_key(self.sandbox.name, self.base, requirements)

    def place(self, requirements: Iterable[str]) -> Path:
        """The directory of a set, by Python; made, empty, where absent, so that it can be shown to a sandbox."""
        path = self._root() / self.key(requirements)
        path.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):
            os.utime(path)  # it is in use: what cleans up leaves it alone
        return path

    async def install(self, requirements: Sequence[str]) -> None:
        """Install a set where it is not there yet, in a sandbox with a network. Raises EnvironmentFailed and
        SandboxUnavailable."""
        place, work = self.place(requirements), self._root() / f"{_MARK}{secrets.token_hex(6)}"
        self._tidy()
        try:
            workspace = await self.sandbox.open(work, network=True, shown=self.shown)
            try:
                tag = (await workspace.run(_TAG_COMMAND, timeout=PROBE_S)).output.strip()
                if not _TAG.fullmatch(tag):
                    raise EnvironmentFailed(f"the sandbox has no Python: {tag[:200]}")
                if (place / tag).exists():
                    return
                result = await workspace.run(self._command(tag, requirements, workspace.unsafe), timeout=INSTALL_S)
            finally:
                await workspace.close()
            if result.exit_code != 0:
                note = str(getattr(self.sandbox, "note", ""))
                why = "did not end in time" if result.timed_out else f"failed: {result.output.strip()[-_SAID:]}"
                raise EnvironmentFailed(f"installing {', '.join(requirements)} {why} {note}".strip())
            _keep(work / tag, place / tag)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _command(self, tag: str, requirements: Sequence[str], unsafe: bool) -> str:
        options = list(self.options)
        if unsafe:  # nothing is shown there at another place than its own
            for inside, outside in self.shown.items():
                options = [str(outside) if option == inside else option for option in options]
        pip = ["python3", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
        return shlex.join([*pip, "--no-warn-script-location", "--target", tag, *options, "--", *requirements])

    def _root(self) -> Path:
        root = self.home / DIRECTORY
        root.mkdir(parents=True, exist_ok=True)
        return root

    def _tidy(self) -> None:
        """Remove what killed installations left."""
        for path in self._root().glob(f"{_MARK}*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _ABANDONED_S:
                    shutil.rmtree(path, ignore_errors=True)


def _keep(made: Path, target: Path) -> None:
    """Put what was installed in its place; what another process has put there meanwhile is as good."""
    # The sandbox is closed, so what lies there stays as it is; it may be anything.
    if made.is_symlink() or not made.is_dir():
        raise EnvironmentFailed("the installer left no directory of packages")
    try:
        made.rename(target)
    except OSError as error:
        if not target.is_dir():
            raise SandboxUnavailable(f"{target} cannot be written: {error.strerror}.") from error
