"""The person's own keys: `keymap.toml` or `keymap.json` in the home directory, binding id to keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

_MODIFIED = re.compile(r"(?:(?:ctrl|shift|alt|meta|super|hyper)\+)*(.+)")
_NAMED = frozenset(
    {"escape", "enter", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"}
    | {"up", "down", "left", "right", "slash", "backslash", "minus", "plus"}
)


class KeymapError(ValueError):
    """The keymap file cannot be used; the message says why."""


def load_keymap(home: Path) -> dict[str, str]:
    """The keymap; empty where there is no file. Raises KeymapError."""
    for name in ("keymap.toml", "keymap.json"):
        path = home / name
        if path.exists():
            return _read(path)
    return {}


def _read(path: Path) -> dict[str, str]:
    if not path.is_file():
        raise KeymapError(f"{path} cannot be read: it is no file.")
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".json":
            import json

            values = json.loads(text)
        else:
            import tomllib

            values = tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise KeymapError(f"{path} cannot be read: {error}") from error
    flat = _flat(values) if isinstance(values, dict) else None
    if flat is None:
        raise KeymapError(f'{path} takes lines such as "revisions.publish" = "P".')
    return flat


def split(keymap: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What of a keymap can be used, and what is wrong with the rest: keys that no keyboard has, or none at all."""
    good, wrong = {}, []
    for name, keys in keymap.items():
        bad = [key for key in keys.split(",") if not _is_key(key.strip())]
        if bad:
            wrong.append(f'"{name}": {f"there is no key “{bad[0].strip()}”" if bad[0].strip() else "no key is named"}')
        else:
            good[name] = ",".join(key if key == " " else key.strip() for key in keys.split(","))
    return good, wrong


def _is_key(key: str) -> bool:
    found = _MODIFIED.fullmatch(key)
    name = found[1] if found else ""
    if len(name) == 1 or name in _NAMED or re.fullmatch(r"f(?:[1-9]|1\d|2[0-4])", name):
        return True
    import unicodedata

    try:
        unicodedata.lookup(name.replace("_", " "))
    except KeyError:
        return False
    return True


Keys = tuple[str, str]
"""A binding's id and its keys, as a keymap writes them."""


def misplaced(keymap: Mapping[str, str], places: Iterable[tuple[str, Sequence[Keys]]]) -> list[str]:
    """What is wrong with the names in a keymap: ids there are none of, and keys that two things have in one place.
    Of those only one would act. `places` have a title and what acts there."""
    from difflib import get_close_matches

    places = list(places)
    known = dict(pair for _, bindings in places for pair in bindings)
    wrong = []
    for name in keymap:
        if name not in known:
            near = get_close_matches(name, known, 1)
            wrong.append(f'There is no "{name}"' + (f', but "{near[0]}"' if near else ""))
    for title, bindings in places:
        holders: dict[str, str] = {}
        for name, default in bindings:
            for key in keymap.get(name, default).split(","):
                other = holders.setdefault(key.strip(), name)
                if other != name and (name in keymap or other in keymap):
                    wrong.append(f'“{key.strip()}” is both "{other}" and "{name}" ({title})')
    return list(dict.fromkeys(wrong))


def _flat(values: dict[str, object], prefix: str = "") -> dict[str, str] | None:
    """Dotted names, whether they were quoted or nested."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, str):
            flat[prefix + name] = value
        elif isinstance(value, dict):
            inner = _flat(value, f"{prefix}{name}.")
            if inner is None:
                return None
            flat.update(inner)
        else:
            return None
    return flat
