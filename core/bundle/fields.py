"""The types the manifests share, and pydantic's errors turned into problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StrictStr, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from core.bundle.problems import Problem, ProblemCode
from core.bundle.strict_yaml import Document, Loc
from core.effects.addresses import is_public_name

_SECRET_WORDS = frozenset(
    {"value", "values", "val", "secret", "token", "default", "password", "passwd", "pass", "pwd", "passphrase"}
    | {"key", "apikey", "bearer", "credential", "plaintext", "literal", "content", "contents", "data"}
)
_ANYWHERE = frozenset({"secret", "token", "password", "passwd", "passphrase", "apikey", "bearer"})
_KEYS = frozenset({"api key", "secret key", "private key", "access key"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_AGENT_NAME = re.compile(r"[a-z0-9-]{1,64}")
_TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PRESET = re.compile(r"([a-z0-9][a-z0-9-]{0,63})(?:@([a-z][a-z0-9-]{0,31}|(?:sha256:)?[0-9a-f]{6,64}))?")
_SKILL_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CREDENTIAL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_HOST = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_PATH_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class Model(BaseModel):
    """A part of a manifest: closed, frozen; defaults are left out when dumped."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, hide_input_in_errors=True)


def fail(code: ProblemCode, message: str) -> PydanticCustomError:
    """An error that becomes a problem with this code."""
    # Braces would be taken for a template's fields.
    return PydanticCustomError(code.value, "{text}", {"text": message})


def is_agent_name(text: str) -> bool:
    """Lower-case letters, digits and hyphens, 1 to 64, no hyphen first."""
    return _AGENT_NAME.fullmatch(text) is not None and not text.startswith("-")


def split_preset(text: str) -> tuple[str, str | None] | None:
    """The agent and the channel or digest of `AGENT`, `AGENT@CHANNEL` or `AGENT@DIGEST`; None where it is none."""
    found = _PRESET.fullmatch(text)
    return None if found is None else (found[1], found[2])


def is_skill_name(text: str) -> bool:
    """The Agent Skills rule: 1 to 64 lower-case letters, digits and single hyphens within."""
    return len(text) <= 64 and _SKILL_NAME.fullmatch(text) is not None


def is_tool_name(text: str) -> bool:
    """A lower-case identifier of up to 64 characters."""
    return _TOOL_NAME.fullmatch(text) is not None


def outside(path: str) -> bool:
    """Whether a path of a manifest is anything but plainly below its directory."""
    parts = path.replace("\\", "/").split("/")
    return path.startswith(("/", "\\", "~")) or ".." in parts or _PATH_SCHEME.match(path) is not None


def _inside(path: str) -> str:
    if outside(path):
        raise fail(ProblemCode.PATH_OUTSIDE, f"{path!r} leads out of the directory")
    if not path or any(part in ("", ".") for part in path.split("/")) or "\0" in path:
        raise fail(ProblemCode.BAD_VALUE, f"{path!r} is not a plain relative path")
    return path


def _directory_name(path: str) -> str:
    if outside(path):
        raise fail(ProblemCode.PATH_OUTSIDE, f"{path!r} leads out of the directory")
    return path


def _agent_name(text: str) -> str:
    if not is_agent_name(text):
        raise fail(ProblemCode.BAD_NAME, f"{text[:80]!r} is not 1 to 64 lower-case letters, digits and hyphens")
    return text


def _skill_name(text: str) -> str:
    _directory_name(text)
    if not is_skill_name(text):
        raise fail(ProblemCode.BAD_NAME, f"{text[:80]!r} is not 1 to 64 lower-case letters, digits and single hyphens")
    return text


def _tool_name(text: str) -> str:
    _directory_name(text)
    if not is_tool_name(text):
        raise fail(ProblemCode.BAD_NAME, f"{text[:80]!r} does not match [a-z][a-z0-9_]{{0,63}}")
    return text


def _credential_name(text: str) -> str:
    if not _CREDENTIAL_NAME.fullmatch(text):
        raise fail(ProblemCode.BAD_NAME, "a credential's name is up to 64 letters, digits, '_', '.', '-'")
    return text


