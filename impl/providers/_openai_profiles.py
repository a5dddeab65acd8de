"""How servers of the OpenAI-compatible kind differ: one line each, chosen by address or by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

_ANY_ID: Final = re.compile(r"[\x21-\x7e]{1,64}")
_NINE: Final = re.compile(r"[a-zA-Z0-9]{9}")


@dataclass(frozen=True, slots=True)
class Profile:
    """What one kind of server wants.

    `hosts` are host names, or `:port`, that pick it. `limit` is the one field for the output limit it is
    sent. `include_usage`: ask for usage in the stream. `finish_null`: an answer may end properly without a
    finish reason or `[DONE]`. `echo_reasoning`: it wants its reasoning back in the history. `call_id` is
    the form of ids it takes, `call_id_size` that of a stand-in.
    """

    name: str
    hosts: tuple[str, ...] = ()
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    include_usage: bool = True
    finish_null: bool = False
    echo_reasoning: bool = False
    call_id: re.Pattern[str] = _ANY_ID
    call_id_size: int = 24


GENERIC: Final = Profile("generic")

PROFILES: Final = (
    Profile("openai", ("api.openai.com",), limit="max_completion_tokens"),
    Profile("ollama", ("ollama.com", ":11434"), finish_null=True),
    Profile("llama_cpp"),
    Profile("vllm"),
    Profile(
        "deepseek",
        ("api.deepseek.com", "api.moonshot.ai", "api.moonshot.cn", "api.z.ai"),
        echo_reasoning=True,
    ),
    Profile("mistral", ("api.mistral.ai",), include_usage=False, call_id=_NINE, call_id_size=9),
    GENERIC,
)


def profile_for(base_url: str, chosen: str = "") -> Profile:
    """The profile `chosen` by name, else the one for the address, else the generic one.

    Raises LookupError naming the profiles where there is none of that name.
    """
    if chosen:
        for profile in PROFILES:
            if profile.name == chosen.replace("-", "_").lower():
                return profile
        names = ", ".join(profile.name for profile in PROFILES)
        raise LookupError(f"There is no profile {chosen!r}; there are: {names}.")
    try:
        parts = urlsplit(base_url)
        places = {parts.hostname or "", f":{parts.port}"}
    except ValueError:
        return GENERIC
    return next((p for p in PROFILES if places.intersection(p.hosts)), GENERIC)
