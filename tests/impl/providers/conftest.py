"""What the tests of providers share: loopback servers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.harness.asking import KEY
from tests.harness.servers import FakeServer, Reply


@pytest.fixture
def start() -> Iterator[Callable[..., FakeServer]]:
    """Start a server with a script of replies; bytes, or pieces of them, are a streamed reply."""
    with ExitStack() as stack:

        def begin(*script: Any) -> FakeServer:
            replies = [reply if isinstance(reply, Reply) else Reply(reply) for reply in script]
            return stack.enter_context(FakeServer(replies))

        yield begin


@pytest.fixture
def serve_claude(start: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeServer]:
    """Start a server and point the Anthropic provider at it, with `KEY`."""

    def point(*script: Any) -> FakeServer:
        server = start(*script)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        return server

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    return point


@pytest.fixture
def serve_chat(start: Callable[..., FakeServer], monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeServer]:
    """Start a server and point the OpenAI-compatible provider at it, with `KEY`."""

    def point(*script: Any) -> FakeServer:
        server = start(*script)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url + "/v1")
        return server

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("ARTIFICER_OPENAI_PROFILE", raising=False)
    return point
