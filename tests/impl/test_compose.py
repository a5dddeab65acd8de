"""What the composition root puts together behaves as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from impl.compose import build_host


async def test_a_sandbox_asked_for_by_name_is_the_one_that_was_chosen(tmp_path: Path) -> None:
    """A child has its parent's kind by name, and is told of it what its parent was told."""
    sandboxes = build_host(home=tmp_path).sandboxes
    best, _ = await sandboxes.choose(None)
    if best.unsafe:
        pytest.skip("no sandbox isolates here")
    again, _ = await sandboxes.choose(best.name)
    assert again is best
