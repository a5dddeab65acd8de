"""The import formats: what each must offer, and the one list that names them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from impl.sources.tree import SourceTree
from impl.sources.values import Candidate, Draft, Mode

DOCUMENTATION = "documentation"
OPENAPI = "openapi"

FORMATS: tuple[str, ...] = (
    "agent_skills",
    "subagents",
    OPENAPI,
    DOCUMENTATION,
)
"""Every kind of source, in the order they are preferred. To add one: write `impl/sources/KIND.py`, which is a
`Format`, and name it here. Documentation stays last: it is what is left."""


class Format(Protocol):
    """What a module of this package has to be an import format."""

    LABEL: str
    """What the kind is called in a question, in people's words."""
    MULTIPLE: bool
    """Whether several candidates may become one agent."""

    def find(self, tree: SourceTree) -> list[Candidate]:
        """The candidates of this kind; ids are unique, the order is that of the question."""

    def convert(self, tree: SourceTree, chosen: Sequence[Candidate], name: str, mode: Mode) -> Draft:
        """Turn the chosen candidates (at least one; exactly one unless `MULTIPLE`) into a bundle for the
        agent `name`. Pure but for reading. Raises Refusal where that is not safe, or, in strict mode, where
        the source deviates from its format."""


class Asking(Protocol):
    """What a format may have beside, where the importer's own words would not fit it."""

    def question(self, tree: SourceTree, name: str) -> str:
        """The whole question which candidates the agent `name` should have."""

    def describe(self, candidates: Sequence[Candidate]) -> str:
        """What an agent of this kind would be, for the question what to make one from."""


def asking(kind: str) -> Asking | None:
    """The format's own words, None where the importer's do."""
    module = load_format(kind)
    return cast(Asking, module) if hasattr(module, "question") else None


def load_format(kind: str) -> Format:
    """The module of a kind. Raises KeyError where there is none."""
    if kind not in FORMATS:
        raise KeyError(kind)
    return cast(Format, import_module(f"impl.sources.{kind}"))
