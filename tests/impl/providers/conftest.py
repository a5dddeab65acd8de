"""What the tests of providers share: loopback servers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.harness.servers import FakeServer, Reply


@pytest.fixture
def start() -> Iterator[Callable[..., FakeServer]]:
    """Start a server with a script of replies; bytes, or pieces of them, are a streamed reply."""
    with ExitStack() as stack:

        def begin(*script: Any) -> FakeServer:
            replies = [reply if isinstance(reply, Reply) else Reply(reply) for reply in script]
            return stack.enter_context(FakeServer(replies))

        yield begin
