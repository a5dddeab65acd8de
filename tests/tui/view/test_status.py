"""The top line of a session: what is out of the ordinary is not what a narrow screen cuts."""

from __future__ import annotations

from tests.tui.view.test_fleet import info
from tui.panes.side import LOWER, UPPER
from tui.view.status import status
from tui.view.tabs import CHAT, tabs
from tui.view.text import plain_text


def test_on_narrow_screens_unsafe_and_followed_come_before_a_long_name_of_a_model() -> None:
    shown = status(info("a"), sandbox="process", unsafe=True, model="a-long-name", foreign=True, narrow=True)
    assert plain_text(shown.around).startswith("process unsafe · followed, another process drives it")
    assert plain_text(shown.around).endswith("a-long-name")


def test_on_wide_screens_what_thinks_comes_first() -> None:
    shown = status(info("a"), sandbox="process", unsafe=True, model="m", foreign=True)
    assert plain_text(shown.around).endswith("m · process unsafe · followed, another process drives it")


def test_every_pane_is_named_at_sixty_columns() -> None:
    for pane in (CHAT, *UPPER, *LOWER):
        text = plain_text(tabs([*UPPER], [*LOWER], pane, 58))
        assert len(text.rstrip()) <= 58
        assert "F6 Transcript" in text
        assert {"files": "Files", "diff": "Diff"}.get(pane, "Log") in text
