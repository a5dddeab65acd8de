"""What an agent may do and spend: decisions on tools, grants, budgets. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, get_args

from core.driver import Decision, Limits
from core.ports import SessionInfo

_STRICTNESS: Final[Mapping[str, int]] = {"allow": 0, "ask": 1, "deny": 2}
COMMAND_DEFAULTS: Final[Mapping[str, Decision]] = {"run_sandbox": "deny", "run_skill": "ask"}
"""What a policy that does not name them says of tools that run commands."""
ASSUMED_PRICE: Final = (Decimal("0.000005"), Decimal("0.000025"))
"""US dollars a token, in and out, where a limit of money meets a model whose price nobody knows: that of the dearest
common models, so that the limit still holds."""
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


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a child may never exceed, whatever its own manifest says; fixed when it is made, kept with it.

    `policy` are its parent's words at that time; `deepest` is the greatest depth a session below it may have.
    """

    policy: Mapping[str, Decision]
    deepest: int

    def word(self, tool: str) -> Decision:
        """What the parent might do with `tool`. What is no tool (`sandbox:process`) was never simply allowed."""
        return self.policy.get(tool, COMMAND_DEFAULTS.get(tool, "ask" if ":" in tool else "allow"))

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return {"policy": dict(self.policy), "deepest": self.deepest}

    @staticmethod
    def from_json(data: Any) -> Inherited | None:
        """Read the stored form; None where there is none. What cannot be read allows the least."""
        if data is None:
            return None
        rows = data.get("policy") if isinstance(data, dict) else None
        deepest = data.get("deepest") if isinstance(data, dict) else None
        words: dict[str, Decision] = {
            str(tool): word if word in get_args(Decision) else "deny" for tool, word in (rows or {}).items()
        }
        return Inherited(words, deepest if isinstance(deepest, int) else 0)


def capped(policy: Mapping[str, Decision], inherited: Inherited | None) -> Mapping[str, Decision]:
    """A child's policy under what it inherited. The parent's yes is no yes of the child's: a tool that only the
    parent allows keeps its default."""
    if inherited is None:
        return policy
    both = intersect(inherited.policy, policy)
    return {tool: word for tool, word in both.items() if tool in policy or word != "allow"}


def grant_key(info: SessionInfo, tool: str) -> str:
    """Where the store keeps that a person always allows `tool` to this agent. The Builder is one of its own,
    whichever agent it is building."""
    return f"grant:builder:{tool}" if info.kind == "builder" else f"grant:agent:{info.agent or ''}:{tool}"


@dataclass(frozen=True, slots=True)
class Spent:
    """What sessions below one have spent: model turns, tokens, money (by tokens where a price is not known)."""

    steps: int = 0
    tokens: int = 0
    usd: Decimal = Decimal(0)

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.steps + other.steps, self.tokens + other.tokens, self.usd + other.usd)


NOTHING: Final = Spent()


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A spent limit: its name, the limit and what was spent, as strings a person reads. `how` says what the number
    rests on where that is no plain count."""

    name: str
    limit: str
    spent: str
    how: str = ""


def spent_usd(info: SessionInfo) -> Decimal:
    """What a session cost, counted by its tokens where the price of any of its requests is not known."""
    if info.usd is not None:
        return Decimal(info.usd)
    return info.input_tokens * ASSUMED_PRICE[0] + info.output_tokens * ASSUMED_PRICE[1]


def unpriced(model: str | None) -> str:
    """How a limit of money is counted where the price of `model` is not known."""
    per_in, per_out = (price * 1_000_000 for price in ASSUMED_PRICE)
    return (
        f"The price of {model or 'this model'} is not known: the limit of money is counted by tokens, at "
        f"${per_in.normalize():f} a million in and ${per_out.normalize():f} a million out."
    )


def limit_hit(limits: Limits, info: SessionInfo, steps: int, seconds: float, below: Spent = NOTHING) -> LimitHit | None:
    """The first spent limit, or None. `steps` are model turns; `seconds` wall time while driven; `below` is what
    its children and theirs spent, which counts too.

    Money is counted by tokens where a price is not known.
    """
    steps += below.steps
    tokens = info.input_tokens + info.output_tokens + below.tokens
    if limits.steps is not None and steps >= limits.steps:
        return LimitHit("steps", str(limits.steps), str(steps))
    if limits.tokens is not None and tokens >= limits.tokens:
        return LimitHit("tokens", str(limits.tokens), str(tokens))
    if limits.usd is not None and (money := spent_usd(info) + below.usd) >= Decimal(limits.usd):
        return LimitHit("usd", limits.usd, format(money, "f"), unpriced(info.model) if info.usd is None else "")
    if limits.seconds is not None and seconds >= limits.seconds:
        return LimitHit("seconds", f"{limits.seconds:g}", f"{seconds:.1f}")
    return None


def remaining(limits: Limits, spent: Spent, seconds: float) -> Limits:
    """What is left of `limits`, never below zero; what has no limit stays without."""
    usd = None if limits.usd is None else format(max(Decimal(0), Decimal(limits.usd) - spent.usd), "f")
    return Limits(
        steps=None if limits.steps is None else max(0, limits.steps - spent.steps),
        tokens=None if limits.tokens is None else max(0, limits.tokens - spent.tokens),
        usd=usd,
        seconds=None if limits.seconds is None else max(0.0, limits.seconds - seconds),
    )


def half(limits: Limits) -> Limits | None:
    """A child's share of what remains: half of it, so that any number of children together stay within the whole.
    None where that is nothing."""
    share = Limits(
        steps=None if limits.steps is None else limits.steps // 2,
        tokens=None if limits.tokens is None else limits.tokens // 2,
        usd=None if limits.usd is None else format(Decimal(limits.usd) / 2, "f"),
        seconds=None if limits.seconds is None else limits.seconds / 2,
    )
    amounts = (share.steps, share.tokens, share.seconds, None if share.usd is None else Decimal(share.usd))
    return None if any(amount is not None and amount <= 0 for amount in amounts) else share


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
