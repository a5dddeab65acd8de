"""Making a history shorter where it nears the model's window: it must shrink, or stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from core.keeping import KINDS, kept
from core.loop import Compactor
from core.provider import Message, ModelRequest, ProviderError, Text, Thinking, ToolCall, ToolResult, TurnEnd
from core.session import Pair, SessionLog

NEAR = 0.8
"""The part of the window that may be used before the history is compacted."""
KEEP = 0.3
"""The part of the window that the newest messages, which stay as they are, may take."""
FACTS = 0.1
"""The part of the window that may be taken by what is kept word for word."""
SHRUNK = 0.9
"""A compaction that leaves more than this part of what was there is none."""
CHARS_PER_TOKEN = 3.5
LARGER = "Resume it with a model of a larger window (--model), or start anew."
ASK = (
    "Summarise this conversation so that you can go on from the summary alone. Keep: what the person wants and "
    "decided, open questions, unmet problems, digests and names, files changed and why, what was tried and failed, "
    "the next step. Leave out everything else. Write only the summary."
)


def estimate(system: str, messages: Sequence[Message]) -> int:
    """Tokens of a request, roughly and rather too many."""
    size = len(system)
    for message in messages:
        for block in message.blocks:
            match block:
                case Text() | Thinking():
                    size += len(block.text)
                case ToolCall():
                    size += len(str(block.args)) + len(block.name)
                case ToolResult():
                    size += len(block.output)
                case _:
                    size += len(str(block))
        size += 16
    return int(size / CHARS_PER_TOKEN)


def split_point(messages: Sequence[Message], room: int) -> int:
    """How many messages from the start to summarise, so that what is kept takes at most `room` tokens (but always
    the last exchange), begins with a model's message, and no call is parted from its result. 0 where nothing can
    be cut."""
    cut, size, at = 0, 0, len(messages)
    while at > 1:
        at -= 1
        size += estimate("", messages[at : at + 1])
        if size > room and cut:
            break
        if messages[at].role == "assistant" and messages[at - 1].role == "user":
            cut = at
    return cut


def _full(message: str) -> ProviderError:
    return ProviderError("context", message, hint=LARGER)


def compactor(log: SessionLog, window: int | None) -> Compactor:
    """A compactor for one session; it measures incrementally, so that asking costs the same at any length.

    Where the window is not known it acts only by `force`: once a provider said that a request was too long.
    """
    counted = 0
    tokens = 0

    async def compact(
        request: ModelRequest, ask: Callable[[ModelRequest], Awaitable[TurnEnd]], *, force: bool = False
    ) -> list[Pair]:
        nonlocal counted, tokens
        if window is None and not force:
            return []
        if counted > len(request.messages):
            counted = tokens = 0
        tokens += estimate("", request.messages[counted:])
        counted = len(request.messages)
        fixed = estimate(request.system, ()) + sum(len(str(tool.input_schema)) for tool in request.tools) // 4
        total = tokens + fixed
        most = total if window is None else min(total, window) if force else window
        if total < most * NEAR:
            return []
        cut = split_point(request.messages, int(most * KEEP))
        if not cut:
            raise _full("The conversation fills the model's window and cannot be made shorter.")
        upto = log.history.seq_of(cut)
        summary = await _summarise(ask, request, cut, most)
        facts = kept(log.store.events(log.id, kinds=KINDS), upto, int(most * FACTS * CHARS_PER_TOKEN))
        if facts and estimate(facts + summary, request.messages[cut:]) + fixed < total * SHRUNK:
            summary = f"Kept word for word:\n\n{facts}\n\n{summary}"
        after = estimate(summary, request.messages[cut:]) + fixed
        if after >= total * SHRUNK:
            raise _full("The conversation fills the model's window; a summary would not be shorter.")
        counted = tokens = 0
        body = {
            "summary": summary,
            "upto": upto,
            "messages": cut,
            "before_tokens": total,
            "after_tokens": after,
        }
        return [("compaction", body)]

    return compact


async def _summarise(
    ask: Callable[[ModelRequest], Awaitable[TurnEnd]], request: ModelRequest, cut: int, window: int
) -> str:
    """A summary of the first `cut` messages, which are given as one text so that no call is left open."""
    text = render(request.messages[:cut])
    most = int(window * 0.6 * CHARS_PER_TOKEN)
    if len(text) > most:
        text = f"{text[: most // 3]}\n[…]\n{text[-2 * most // 3 :]}"
    messages = [Message("user", (Text(text),))]
    turn = await ask(ModelRequest(request.session, ASK, messages, (), request.model))
    summary = "\n\n".join(b.text for b in turn.blocks if isinstance(b, Text)).strip()
    if turn.finish == "refusal":  # its words are no summary, and in the place of one they would be all that is left
        raise _full("The conversation fills the model's window, and the model refused to sum it up.")
    if not summary:
        raise _full("The conversation fills the model's window, and its summary came back empty.")
    return f"Summary of the conversation so far:\n\n{summary}"


def render(messages: Sequence[Message]) -> str:
    """A conversation as plain text."""
    lines: list[str] = []
    for message in messages:
        for block in message.blocks:
            match block:
                case Text():
                    lines.append(f"{message.role}: {block.text}")
                case ToolCall():
                    lines.append(f"call {block.name} {dict(block.args or {})}")
                case ToolResult():
                    lines.append(f"result ({'ok' if block.ok else 'failed'}): {block.output[:4000]}")
                case _:
                    pass
    return "\n\n".join(lines)
