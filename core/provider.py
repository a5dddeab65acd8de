"""What thinks: the interface of a model, what an agent CLI (`core.agent_cli`) shares with it, and the registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Literal

# --- the conversation, in neutral form -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text of either role."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A thinking block. `data` is the provider's own block, replayed byte for byte to the same model only."""

    text: str
    provider: str
    model: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block only its provider understands (server tools, unknown kinds): kept, replayed to it alone."""

    provider: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asks for. `args` is None where what it sent is not a JSON object; `raw` then holds
    what it sent, which never goes back into a request. `problem` says what was wrong with it."""

    id: str
    name: str
    args: Mapping[str, Any] | None
    raw: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave, as the model reads it."""

    id: str
    ok: bool
    output: str


Block = Text | Thinking | Opaque | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation. A `user` message may hold tool results, which come first in it."""

    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        """Its plain text, blocks joined by blank lines."""
        return "\n\n".join(b.text for b in self.blocks if isinstance(b, Text))


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it. `input_schema` is JSON Schema 2020-12 with type object."""

    name: str
    description: str
    input_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request. `messages` is the live history: read it, do not keep or change it.

    `tool_choice` names the one of `tools` that the model must call; some servers do not heed it.
    """

    session: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    model: str | None = None
    effort: str | None = None
    max_output_tokens: int | None = None
    tool_choice: str | None = None


# --- what a model answers ------------------------------------------------------------------------------

Finish = Literal["stop", "tool_calls", "length", "refusal", "pause", "context"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `input_tokens` includes `cached_tokens` (read from a cache) and `cache_write_tokens`.

    `estimated` where the server counted nothing: a token limit must hold there too.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 1
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the reply as it streams."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of thinking as it streams."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A tool call has begun or grown: enough to show that something is coming."""

    name: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The last item of every stream: the whole turn, assembled.

    `blocks` are Text, Thinking, Opaque and ToolCall in the order they came. `finish` is `length` where the
    answer was cut at the output limit (cut tool calls then have `problem`), `context` where the window is
    full. `usage` is None where the server gave none; `usd` is what the call cost in US dollars, None where
    unknown. `model` is the model that answered.
    """

    blocks: tuple[Block, ...]
    finish: Finish
    usage: Usage | None = None
    usd: Decimal | None = None
    model: str | None = None
    notice: str | None = None


StreamItem = TextDelta | ThinkingDelta | ToolCallDelta | TurnEnd


class ProviderError(Exception):
    """The provider failed and its turn is over. The person or the loop must act; `hint` says how.

    `detail` is one of `auth`, `quota`, `bad_request`, `not_found`, `rate_limit`, `overloaded`, `server`,
    `network`, `timeout`, `incomplete`, `protocol`, `context`, `capability`, `endless_pause`,
    `not_installed`. `transient` is true only for what may heal by itself; `retry_after` is in seconds.
    `usage` and `usd` are what the failed turn used and cost, as far as known.
    """

    def __init__(
        self,
        detail: str,
        message: str,
        *,
        hint: str = "",
        transient: bool = False,
        retry_after: float | None = None,
        usage: Usage | None = None,
        usd: Decimal | None = None,
    ) -> None:
        super().__init__(message)
        self.detail = detail
        self.message = message
        self.hint = hint
        self.transient = transient
        self.retry_after = retry_after
        self.usage = usage
        self.usd = usd


class Provider(ABC):
    """What both kinds share: a name, words for people, and a check that costs nothing."""

    #: Module name under `impl/providers`, as people type it.
    name: ClassVar[str]
    #: One line for people: what it is.
    title: ClassVar[str] = ""
    #: True where nothing but fixed rules thinks, so that every surface says so.
    rules_only: ClassVar[bool] = False
    #: True where the provider may use the unsafe process sandbox with a warning, as it runs no source code.
    runs_no_source_code: ClassVar[bool] = False

    @property
    def full_name(self) -> str:
        """`name`, and the route where it is not the default: `claude_code:api`."""
        return self.name

    async def preflight(self) -> ProviderStatus:
        """Whether it could answer now. No network request, within a second."""
        return ProviderStatus("ready")

    async def aclose(self) -> None:
        """Free what it holds."""
        return None


ProviderState = Literal["ready", "not installed", "not logged in", "no key", "wrong version"]


@dataclass(frozen=True, slots=True)
class ProviderStatus:
    """Whether a provider could answer; where it is not `ready`, `fix` is the one command that mends it."""

    state: ProviderState
    message: str = ""
    fix: str = ""


class ModelProvider(Provider):
    """Streams one model turn; the loop drives. One instance serves every session of a process."""

    #: True where the provider answers instantly by rules or in-process and wants `import_source` offered.
    wants_import_source: ClassVar[bool] = False

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncIterator[StreamItem]:
        """Stream one turn. The last item is a TurnEnd. Raises ProviderError; makes no retry of its own.

        Closing the iterator or cancelling the task ends the request.
        """

    def default_model(self) -> str | None:
        """The model used where none is named."""
        return None

    def context_window(self, model: str | None) -> int | None:
        """The model's window in tokens, None where unknown."""
        return None


# --- registry ------------------------------------------------------------------------------------------

Factory = Callable[[], Provider]
_registry: dict[str, Factory] = {}


def register_provider(name: str, factory: Factory) -> None:
    """Add a provider under `name`. Registering a name again replaces it (tests do)."""
    _registry[name] = factory


def registered_providers() -> Mapping[str, Factory]:
    """Providers registered in this process, by name."""
    return dict(_registry)
