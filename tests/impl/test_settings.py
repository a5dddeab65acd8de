"""Settings: which source wins, and what each refuses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from impl.settings import Settings, SettingsError, home_directory, load_settings


class Sources:
    """The user's own file and the working directory's, and how they are loaded."""

    def __init__(self, root: Path) -> None:
        self.user = root / "config.toml"
        self.here = root / "work"
        self.here.mkdir()

    def load(self, environ: Mapping[str, str] | None = None) -> Settings:
        return load_settings(environ or {}, self.here, self.user)

    def write_here(self, text: str) -> None:
        (self.here / "artificer.toml").write_text(text)


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(tmp_path)


def test_with_nothing_set_the_defaults_hold(sources: Sources) -> None:
    assert sources.load() == Settings(provider="offline", model=None, sandbox=None)


def test_the_working_directory_wins_over_the_users_own_file(sources: Sources) -> None:
    sources.user.write_text('provider = "anthropic"\nmodel = "a"\n')
    sources.write_here('model = "b"\n')
    assert (sources.load().provider, sources.load().model) == ("anthropic", "b")


def test_a_variable_wins_over_both_files_and_counts_as_an_override(sources: Sources) -> None:
    sources.write_here('model = "b"\nsandbox = "process"\n')
    loaded = sources.load({"ARTIFICER_MODEL": "c", "ARTIFICER_CONTEXT_WINDOW": "8000"})
    assert (loaded.model, loaded.sandbox, loaded.context_window) == ("c", "process", 8000)
    assert (loaded.override("model"), loaded.override("sandbox")) == ("c", None)


def test_an_empty_variable_is_none(sources: Sources) -> None:
    assert sources.load({"ARTIFICER_PROVIDER": ""}).provider == "offline"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("provider =", "cannot be read"),
        ('colour = "red"', "unknown setting 'colour'"),
        ("provider = 3", "takes a text"),
        ('context_window = "many"', "takes a number"),
        ('durability = "eternal"', "artificer.toml: durability is .* process or full"),
        ("context_window = 0", "from 1 up"),
        ("[sandbox]\nttl = -1", "sandbox_ttl .* from 0 up"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_it_takes(sources: Sources, text: str, word: str) -> None:
    sources.write_here(text)
    with pytest.raises(SettingsError, match=word):
        sources.load()


def test_a_variable_of_the_wrong_type_is_named(sources: Sources) -> None:
    with pytest.raises(SettingsError, match="ARTIFICER_CONTEXT_WINDOW"):
        sources.load({"ARTIFICER_CONTEXT_WINDOW": "many"})


def test_the_home_is_where_the_variable_says(tmp_path: Path) -> None:
    assert home_directory({"ARTIFICER_HOME": str(tmp_path)}) == tmp_path
    assert home_directory({}).name == "artificer"


def test_a_sandbox_table_is_the_same_settings(tmp_path: Path) -> None:
    user = tmp_path / "user.toml"
    user.write_text('[sandbox]\nkind = "bubblewrap"\nallow_cidrs = ["10.1.0.0/16"]\nttl = 60\n')
    settings = load_settings({}, tmp_path, user)
    assert (settings.sandbox, settings.allow_cidrs, settings.sandbox_ttl) == ("bubblewrap", ("10.1.0.0/16",), 60)


def test_a_working_directory_cannot_open_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "artificer.toml").write_text('allow_cidrs = ["10.0.0.0/8"]\n')
    with pytest.raises(SettingsError, match="ARTIFICER_ALLOW_CIDRS"):
        load_settings({}, tmp_path, tmp_path / "none.toml")


OF_A_CLI = (
    '[providers.codex.env]\nHTTPS_PROXY = "http://proxy.example"\nOPENAI_API_KEY = "sk-of-mine"\nNO_COLOR = false\n'
)


def test_variables_for_an_agent_cli_stand_in_a_table_of_its_own_and_false_unsets_one(sources: Sources) -> None:
    sources.user.write_text(OF_A_CLI)
    set_here = {"HTTPS_PROXY": "http://proxy.example", "OPENAI_API_KEY": "sk-of-mine", "NO_COLOR": None}
    assert sources.load().environments == {"codex": set_here}


@pytest.mark.parametrize(
    ("text", "named"), [(OF_A_CLI, "providers"), ('acp_command = "sh -c evil"\n', "ARTIFICER_ACP_COMMAND")]
)
def test_a_working_directory_cannot_say_what_is_run_or_with_what(sources: Sources, text: str, named: str) -> None:
    sources.write_here(text)
    with pytest.raises(SettingsError, match="a working directory cannot set it") as refused:
        sources.load()
    assert named in str(refused.value)
    assert "sk-of-mine" not in str(refused.value)


def test_the_command_of_an_acp_agent_is_a_setting_that_a_variable_overrides(sources: Sources) -> None:
    sources.user.write_text('acp_command = "mine --acp"\n')
    assert sources.load().acp_command == "mine --acp"
    assert sources.load({"ARTIFICER_ACP_COMMAND": "other"}).acp_command == "other"


@pytest.mark.parametrize(
    "text",
    [
        "providers = 3",
        "[providers]\ncodex = 3",
        '[providers.codex]\nmodel = "x"',
        '[providers.codex.env]\nKEY = ["sk-of-mine"]',
        'acp_command = "\'"',
        'acp_command = ""',
    ],
)
def test_what_agent_clis_are_started_with_has_one_shape(sources: Sources, text: str) -> None:
    sources.user.write_text(text + "\n")
    with pytest.raises(SettingsError, match="takes") as refused:
        sources.load()
    assert "sk-of-mine" not in str(refused.value)
