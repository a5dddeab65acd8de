"""The keys that an agent CLI is started with, kept out of what is recorded of its words: some say them in an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

SHORTEST: Final = 12
"""Characters: a shorter value may be a word."""
_NAMES_A_KEY: Final = re.compile(r"(?i)(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PAT)(?:_|$)")

_USER_AND_PASSWORD: Final = re.compile(r"://([^/@\s:]{1,200}:[^/@\s]{1,200})@")


def keys_in(env: Mapping[str, str]) -> tuple[str, ...]:
    """The values of the variables that hold keys by their name (a path is none), and what stands in addresses as user
    and password; the longest first."""
    found = {
        value for name, value in env.items() if _NAMES_A_KEY.search(name) and len(value) >= SHORTEST and value[0] != "/"
    }
    found |= {in_address[1] for value in env.values() if (in_address := _USER_AND_PASSWORD.search(value))}
    return tuple(sorted(found, key=len, reverse=True))


def without(text: str, keys: Iterable[str]) -> str:
    """`text` with `[key]` where one of the keys stood."""
    for key in keys:
        text = text.replace(key, "[key]")
    return text
