"""A credential's value entered in the app goes to the key store and nowhere else, and the session goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import keyring.backends.null
import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from core import Waiting, register_provider
from impl.secrets import sealed
from tests.harness.keyrings import MemoryKeyring, system_keyring
from tests.harness.scripted import ScriptedProvider
from tests.harness.stage import Stage, stopped
from tests.tui.conftest import calm, until
from tests.tui.test_stops import shown
from tui.application import ArtificerApp
from tui.widgets.composer import Composer

VALUE = "s3cret-canary-value-0451"
KEY = "sk-" + "ant-api03-Ab12Cd34Ef56Gh78Ij90-Kl_mN"
MANIFEST = """\
schema: artificer/v1
name: rates-bot
persona: persona.md
credentials:
  - name: RATES_API_KEY
    hosts: [api.rates.example]
    header: X-Key
"""
Make = Callable[..., ArtificerApp]


@pytest.fixture
def memory() -> Iterator[MemoryKeyring]:
    """The system has a keyring."""
    with system_keyring(MemoryKeyring()) as backend:
        assert isinstance(backend, MemoryKeyring)
        yield backend


@pytest.fixture
def waiting(on_stage: Stage, tmp_path: Path) -> str:
    """A run of `rates-bot` that waits for its key; its provider says one thing more."""
    register_provider("scripted", lambda: ScriptedProvider(["One euro is 1.09 dollars."]))
    files = {"agent.yaml": MANIFEST, "persona.md": "You know the rates."}
    digest = on_stage.revision("rates-bot", files, minutes=20, scratch=tmp_path / "rates")
    waits = Waiting("credentials", "c9", "rates-bot needs a key.", names=("RATES_API_KEY",))
    return on_stage.session(
        "What is a euro?",
        stopped("needs_credentials", waiting=waits),
        kind="run",
        agent="rates-bot",
        digest=digest,
        stop="needs_credentials",
    )


async def enter(pilot: Pilot[None], text: str) -> Input:
    """Type `text` into the card's masked input and press enter."""
    await calm(pilot)
    await until(pilot, lambda: pilot.app.screen.query(".card--secret"), "the card has an input")
    box = pilot.app.screen.query_one(".card--secret", Input)
    assert box.password
    box.focus()
    await pilot.press(*text, "enter")
    return box


