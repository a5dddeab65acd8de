"""The top line where it is too short."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.harness.stage import NamedSandbox, NamedSandboxes, Stage
from tests.tui import scenes
from tests.tui.conftest import calm
from tests.tui.test_stops import shown
from tui.application import ArtificerApp

Make = Callable[..., ArtificerApp]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["a-name-" * 8, "名前" * 40])
async def test_a_long_name_leaves_room_for_whose_turn_it_is_and_what_isolates(
    on_stage: Stage, make_app: Make, width: int, name: str
) -> None:
    on_stage.host.sandboxes = NamedSandboxes(NamedSandbox("process", unsafe=True))  # type: ignore[assignment]
    session = scenes.building(on_stage, scenes.stopped("cancelled"), stop="cancelled", agent=name)
    app = make_app(on_stage, session)
    async with app.run_test(size=(width, 24)) as pilot:
        await calm(pilot)
        top = shown(app).split("\n")[0]
        assert "■ stopped by you" in top
        assert "process unsafe" in top
        assert top.strip().startswith(name[:5])
