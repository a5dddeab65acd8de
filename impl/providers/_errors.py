"""Turns what a model server or the network said into one ProviderError: pure decisions, no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import ceil
from typing import Any, Final

from core import ProviderError
from impl.providers._calls import clean, mapping

_SNIPPET = 500
#: What is shorter is a placeholder for a server that asks for no key, and may be any word of the message.
_SECRET = 8
_KEYLIKE = re.compile(r"\b(sk-|Bearer\s+|Basic\s+(?=[A-Za-z+/]*[0-9=]))[A-Za-z0-9_\-.+/=]{8,}")


@dataclass(frozen=True, slots=True)
class Service:
    """Who answered, for words and hints: its name, the variables that configure it, what to keep secret."""

    title: str
    key_variable: str
    url_variable: str
    url: str
    model: str | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def redact(self, text: str) -> str:
        """`text` without keys: ours by value, others by their look."""
        for secret in self.secrets:
            if len(secret) >= _SECRET:
                text = text.replace(secret, "[key]")
        return _KEYLIKE.sub(lambda match: match[1] + "[key]", text)


@dataclass(frozen=True, slots=True)
class Said:
    """An error in a server's own words: HTTP or in-band status, `type` or `code`, and its message."""

    status: int | None = None
    kinds: tuple[str, ...] = ()
    message: str = ""
    structured: bool = True


# --- reading what was said -----------------------------------------------------------------------------


def read_body(status: int | None, body: bytes) -> Said:
    """What an error body says: JSON in the shapes servers use, else its text."""
    text = clean(body.decode("utf-8", "replace")).strip()
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return Said(status, (), _plain(text), structured=False)
    return read_value(status, value)


def read_value(status: int | None, value: Any) -> Said:
    """What a decoded error says: `{"error": {...}}`, `{"error": "…"}`, `{"message": …}`, `{"detail": …}`."""
    if isinstance(value, list) and value:  # some gateways wrap it
        value = value[0]
    outer = mapping(value)
    inner: Any = outer.get("error", outer.get("errors") or outer)
    if isinstance(inner, list) and inner:
        inner = inner[0]
    if isinstance(inner, str):
        inner = {**outer, "message": inner}
    fields = mapping(inner)
    message = next((m for m in map(_words, (fields.get(k) for k in _MESSAGES)) if m), "") or _words(value)
    beneath = _words(mapping(fields.get("metadata")).get("raw"))  # what a router was told by the server behind it
    if beneath and beneath not in message:
        message = f"{message}: {beneath}"
    kinds = tuple(k.rpartition("#")[2].lower() for k in (_word(fields.get(name)) for name in _KINDS) if k)
    if status in (None, 200):
        status = next((int(k) for k in kinds if k.isdigit() and 400 <= int(k) < 600), None)
    return Said(status, kinds, clean(message)[:_SNIPPET], structured=bool(fields))


_MESSAGES = ("message", "detail", "msg", "error_description", "error", "Message")
_KINDS = ("type", "code", "status", "__type")


def _word(value: object) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _words(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list | dict) or not value:
        return ""
    try:
        return json.dumps(value)[:_SNIPPET]
    except (ValueError, RecursionError):
        return "an error that cannot be shown"


