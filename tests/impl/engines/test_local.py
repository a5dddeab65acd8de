"""The engine of this machine: so many at once, in order, and nothing left running."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from impl.engines import NoEngine, open_engine
from impl.engines.local import LocalEngine


async def test_no_more_run_at_once_than_there_are_slots() -> None:
    running = most = 0
    begun: list[int] = []

    async def work(cell: int) -> int:
        nonlocal running, most
        begun.append(cell)
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return cell * 2

    results = [pair async for pair in LocalEngine(3).run(range(1, 11), work)]
    assert sorted(results) == [(cell, cell * 2) for cell in range(1, 11)]
    assert (most, begun) == (3, list(range(1, 11)))


async def test_a_result_comes_as_soon_as_it_is_there() -> None:
    last = asyncio.Event()

    async def work(cell: str) -> str:
        if cell == "slow":
            await last.wait()
        return cell

    order = []
    async for cell, _ in LocalEngine(2).run(["slow", "a", "b"], work):
        order.append(cell)
        if cell == "b":
            last.set()
    assert order == ["a", "b", "slow"]


async def test_closing_it_cancels_what_runs_and_waits_until_that_is_settled() -> None:
    settled: list[int] = []

    async def work(cell: int) -> int:
        if cell == 0:
            return cell
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            settled.append(cell)
        return cell

    async with aclosing(LocalEngine(3).run(range(5), work)) as results:
        async for _ in results:
            break
    assert settled == [1, 2]


async def test_what_one_raises_is_raised_and_ends_the_others() -> None:
    ended: list[int] = []

    async def work(cell: int) -> int:
        if cell == 1:
            raise LookupError("gone")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(cell)
        return cell

    with pytest.raises(LookupError, match="gone"):
        async for _ in LocalEngine(3).run(range(3), work):
            pass
    assert ended == [0, 2]


def test_an_engine_there_is_none_of_is_named() -> None:
    with pytest.raises(NoEngine, match="nowhere"):
        open_engine("nowhere://here:1", 4)
    with pytest.raises(ValueError, match="slot"):
        LocalEngine(0)
