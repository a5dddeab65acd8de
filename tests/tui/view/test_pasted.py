"""Keys among a person's words."""

from __future__ import annotations

import pytest

from tui.view.pasted import Place, keep_lines, pasted_key
from tui.view.text import plain_text

KEY = "sk-" + "ant-api03-Ab12Cd34Ef56Gh78Ij90-Kl_mN"
WORD = "s3cret-canary-value-0451"


def test_a_key_among_words_is_found_and_its_name_takes_its_place() -> None:
    found = pasted_key(f"use {KEY} now", wanted=False)
    assert found is not None
    assert (found.value, found.words, found.without("RATES")) == (KEY, True, "use [stored as RATES] now")


def test_a_long_word_is_a_value_only_where_one_is_wanted() -> None:
    assert pasted_key(WORD, wanted=False) is None
    found = pasted_key(f" {WORD}\n", wanted=True)
    assert found is not None
    assert (found.value, found.words) == (WORD, False)


@pytest.mark.parametrize("text", ["retry", "two words that are long enough", f"{KEY} and {KEY}x"])
def test_words_and_several_keys_are_none(text: str) -> None:
    assert pasted_key(text, wanted=True) is None


def test_what_it_will_do_names_everything_but_the_value() -> None:
    found = pasted_key(KEY, wanted=False)
    assert found is not None
    places = [
        Place("bot", name, ("api.example",), "header X: ***", taken) for name, taken in (("A", False), ("B", True))
    ]
    text = "\n".join(plain_text(one) for one in keep_lines(found, places, 1))
    assert KEY not in text
    for words in ("anthropic key", "bot", "1 A", "› 2 B · replaces the value it has", "api.example, as header X"):
        assert words in text


def test_a_key_among_megabytes_is_not_offered() -> None:
    assert pasted_key(f"{'words ' * 100_000}{KEY}", wanted=False) is None