def _plain(text: str) -> str:
    """The words of a text or HTML body, short."""
    text = re.sub(r"(?is)<(script|style)\b.*?</\1>", " ", text[:20_000])
    text = re.sub(r"<[^>]{0,500}>", " ", text)
    return " ".join(text.split())[:_SNIPPET]


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds the server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date."""
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
        except (ValueError, TypeError):
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        seconds = (when - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, seconds) if seconds == seconds else None


_WAIT = re.compile(
    r"\b(?:retry|try again) (?:in|after) ((?:\d+(?:\.\d+)? ?(?:ms|mins?|minutes?|hours?|s|secs?|seconds?|m|h)\b ?)+"
    r"|(?:\d+(?:\.\d+)?(?:ms|s|m|h))+)",
    re.I,
)
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def asked_to_wait(words: str) -> float | None:
    """Seconds that a message asks to wait: "Please retry in 36.3s", "try again in 1m30s", "retry after 6 seconds"."""
    found = _WAIT.search(words)
    if found is None:
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?) ?(ms|[smh])", found[1].lower())
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


# --- deciding ------------------------------------------------------------------------------------------

#: detail -> may it heal by itself
_TRANSIENT: Final = {
    "auth": False,
    "quota": False,
    "bad_request": False,
    "not_found": False,
    "rate_limit": True,
    "overloaded": True,
    "server": True,
    "network": True,
    "timeout": True,
    "incomplete": True,
    "protocol": False,
    "context": False,
    "capability": False,
}

_BY_KIND: Final = {
    # Anthropic's error types
    "invalid_request_error": "bad_request",
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "quota",
    "not_found_error": "not_found",
    "request_too_large": "context",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "api_error": "server",
    "timeout_error": "timeout",
    # OpenAI's codes and those of servers like it
    "invalid_api_key": "auth",
    "invalid_authentication": "auth",
    "insufficient_quota": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "insufficient_balance": "quota",
    "exceeded_current_quota_error": "quota",
    "model_not_found": "not_found",
    "context_length_exceeded": "context",
    "exceed_context_size_error": "context",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_reached_error": "rate_limit",
    "tokens": "rate_limit",
    "requests": "rate_limit",
    "server_error": "server",
    "internal_server_error": "server",
    "internal_error": "server",
    "service_unavailable": "overloaded",
    "engine_overloaded_error": "overloaded",
    "bad_request": "bad_request",
    "badrequesterror": "bad_request",
    "notfounderror": "not_found",
    "unavailable_error": "overloaded",
    "capacity_exceeded": "overloaded",
    "budget_exceeded": "quota",
    "credit_limit": "quota",
    "arrearage": "quota",
    "account_suspended": "quota",
    # Google's
    "resource_exhausted": "rate_limit",
    "unavailable": "overloaded",
    "deadline_exceeded": "timeout",
    "internal": "server",
    # Amazon's
    "throttlingexception": "rate_limit",
    "throttling_error": "rate_limit",
    "servicequotaexceededexception": "rate_limit",
    "modelnotreadyexception": "overloaded",
    "serviceunavailableexception": "overloaded",
    "modelerrorexception": "server",
    "modelstreamerrorexception": "server",
    "internalserverexception": "server",
    "modeltimeoutexception": "timeout",
    "accessdeniedexception": "auth",
    "resourcenotfoundexception": "not_found",
}

_CONTEXT = re.compile(
    r"prompt is too long|context[ _-]?(length|window|size)|maximum context|too many (input )?tokens"
    r"|input (is )?too long|exceeds? (the )?(available |maximum )?context|request too large"
    r"|(prompt|input|model|sequence) length (is|of|should)|token count.{0,40}exceeds|\bmax_new_tokens\b.{0,20}<="
    r"|reduce the (length|size)",
    re.I,
)
_QUOTA = re.compile(
    r"credit balance|insufficient (quota|balance|credit|funds)|exceeded your current quota|余额不足|used all available"
    r" credits|requires more credits|(spending|credit) limit|budget has been exceeded|API usage limits",
    re.I,
)
_KEY = re.compile(
    r"\b(invalid|incorrect|missing|no|expired)\b.{0,20}\bapi[ _-]?key|\bapi[ _-]?key\b.{0,30}"
    r"\b(invalid|incorrect|not valid|expired|missing|required)",
    re.I,
)
_NO_TOOLS = re.compile(
    r"(does ?n[o']t|not|no|without|un)\s*support(ed|s|ing)?\b.{0,40}\b(tool|function)|no endpoints .{0,20}support tool"
    r"|\b(tools?|functions?|tool[_ ](use|choice|call(s|ing)?)|function[_ ]calling)\b.{0,40}"
    r"(not (be )?(supported|available|enabled)|unsupported|requires? --)",
    re.I,
)
_NOWHERE = re.compile(
    r"unknown model|invalid model name|unexpected endpoint|\bmodel\b.{0,80}\b(not found|not exist)", re.I
)
#: What guards a model refused to answer, the model itself never asked.
_REFUSED = re.compile(
    r"content[ _](filter|management policy|moderation)|\b(input|prompt|request|content|output)\b.{0,20}\bflagged"
    r"|content exists risk|considered high risk|inappropriate content",
    re.I,
)
#: A server error that names what is wrong with the request comes again with the same request.
_SHAPE = re.compile(
    r"chat template|jinja|\bcontent\b.{0,60}\bnull\b|\bnull\b.{0,60}\bcontent\b"
    r"|(invalid|missing|unsupported|unknown|expected).{0,40}\b(content|message|role|field|parameter|type)\b",
    re.I,
)


def decide(said: Said) -> str:
    """The `detail` of what a server said."""
    details = [_BY_KIND[kind] for kind in said.kinds if kind in _BY_KIND]
    for certain in ("quota", "context"):
        if certain in details:
            return certain
    by_kind = next((d for d in details if d != "bad_request"), details[0] if details else None)
    by_status = _by_status(said.status)
    if by_status is None or (by_status == "bad_request" and by_kind):
        by_status = by_kind or ("server" if said.message and said.structured else "protocol")
    if by_status == "bad_request" and not said.structured:
        return "protocol"
    return _by_words(by_status, said)


def _by_status(status: int | None) -> str | None:
    match status:
        case 401 | 403 | 407:
            return "auth"
        case 402:
            return "quota"
        case 404 | 405 | 410:
            return "not_found"
        case 408 | 504 | 524:
            return "timeout"
        case 413:
            return "context"
        case 409 | 424 | 499:
            return "server"
        case 425 | 429:
            return "rate_limit"
        case 502 | 503 | 529:
            return "overloaded"
        case 501 | 505:
            return "capability"
        case int() if 500 <= status < 600:
            return "server"
        case int() if 400 <= status < 500:
            return "bad_request"
        case int() if 300 <= status < 400:
            return "protocol"
        case _:
            return None


def _by_words(detail: str, said: Said) -> str:
    """Sharpen a detail by the message, where servers give one status to different things."""
    words = said.message
    if detail in ("bad_request", "server", "not_found", "rate_limit", "auth") and _QUOTA.search(words):
        return "quota" if detail != "rate_limit" or asked_to_wait(words) is None else detail
    if detail == "bad_request" and _KEY.search(words):
        return "auth"
    if detail in ("bad_request", "server") and _CONTEXT.search(words):
        return "context"
    if detail == "rate_limit" and words.lower().startswith("request too large"):  # for ever, however long one waits
        return "context"
    if detail in ("bad_request", "server", "not_found", "capability") and _NO_TOOLS.search(words):
        return "capability"
    if detail in ("bad_request", "server") and _NOWHERE.search(words):
        return "not_found"
    if detail == "server" and _SHAPE.search(words):
        return "bad_request"
    return detail


class Refusal(ProviderError):
    """A service's guard refused the request or its answer: no failure, but a turn that ends as one refused."""


