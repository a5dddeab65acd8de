"""The app on a stage: the same clock, ids, zone and theme every time, nothing that moves."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.harness.stage import Stage, stage
from tui.application import ArtificerApp


@pytest.fixture(autouse=True)
def _same_everywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "COLORTERM", "ARTIFICER_PROVIDER", "ARTIFICER_MODEL", "ARTIFICER_SANDBOX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def on_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """An empty host whose home the help names `~/artificer`."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return stage(tmp_path / "artificer")


@pytest.fixture
def make_app() -> Callable[..., ArtificerApp]:
    """An app on a stage, with nothing that moves."""

    def make(on: Stage, session: str | None = None, theme: str = "textual-dark") -> ArtificerApp:
        app = ArtificerApp(on.host, session=session)
        app.animation_level = "none"
        app.theme = theme
        return app

    return make


async def until(pilot: Pilot[Any], condition: Callable[[], object], what: str = "") -> None:
    """Let the app work until `condition` holds; fails after ten seconds, naming `what` it waited for."""
    end = time.monotonic() + 10
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what or condition}")
        await pilot.pause(0.01)
    await pilot.pause()


async def calm(pilot: Pilot[Any]) -> None:
    """Let the app open what it opens at its start, and lay it out."""
    app = pilot.app
    assert isinstance(app, ArtificerApp)
    await until(pilot, lambda: app.opened, "the app is open")
    sandbox = getattr(app.screen, "sandbox_known", None)
    if sandbox is not None:
        await until(pilot, lambda: app.screen.sandbox_known, "the sandbox is known")  # type: ignore[attr-defined]
    if hasattr(app.screen, "settled"):
        await until(pilot, lambda: getattr(app.screen, "settled", True), "all of the record is shown")
    for _ in range(3):
        await pilot.pause()


Before = Callable[[Pilot[Any]], Awaitable[None]]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """New pictures belong on the page."""
    if session.config.getoption("--snapshot-update", default=False):
        from tests.tui.gallery import main

        main()
