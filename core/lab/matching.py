"""What checks are made of: texts, numbers, JSON values and schemas compared; patterns searched within a time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

REGEX_S: Final = 2.0
SCHEMA_S: Final = 5.0
"""How long a schema with patterns may take, with the start of the process that goes by it."""
LONGEST: Final = 1_000_000
"""Characters of a text that a pattern is searched in."""
_ENVIRONMENT: Final = {"PATH": os.defpath}
_NUMBER: Final = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SEARCH: Final = (
    "import json,re,sys\n"
    "pattern,text=json.load(sys.stdin)\n"
    "sys.exit(0 if re.search(pattern,text,re.MULTILINE) else 3)\n"
)
_VALIDATE: Final = (
    "import json,sys\nfrom core.lab.matching import misfit\nprint(json.dumps(misfit(*json.load(sys.stdin))))\n"
)


def contains_all(text: str, wanted: Sequence[str], *, ignore_case: bool = False) -> tuple[list[str], list[str]]:
    """Those of `wanted` that `text` lacks, and those it has."""
    whole = text.casefold() if ignore_case else text
    has = [w for w in wanted if (w.casefold() if ignore_case else w) in whole]
    return [w for w in wanted if w not in has], has


def regex_found(pattern: str, text: str) -> str | None:
    """None where `pattern` (multi-line) is found, else why not. In a process of its own: a pattern may take for ever,
    and what searches cannot be stopped in ours."""
    given = json.dumps([pattern, text[:LONGEST]])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SEARCH],
            input=given,
            capture_output=True,
            text=True,
            timeout=REGEX_S,
            env=_ENVIRONMENT,
        )
    except subprocess.TimeoutExpired:
        return f"the pattern took more than {REGEX_S:g} s"
    match done.returncode:
        case 0:
            return None
        case 3:
            line = " ".join(text.split())
            return f"not found; it said: {line if len(line) <= 300 else line[:299] + '…'}"
        case _:
            return f"the pattern cannot be used: {done.stderr.strip().splitlines()[-1:]}"


def numbers_in(text: str) -> list[float]:
    """The numbers that stand in a text, in order; `1,234.5` is one."""
    return [float(found.group().replace(",", "").replace("−", "-")) for found in _NUMBER.finditer(text)]


def json_in(text: str) -> list[Any]:
    """The JSON value that a text is, or else its last code block; empty where neither is one."""
    for candidate in (text, *re.findall(r"```(?:json)?\n(.*?)```", text, re.DOTALL)[-1:]):
        try:
            return [json.loads(candidate)]
        except (ValueError, RecursionError):
            continue
    return []


def bad_schema(schema: Any) -> str | None:
    """Why this is no JSON Schema (2020-12), None where it is one."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    if not isinstance(schema, Mapping | bool):
        return "it wants a JSON Schema."
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"it is no JSON Schema: {error.message[:300]}"
    return None


def schema_problem(schema: Any, value: Any) -> str | None:
    """What of `value` does not fit the JSON Schema (2020-12), None where all does. One with patterns is gone by in a
    process of its own, as a pattern is."""
    if '"pattern' not in json.dumps(schema, default=str):
        return misfit(schema, value)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _VALIDATE],
            input=json.dumps([schema, value], default=str),
            capture_output=True,
            text=True,
            timeout=SCHEMA_S,
            env=_ENVIRONMENT,
        )
    except subprocess.TimeoutExpired:
        return f"the schema's patterns took more than {SCHEMA_S:g} s"
    if done.returncode:
        return f"it cannot be compared: {done.stderr.strip().splitlines()[-1:]}"
    found: str | None = json.loads(done.stdout)
    return found


def misfit(schema: Any, value: Any) -> str | None:
    """As `schema_problem`, here and for as long as it takes."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:  # an empty registry: what a schema refers to elsewhere is not fetched
        worst = best_match(Draft202012Validator(schema, registry=Registry()).iter_errors(value))
    except Unresolvable as error:
        return f"the schema of this check refers to what is not in it: {error}"
    return None if worst is None else f"{worst.json_path}: {worst.message[:300]}"


def differences(
    want: Any, have: Any, *, tolerance: float = 0.0, ignore: frozenset[str] = frozenset(), at: str = "$"
) -> list[str]:
    """Where two JSON values differ, as `$.path: …` lines; numbers within `tolerance` do not. `ignore` are paths, `[*]`
    for any index."""
    if at in ignore or re.sub(r"\[\d+\]", "[*]", at) in ignore:
        return []
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        found = []
        for key in [*want, *(key for key in have if key not in want)]:
            path = f"{at}.{key}"
            if path in ignore:
                continue
            if key not in have:
                found.append(f"{path} is missing")
            elif key not in want:
                found.append(f"{path} is not wanted")
            else:
                found += differences(want[key], have[key], tolerance=tolerance, ignore=ignore, at=path)
        return found
    if isinstance(want, list) and isinstance(have, list):
        found = [] if len(want) == len(have) else [f"{at} has {len(have)} items, not {len(want)}"]
        for index, (one, other) in enumerate(zip(want, have, strict=False)):
            found += differences(one, other, tolerance=tolerance, ignore=ignore, at=f"{at}[{index}]")
        return found
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (want, have))
    same = abs(want - have) <= tolerance if numbers else type(want) is type(have) and want == have
    return [] if same else [f"{at} is {json.dumps(have)[:120]}, not {json.dumps(want)[:120]}"]
