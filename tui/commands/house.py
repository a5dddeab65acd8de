"""Commands on the installation: providers, doctor, gc."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import core
from tui.commands import output
from tui.commands.choices import Json
from tui.commands.hosting import build_host

if TYPE_CHECKING:
    from core import Host, Sandbox
    from impl.settings import Settings

PREFLIGHT_S = 1.1
"""How long a provider may take to say whether it is ready: the list of all is there within two seconds."""
RECENTLY_S = 60.0
"""A laid-out revision used more recently than this may belong to a run that is just beginning."""
UNUSED_S = 30 * 86_400.0
"""What tools need stays installed so long after its last use: a validation installs it again, a run does not."""


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (providers, doctor, gc):
        app.command()(command)

    def version(value: bool) -> None:
        if value:
            from importlib.metadata import version as version_of

            output.text(version_of("artificer"))
            raise typer.Exit

    @app.callback()
    def root(
        version: bool = typer.Option(False, "--version", callback=version, is_eager=True, help="Print the version."),
    ) -> None:
        """Builds and supervises agents, in a terminal. Without a command it opens the app."""


# --- providers -----------------------------------------------------------------------------------------


def providers(as_json: Json = False) -> int:
    """What can think here: ready, or the one command that mends it."""
    import asyncio

    output.rows(asyncio.run(_providers()), as_json=as_json, table=_provider_line)
    return 0


async def _providers() -> list[dict[str, Any]]:
    import asyncio

    from impl.providers import provider_names
    from impl.settings import load_settings

    settings = load_settings()
    return list(await asyncio.gather(*(_provider(name, settings) for name in provider_names())))


async def _provider(name: str, settings: Settings) -> dict[str, Any]:
    """One provider's row; what its module or its answer lacks is said, and never breaks the list."""
    import asyncio

    from impl.compose import provider

    title = ""
    try:
        async with asyncio.timeout(PREFLIGHT_S):
            found = await asyncio.to_thread(provider, name, settings)
            title = found.title
            status = await found.preflight()
    except TimeoutError:
        message = f"It took longer than {PREFLIGHT_S:g} s to say whether it is ready."
        status = core.ProviderStatus("wrong version", message, _reinstall(name))
    except Exception as error:  # noqa: BLE001 - a provider of whatever package must not break the list
        status = core.ProviderStatus("not installed", str(error) or type(error).__name__, _reinstall(name, error))
    fix = status.fix if status.fix or status.state == "ready" else _reinstall(name)
    return {"name": name, "title": title, "state": status.state, "message": status.message, "fix": fix}


def _reinstall(name: str, error: Exception | None = None) -> str:
    """The command that installs what a provider needs: the module it misses, else the package it came from."""
    from impl.providers import package_of

    missing = error.name.partition(".")[0] if isinstance(error, ImportError) and error.name else None
    return f"pip install {missing}" if missing else f"pip install --force-reinstall {package_of(name)}"


def _provider_line(row: Any) -> str:
    tail = "  ".join(part for part in (row["message"], f"→ {row['fix']}" if row["fix"] else "") if part)
    return f"{row['name']:<18} {row['state']:<14} {row['title']}{'  ' if tail else ''}{tail}"


# --- doctor --------------------------------------------------------------------------------------------


def doctor(as_json: Json = False) -> int:
    """Check this machine and say what mends it. Store, keyring, sandboxes, network, git, providers, terminal."""
    import asyncio

    checks = asyncio.run(_checks())
    output.rows(checks, as_json=as_json, table=_check_line)
    return 0 if all(check["ok"] or not check["needed"] for check in checks) else 1


def _check_line(row: Any) -> str:
    fix = f"  → {row['fix']}" if row["fix"] and not row["ok"] else ""
    return f"{'✓' if row['ok'] else '✗' if row['needed'] else '○'} {row['name']:<26} {row['message']}{fix}"


def _check(name: str, ok: bool, message: str, fix: str = "", *, needed: bool = True) -> dict[str, Any]:
    return {"name": name, "ok": ok, "message": message, "fix": fix, "needed": needed}


