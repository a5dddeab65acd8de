"""Assembles one turn from the chunks of a chat completion stream: no I/O, any chunk is survived."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from core import (
    Opaque,
    ProviderError,
    StreamItem,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    TurnEnd,
    Usage,
)
from impl.providers._calls import (
    REFUSED,
    TextBuffer,
    clean,
    clean_value,
    count,
    mapping,
    new_seed,
    settle_finish,
    string,
    unique_ids,
)
from impl.providers._errors import Service, failure, read_value, server_error
from impl.providers._openai_calls import OpenAICalls
from impl.providers._openai_history import PROVIDER
from impl.providers._openai_profiles import GENERIC, Profile

if TYPE_CHECKING:
    from core import Block, Finish

_FINISH: Final[Mapping[str, Finish]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
    "sensitive": "refusal",
    "refusal": "refusal",
    "safety": "refusal",
    "recitation": "refusal",
    "blocklist": "refusal",
    "prohibited_content": "refusal",
    "guardrail_intervened": "refusal",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "tool_use": "tool_calls",
    "model_context_window_exceeded": "context",
}

#: Finish reasons that say the server failed.
_FAILED: Final[Mapping[str, str]] = {
    "error": "server",
    "network_error": "server",
    "insufficient_system_resource": "overloaded",
    "abort": "server",
}

#: A prompt counted this many times smaller than it is was cut by the server; short ones are not judged.
_FAR_BELOW = 2.5
_WORTH_JUDGING = 1_000


class OpenAITurn:
    """Feed it decoded chunks, and `"[DONE]"` as it is, then ask for the `end`.

    `model` is the model asked for: reasoning is bound to it. `taken` are ids of earlier calls. `estimate`
    is about how many tokens the request has, 0 for no judgement of the server's count.
    """

    def __init__(
        self,
        service: Service,
        model: str,
        profile: Profile = GENERIC,
        taken: Collection[str] = (),
        estimate: int = 0,
        seed: str | None = None,
    ) -> None:
        self._service = service
        self._model = model
        self._profile = profile
        self._taken = taken
        self._estimate = estimate
        self._seed = seed or new_seed()
        self._segments: list[tuple[str, TextBuffer]] = []
        self._calls = OpenAICalls()
        self._counts: dict[str, int] = {}
        self._finish: str | None = None
        self._refused = False
        self._answered_by = ""
        self._any = False
        self.complete = False

    @property
    def enough(self) -> bool:
        """A finish reason is enough; usage may still follow."""
        return self.complete or self._finish is not None

    @property
    def usage(self) -> Usage | None:
        """The latest counts; a chunk that leaves one out does not change it."""
        if not self._counts:
            return None
        return Usage(
            input_tokens=self._counts.get("input", 0),
            output_tokens=self._counts.get("output", 0),
            cached_tokens=min(self._counts.get("cached", 0), self._counts.get("input", 0)),
            cache_write_tokens=self._counts.get("written", 0),
        )

    def feed(self, event: object) -> list[StreamItem]:
        """Take one chunk (or a whole completion). Raises ProviderError for an error chunk."""
        if event == "[DONE]":
            self.complete = True
            return []
        data = mapping(event)
        unlike = isinstance(data.get("message"), str) and "choices" not in data  # as gateways say what went wrong
        if data.get("error") or data.get("object") == "error" or data.get("type") == "error" or unlike:
            raise self._failed(server_error(read_value(None, dict(data)), self._service))
        self._answered_by = string(data.get("model")) or self._answered_by
        self._count(data.get("usage"))
        self._count(mapping(data.get("x_groq")).get("usage"))
        choices = data.get("choices")
        items: list[StreamItem] = []
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
                items += self._choice(choice)
        return items

    def end(self, *, clean_eof: bool = True) -> TurnEnd:
        """The whole turn. Raises ProviderError `incomplete` where neither a finish reason nor `[DONE]` came."""
        silent_end = self._profile.finish_null and clean_eof and self._any
        if not (self.enough or silent_end):
            raise failure("incomplete", "the answer ended before it was complete", self._service)
        finish: Finish = "refusal" if self._refused else _FINISH.get(self._finish or "", "stop")
        blocks = unique_ids(self._blocks(finish), self._taken, self._seed)
        return TurnEnd(
            blocks,
            settle_finish(finish, blocks),
            self.usage or self._estimated(blocks),
            None,
            clean(self._answered_by or self._model),
            self._truncated() or self._unknown_end(),
        )

    # --- chunks ----------------------------------------------------------------------------------------

    def _choice(self, choice: Mapping[str, Any]) -> list[StreamItem]:
        self._count(choice.get("usage"))
        if choice.get("error"):
            raise self._failed(server_error(read_value(None, {"error": choice["error"]}), self._service))
        delta = mapping(choice.get("delta"))
        if not delta and not self._any:  # a whole answer; what a last chunk repeats of one is known
            delta = mapping(choice.get("message"))
        items = [*self._reasoning(delta), *self._content(delta.get("content"))]
        refusal = string(delta.get("refusal"))
        if refusal:
            self._refused = True
            items += self._add("text", refusal)
        if delta.get("tool_calls"):
            items += self._calls.feed(delta["tool_calls"])
        if delta.get("function_call"):
            items += self._calls.feed_legacy(delta["function_call"])
        self._any = self._any or bool(items)
        reason = string(choice.get("finish_reason")).lower().partition(":")[0]  # Gemini: "content_filter: SAFETY"
        if reason in _FAILED:
            raise self._failed(failure(_FAILED[reason], f"the answer ended with {reason!r}", self._service))
        self._finish = reason or self._finish
        return items

    def _reasoning(self, delta: Mapping[str, Any]) -> list[StreamItem]:
        for field in ("reasoning_content", "reasoning"):  # some servers send both, the same
            text = string(delta.get(field))
            if text:
                return self._add(field, text)
        return []

    def _content(self, content: object) -> list[StreamItem]:
        """Text, or a list of parts, of which text and thinking are known."""
        if isinstance(content, str):
            return self._add("text", content)
        items: list[StreamItem] = []
        for part in content if isinstance(content, list) else []:
            fields = mapping(part)
            match fields.get("type"):
                case "text":
                    items += self._add("text", string(fields.get("text")))
                case "thinking":
                    inner = fields.get("thinking")
                    for piece in inner if isinstance(inner, list) else [{"text": inner}]:
                        items += self._add("reasoning_content", string(mapping(piece).get("text")))
        return items

    def _add(self, kind: str, piece: str) -> list[StreamItem]:
        if not piece:
            return []
        if not self._segments or self._segments[-1][0] != kind:
            self._segments.append((kind, TextBuffer()))
        shown = self._segments[-1][1].add(piece)
        if not shown:
            return []
        return [TextDelta(shown) if kind == "text" else ThinkingDelta(shown)]

    def _count(self, usage: object) -> None:
        fields = mapping(usage)
        details = mapping(fields.get("prompt_tokens_details"))
        found = {
            "input": fields.get("prompt_tokens"),
            "output": fields.get("completion_tokens"),
            "cached": details.get("cached_tokens", fields.get("prompt_cache_hit_tokens")),
            "written": details.get("cache_write_tokens"),
        }
        for name, value in found.items():
            number = count(value)
            if number is not None:
                self._counts[name] = number

    def _failed(self, error: ProviderError) -> ProviderError:
        error.usage = self.usage
        return error

    # --- the end ---------------------------------------------------------------------------------------

    def _blocks(self, finish: Finish) -> list[Block]:
        blocks: list[Block] = []
        for kind, buffer in self._segments:
            text = buffer.text()
            if kind == "text":
                blocks.append(Text(text))
            else:
                blocks.append(Thinking(text, PROVIDER, self._model, {"field": kind}))
        for place, extra in self._calls.extras().items():
            kept = {"model": self._model, "call": place, "extra_content": clean_value(extra)}
            blocks.append(Opaque(PROVIDER, kept))
        for call in self._calls.calls(cut=finish == "length"):
            blocks.append(replace(call, args=None, problem=REFUSED) if finish == "refusal" else call)
        return blocks

    def _estimated(self, blocks: Sequence[Block]) -> Usage | None:
        """Roughly what a server that counts nothing would have counted."""
        if not self._estimate:
            return None
        size = sum(len(block.text) for block in blocks if isinstance(block, Text | Thinking))
        size += sum(len(str(block.args)) + len(block.name) for block in blocks if isinstance(block, ToolCall))
        return Usage(input_tokens=self._estimate, output_tokens=max(1, size // 4), estimated=True)

    def _unknown_end(self) -> str | None:
        if not self._finish or self._finish in _FINISH:
            return None
        return clean(f"The model stopped for a reason this version does not know: {self._finish}")

    def _truncated(self) -> str | None:
        """A warning where the server counted far fewer tokens than were sent: it dropped some silently."""
        counted = self._counts.get("input")
        if not counted or self._estimate < max(_WORTH_JUDGING, counted * _FAR_BELOW):
            return None
        return (
            f"The server counted {counted} tokens of a request of about {self._estimate}: it seems to have cut "
            "the conversation. Give it a larger context (for Ollama: num_ctx), or set ARTIFICER_CONTEXT_WINDOW."
        )
