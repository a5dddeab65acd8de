"""Which families of models a provider's model is of, so that none judges what its own has made."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_BY_NAME: Final = (
    ("anthropic", r"claude|anthropic"),
    ("openai", r"gpt|chatgpt|codex|davinci|(?<![a-z])o[1345](?![a-z0-9])"),
    ("google", r"gemini|gemma|palm"),
    ("meta", r"llama"),
    ("alibaba", r"qwen|qwq"),
    ("mistral", r"[a-z]*stral(?![a-z])|mixtral|mistral"),
    ("deepseek", r"deepseek"),
    ("xai", r"grok"),
    ("cohere", r"command-|cohere|(?<![a-z])aya(?![a-z])"),
    ("microsoft", r"(?<![a-z])phi-?\d"),
    ("amazon", r"(?<![a-z])nova-|titan"),
    ("zhipu", r"glm"),
    ("moonshot", r"kimi|moonshot"),
    ("nvidia", r"nemotron"),
    ("ibm", r"granite"),
)
"""What a model's name says. A name may say two: a model distilled from another is of both."""
_BY_PROVIDER: Final = {
    "anthropic": "anthropic",
    "claude_code": "anthropic",
    "codex": "openai",
    "gemini_cli": "google",
    "offline": "rules",
}
"""What a provider's models are where the name says nothing."""


def families_of(provider: str, model: str | None) -> frozenset[str]:
    """The families of a model, never empty: by its name, else by its provider, else the first word of its name, so
    that two models nobody knows are one family only where they are called alike."""
    name = (model or "").lower()
    found = {family for family, pattern in _BY_NAME if re.search(pattern, name)}
    route = provider.partition(":")[0].replace("-", "_")
    if not found and route in _BY_PROVIDER:
        found.add(_BY_PROVIDER[route])
    if not found:
        word = re.search(r"[a-z]+", name.rpartition("/")[2])
        found.add(word[0] if word is not None else route)
    return frozenset(found)


def families_of_all(models: Iterable[tuple[str, str | None]]) -> frozenset[str]:
    """Those of several, each a provider's name and a model's."""
    return frozenset().union(*(families_of(provider, model) for provider, model in models))
