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
from tests.harness.clis import CliStage, StandIn, environ
from tests.harness.eval_driver import EvalDriver, Stage

ROOT = Path(__file__).parents[3]
STATES = {"ready", "not installed", "not logged in", "no key", "wrong version"}


ECHO, PARROT = "## A provider", "## An agent CLI"
LINES = """
native = sys.argv[sys.argv.index("--resume") + 1] if "--resume" in sys.argv else "p1"
out({"session": native})
out({"hum": "unknown"})
command, *args = json.loads(os.environ["PARROT_MCP"])
server = Server()
server.start(command, args, {})
sum = server.call("add", a=1, b=turn)["content"][0]["text"]
out({"say": f"{sys.argv[-1]}: {sum}"})
out({"done": {"in": 5, "out": 2, "usd": "0.01"}})
"""


def shown(heading: str) -> str:
    """The module that the page for contributors shows below a heading."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition(heading)[2].partition("\n## ")[0]
    block = re.search(r"(?:^(?:    .*)?\n)*?^    \"\"\"(?:.*\n)(?:^(?:    .*)?\n)*", section, re.M)
    assert block is not None
    return textwrap.dedent(block[0]).strip() + "\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that modules are imported from, the two of the page in it."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name, heading in (("echo_of_my_own", ECHO), ("parrot_of_my_own", PARROT)):
        (folder / f"{name}.py").write_text(shown(heading))
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(providers, "_instances", {})
    return folder


def install(site: Path, module: str, name: str, attribute: str) -> None:
    """What an installer leaves of a package that declares the entry point."""
    described = site / f"{module}-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {module}:{attribute}\n")


def listed(monkeypatch: pytest.MonkeyPatch, name: str, target: str) -> None:
    """One line more in the registry."""
    lines: Mapping[str, str] = {**providers.BUILTIN, name: target}
    monkeypatch.setattr(providers, "BUILTIN", MappingProxyType(lines))


async def talk(name: str, home: Path) -> None:
    stage = Stage(home, load_provider(name), EvalDriver())
    outcome = await stage.run("Good morning")
    assert (outcome.stop, outcome.record.output, outcome.info.usd) == (Stop.COMPLETED, "Good morning", "0.00")
    outcome = await stage.run("Good night")
    assert outcome.record.output == "Good night"


async def talk_to_the_cli(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two turns, each with a tool of ours; the second goes on with the CLI's own session."""
    stand_in = StandIn(tmp_path / "bin", "parrot", LINES)
    with environ(monkeypatch, stand_in.folder):
        stage = CliStage(tmp_path / "home", load_provider(name))
        outcome = await stage.run("Add")
        assert (outcome.stop, outcome.record.output, outcome.info.usd) == (Stop.COMPLETED, "Add: 2", "0.01")
        outcome = await stage.run("And now")
    assert (outcome.record.output, outcome.info.usd, outcome.info.input_tokens) == ("And now: 3", "0.02", 10)
    assert "--resume" in stand_in.started[1]["argv"]
    assert list(stage.results().values()) == ["2", "3"]


@pytest.mark.parametrize(("heading", "begins"), [(ECHO, "Echo"), (PARROT, "Parrot")])
def test_the_page_shows_a_provider_in_sixty_lines(heading: str, begins: str) -> None:
    lines = shown(heading).splitlines()
    assert lines[0].startswith(f'"""{begins}')
    assert len(lines) <= 60


async def test_a_module_and_one_line_in_the_registry_add_a_provider(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, "echo", "echo_of_my_own:EchoProvider")
    assert "echo" in provider_names()
    await talk("echo", tmp_path / "home")


async def test_a_module_and_one_line_in_the_registry_add_an_agent_cli(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, "parrot", "parrot_of_my_own:ParrotProvider")
    await talk_to_the_cli("parrot", tmp_path, monkeypatch)


async def test_an_installed_package_adds_a_provider(site: Path, tmp_path: Path) -> None:
    install(site, "echo_of_my_own", "echoing", "EchoProvider")
    assert "echoing" in provider_names()
    await talk("echoing", tmp_path / "home")


async def test_an_installed_package_adds_an_agent_cli(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "parrot_of_my_own", "parroting", "ParrotProvider")
    await talk_to_the_cli("parroting", tmp_path, monkeypatch)


def test_every_provider_says_its_state_and_the_one_command_that_mends_it_with_no_network(
    site: Path, tmp_path: Path
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    install(site, "echo_of_my_own", "echoing", "EchoProvider")
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(site)}
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
