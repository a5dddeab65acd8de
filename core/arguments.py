"""Whether the arguments of a call fit its tool's schema, and in words a model can act on why not."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

_TYPES: Final[Mapping[str, type]] = {"string": str, "integer": int, "boolean": bool}
_FLAT: Final = frozenset({"type", "properties", "required", "additionalProperties", "description", "title"})
_PLAIN: Final = frozenset({"type", "minLength", "minimum", "maximum", "description", "title"})


class Arguments:
    """The schema of one tool. Equal schemas share what was compiled, across sessions."""

    def __init__(self, tool: str, schema: Mapping[str, Any]) -> None:
        self._tool = tool
        self._fits, self._errors = _compiled(json.dumps(schema))

    def problem(self, args: Mapping[str, Any]) -> str | None:
        """What is wrong with `args`, None where nothing is."""
        if self._fits is not None and self._fits(args):
            return None
        return self._errors(self._tool, args)


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[Callable[[Mapping[str, Any]], bool] | None, Callable[..., str | None]]:
    schema = json.loads(text)
    return _flat(schema), _Full(schema)


def _flat(schema: Any) -> Callable[[Mapping[str, Any]], bool] | None:
    """A check that says yes to most valid arguments of a schema that is a flat list of words, whole numbers and
    switches, in a fiftieth of the validator's time. What it does not say yes to, the validator decides."""
    if not isinstance(schema, dict) or schema.get("type") != "object" or not schema.keys() <= _FLAT:
        return None
    required, properties = schema.get("required", []), schema.get("properties", {})
    if (
        not isinstance(required, list)
        or not isinstance(properties, dict)
        or schema.get("additionalProperties") is not False
    ):
        return None
    plain: dict[str, tuple[type, float, float]] = {}
    for name, part in properties.items():
        if isinstance(part, dict) and part.keys() <= _PLAIN and str(part.get("type")) in _TYPES:
            kind = _TYPES[part["type"]]
            low = part.get("minLength", 0) if kind is str else part.get("minimum", -math.inf)
            high = math.inf if kind is str else part.get("maximum", math.inf)
            if isinstance(low, int | float) and isinstance(high, int | float):
                plain[name] = (kind, low, high)
    needed = frozenset(str(name) for name in required)

    def fits(args: Mapping[str, Any]) -> bool:
        if not needed <= args.keys():
            return False
        for name, value in args.items():
            if name not in plain:
                return False
            kind, low, high = plain[name]
            if type(value) is not kind:
                return False
            size: Any = len(str(value)) if kind is str else value
            if not low <= size <= high:
                return False
        return True

    return fits


def _untried(*_: Any) -> tuple[()]:
    """The check of a keyword that is not tried here."""
    return ()


class _Full:
    """The validator proper, made on first use: it costs milliseconds."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._validator: Any = None

    def __call__(self, tool: str, args: Mapping[str, Any]) -> str | None:
        from jsonschema.exceptions import SchemaError, ValidationError, best_match

        try:
            errors: list[ValidationError] = list(itertools.islice(self._get().iter_errors(dict(args)), 20))
        except SchemaError as error:
            return f"This call was not run: the schema of {tool} is broken: {error.message[:500]}"
        except Exception as error:  # noqa: BLE001 - a schema may break its validator in any way; it is not ours
            return f"This call was not run: the schema of {tool} is broken: {str(error)[:500]}"
        if not errors:
            return None
        worst = best_match(errors) or errors[0]
        where = "/".join(str(part) for part in worst.absolute_path)
        at = f" at {where}" if where else ""
        return f"This call was not run: its arguments do not fit the schema{at}: {worst.message[:500]}"

    def _get(self) -> Any:
        """References go nowhere, least of all to the network."""
        if self._validator is None:
            from jsonschema import Draft202012Validator
            from jsonschema.validators import extend
            from referencing import Registry

            Draft202012Validator.check_schema(self._schema)
            registry: Any = Registry()
            # A pattern of generated code may take minutes on a short text, and nothing here could stop it. The
            # tool meets the value in its sandbox, where its time is bounded.
            more = Draft202012Validator.VALIDATORS["additionalProperties"]

            def additional(validator: Any, given: Any, instance: Any, schema: Any) -> Any:
                return () if "patternProperties" in schema else more(validator, given, instance, schema)

            bounded: Any = extend(  # type: ignore[no-untyped-call]
                Draft202012Validator,
                {"pattern": _untried, "patternProperties": _untried, "additionalProperties": additional},
            )
            self._validator = bounded(self._schema, registry=registry)
        return self._validator
