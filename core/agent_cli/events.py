"""What an agent CLI is asked for one turn, and what its lines mean: the values both sides of the seam exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal, Protocol

from core.provider import ToolSpec, Usage

Mode = Literal["fresh", "resume", "fork"]

# --- asking --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CliTurn:
    """One turn asked of an agent CLI.

    `native` is the CLI's own session id: the one to resume or fork, or, in a fresh turn of a provider whose ids
    are ours, the one to use. `directory` is the session's own directory: `directory/cwd` is where the CLI starts,
    `directory/config` what `seed` made. `budget` is US dollars. `mcp` is the command that offers our tools, None
    where there are none to offer. `ambient` is the environment it will inherit.
    """

    prompt: str
    directory: Path
    scratch: Path
    mode: Mode = "fresh"
    native: str | None = None
    model: str | None = None
    effort: str | None = None
    budget: Decimal | None = None
    system: str = ""
    tools: Sequence[ToolSpec] = ()
    mcp: Sequence[str] | None = None
    mcp_env: Mapping[str, str] = field(default_factory=dict)
    ambient: Mapping[str, str] = field(default_factory=dict)

    @property
    def cwd(self) -> Path:
        """Where the CLI starts: an empty directory, the same at every turn."""
        return self.directory / "cwd"

    @property
    def config(self) -> Path:
        """What `seed` materialises for this session."""
        return self.directory / "config"


@dataclass(frozen=True, slots=True)
class Invocation:
    """What to start. In `env` None means unset. `native` is the session id where it is known already; `stdin`
    what the process reads, None for nothing at all."""

    argv: tuple[str, ...]
    env: Mapping[str, str | None]
    cwd: Path
    native: str | None = None
    stdin: bytes | None = None


# --- answering -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CliSession:
    """The CLI says which session and model this is."""

    native: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class CliDelta:
    """A piece of text or thinking as it streams. Whole texts come as CliText."""

    text: str = ""
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class CliText:
    """A whole piece of the reply."""

    text: str
    model: str | None = None


@dataclass(frozen=True, slots=True)
class CliCall:
    """The model calls a tool. `ours` is true for one we offer (`name` is then our name for it)."""

    id: str
    name: str
    args: Mapping[str, Any]
    ours: bool = False


@dataclass(frozen=True, slots=True)
class CliResult:
    """A tool the CLI ran has answered."""

    id: str
    ok: bool
    output: str


@dataclass(frozen=True, slots=True)
class CliFigures:
    """What was used, counted as the provider's `figures` attribute says (requests are always this turn's). `usd` is
    None where the CLI names no price, or an incomplete one; `model` what to price it as. `interim` ones replace one
    another until a final one comes, and count where none does."""

    usage: Usage
    usd: Decimal | None = None
    model: str | None = None
    interim: bool = False


@dataclass(frozen=True, slots=True)
class CliPermission:
    """The CLI asks whether a tool of its own may run; it waits for `CliRun.permit(key, …)`. What a person has not said
    yet ends the turn as `needs_approval`."""

    key: str
    tool: str
    args: Mapping[str, Any]
    message: str = ""


@dataclass(frozen=True, slots=True)
class CliNotice:
    """Something a person should know: a warning, a retry."""

    text: str


Ending = Literal["reply", "budget", "refused", "cancelled", "unknown_session", "error"]


@dataclass(frozen=True, slots=True)
class CliEnd:
    """How the turn ended. `text` is the reply, where the CLI repeats it. For `error`, `detail` is one of
    ProviderError's, `message` says what happened and `hint` the next step. With `final` the CLI is ended at once:
    what it may still do cannot help."""

    ending: Ending
    text: str = ""
    detail: str = ""
    message: str = ""
    hint: str = ""
    final: bool = False


CliEvent = CliSession | CliDelta | CliText | CliCall | CliResult | CliFigures | CliPermission | CliNotice | CliEnd


@dataclass(frozen=True, slots=True)
class CliExit:
    """The end of the process: `code` is negative for a signal; `stderr` its last 16 KB."""

    code: int
    stderr: str = ""


class CliParser(Protocol):
    """Reads what one invocation prints. Anything it does not know it leaves out; it never raises."""

    def feed(self, line: str) -> Sequence[CliEvent]:
        """The events one line stands for."""

    def finish(self, exit: CliExit) -> Sequence[CliEvent]:
        """What is still to say once the process has ended: figures that were held back, and a CliEnd where no line
        said how it ended."""


# --- counting ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CliTotal:
    """What a CLI has counted in a session so far, where it counts cumulatively: the baseline of its next turn."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    usd: Decimal | None = Decimal(0)

    def plus(self, usage: Usage, usd: Decimal | None) -> CliTotal:
        """The total with one more turn."""
        return CliTotal(
            self.input_tokens + usage.input_tokens,
            self.output_tokens + usage.output_tokens,
            self.cached_tokens + usage.cached_tokens,
            self.cache_write_tokens + usage.cache_write_tokens,
            self.requests + usage.requests,
            None if usd is None or self.usd is None else self.usd + usd,
        )

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cached_tokens": self.cached_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "requests": self.requests,
            "usd": None if self.usd is None else format(self.usd, "f"),
        }

    @staticmethod
    def from_json(data: Any) -> CliTotal:
        """Read the stored form; what cannot be read counts as nothing, so that no money is ever left out."""
        if not isinstance(data, dict):
            return CliTotal()
        names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "requests")
        counts = [data[name] if isinstance(data.get(name), int) else 0 for name in names]
        usd = data.get("usd", "0")
        try:
            priced = Decimal(usd) if isinstance(usd, str) else None
        except InvalidOperation:
            priced = None
        return CliTotal(counts[0], counts[1], counts[2], counts[3], counts[4], priced)


@dataclass(frozen=True, slots=True)
class CliCharge:
    """What one turn cost, and the total it leaves behind."""

    usage: Usage
    usd: Decimal | None
    total: CliTotal
    model: str | None = None