def refuse_wildcard(text: str) -> None:
    """Raise where a host stands for several."""
    if "*" in text or text.startswith("."):
        raise fail(ProblemCode.WILDCARD_HOST, f"{text[:80]!r} is a wildcard; hosts are exact")


def names_secret(key: str) -> bool:
    """Whether a key is called as what holds a credential's value is: `value`, `api_key`, `clientSecret`; not what
    says more about one, as `token_url` does."""
    words = _WORD.findall(key)
    return bool(words) and words[-1].lower() in _SECRET_WORDS


def names_secret_anywhere(key: str) -> bool:
    """Whether a key is called as nothing but a secret is, wherever it stands: `api_key`, not `key`."""
    words = [word.lower() for word in _WORD.findall(key)]
    return bool(words) and (words[-1] in _ANYWHERE or " ".join(words[-2:]) in _KEYS)


def not_secret(key: str) -> str:
    """Raise where a key of free texts is called as a secret is."""
    if names_secret_anywhere(key):
        raise fail(ProblemCode.CREDENTIAL_VALUE, f"{key[:80]!r} would hold a credential's value")
    return key


def _host(text: str) -> str:
    refuse_wildcard(text)
    if len(text) > 253 or not _HOST.fullmatch(text):
        message = f"{text[:80]!r} is not a lower-case host name without scheme, port or path"
        raise fail(ProblemCode.BAD_HOST, message)
    if not is_public_name(text):
        what = "an address, or a name of this machine or its own network"
        raise fail(ProblemCode.BAD_HOST, f"{text!r} is {what}; effects reach public hosts by name alone")
    return text


def _header(text: str) -> str:
    if text.partition(":")[2].strip():
        raise fail(ProblemCode.CREDENTIAL_VALUE, "a header's name is followed by a value")
    if not _HEADER.fullmatch(text):
        raise fail(ProblemCode.BAD_VALUE, "a header's name holds letters, digits and hyphens alone")
    return text


def _money(value: Any) -> Any:
    """A decimal string; numbers people wrote without quotes are taken by their digits."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise fail(ProblemCode.BAD_VALUE, "an amount is a decimal such as '0.50'")
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount <= 0:
        raise fail(ProblemCode.BAD_VALUE, "an amount is a positive decimal such as '0.50'")
    return format(amount, "f")


AgentName = Annotated[StrictStr, AfterValidator(_agent_name)]
SkillName = Annotated[StrictStr, AfterValidator(_skill_name)]
ToolName = Annotated[StrictStr, AfterValidator(_tool_name)]
CredentialName = Annotated[StrictStr, AfterValidator(_credential_name)]
InsidePath = Annotated[StrictStr, AfterValidator(_inside)]
Host = Annotated[StrictStr, AfterValidator(_host)]
HeaderName = Annotated[StrictStr, AfterValidator(_header)]
Money = Annotated[str, BeforeValidator(_money)]


def not_empty(values: tuple[str, ...]) -> tuple[str, ...]:
    """Raise where there is none. (A length limit would also count those that failed.)"""
    if not values:
        raise fail(ProblemCode.BAD_VALUE, "at least one is needed")
    return values


def unique(names: Iterable[str], what: str) -> None:
    """Raise where a name stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise fail(ProblemCode.DUPLICATE_NAME, f"{what} {name!r} stands twice")
        seen.add(name)


_HINTS: Mapping[ProblemCode, str] = {
    ProblemCode.UNKNOWN_KEY: "Remove it, or put it under metadata.",
    ProblemCode.MISSING_KEY: "Add it.",
    ProblemCode.PATH_OUTSIDE: "Name a path below the bundle.",
    ProblemCode.WILDCARD_HOST: "List every host by its full name.",
    ProblemCode.BAD_HOST: "Write it as api.example.com; no setting opens effects to other hosts.",
    ProblemCode.CREDENTIAL_VALUE: "Remove it; the value is set with `artificer credentials set`.",
    ProblemCode.CREDENTIAL_INJECTION: "Keep one of header, query and basic_user.",
    ProblemCode.STDIO_CREDENTIAL: "Use an HTTP server for what needs a credential.",
}
_TYPES = {"extra_forbidden": ProblemCode.UNKNOWN_KEY, "missing": ProblemCode.MISSING_KEY}
_CODES = {code.value for code in ProblemCode}


