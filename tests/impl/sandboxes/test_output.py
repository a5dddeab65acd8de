"""Head, tail and whole characters of what a command printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.sandboxes.output import Output, from_whole_character, to_whole_character


@given(st.text(), st.integers(1, 7))
def test_text_cut_anywhere_is_decoded_as_if_it_were_not(text: str, step: int) -> None:
    data, output = text.encode(), Output(10_000)
    live = "".join(output.feed(data[i : i + step]) for i in range(0, len(data), step)) + output.rest()
    assert live == text
    assert output.result(len(data)) == (text, False, len(data))


@given(st.text(st.characters(min_codepoint=0x80, exclude_categories=["Cs"])), st.integers(0, 50))
def test_a_cut_text_is_trimmed_to_whole_characters(text: str, cut: int) -> None:
    data = text.encode()
    assert text.startswith(to_whole_character(data[:cut]).decode())
    assert text.endswith(from_whole_character(data[cut:]).decode())


def test_beyond_the_cap_head_and_tail_are_kept_around_a_line_that_counts_the_rest() -> None:
    output = Output(8)
    output.feed(b"abcdefgh")
    output.feed_tail(b"wxyz", skipped=100)
    assert output.result(112) == ("abcd\n[… 104 bytes left out …]\nwxyz", True, 112)


def test_a_short_tail_continues_the_head() -> None:
    output = Output(8)
    output.feed(b"abcdefgh")
    output.feed_tail(b"ij", skipped=0)
    assert output.result(10) == ("abcd\n[… 2 bytes left out …]\nghij", True, 10)


def test_more_than_was_agreed_is_not_kept() -> None:
    output = Output(4)
    output.feed(b"abcdefgh")
    assert output.result() == ("abcd", False, 4)


@pytest.mark.parametrize("cap", [0, 1])
def test_a_tiny_cap_keeps_nothing_but_the_count(cap: int) -> None:
    output = Output(cap)
    output.feed(b"x" * cap)
    text, truncated, size = output.result(9)
    assert (text.strip(), truncated, size) == ("[… 9 bytes left out …]", True, 9)
