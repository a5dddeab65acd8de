"""A provider of one's own: the page that shows one is true, a line in the registry or an installed package adds it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from core import Stop
from impl import providers
from impl.providers import GROUP, load_provider, provider_names
from tests.harness.eval_driver import EvalDriver, Stage

ROOT = Path(__file__).parents[3]
STATES = {"ready", "not installed", "not logged in", "no key", "wrong version"}


def shown() -> str:
    """The module that the page for contributors shows."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("## A provider")[2].partition("\n## ")[0]
    block = re.search(r"(?:^(?:    .*)?\n)*?^    \"\"\"(?:.*\n)(?:^(?:    .*)?\n)*", section, re.M)
    assert block is not None
    return textwrap.dedent(block[0]).strip() + "\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of that module, importable."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "provider_of_my_own.py").write_text(shown())
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(providers, "_instances", {})
    monkeypatch.delitem(sys.modules, "provider_of_my_own", raising=False)
    return "provider_of_my_own"


def install(site: Path, module: str, name: str) -> None:
    """What an installer leaves of a package that declares the entry point."""
    described = site / f"{module}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {module}:EchoProvider\n")


async def talk(name: str, home: Path) -> None:
    stage = Stage(home, load_provider(name), EvalDriver())
    outcome = await stage.run("Good morning")
    assert (outcome.stop, outcome.record.output, outcome.info.usd) == (Stop.COMPLETED, "Good morning", "0.00")
    outcome = await stage.run("Good night")
    assert outcome.record.output == "Good night"


def test_the_page_shows_a_provider_in_sixty_lines() -> None:
    lines = shown().splitlines()
    assert lines[0].startswith('"""Echo')
    assert len(lines) <= 60


async def test_a_module_and_one_line_in_the_registry_add_a_provider(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: Mapping[str, str] = {**providers.BUILTIN, "echo": f"{module}:EchoProvider"}
    monkeypatch.setattr(providers, "BUILTIN", MappingProxyType(listed))
    assert "echo" in provider_names()
    await talk("echo", tmp_path / "home")


async def test_an_installed_package_adds_a_provider(module: str, tmp_path: Path) -> None:
    install(tmp_path / "site", module, "echoing")
    assert "echoing" in provider_names()
    await talk("echoing", tmp_path / "home")


def test_every_provider_says_its_state_and_the_one_command_that_mends_it_with_no_network(
    module: str, tmp_path: Path
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    install(tmp_path / "site", module, "echoing")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-m", "tui.cli", "providers", "--json"]
    offline = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--chdir", str(ROOT)]
    done = subprocess.run([*offline, *command], env=env, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode and "bwrap:" in done.stderr:
        pytest.skip("this machine lets bubblewrap make no network namespace")
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert set(rows) >= {"acp", "anthropic", "claude_code", "codex", "gemini_cli", "opencode", "echoing"}
    assert {row["state"] for row in rows.values()} <= STATES
    assert rows["echoing"]["state"] == "ready"
    for row in rows.values():
        assert bool(row["fix"]) == (row["state"] != "ready"), row
        assert "\n" not in row["fix"]
