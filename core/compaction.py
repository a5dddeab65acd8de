"""Making a history shorter where it nears the model's window: it must shrink, or stop."""

from __future__ import annotations

from collections.abc import Sequence

from core.loop import Compactor
from core.provider import (
    Message,
    ModelProvider,
    ModelRequest,
    ProviderError,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    TurnEnd,
)
from core.session import Pair, SessionLog

NEAR = 0.8
"""The part of the window that may be used before the history is compacted."""
KEEP_RECENT = 6
CHARS_PER_TOKEN = 3.5
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


def split_point(messages: Sequence[Message], keep: int = KEEP_RECENT) -> int:
    """How many messages from the start to summarise, so that what is kept begins with a model's message and no
    call is parted from its result. 0 where nothing can be cut."""
    at = max(len(messages) - keep, 0)
    while at > 1 and messages[at].role != "assistant":
        at -= 1
    return at if at > 1 else 0


def compactor(log: SessionLog, provider: ModelProvider, window: int) -> Compactor:
    """A compactor for one session; it measures incrementally, so that asking costs the same at any length."""
    counted = 0
    tokens = 0

    async def compact(request: ModelRequest) -> list[Pair]:
        nonlocal counted, tokens
        if counted > len(request.messages):
            counted = tokens = 0
        tokens += estimate("", request.messages[counted:])
        counted = len(request.messages)
        total = tokens + estimate(request.system, ())
        if total < window * NEAR:
            return []
        cut = split_point(request.messages)
        if not cut:
            raise ProviderError("context", "The conversation fills the model's window and cannot be made shorter.")
        summary = await _summarise(provider, request, cut, window)
        after = estimate(summary, request.messages[cut:]) + estimate(request.system, ())
        if after >= total * 0.9:
            raise ProviderError("context", "The conversation fills the model's window; a summary would not be shorter.")
        counted = tokens = 0
        body = {"summary": summary, "messages": cut, "before_tokens": total, "after_tokens": after}
        return [("compaction", body)]

    return compact


async def _summarise(provider: ModelProvider, request: ModelRequest, cut: int, window: int) -> str:
    """Ask the model for a summary of the first `cut` messages, given as one text so that no call is left open."""
    text = render(request.messages[:cut])
    most = int(window * 0.6 * CHARS_PER_TOKEN)
    if len(text) > most:
        text = f"{text[: most // 3]}\n[…]\n{text[-2 * most // 3 :]}"
    ask = ModelRequest(
        session=request.session,
        system=ASK,
        messages=[Message("user", (Text(text),))],
        tools=(),
        model=request.model,
    )
    parts: list[str] = []
    async for item in provider.stream(ask):
        match item:
            case TurnEnd():
                parts = [b.text for b in item.blocks if isinstance(b, Text)]
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                pass
    summary = "\n\n".join(parts).strip()
    if not summary:
        raise ProviderError("context", "The conversation fills the model's window, and its summary came back empty.")
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
