"""Bodies of events: read as they were written, whatever stands in their place."""

from __future__ import annotations

import pytest

from core import Event
from core.events import encode


@pytest.mark.parametrize("body", ['{"n": 1}', ' {"n": 1}', '{"n": 1}\n', b'{"n": 1}'])
def test_a_body_is_read_with_or_without_space_around_it(body: str | bytes) -> None:
    event = Event("s", 1, "", "notice", body)
    assert (event.data, event.damaged) == ({"n": 1}, False)


@pytest.mark.parametrize("body", ['{"n": 1} {', '{"n": ', "[1]", "", None, '{"a":' * 100_000])
def test_what_is_no_object_is_damaged_and_shows_how_it_begins(body: str | None) -> None:
    event = Event("s", 1, "", "notice", body)
    assert event.damaged
    assert event.data["raw"] == (body or "")[:200]


def test_a_body_is_kept_compact_and_in_its_own_letters() -> None:
    assert encode({"text": "grüß \ud800", "n": [1, None]}) == '{"text":"grüß \ufffd","n":[1,null]}'
