"""Numbers, ages and text as people read them."""

from __future__ import annotations

import pytest

from tui.view.text import age, line, money, one_line, plain_text, safe, short, tokens
from tui.widgets.lines import wrap

NOW = "2026-03-04T12:00:00.000Z"


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0"), (812, "812"), (48_100, "48.1k"), (8_000, "8k"), (112_400, "112k"), (3_400_000, "3.4M")],
)
def test_tokens_are_short(count: int, words: str) -> None:
    assert tokens(count) == words


@pytest.mark.parametrize(
    ("usd", "words"),
    [(None, "unknown"), ("0.04", "$0.04"), ("0.0012", "$0.0012"), ("1234.5", "$1,234.50"), ("?", "unknown")],
)
def test_money_says_unknown_where_there_is_no_price(usd: str | None, words: str) -> None:
    assert money(usd) == words


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2026-03-04T11:59:48.000Z", "12 s"),
        ("2026-03-04T11:51:00Z", "9 m"),
        ("2026-03-04T09:00:00Z", "3 h"),
        ("2026-02-27T12:00:00Z", "5 d"),
        ("2026-03-04T12:00:09Z", "0 s"),
        ("never", ""),
        (None, ""),
    ],
)
def test_an_age_is_one_number_and_a_unit(at: str | None, words: str) -> None:
    assert age(at, NOW) == words


def test_a_digest_goes_by_its_first_eight_digits() -> None:
    assert short("sha256:4f1c0a2b99") == "4f1c0a2b"
    assert short(None) == "-"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain", "plain"),
        ("a\x1b[31mred\x1b[0m b", "ared b"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;aGk=\x1b\\x", "x"),
        ("bell\x07 del\x7f c1\x9b2J", "bell del c12J"),
        ("a\u202ebc", "abc"),
        ("one\r\ntwo\rthree\tfour", "one\ntwo\nthree\tfour"),
        ("日本語 🙂", "日本語 🙂"),
    ],
)
def test_text_of_others_loses_what_a_terminal_would_obey(text: str, clean: str) -> None:
    assert safe(text) == clean


def test_one_line_is_one_line_and_no_longer_than_asked() -> None:
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"


def test_the_space_a_line_is_broken_at_begins_no_line() -> None:
    assert [plain_text(one) for one in wrap(line("abcd efgh ij"), 4)] == ["abcd", "efgh", "ij"]
    assert [plain_text(one) for one in wrap(line("  abc de fgh"), 6)] == ["  abc ", "  de ", "  fgh"]
