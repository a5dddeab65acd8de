"""Whether the real agent CLIs are logged in: what we read of their files is what they say, and our remedy exists."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from core import ProviderStatus
from impl.providers import load_provider
from tests.harness.clis import installed

pytestmark = [pytest.mark.cli, pytest.mark.timeout(180)]


@dataclass(frozen=True)
class Cli:
    """One CLI: its package, a file below the home that is a login, what asks it, and its words for none."""

    name: str
    package: str
    executable: str
    file: str
    login: str
    ask: str
    none: str
    remedy: str


CLIS = [
    Cli(
        "claude_code",
        "@anthropic-ai/claude-code@2.1.332",
        "claude",
        ".claude/.credentials.json",
        '{"claudeAiOauth": {"accessToken": "sk-ant-oat01-x", "refreshToken": "r", "expiresAt": 4102444800000, '
        '"scopes": ["user:inference"], "subscriptionType": "max"}}',
        "claude auth status",
        '"loggedIn": false',
        "claude auth login",
    ),
    Cli(
        "codex",
        "@openai/codex@0.171.0",
        "codex",
        ".codex/auth.json",
        '{"auth_mode": "apikey", "OPENAI_API_KEY": "sk-x"}',
        "codex login status",
        "Not logged in",
        "codex login",
    ),
    Cli(
        "opencode",
        "opencode-ai@1.18.33",
        "opencode",
        ".local/share/opencode/auth.json",
        '{"anthropic": {"type": "api", "key": "sk-x"}}',
        "opencode auth list",
        "0 credentials",
        "opencode auth login",
    ),
    Cli(
        "gemini_cli",
        "@google/gemini-cli@0.61.0",
        "gemini",
        ".gemini/settings.json",
        '{"security": {"auth": {"selectedType": "vertex-ai"}}}',
        "gemini -p hi --skip-trust",
        "Please set an Auth method",
        "gemini",
    ),
]

BY_NAME = {cli.name: cli for cli in CLIS}
ROOT = Path(__file__).parents[2]


@pytest.fixture
def person(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, and every CLI on PATH."""
    folders = [str(installed(one.package, one.executable)) for one in CLIS]
    monkeypatch.setenv("PATH", os.pathsep.join([*folders, os.environ["PATH"]]))
    for name in list(os.environ):
        if name.startswith(("XDG_", "GEMINI_", "GOOGLE_", "CLAUDE", "CODEX_", "OPENCODE")):
            monkeypatch.delenv(name)
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


def said(command: str) -> str:
    """What a CLI says to a question, on either stream."""
    nothing = subprocess.DEVNULL
    done = subprocess.run(command.split(), stdin=nothing, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


async def status(name: str) -> ProviderStatus:
    return await load_provider(name).preflight()


@pytest.mark.parametrize("cli", CLIS, ids=lambda cli: cli.name)
async def test_we_say_what_it_says(cli: Cli, person: Path) -> None:
    assert (await status(cli.name)).state == "not logged in"
    assert cli.none in said(cli.ask)
    login = person / cli.file
    login.parent.mkdir(parents=True, exist_ok=True)
    login.write_text(cli.login)
    assert (await status(cli.name)).state == "ready"
    assert cli.none not in said(cli.ask)


@pytest.mark.parametrize("cli", CLIS, ids=lambda cli: cli.name)
async def test_the_command_that_mends_it_is_one_it_has(cli: Cli, person: Path) -> None:
    fix = (await status(cli.name)).fix
    assert fix == cli.remedy
    shown = said(f"{fix} --help")
    assert f"{fix} [" in shown.replace(" providers ", " auth ")


def test_all_of_them_are_listed_without_a_network(person: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    offline = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--chdir", str(ROOT)]
    command = [*offline, sys.executable, "-m", "tui.cli", "providers", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert {name: rows[name]["state"] for name in BY_NAME} == dict.fromkeys(BY_NAME, "not logged in")
    assert {name: rows[name]["fix"] for name in BY_NAME} == {name: cli.remedy for name, cli in BY_NAME.items()}
