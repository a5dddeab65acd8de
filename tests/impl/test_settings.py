"""Settings: which source wins, and what each refuses."""

from __future__ import annotations

import os
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
        ("provider = @", "artificer.toml:1 cannot be read: .*at line 1"),
        ("# one\nprovider = [\n", "artificer.toml:2 cannot be read: .*at end"),
        ('model = "a"\nprovider = "b', "artificer.toml:2 cannot be read"),
        ('model = "a"\nmodel = "b"', "artificer.toml:2 cannot be read: .*overwrite"),
        ("a = " + "[" * 100_000, "nests without end"),
        ('\ncolour = "red"', "artificer.toml:2: unknown setting 'colour'. There are: .*provider"),
        ('modle = "x"', "unknown setting 'modle'. Did you mean model"),
        ('Context-Window = "x"', "Did you mean context_window"),
        (
            '[sandbox]\nkind = "docker"\nimge = "x"',
            "artificer.toml:3: unknown setting 'sandbox.imge'. .* sandbox.image",
        ),
        ('sandbox = {kind = "docker", imge = "x"}', "artificer.toml:1: unknown setting 'sandbox.imge'"),
        ("ttl = 3", "unknown setting 'ttl'. Did you mean sandbox.ttl"),
        ('\n[sandbx]\nkind = "docker"', "artificer.toml:2: unknown setting 'sandbx'. Did you mean sandbox"),
        ('[model]\nname = "x"', "artificer.toml:1: model is .* takes a text"),
        ('ca_bundle = "~nobody-of-this-name/x"', "no such file"),
        ("provider = 3", "takes a text"),
        ('context_window = "many"', "takes a number"),
        ('durability = "eternal"', "artificer.toml:1: durability is .* process or full"),
        ("context_window = 0", "from 1 up"),
        ("[sandbox]\nttl = -1", "artificer.toml:2: sandbox.ttl .* from 0 up"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_it_takes(sources: Sources, text: str, word: str) -> None:
    sources.write_here(text)
    with pytest.raises(SettingsError, match=word):
        sources.load()


def test_a_file_that_is_none_or_cannot_be_opened_is_not_passed_over(sources: Sources, tmp_path: Path) -> None:
    sources.user.mkdir()
    with pytest.raises(SettingsError, match=r"config.toml cannot be read: it is no file but a directory"):
        sources.load()
    sources.user.rmdir()
    os.mkfifo(sources.user)
    with pytest.raises(SettingsError, match="it is no file"):
        sources.load()
    sources.user.unlink()
    sources.user.symlink_to(sources.user)
    with pytest.raises(SettingsError, match="cannot be read"):
        sources.load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_one_may_not_read_is_said(sources: Sources) -> None:
    sources.user.write_text('model = "a"\n')
    sources.user.chmod(0)
    with pytest.raises(SettingsError, match="cannot be read: Permission denied"):
        sources.load()


def test_a_file_in_another_encoding_is_said_with_its_line_and_a_byte_order_mark_is_none(sources: Sources) -> None:
    sources.user.write_bytes(b'model = "a"\n# caf\xe9\n')
    with pytest.raises(SettingsError, match=r"config.toml:2 cannot be read: it is not UTF-8"):
        sources.load()
    sources.user.write_bytes(b'\xef\xbb\xbfmodel = "a"\r\n')
    assert sources.load().model == "a"


def test_variables_for_a_provider_that_is_not_there_are_said_with_the_near_one(sources: Sources) -> None:
    sources.user.write_text('model = "a"\n[providers.codx.env]\nKEY = "sk-of-mine"\n')
    with pytest.raises(SettingsError, match=r"config.toml:2: .*no provider 'codx'. Did you mean codex") as refused:
        sources.load()
    assert "sk-of-mine" not in str(refused.value)
    sources.user.write_text('[providers.gemini-cli.env]\nKEY = "x"\n')
    assert sources.load().environments == {"gemini_cli": {"KEY": "x"}}


def test_a_password_in_an_index_is_not_shown(sources: Sources) -> None:
    sources.user.write_text('package_index = "https://me:sk-of-mine@example.com"\n')
    with pytest.raises(SettingsError, match="without a password") as refused:
        sources.load()
    assert "sk-of-mine" not in str(refused.value)


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