def stands_in(home: Path, text: str) -> list[Path]:
    """The files of the home that hold `text`."""
    return [path for path in home.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def test_an_entered_value_is_kept_for_its_binding_and_the_session_goes_on(
    on_stage: Stage, make_app: Make, waiting: str, memory: MemoryKeyring
) -> None:
    app = make_app(on_stage, waiting)
    async with app.run_test(size=(120, 40)) as pilot:
        box = await enter(pilot, VALUE)
        assert box.value == ""
        await until(pilot, lambda: on_stage.host.store.session(waiting).stop == "completed", "it goes on")  # type: ignore[union-attr]
        assert list(memory.kept.values()) == [VALUE]
        (row,) = on_stage.host.secrets.list()  # type: ignore[union-attr]
        assert (row.agent, row.name, row.hosts) == ("rates-bot", "RATES_API_KEY", ("api.rates.example",))
        assert stands_in(on_stage.host.home, VALUE) == []


@pytest.mark.usefixtures("memory")
async def test_a_value_that_cannot_be_one_is_refused_and_the_card_stays(
    on_stage: Stage, make_app: Make, waiting: str
) -> None:
    app = make_app(on_stage, waiting)
    async with app.run_test(size=(120, 40)) as pilot:
        await enter(pilot, "short")
        await until(pilot, lambda: app._notifications, "it says why")
        assert on_stage.host.store.session(waiting).stop == "needs_credentials"  # type: ignore[union-attr]
        assert on_stage.host.secrets.list() == []  # type: ignore[union-attr]


async def test_without_a_keyring_a_new_passphrase_is_asked_for_twice_and_the_value_is_kept(
    on_stage: Stage, make_app: Make, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARTIFICER_PASSPHRASE", raising=False)
    monkeypatch.setattr(sealed, "_N", 2)
    app = make_app(on_stage, waiting)
    with system_keyring(keyring.backends.null.Keyring()):
        async with app.run_test(size=(120, 40)) as pilot:
            await enter(pilot, VALUE)
            for title in ("A new passphrase", "Again"):
                await until(pilot, lambda title=title: title in shown(app), "it asks")  # type: ignore[misc]
                await pilot.press(*"correct horse".replace(" ", "_"), "enter")
                assert "correct" not in shown(app)
            await until(pilot, lambda: on_stage.host.store.session(waiting).stop == "completed", "it goes on")  # type: ignore[union-attr]
            assert stands_in(on_stage.host.home, VALUE) == []


async def test_two_passphrases_that_differ_keep_nothing(
    on_stage: Stage, make_app: Make, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARTIFICER_PASSPHRASE", raising=False)
    app = make_app(on_stage, waiting)
    with system_keyring(keyring.backends.null.Keyring()):
        async with app.run_test(size=(120, 40)) as pilot:
            await enter(pilot, VALUE)
            for title, words in (("A new passphrase", "correct-horse"), ("Again", "correct-house")):
                await until(pilot, lambda title=title: title in shown(app), "it asks")  # type: ignore[misc]
                await pilot.press(*words, "enter")
            await until(pilot, lambda: app._notifications, "it says why")
            assert "differ" in "".join(note.message for note in app._notifications)
            assert on_stage.host.store.session(waiting).stop == "needs_credentials"  # type: ignore[union-attr]


async def paste(pilot: Pilot[None], text: str) -> Composer:
    """Paste `text` into the composer and send it."""
    await calm(pilot)
    composer = pilot.app.screen.query_one(Composer)
    composer.post_message(events.Paste(text))
    await pilot.press("enter")
    await until(pilot, lambda: "Store this key now?" in shown(pilot.app), "it offers")  # type: ignore[arg-type]
    return composer


@pytest.mark.parametrize("text", [VALUE, f"here it is: {KEY}"])
async def test_a_key_pasted_while_one_is_wanted_is_stored_by_one_key_and_the_session_goes_on(
    on_stage: Stage, make_app: Make, waiting: str, memory: MemoryKeyring, text: str
) -> None:
    app = make_app(on_stage, waiting)
    async with app.run_test(size=(120, 40)) as pilot:
        composer = await paste(pilot, text)
        assert all(words in shown(app) for words in ("rates-bot", "RATES_API_KEY", "api.rates.example"))
        value = text.split()[-1]
        assert value not in shown(app)
        await pilot.press("y")
        await until(pilot, lambda: on_stage.host.store.session(waiting).stop == "completed", "it goes on")  # type: ignore[union-attr]
        assert list(memory.kept.values()) == [value]
        assert composer.text == ""
        assert stands_in(on_stage.host.home, value) == []


@pytest.mark.slow
@pytest.mark.parametrize("key", ["n", "escape"])
async def test_a_key_that_is_not_to_be_stored_is_left_out_or_stands_where_it_was_written(
    on_stage: Stage, make_app: Make, waiting: str, memory: MemoryKeyring, key: str
) -> None:
    app = make_app(on_stage, waiting)
    async with app.run_test(size=(120, 40)) as pilot:
        composer = await paste(pilot, VALUE)
        await pilot.press(key)
        await until(pilot, lambda: "Store this key" not in shown(app), "the question is gone")
        assert composer.text == (VALUE if key == "escape" else "")
        assert memory.kept == {}
        assert on_stage.host.store.session(waiting).stop == "needs_credentials"  # type: ignore[union-attr]
        assert stands_in(on_stage.host.home, VALUE) == []


async def test_a_key_among_words_is_stored_and_the_words_are_sent_with_its_name(
    on_stage: Stage, make_app: Make, waiting: str, memory: MemoryKeyring
) -> None:
    info = on_stage.host.store.session(waiting)
    assert info is not None
    done = on_stage.session(
        "Hello", stopped("completed"), kind="run", agent=info.agent, digest=info.digest, stop="completed"
    )
    app = make_app(on_stage, done)
    async with app.run_test(size=(120, 40)) as pilot:
        composer = await paste(pilot, f"use {KEY} from now on")
        await pilot.press("y")
        await until(pilot, lambda: "One euro" in shown(app), "it goes on")
        assert "use [stored as RATES_API_KEY] from now on" in shown(app)
        assert list(memory.kept.values()) == [KEY]
        assert KEY not in "".join(composer.sent_before)
        assert stands_in(on_stage.host.home, KEY) == []


@pytest.mark.slow
@pytest.mark.usefixtures("memory")
async def test_where_nothing_is_declared_a_key_is_kept_out_without_a_question(on_stage: Stage, make_app: Make) -> None:
    register_provider("scripted", lambda: ScriptedProvider(["Which repository?"]))
    done = on_stage.session("Hello", stopped("completed"), stop="completed")
    app = make_app(on_stage, done)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        app.screen.query_one(Composer).post_message(events.Paste(f"use {KEY}"))
        await pilot.press("enter")
        await until(pilot, lambda: "[redacted: anthropic key]" in shown(app), "it is kept out")
        assert stands_in(on_stage.host.home, KEY) == []


async def test_a_key_in_the_composer_is_kept_neither_as_a_draft_nor_in_its_history(
    on_stage: Stage, make_app: Make, waiting: str
) -> None:
    app = make_app(on_stage, waiting)
    async with app.run_test(size=(120, 40)) as pilot:
        await calm(pilot)
        composer = app.screen.query_one(Composer)
        composer.text = f"use {KEY}"
        assert composer.to_json() == {"text": "use [redacted: anthropic key]", "pastes": {}}
        app.desk.remember(f"use {KEY}")
        assert app.desk.history() == ["use [redacted: anthropic key]"]
        assert stands_in(on_stage.host.home, KEY) == []
