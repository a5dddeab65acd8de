"""What an agent CLI inherits: nothing that could send it elsewhere than its route says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from core import CliProvider, CliTurn, ProviderError, merge_environment
from impl.providers import load_provider, with_variables
from impl.settings import Settings, SettingsError
from tests.harness.clis import CliStage, StandIn, environ

Make = Callable[..., tuple[CliStage, StandIn]]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Providers of this test's own: what it sets of them is gone with it."""
    monkeypatch.setattr("impl.providers._instances", {})


MISROUTING = {
    "ANTHROPIC_BASE_URL": "http://router.example",
    "ANTHROPIC_API_KEY": "sk-ancestor",
    "ANTHROPIC_AUTH_TOKEN": "token",
    "ANTHROPIC_MODEL": "other",
    "ANTHROPIC_SMALL_FAST_MODEL": "other",
    "ANTHROPIC_DEFAULT_OPUS_MODEL": "other",
    "ANTHROPIC_DEFAULT_SONNET_MODEL": "other",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL": "other",
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "CLAUDE_CODE_USE_VERTEX": "1",
    "CLAUDE_CODE_USE_FOUNDRY": "1",
    "CLAUDE_CODE_EFFORT_LEVEL": "max",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SESSION_ID": "ancestor",
    "CLAUDE_CODE_SSE_PORT": "1234",
}
OF_CODEX = {
    "OPENAI_API_KEY": "sk-ancestor",
    "OPENAI_BASE_URL": "http://router.example",
    "CODEX_API_KEY": "sk-ancestor",
    "CODEX_SANDBOX": "seatbelt",
    "CODEX_THREAD_ID": "ancestor",
}
KEPT = {"PATH": "/bin", "HOME": "/home/ann", "LANG": "C.UTF-8", "HTTPS_PROXY": "http://proxy.example"}


def child(name: str, tmp_path: Path, ambient: dict[str, str], **overlay: str | None) -> dict[str, str]:
    provider = load_provider(name)
    assert isinstance(provider, CliProvider)
    turn = CliTurn("hi", tmp_path / "d", tmp_path / "own", ambient=ambient)
    return provider.environment(turn, overlay, provider.invoke(turn))


def test_later_layers_win_and_none_unsets() -> None:
    assert merge_environment({"A": "1", "B": "1", "C": "1"}, {"B": "2", "C": None}, {"C": "3", "A": None}) == {
        "B": "2",
        "C": "3",
    }


@pytest.mark.parametrize("variable", MISROUTING)
def test_no_ancestors_variable_misroutes_a_native_claude(variable: str, tmp_path: Path) -> None:
    env = child("claude_code", tmp_path, {**KEPT, variable: MISROUTING[variable]})
    assert variable not in env
    assert env.items() >= KEPT.items()


def test_the_persons_own_login_and_settings_directory_stay(tmp_path: Path) -> None:
    mine = {"CLAUDE_CODE_OAUTH_TOKEN": "mine", "CLAUDE_CONFIG_DIR": "/home/ann/.claude-work"}
    assert child("claude_code", tmp_path, {**KEPT, **MISROUTING, **mine}).items() >= mine.items()


def test_the_key_route_keeps_key_and_address_and_nothing_else(tmp_path: Path) -> None:
    env = child("claude_code:api", tmp_path, {**KEPT, **MISROUTING, "CLAUDE_CONFIG_DIR": "/home/ann/.claude"})
    kept = {name for name in MISROUTING if name in env}
    assert kept == {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}
    assert env["CLAUDE_CONFIG_DIR"] == str(tmp_path / "d" / "config")