def problems_of(error: ValidationError, document: Document, path: str) -> list[Problem]:
    """The problems a validation found, each with the line it stands on; input values are never quoted."""
    found: list[Problem] = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        loc: Loc = tuple(detail["loc"])
        if any(loc[: len(hole)] == hole for hole in document.holes):
            continue
        code = _code(detail)
        if loc[:1] == ("credentials",) and _holds_value(code, loc, document.value):
            code = ProblemCode.CREDENTIAL_VALUE
        if code is ProblemCode.UNKNOWN_KEY and len(loc) == 1 and names_secret_anywhere(str(loc[0])):
            code = ProblemCode.CREDENTIAL_VALUE
        if code is ProblemCode.UNKNOWN_KEY and loc[0] == "mcp":
            code = _of_server(str(loc[-1]))
        line = document.line(loc)
        where = ".".join(str(part) for part in loc if part != "[key]")
        message = f"{where}: {_words(code, detail)}" if where else _words(code, detail)
        if line is not None:
            message = f"line {line}: {message}"
        found.append(Problem(code, path, message, _HINTS.get(code, "")))
    return found


def _of_server(key: str) -> ProblemCode:
    """What an unknown key of an MCP server is: an environment, a credential sent by hand, or just unknown."""
    if key in ("env", "environment"):
        return ProblemCode.STDIO_CREDENTIAL
    if key in ("header", "headers", "auth", "authorization") or names_secret(key):
        return ProblemCode.CREDENTIAL_VALUE
    return ProblemCode.UNKNOWN_KEY


def _holds_value(code: ProblemCode, loc: Loc, value: Any) -> bool:
    """Whether an error among the credentials is that of a value: `value: …`, `NAME=…`, or `NAME: …`."""
    given = value.get("credentials") if isinstance(value, dict) else None
    item = given[loc[1]] if isinstance(given, list) and len(loc) > 1 and isinstance(loc[1], int) else None
    if code is ProblemCode.UNKNOWN_KEY:
        key = str(loc[-1])
        return names_secret(key) or (isinstance(item, dict) and _has_secret(item.get(key)))
    if code is not ProblemCode.BAD_VALUE or len(loc) > 2:
        return False
    if len(loc) == 1:
        return isinstance(given, dict)
    return "=" in item if isinstance(item, str) else _has_secret(item)


def _has_secret(value: Any) -> bool:
    """Whether a mapping has a key, at any depth, that is called as a value is."""
    return isinstance(value, dict) and any(names_secret(key) or _has_secret(inner) for key, inner in value.items())


def _code(detail: ErrorDetails) -> ProblemCode:
    kind = detail["type"]
    if kind in _CODES:
        return ProblemCode(kind)
    return _TYPES.get(kind, ProblemCode.BAD_VALUE)


def _words(code: ProblemCode, detail: ErrorDetails) -> str:
    match code:
        case ProblemCode.UNKNOWN_KEY:
            return "this key is not known"
        case ProblemCode.MISSING_KEY:
            return "is required"
        case ProblemCode.CREDENTIAL_VALUE if detail["type"] != code.value:
            return "a bundle never holds a credential's value"
        case ProblemCode.STDIO_CREDENTIAL if detail["type"] == "extra_forbidden":
            return "an MCP server gets no environment from a bundle"
        case _:
            message = detail["msg"]
            return message[:1].lower() + message[1:] if detail["type"] not in _CODES else message


def dump_model(model: Model) -> dict[str, Any]:
    """Plain data in the order of the model's fields, defaults left out."""
    dumped: dict[str, Any] = model.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return dumped
