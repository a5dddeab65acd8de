"""Pastes of any size: chips on screen, whole when sent."""

from __future__ import annotations

from tui.view.paste import Pastes

BIG = "\n".join(f"line {n}" for n in range(1234))


def test_a_small_paste_is_text_like_any_other() -> None:
    assert Pastes().take("two\nlines") == "two\nlines"


def test_a_big_paste_is_a_chip_that_stands_for_it() -> None:
    pastes = Pastes()
    chip = pastes.take(BIG)
    assert chip == "[pasted 1,234 lines]"
    assert pastes.whole(f"see {chip}, please") == f"see {BIG}, please"


def test_two_pastes_of_one_size_are_told_apart() -> None:
    pastes = Pastes()
    chips = [pastes.take(BIG), pastes.take(BIG.upper()), pastes.take(BIG)]
    assert chips == ["[pasted 1,234 lines]", "[pasted 1,234 lines · 2]", "[pasted 1,234 lines]"]
    assert pastes.whole(chips[1]) == BIG.upper()


def test_a_chip_somebody_typed_stands_for_nothing() -> None:
    assert Pastes().whole("[pasted 9 lines]") == "[pasted 9 lines]"


def test_a_long_single_line_counts_its_characters() -> None:
    assert Pastes().take("x" * 5000) == "[pasted 5,000 characters]"


def test_a_chip_inside_a_pasted_text_is_not_replaced_in_turn() -> None:
    pastes = Pastes()
    first = pastes.take(BIG)
    second = pastes.take(first + "\n" * 20)
    assert pastes.whole(second) == first + "\n" * 20