async def _checks() -> list[dict[str, Any]]:
    import asyncio
    import platform

    sandboxes, thinking, kept = await asyncio.gather(_sandbox_checks(), _thinking(), asyncio.to_thread(_store_and_keys))
    return [
        _check("python", True, f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *kept,
        *sandboxes,
        _git_check(),
        *(
            _check(f"provider {r['name']}", r["state"] == "ready", r["message"] or r["state"], r["fix"], needed=False)
            for r in thinking
        ),
        _terminal_check(),
    ]


async def _thinking() -> list[dict[str, Any]]:
    from impl.settings import SettingsError

    try:
        return await _providers()
    except SettingsError:
        return []  # said already


def _store_and_keys() -> list[dict[str, Any]]:
    """The store, and where values of credentials are kept, which the store indexes."""
    from impl import compose
    from impl.settings import SettingsError, home_directory

    try:
        host = compose.build_host()
    except core.StoreError as error:
        return [_check("store", False, error.message, error.hint)]
    except SettingsError as error:
        return [_check("settings", False, str(error), error.hint)]
    try:
        host.store.set_value("doctor", None)
        found = [_check("store", True, str(home_directory()))]
        status = host.secrets.status() if host.secrets is not None else None
    except core.StoreError as error:
        return [_check("store", False, error.message, error.hint)]
    finally:
        host.store.close()
    if status is not None:
        found.append(_check("keyring", status.where != "refused", status.message, status.fix, needed=False))
    return found


async def _sandbox_checks() -> list[dict[str, Any]]:
    import asyncio

    from impl.compose import sandbox_options
    from impl.sandboxes import SANDBOXES
    from impl.settings import SettingsError, home_directory, load_settings

    try:
        options = sandbox_options(home_directory(), load_settings())()
    except SettingsError:
        return []  # said already, and what they say of sandboxes is not known
    found = [make(options) for make in SANDBOXES.values()]
    problems = await asyncio.gather(*(sandbox.probe() for sandbox in found))
    rows = []
    for sandbox, problem in zip(found, problems, strict=True):
        if problem is not None:
            rows.append(_check(f"sandbox {sandbox.name}", False, problem, _command_in(problem), needed=False))
        elif sandbox.unsafe:
            rows.append(_check(f"sandbox {sandbox.name}", True, "works, unsafe: no isolation", needed=False))
        else:
            rows += await _isolating(sandbox)
    works = any(problem is None and not s.unsafe for s, problem in zip(found, problems, strict=True))
    words = "isolation works" if works else "none isolates here: what runs source code asks first"
    return [*rows, _check("isolation", works, words, "apt install bubblewrap", needed=False)]


async def _isolating(sandbox: Sandbox) -> list[dict[str, Any]]:
    """The rows of a kind that works and isolates: itself, and its network."""
    lacking = await sandbox.no_network()
    words = f"none: {lacking}" if lacking else "public addresses only"
    fix = _command_in(lacking or "")
    return [
        _check(f"sandbox {sandbox.name}", True, "works", needed=False),
        _check(f"network {sandbox.name}", lacking is None, words, fix, needed=False),
    ]


def _command_in(problem: str) -> str:
    """The first command that the words of a problem name."""
    import re

    found = re.search(r"`([^`]+ [^`]+)`", problem)
    return found[1] if found else ""


def _git_check() -> dict[str, Any]:
    import shutil

    git = shutil.which("git")
    return _check(
        "git", git is not None, git or "not found: only folders can be built from", "apt install git", needed=False
    )


def _terminal_check() -> dict[str, Any]:
    import locale
    import os
    import shutil

    term, encoding = os.environ.get("TERM") or "", locale.getpreferredencoding(False)
    colours = os.environ.get("COLORTERM", "") or "256 or fewer colours"
    size = shutil.get_terminal_size()
    words = f"{term or 'no TERM'}, {colours}, {size.columns}x{size.lines}, {encoding}"
    if term in ("", "dumb"):
        return _check("terminal", False, f"{words}: the app cannot draw", "export TERM=xterm-256color", needed=False)
    if encoding.upper().replace("-", "") != "UTF8":
        return _check("terminal", False, f"{words}: not UTF-8", "export LANG=C.UTF-8", needed=False)
    return _check("terminal", True, words, needed=False)


# --- gc ------------------------------------------------------------------------------------------------


def gc(as_json: Json = False) -> int:
    """Remove what nothing refers to any more. Laid-out revisions, unreferenced blobs, workspaces and agent CLIs' own
    directories of no session, packages that no tool has used for a month, cells of dead workers. A session's are
    kept: they go on with it."""
    from impl.engines.dask.worker import sweep_cells
    from impl.sandboxes.sweep import sweep

    host = build_host()
    sweep_cells(host.home)
    freed = _sweep(host)
    ended = sweep(host.home)
    if as_json:
        output.line({"freed_bytes": freed, "ended": ended})
    else:
        for words in ended:
            output.text(words)
        output.text(f"{freed:,} bytes freed")
    return 0


def _sweep(host: Host) -> int:
    # Listed before the sessions are: what a session that begins now makes is not among them.
    laid = _children(host.home / "laid-out")
    spaces = [*_children(host.home / "workspaces"), *_children(host.home / "clis")]
    sessions = host.store.sessions()
    known = {info.id for info in sessions}
    used = {(info.digest or "").removeprefix("sha256:") for info in sessions if info.status == "running"}
    recent = time.time() - RECENTLY_S
    freed = sum(_remove(path) for path in laid if path.name not in used and path.stat().st_mtime < recent)
    freed += sum(_remove(path) for path in spaces if path.name not in known)
    unused = time.time() - UNUSED_S
    freed += sum(_remove(path) for path in _children(host.home / "environments") if path.stat().st_mtime < unused)
    return freed + sum(host.store.delete_blob(sha256) for sha256 in host.store.unreferenced_blobs())


def _children(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []


def _remove(path: Path) -> int:
    from impl.removal import bytes_below, remove_tree

    size = bytes_below(path)
    remove_tree(path)
    return 0 if path.exists() else size
