"""Mends a conversation so that a model API takes it: pure, and a longer one begins as the shorter one did."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from core import Message, Opaque, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from core import Block

CONTINUE: Final = Message("user", (Text("Continue."),))
LOST: Final = "This call was interrupted; whether it had an effect is unknown."


def mend(
    messages: Sequence[Message],
    keep: Callable[[Thinking | Opaque, bool], bool],
    paused: Callable[[Message], bool] = lambda message: False,
) -> list[Message]:
    """The same conversation, in a form every API takes.

    Every call is followed at once by exactly one result, in call order, missing ones made up as errors;
    results of no call are dropped, as are blank texts and messages left empty. An answer that another one
    follows, or nothing, gets a "Continue." after it, as newer models refuse to go on from an assistant
    message; only a `paused` one stays last. `keep(block, last)` says which thinking and opaque blocks stay,
    `last` being true in the last message. Calls end their message, and thinking never does.

    What is made of a message depends on what stands up to the next answer alone.
    """
    out: list[Message] = []
    waiting: list[ToolCall] = []
    final = max((n for n, message in enumerate(messages) if message.blocks), default=0)
    for position, message in enumerate(messages):
        if message.role == "assistant":
            if waiting:
                out.append(Message("user", _results(waiting, {})))
            elif not out or (out[-1].role == "assistant" and not paused(out[-1])):
                out.append(CONTINUE)  # before an empty answer too: it was there when that was asked for
            answer, waiting = _answer(message, keep, last=position >= final)
            if answer is not None:
                out.append(answer)
        else:
            results = _results(waiting, _given(messages, position)) if waiting else ()
            waiting = []
            texts = [b for b in message.blocks if isinstance(b, Text) and b.text.strip()]
            if results or texts:
                out.append(Message("user", (*results, *texts)))
    if waiting:
        out.append(Message("user", _results(waiting, {})))
    elif not out or (out[-1].role == "assistant" and not paused(out[-1])):
        out.append(CONTINUE)
    return out


def _answer(
    message: Message, keep: Callable[[Thinking | Opaque, bool], bool], *, last: bool
) -> tuple[Message | None, list[ToolCall]]:
    blocks: list[Block] = []
    calls: list[ToolCall] = []
    for block in message.blocks:
        match block:
            case Text(text) if text.strip():
                blocks.append(block)
            case Thinking() | Opaque() if keep(block, last):
                blocks.append(block)
            case ToolCall():
                calls.append(block)
            case _:
                pass
    blocks += calls
    while blocks and isinstance(blocks[-1], Thinking):
        blocks.pop()
    return (Message("assistant", tuple(blocks)) if blocks else None), calls


def _given(messages: Sequence[Message], start: int) -> dict[str, ToolResult]:
    """Results by call id in the user messages from `start` up to the next answer; the first one counts."""
    found: dict[str, ToolResult] = {}
    for position in range(start, len(messages)):
        message = messages[position]
        if message.role == "assistant":
            break
        for block in message.blocks:
            if isinstance(block, ToolResult):
                found.setdefault(block.id, block)
    return found


def _results(calls: Sequence[ToolCall], given: Mapping[str, ToolResult]) -> tuple[ToolResult, ...]:
    return tuple(given.get(call.id) or ToolResult(call.id, False, LOST) for call in calls)
