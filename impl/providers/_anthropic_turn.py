"""Assembles one turn from the raw events of Anthropic's Messages API: no I/O, any event is survived."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from core import (
    Block,
    Finish,
    Opaque,
    StreamItem,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    TurnEnd,
    Usage,
)
from impl.providers._calls import (
    REFUSED,
    TextBuffer,
    clean,
    clean_value,
    count,
    make_call,
    mapping,
    new_seed,
    parse_object,
    settle_finish,
    string,
    unique_ids,
)
from impl.providers._errors import Service, failure, read_value, server_error

PROVIDER: Final = "anthropic"

_FINISH: Final[Mapping[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context",
}

#: Which kind of block a delta belongs to, where its start was never seen.
_KIND_OF_DELTA: Final = {
    "text_delta": "text",
    "input_json_delta": "tool_use",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
}


class _Slot:
    """One content block as it grows."""

    __slots__ = ("json", "size", "start", "text")

    def __init__(self, start: Mapping[str, Any]) -> None:
        self.start = dict(start)
        self.text = TextBuffer()
        self.json: list[str] = []
        self.size = 0

    @property
    def kind(self) -> str:
        return string(self.start.get("type"))


class AnthropicTurn:
    """Feed it decoded events in order, then ask for the `end`.

    `model` is the model asked for: thinking is bound to it. `taken` are ids of earlier calls.
    """

    def __init__(self, service: Service, model: str, taken: Collection[str] = (), seed: str | None = None) -> None:
        self._service = service
        self._model = model
        self._taken = taken
        self._seed = seed or new_seed()
        self._slots: list[_Slot] = []
        self._by_index: dict[object, _Slot] = {}
        self._counts: dict[str, int] = {}
        self._stop: str | None = None
        self._explanation = ""
        self._answered_by: str | None = None
        self.complete = False

    @property
    def enough(self) -> bool:
        """Only `message_stop` makes a turn whole."""
        return self.complete

    @property
    def usage(self) -> Usage | None:
        """The counts so far; a field that a later event leaves out keeps its value."""
        if not self._counts:
            return None
        read = self._counts.get("cache_read_input_tokens", 0)
        written = self._counts.get("cache_creation_input_tokens", 0)
        return Usage(
            input_tokens=self._counts.get("input_tokens", 0) + read + written,
            output_tokens=self._counts.get("output_tokens", 0),
            cached_tokens=read,
            cache_write_tokens=written,
        )

    def feed(self, event: object) -> list[StreamItem]:
        """Take one event; unknown ones are ignored. Raises ProviderError for an error event."""
        data = mapping(event)
        match data.get("type"):
            case "error":
                raise self._error(data)
            case "message_start":
                message = mapping(data.get("message"))
                self._answered_by = string(message.get("model")) or self._answered_by
                self._count(message.get("usage"))
            case "content_block_start":
                return self._begin(data.get("index"), mapping(data.get("content_block")))
            case "content_block_delta":
                return self._grow(data.get("index"), mapping(data.get("delta")))
            case "message_delta":
                delta = mapping(data.get("delta"))
                self._stop = string(delta.get("stop_reason")) or self._stop
                self._explanation = string(mapping(delta.get("stop_details")).get("explanation"))
                self._count(data.get("usage"))
            case "message_stop":
                self.complete = True
            case "message":  # sent whole, by what stands between and does not stream
                return self._whole(data)
            case _ if "error" in data:
                raise self._error(data)
        return []

    def end(self, *, clean_eof: bool = True) -> TurnEnd:
        """The whole turn. Raises ProviderError `incomplete` where `message_stop` never came."""
        if not self.complete:
            raise failure("incomplete", "the answer ended before it was complete", self._service)
        finish = _FINISH.get(self._stop or "", "stop")
        try:
            blocks = self._blocks(finish)
        except RecursionError:
            raise failure("protocol", "a block nested too deeply", self._service) from None
        model = clean(self._answered_by or self._model)
        return TurnEnd(blocks, settle_finish(finish, blocks), self.usage, None, model, self._notice())

    def _blocks(self, finish: Finish) -> tuple[Block, ...]:
        last = self._slots[-1] if self._slots else None
        blocks: list[Block] = []
        for slot in self._slots:
            cut = slot is last and finish in ("length", "context")
            block = self._block(slot, cut=cut, refused=finish == "refusal")
            if block is not None:
                blocks.append(block)
        return unique_ids(blocks, self._taken, self._seed)

    def _notice(self) -> str | None:
        if self._explanation:
            return clean(self._explanation)
        if self._stop and self._stop not in _FINISH:
            return clean(f"The model stopped for a reason this version does not know: {self._stop}")
        return None

    # --- events ----------------------------------------------------------------------------------------

    def _error(self, data: Mapping[str, Any]) -> Exception:
        said = read_value(None, {key: value for key, value in data.items() if key != "type"})
        error = server_error(said, self._service)
        error.usage = self.usage
        return error

    def _whole(self, message: Mapping[str, Any]) -> list[StreamItem]:
        blocks = message.get("content")
        items: list[StreamItem] = []
        for index, block in enumerate(blocks if isinstance(blocks, list) else []):
            items += self._begin(index, mapping(block))
        self.feed({"type": "message_start", "message": message})
        self.feed({"type": "message_delta", "delta": message})
        self.complete = True
        return items

    def _count(self, usage: object) -> None:
        for name, value in mapping(usage).items():
            number = count(value)
            if number is not None:
                self._counts[name] = number

    def _begin(self, index: object, block: Mapping[str, Any]) -> list[StreamItem]:
        slot = self._slot(index, block)
        match slot.kind:
            case "text":
                return _shown(TextDelta, slot.text.add(string(block.get("text"))))
            case "thinking":
                return _shown(ThinkingDelta, slot.text.add(string(block.get("thinking"))))
            case "tool_use":
                return [ToolCallDelta(clean(string(block.get("name"))))]
        return []

    def _slot(self, index: object, start: Mapping[str, Any]) -> _Slot:
        slot = _Slot(start)
        self._slots.append(slot)
        self._by_index[_key(index)] = slot
        return slot

    def _grow(self, index: object, delta: Mapping[str, Any]) -> list[StreamItem]:
        kind = string(delta.get("type"))
        slot = self._by_index.get(_key(index))
        if slot is None:
            if kind not in _KIND_OF_DELTA:
                return []
            slot = self._slot(index, {"type": _KIND_OF_DELTA[kind]})
        match kind:
            case "text_delta":
                piece = slot.text.add(string(delta.get("text")))
                return _shown(TextDelta, piece) if slot.kind == "text" else []
            case "thinking_delta":
                piece = slot.text.add(string(delta.get("thinking")))
                return _shown(ThinkingDelta, piece) if slot.kind == "thinking" else []
            case "signature_delta":
                slot.start["signature"] = string(delta.get("signature"))
            case "input_json_delta":
                piece = string(delta.get("partial_json"))
                slot.json.append(piece)
                slot.size += len(piece)
                if slot.kind == "tool_use":
                    return [ToolCallDelta(clean(string(slot.start.get("name"))), slot.size)]
        return []

    # --- blocks ----------------------------------------------------------------------------------------

    def _block(self, slot: _Slot, *, cut: bool, refused: bool) -> Block | None:
        match slot.kind:
            case "text":
                text = slot.text.text()
                return Text(text) if text else None
            case "thinking":
                text = slot.text.text()
                data = {**slot.start, "thinking": text}
                return Thinking(text, PROVIDER, self._model, clean_value(data))
            case "redacted_thinking":
                return Thinking("", PROVIDER, self._model, clean_value(slot.start))
            case "tool_use":
                return _call(slot, cut=cut, refused=refused)
            case "":
                return None
        return Opaque(PROVIDER, clean_value(_grown(slot)))


def _call(slot: _Slot, *, cut: bool, refused: bool) -> ToolCall:
    raw = "".join(slot.json)
    call_id, name = string(slot.start.get("id")), string(slot.start.get("name"))
    given = slot.start.get("input")
    if not raw.strip() and isinstance(given, dict) and given and not cut:  # sent whole with the start
        call = ToolCall(call_id, name, clean_value(given))
    else:
        call = make_call(call_id, name, raw, cut=cut)
    if refused:
        return ToolCall(call.id, call.name, None, raw, REFUSED)
    return call


def _grown(slot: _Slot) -> Mapping[str, Any]:
    """A block of a kind we do not know, with what its deltas of known kinds added."""
    data = dict(slot.start)
    text = slot.text.text()
    if text:
        data["text"] = string(data.get("text")) + text
    raw = "".join(slot.json)
    if raw.strip():
        parsed = parse_object(raw)
        data["input"] = {} if isinstance(parsed, str) else parsed
    return data


def _key(index: object) -> object:
    """An index as a dictionary key, whatever it is."""
    return index if isinstance(index, int | str) else None


def _shown(kind: type[TextDelta] | type[ThinkingDelta], piece: str) -> list[StreamItem]:
    return [kind(piece)] if piece else []
