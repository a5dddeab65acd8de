"""What is pasted presses no key, however it comes in pieces."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from textual._xterm_parser import XTermParser
from textual.events import Paste

from tests.harness.stage import stage
from tests.harness.terminal import artificer
from tests.tui.test_terminal import FRESH
from tui.input import BEGIN, END, ESCAPE, PasteFilter

PIECES = st.lists(st.sampled_from([BEGIN, END, ESCAPE, "\x1b[A", "y", "\r", "é", "\x1b[20", "0~"]), max_size=12)


def plain(text: str) -> tuple[str, list[str]]:
    """The same with nothing but `find`: what is left for keys, and what was pasted."""
    made, pasted, rest = "", [], text
    while (at := rest.find(BEGIN)) >= 0:
        made, rest = made + rest[: at + len(BEGIN)], rest[at + len(BEGIN) :]
        end = rest.find(END)
        inside, rest = (rest, "") if end < 0 else (rest[:end], rest[end:])
        if end >= 0:
            pasted.append(inside.replace(ESCAPE, ""))
            made, rest = made + END, rest[len(END) :]
    return made + rest, pasted


@given(PIECES, st.lists(st.integers(1, 9), max_size=30))
def test_a_paste_has_no_escapes_wherever_it_is_cut(pieces: list[str], sizes: list[int]) -> None:
    text = "".join(pieces) + END  # the end lets everything that is held back go
    filtered, made, rest = PasteFilter(), "", text
    for size in sizes:
        made, rest = made + filtered.feed(rest[:size]), rest[size:]
    assert (made + filtered.feed(rest), list(filtered.pasted)) == plain(text)


@given(PIECES, st.lists(st.integers(1, 9), max_size=30))
def test_the_parser_finds_as_many_pastes_as_there_are_texts(pieces: list[str], sizes: list[int]) -> None:
    text = "".join(pieces) + END
    filtered, parser, rest, found = PasteFilter(), XTermParser(), text, 0
    for size in [*sizes, len(text)]:
        seen, rest = filtered.feed(rest[:size]), rest[size:]
        found += sum(isinstance(event, Paste) for event in parser.feed(seen)) if seen else 0
    assert found == len(filtered.pasted)


def test_keys_go_through_as_they_come() -> None:
    filtered = PasteFilter()
    assert [filtered.feed(key) for key in ("a", ESCAPE, "[A", "\r")] == ["a", ESCAPE, "[A", "\r"]


def test_a_pasted_text_with_escapes_is_text_and_sends_nothing(tmp_path: Path) -> None:
    with artificer(tmp_path / "home") as terminal:
        at = terminal.wait_for(FRESH)
        terminal.send(f"{BEGIN}one \x1b[31mred\x1b[0m \x1b\x1b\t\x11 two\x08\x1b]0;title\x07{END}")
        at = terminal.wait_for("red", after=at)
        terminal.send(" and\rmore")
        terminal.wait_for("more", after=at)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
    (info,) = stage(tmp_path / "home").host.store.sessions()
    assert info.title.split() == ["one", "[31mred[0m", "two]0;title", "and"]
