"""What the offline Builder reads in a person's words, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.providers.offline.wishes import choice_in, name_wanted, sources, wants_publish, wants_validation

OPTIONS = [
    {"id": "api-designer", "label": "api-designer — designs APIs"},
    {"id": "graphql-architect", "label": "graphql-architect — schemas"},
    {"id": "read", "label": "read only: pets and stores (8)"},
]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Build an agent from https://github.com/a/b", ["https://github.com/a/b"]),
        ("Build an agent from file:///srv/repo.git\n\nplease", ["file:///srv/repo.git"]),
        ("Build an agent from skills", ["skills"]),
        ("Build an agent from .", ["."]),
        ('Build an agent from "my docs"', []),
        ("Build an agent from /srv/My Docs", ["/srv/My Docs", "/srv/My"]),
        ("Build an agent from C:\\docs", ["C:\\docs"]),
        ("Please look at (https://github.com/a/b).", ["https://github.com/a/b"]),
        ("use ./petstore, but only the reads", ["./petstore"]),
        ("make one from a/b please", ["a/b"]),
        ("a/b", ["a/b"]),
        ("git@github.com:a/b.git", ["git@github.com:a/b.git"]),
        ("~/docs", ["~/docs"]),
    ],
)
def test_sources_are_found(words: str, expected: list[str]) -> None:
    assert sources(words) == expected


@pytest.mark.parametrize(
    "words",
    [
        "",
        "hello",
        "Build an agent",
        "Build an agent from scratch",
        "Build an agent from our documentation",
        "an agent for reading and/or writing",
        "it should read/write files",
        "be nicer...",
        "/",
    ],
)
def test_words_without_a_source_have_none(words: str) -> None:
    assert sources(words) == []


@pytest.mark.parametrize(
    "words",
    ["publish", "Publish it.", "yes, publish", "Build an agent from ./x\n\nand publish it", "please publish now"],
)
def test_publishing_is_heard(words: str) -> None:
    assert wants_publish(words)


@pytest.mark.parametrize(
    "words",
    [
        "don't publish it",
        "do not publish yet",
        "Never publish it",
        "an agent that can publish posts",
        "Build an agent from ./publish",
        "Build an agent from https://example.org/publish",
        "an agent for publishing",
        "what would happen when published?",
        "wait before you publish it",
    ],
)
def test_a_no_or_what_the_agent_does_is_no_wish_to_publish(words: str) -> None:
    assert not wants_publish(words)


@pytest.mark.parametrize(
    ("words", "multiple", "expected"),
    [
        ("the api designer", False, ["api-designer"]),
        ("2", False, ["graphql-architect"]),
        ("graphql-architect and api-designer", True, ["api-designer", "graphql-architect"]),
        ("graphql-architect and api-designer", False, []),
        ("all of them", True, ["api-designer", "graphql-architect", "read"]),
        ("all of them", False, []),
        ("read only", False, ["read"]),
        ("all but the api designer", True, []),
        ("not the api-designer", True, []),
        ("all kinds of schemas", True, []),
        ("something else", True, []),
        ("Build an agent from ./api-designer", True, []),
    ],
)
def test_a_choice_is_taken_from_words_only_where_it_is_certain(words: str, multiple: bool, expected: list[str]) -> None:
    assert choice_in(words, OPTIONS, multiple=multiple) == expected


def test_a_name_is_heard() -> None:
    assert name_wanted("Build an agent from ./x\n\nCall it pet-clerk.") == "pet-clerk"
    assert name_wanted('an agent named "clerk" and publish it') == "clerk"
    assert name_wanted("call it when you need it") is None


def test_a_wish_to_validate_is_heard() -> None:
    assert wants_validation("validate")
    assert not wants_validation("make it validate its input before it answers people's questions about pets")


@given(st.text(), st.booleans())
def test_no_words_whatever_break_it(words: str, multiple: bool) -> None:
    assert len(sources(words)) <= 3
    wants_publish(words)
    name_wanted(words)
    assert set(choice_in(words, OPTIONS, multiple=multiple)) <= {o["id"] for o in OPTIONS}