def server_error(said: Said, service: Service, wait: float | None = None) -> ProviderError:
    """The ProviderError for what a server said; `wait` is what it asked for in seconds."""
    detail = decide(said)
    told = service.redact(said.message)
    status = f" (HTTP {said.status})" if said.status else ""
    message = f"{service.title}{status}: {told or 'an error without a message'}"
    if detail in ("bad_request", "auth", "server") and _REFUSED.search(" ".join((*said.kinds, said.message))):
        return Refusal("bad_request", message, hint=hint("bad_request", service))
    transient = _TRANSIENT[detail]
    wait = (asked_to_wait(said.message) if wait is None else wait) if transient else None
    longer = f"Wait {_span(wait)}, then resume the session." if wait and 60 < wait < 1e7 else None
    return ProviderError(detail, message, hint=longer or hint(detail, service), transient=transient, retry_after=wait)


def _span(seconds: float) -> str:
    """About how long, in words."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{ceil(seconds / size)} {unit}"
    return f"{ceil(seconds)} seconds"


def failure(detail: str, message: str, service: Service) -> ProviderError:
    """A ProviderError of our own finding."""
    return ProviderError(
        detail,
        service.redact(clean(f"{service.title}: {message}")),
        hint=hint(detail, service),
        transient=_TRANSIENT[detail],
    )


_HINTS: Final[Mapping[str, Callable[[Service], str]]] = {
    "auth": lambda s: f"Check {s.key_variable}: the key must be valid for {s.url}.",
    "quota": lambda s: f"Add credit with the provider, or use another key in {s.key_variable}.",
    "bad_request": lambda s: "The same request would fail again: try another model with --model.",
    "not_found": lambda s: f"Check the model ({s.model or 'none named'}: --model) and {s.url_variable} (now {s.url}).",
    "rate_limit": lambda s: "Wait a little, then resume the session.",
    "overloaded": lambda s: "Wait a little, then resume the session.",
    "server": lambda s: "Resume the session; if it fails again, see the provider's status page.",
    "network": lambda s: f"Check the network, a proxy, and {s.url_variable} (now {s.url}), then resume.",
    "timeout": lambda s: "Resume the session; ARTIFICER_PROVIDER_TIMEOUT sets the seconds to wait.",
    "incomplete": lambda s: "Resume the session to ask again.",
    "protocol": lambda s: f"Check that {s.url_variable} (now {s.url}) is the address of such an API.",
    "context": lambda s: "The conversation is too long for the model: start anew, or use a larger one (--model).",
    "capability": lambda s: f"Choose a model that can use tools (--model; now {s.model or 'none named'}).",
}


def hint(detail: str, service: Service) -> str:
    """The next step, in words."""
    return _HINTS[detail](service)