def test_a_cloud_route_switches_to_its_own_cloud_alone(tmp_path: Path) -> None:
    ambient = {**KEPT, **MISROUTING, "ANTHROPIC_VERTEX_PROJECT_ID": "p", "CLOUD_ML_REGION": "r"}
    env = child("claude_code:vertex", tmp_path, ambient)
    assert (env["CLAUDE_CODE_USE_VERTEX"], env["ANTHROPIC_VERTEX_PROJECT_ID"]) == ("1", "p")
    assert not {"CLAUDE_CODE_USE_BEDROCK", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"} & set(env)


@pytest.mark.parametrize("variable", OF_CODEX)
def test_no_ancestors_variable_misroutes_a_native_codex(variable: str, tmp_path: Path) -> None:
    env = child("codex", tmp_path, {**KEPT, variable: OF_CODEX[variable]})
    assert variable not in env
    assert env.items() >= KEPT.items()
    assert env["CODEX_HOME"] == str(tmp_path / "d" / "config")


def test_a_key_that_the_persons_configuration_names_stays(tmp_path: Path) -> None:
    config = tmp_path / "d" / "config"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('[model_providers.mine]\nenv_key = "OPENAI_API_KEY"\n')
    assert child("codex", tmp_path, {**KEPT, **OF_CODEX})["OPENAI_API_KEY"] == "sk-ancestor"


def test_the_persons_settings_stand_between(tmp_path: Path) -> None:
    env = child("claude_code", tmp_path, KEPT, LANG="de_DE.UTF-8", HTTPS_PROXY=None, DISABLE_AUTOUPDATER="0")
    assert env["LANG"] == "de_DE.UTF-8"
    assert "HTTPS_PROXY" not in env
    assert env["DISABLE_AUTOUPDATER"] == "1"


@pytest.mark.parametrize("name", ["claude_code", "codex", "gemini_cli", "opencode"])
def test_what_opens_the_credentials_reaches_no_cli(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTIFICER_PASSPHRASE", "correct horse")
    provider = load_provider(name)
    assert isinstance(provider, CliProvider)
    assert "ARTIFICER_PASSPHRASE" not in provider.ambient()
    assert "ARTIFICER_PASSPHRASE" not in child(name, tmp_path, {**KEPT, "ARTIFICER_PASSPHRASE": "correct horse"})


def test_an_unknown_route_names_those_there_are() -> None:
    with pytest.raises(LookupError, match="There are: native, api"):
        load_provider("codex:bedrock")
    with pytest.raises(LookupError, match="has no routes"):
        load_provider("offline:api")


@pytest.mark.parametrize("name", ["claude_code", "codex"])
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prompt": " "}, "A prompt is needed"),
        ({"mode": "resume"}, "takes its id"),
        ({"effort": "heroic"}, "It takes: "),
        ({"budget": 0}, "allows nothing"),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_starts(
    name: str, fields: dict[str, object], words: str, tmp_path: Path
) -> None:
    provider = load_provider(name)
    assert isinstance(provider, CliProvider)
    turn = CliTurn(**{"prompt": "hi", "directory": tmp_path, "scratch": tmp_path, **fields})  # type: ignore[arg-type]
    with pytest.raises(ProviderError) as caught:
        provider.invoke(turn)
    assert words in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("name", ["claude_code", "codex"])
def test_a_prompt_follows_the_dashes_and_a_long_one_goes_in_by_stdin(name: str, tmp_path: Path) -> None:
    provider = load_provider(name)
    assert isinstance(provider, CliProvider)
    short = provider.invoke(CliTurn("--help \ud800", tmp_path, tmp_path))
    assert short.argv[-2:] == ("--", "--help ?")
    assert short.stdin is None
    long = provider.invoke(CliTurn("ä" * 100_000, tmp_path, tmp_path))
    assert long.stdin == ("ä" * 100_000).encode()
    assert max(map(len, long.argv)) < 5_000


@pytest.mark.parametrize("inherited", [{}, {"ANTHROPIC_BASE_URL": "http://ancestor.example"}])
def test_what_the_person_set_for_a_cli_is_no_ancestors(tmp_path: Path, inherited: dict[str, str]) -> None:
    mine = {"ANTHROPIC_BASE_URL": "http://gateway.example", "HTTPS_PROXY": None, "CLAUDE_CODE_MAX_RETRIES": "9"}
    env = child("claude_code", tmp_path, {**KEPT, **inherited}, **mine)
    assert env["ANTHROPIC_BASE_URL"] == "http://gateway.example"
    assert "HTTPS_PROXY" not in env
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "2"  # what the provider sets wins


async def test_variables_of_the_settings_reach_the_cli_and_no_log(claude: Make) -> None:
    stage, stand_in = claude('init(); text("Hi."); result()')
    settings = Settings(environments={"claude_code": {"GATEWAY_TOKEN": "of-mine", "LANG": None}})
    with_variables(stage.provider, settings)
    await stage.run("One")
    started = stand_in.started[0]["env"]
    assert (started["GATEWAY_TOKEN"], "LANG" in started) == ("of-mine", False)
    assert "of-mine" not in json.dumps([event.to_json() for event in stage.events()])


async def test_a_key_in_the_settings_makes_a_route_ready(codex: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, _ = codex("")
    monkeypatch.delenv("OPENAI_API_KEY")
    assert (await stage.provider.preflight()).state == "no key"
    settings = Settings(environments={"codex": {"OPENAI_API_KEY": "of-mine"}})
    assert (await with_variables(stage.provider, settings).preflight()).state == "ready"


async def test_the_command_of_an_acp_agent_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StandIn(tmp_path / "bin", "agent", "")
    with environ(monkeypatch, tmp_path / "bin", ARTIFICER_ACP_COMMAND=None):
        provider = with_variables(load_provider("acp"), Settings(acp_command="agent --acp"))
        status = await provider.preflight()
    assert (status.state, status.message) == ("ready", "agent --acp")


def test_variables_for_what_starts_no_program_are_refused() -> None:
    settings = Settings(environments={"anthropic": {"ANTHROPIC_API_KEY": "of-mine"}})
    with pytest.raises(SettingsError, match=r"\[providers.anthropic.env\]") as refused:
        with_variables(load_provider("anthropic"), settings)
    assert "of-mine" not in str(refused.value)
