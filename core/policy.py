"""What an agent may do and spend: decisions on tools, grants, budgets. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from core.driver import Decision, Limits
from core.ports import SessionInfo

_STRICTNESS: Final[Mapping[str, int]] = {"allow": 0, "ask": 1, "deny": 2}
COMMAND_DEFAULTS: Final[Mapping[str, Decision]] = {"run_sandbox": "deny", "run_skill": "ask"}
"""What a policy that does not name them says of tools that run commands."""
LIMIT_NAMES: Final = ("steps", "tokens", "usd", "seconds")


def stricter(a: Decision, b: Decision) -> Decision:
    """The one that allows less."""
    return a if _STRICTNESS[a] >= _STRICTNESS[b] else b


def decide(tool: str, default: Decision, policy: Mapping[str, Decision], *, unsafe: bool = False) -> Decision:
    """What the policy says of a tool, by exact name. In the unsafe sandbox no command is simply allowed."""
    decision = policy.get(tool, default)
    if unsafe and tool in COMMAND_DEFAULTS and decision == "allow":
        return "ask"
    return decision


def intersect(parent: Mapping[str, Decision], child: Mapping[str, Decision]) -> dict[str, Decision]:
    """A child's policy: for each tool named by either, the stricter word; never wider than the parent's, whose
    silence on commands means their default."""

    def word(policy: Mapping[str, Decision], tool: str) -> Decision:
        return policy.get(tool, COMMAND_DEFAULTS.get(tool, "allow"))

    return {tool: stricter(word(parent, tool), word(child, tool)) for tool in {**parent, **child}}


def grant_key(info: SessionInfo, tool: str) -> str:
    """Where the store keeps that a person always allows `tool` to this agent. The Builder is one of its own,
    whichever agent it is building."""
    return f"grant:builder:{tool}" if info.kind == "builder" else f"grant:agent:{info.agent or ''}:{tool}"


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A spent limit: its name, the limit and what was spent, as strings a person reads."""

    name: str
    limit: str
    spent: str


def limit_hit(limits: Limits, info: SessionInfo, steps: int, seconds: float) -> LimitHit | None:
    """The first spent limit, or None. `steps` are model turns; `seconds` wall time while driven.

    Money counts only where the price is known; the token limit works always.
    """
    tokens = info.input_tokens + info.output_tokens
    if limits.steps is not None and steps >= limits.steps:
        return LimitHit("steps", str(limits.steps), str(steps))
    if limits.tokens is not None and tokens >= limits.tokens:
        return LimitHit("tokens", str(limits.tokens), str(tokens))
    if limits.usd is not None and info.usd is not None and Decimal(info.usd) >= Decimal(limits.usd):
        return LimitHit("usd", limits.usd, info.usd)
    if limits.seconds is not None and seconds >= limits.seconds:
        return LimitHit("seconds", f"{limits.seconds:g}", f"{seconds:.1f}")
    return None


def extend(limits: Limits, name: str, amount: Decimal) -> Limits:
    """The limits with `name` raised by `amount`. Raises ValueError for an unknown name or a negative amount."""
    if name not in LIMIT_NAMES or amount <= 0:
        raise ValueError(f"extend takes one of {', '.join(LIMIT_NAMES)} and a positive number")
    values: dict[str, int | str | float | None] = {
        "steps": limits.steps,
        "tokens": limits.tokens,
        "usd": limits.usd,
        "seconds": limits.seconds,
    }
    before = Decimal(str(values[name])) if values[name] is not None else Decimal(0)
    return limits_from({**values, name: str(before + amount)})


def limits_from(values: Mapping[str, object]) -> Limits:
    """Limits from a mapping of names to numbers. Raises ValueError for what is no number."""

    def number(name: str) -> Decimal | None:
        value = values.get(name)
        return None if value is None else Decimal(str(value))

    steps, tokens, usd, seconds = (number(name) for name in LIMIT_NAMES)
    return Limits(
        steps=None if steps is None else math.ceil(steps),
        tokens=None if tokens is None else math.ceil(tokens),
        usd=None if usd is None else format(usd, "f"),
        seconds=None if seconds is None else float(seconds),
    )


def limits_to_json(limits: Limits) -> dict[str, int | str | float]:
    """Only the limits that are set."""
    pairs = {"steps": limits.steps, "tokens": limits.tokens, "usd": limits.usd, "seconds": limits.seconds}
    return {name: value for name, value in pairs.items() if value is not None}


def tighter(a: Limits, b: Limits) -> Limits:
    """The lower of each limit."""

    def low(name: str) -> object:
        values = [Decimal(str(v)) for v in (getattr(a, name), getattr(b, name)) if v is not None]
        return min(values) if values else None

    return limits_from({name: low(name) for name in LIMIT_NAMES})
