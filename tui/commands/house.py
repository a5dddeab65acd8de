"""Commands on the installation: providers, doctor, gc."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import typer

from core import Host, StoreError
from impl.compose import build_host
from impl.settings import SettingsError, home_directory
from tui.commands import output
from tui.commands.sessions import Json


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (providers, doctor, gc):
        app.command()(command)

    def version(value: bool) -> None:
        if value:
            output.text(importlib.metadata.version("artificer"))
            raise typer.Exit

    @app.callback()
    def root(
        version: bool = typer.Option(False, "--version", callback=version, is_eager=True, help="Print the version."),
    ) -> None:
        """Builds and supervises agents, in a terminal. Without a command it opens the app."""


def providers(as_json: Json = False) -> int:
    """What can think here: ready, or the one command that mends it."""
    from impl.providers import provider_names

    output.rows(asyncio.run(_providers(provider_names())), as_json=as_json, table=_provider_line)
    return 0


async def _providers(names: list[str]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_provider(name) for name in names)))


async def _provider(name: str) -> dict[str, Any]:
    from impl.compose import provider

    row = {"name": name, "title": "", "state": "not installed", "message": "", "fix": ""}
    try:
        found = provider(name)
        status = await asyncio.wait_for(found.preflight(), 1.5)
    except TimeoutError:
        return {**row, "message": "did not answer in time"}
    except (ImportError, LookupError) as error:
        return {**row, "message": str(error)}
    row |= {"title": found.title, "state": status.state, "message": status.message, "fix": status.fix}
    return row


def _provider_line(row: Any) -> str:
    tail = "  ".join(part for part in (row["message"], f"→ {row['fix']}" if row["fix"] else "") if part)
    return f"{row['name']:<18} {row['state']:<14} {row['title']}{'  ' if tail else ''}{tail}"


def doctor(as_json: Json = False) -> int:
    """Check this machine: home, store, sandboxes, providers, terminal, git."""
    checks = asyncio.run(_checks())
    output.rows(checks, as_json=as_json, table=_check_line)
    return 0 if all(check["ok"] or not check["needed"] for check in checks) else 1


def _check_line(row: Any) -> str:
    fix = f"  → {row['fix']}" if row["fix"] and not row["ok"] else ""
    return f"{'✓' if row['ok'] else '✗' if row['needed'] else '○'} {row['name']:<20} {row['message']}{fix}"


def _check(name: str, ok: bool, message: str, fix: str = "", *, needed: bool = True) -> dict[str, Any]:
    return {"name": name, "ok": ok, "message": message, "fix": fix, "needed": needed}


async def _checks() -> list[dict[str, Any]]:
    rows = [_check("python", True, f"{platform.python_version()} on {platform.system()} {platform.machine()}")]
    home = home_directory()
    host: Host | None = None
    try:
        host = build_host()
        host.store.set_value("doctor", None)
        rows.append(_check("store", True, str(home)))
    except StoreError as error:
        rows.append(_check("store", False, error.message, error.hint))
    except SettingsError as error:
        rows.append(_check("settings", False, str(error), "Mend the file or variable named here."))
    from impl.sandboxes import SANDBOXES

    works = False
    for name, make in SANDBOXES.items():
        sandbox = make()
        problem = await sandbox.probe()
        works = works or (problem is None and not sandbox.unsafe)
        words = problem or ("works, unsafe: no isolation" if sandbox.unsafe else "works")
        rows.append(_check(f"sandbox {name}", problem is None, words, needed=False))
    rows.append(
        _check("sandbox", works, "isolation works" if works else "none isolates here", "apt install bubblewrap")
    )
    git = shutil.which("git")
    rows.append(_check("git", git is not None, git or "not found", "apt install git", needed=False))
    if host is not None:
        from impl.providers import provider_names

        for row in await _providers(provider_names()):
            ready = row["state"] == "ready"
            rows.append(
                _check(f"provider {row['name']}", ready, row["message"] or row["state"], row["fix"], needed=False)
            )
    term = os.environ.get("TERM", "")
    colours = os.environ.get("COLORTERM", "") or "256 or fewer colours"
    size = shutil.get_terminal_size()
    rows.append(_check("terminal", True, f"{term or 'no TERM'}, {colours}, {size.columns}x{size.lines}", needed=False))
    return rows


def gc(as_json: Json = False) -> int:
    """Remove what nothing refers to any more: laid-out revisions, unreferenced blobs, workspaces of no session."""
    host = build_host()
    freed = 0
    laid = host.home / "laid-out"
    for path in laid.iterdir() if laid.is_dir() else ():
        freed += _remove(path)
    known = {info.id for info in host.store.sessions()}
    spaces = host.home / "workspaces"
    for path in spaces.iterdir() if spaces.is_dir() else ():
        if path.name not in known:
            freed += _remove(path)
    if as_json:
        output.line({"freed_bytes": freed})
    else:
        output.text(f"{freed:,} bytes freed")
    return 0


def _remove(path: Path) -> int:
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file() and not f.is_symlink())
    shutil.rmtree(path, ignore_errors=True)
    return size
