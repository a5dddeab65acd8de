"""The person's own keys: `keymap.toml` or `keymap.json` in the home directory, binding id to keys."""

from __future__ import annotations

from pathlib import Path


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
