"""A CLI's process ends when we end it, also one that prints on and on while nobody reads it any more."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from core.agent_cli.events import Invocation
from core.agent_cli.process import CliProcess, Deadlines
from core.agent_cli.provider import ask_cli

ENDLESS = (sys.executable, "-c", "import sys\nwhile True: sys.stdout.write('x' * 1000 + '\\n')")


async def unread(tmp_path: Path) -> CliProcess:
    """A process whose output was read for a while, and now fills its pipe."""
    process = await CliProcess.start(Invocation(ENDLESS, {}, tmp_path), {}, Deadlines())
    lines = process.lines()
    for _ in range(10):
        await anext(lines)
    return process


async def test_closing_one_ends_it(tmp_path: Path) -> None:
    process = await unread(tmp_path)
    async with asyncio.timeout(20):
        await process.close()


async def test_its_exit_is_told(tmp_path: Path) -> None:
    process = await unread(tmp_path)
    async with asyncio.timeout(20):
        assert (await process.exit(0.1)).code == -9
        await process.close()


async def test_a_question_that_is_answered_without_end_has_no_answer() -> None:
    async with asyncio.timeout(20):
        assert await ask_cli(ENDLESS, {}, 0.3) == (-1, "")
