"""How long `artificer providers` takes with every agent CLI on the path: with logins, with none, and where none of
them ever answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 3
REACH_S = 2.0
CLIS = {
    "claude": ("@anthropic-ai/claude-code", "2.1.332"),
    "codex": ("@openai/codex", "0.171.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "opencode": ("opencode-ai", "1.18.33"),
}
LOGINS = {
    ".claude/.credentials.json": {"claudeAiOauth": {"accessToken": "t"}},
    ".codex/auth.json": {},
    ".gemini/oauth_creds.json": {},
    ".local/share/opencode/auth.json": {"anthropic": {"type": "api"}},
}


def run() -> dict[str, Any]:
    """Seconds, minima of some rounds. Reach: two, whatever the CLIs do."""
    found: dict[str, float] = {}
    for case in ("logged_in", "no_login", "no_answer"):
        with tempfile.TemporaryDirectory() as scratch:
            env = _machine(Path(scratch), case)
            found[f"{case}_s"] = round(min(_timed(env) for _ in range(ROUNDS)), 3)
    return {**found, "reach_s": REACH_S, "passed": max(found.values()) <= REACH_S}


def _machine(root: Path, case: str) -> dict[str, str]:
    """A home and a path with every CLI: installed as npm does, or (`no_answer`) saying nothing for ever."""
    for name, (package, version) in CLIS.items():
        folder = root / "clis" / name
        folder.mkdir(parents=True)
        answer = "exec sleep 60" if case == "no_answer" else "exec sleep 0.5"
        (folder / name).write_text(f"#!/bin/sh\n{answer}\n")
        (folder / name).chmod(0o755)
        if case != "no_answer":
            (folder / "package.json").write_text(json.dumps({"name": package, "version": version}))
    if case == "logged_in":
        for file, login in LOGINS.items():
            path = root / "home" / file
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(login))
    folders = [str(root / "clis" / name) for name in CLIS]
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "PYTHONPATH")}
    return {**kept, "PATH": os.pathsep.join([*folders, "/usr/bin", "/bin"]), "HOME": str(root / "home")}


def _timed(env: dict[str, str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "tui.cli", "providers", "--json"]
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
