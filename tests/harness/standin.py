"""A stand-in for a service that effects go to: a loopback HTTPS server in a thread of its own, for a whole command.

    with StandIn("api.example.com", lambda asked: answer(b"hello")) as service:
        monkeypatch.setattr("impl.compose._Transport", service.transport)
        ...                      # run commands; service.asked[0].headers

Nothing of the product knows that it is there: its host's transport was made with an allowance for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from impl.transport.https import HttpsTransport, Loopback
from tests.harness.tls import Asked, Authority, Reply, TlsServer


async def loopback(host: str) -> Sequence[str]:
    """Every name is this machine."""
    return ["127.0.0.1"]


class StandIn:
    """Serves `name` under an authority of its own; `reply` is called in its thread. Each request sets `changed`."""

    def __init__(self, name: str, reply: Callable[[Asked], Reply]) -> None:
        self.authority = Authority()
        self.changed = threading.Event()
        self._reply = reply
        self._server = TlsServer(self.authority, self._take, name=name)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def asked(self) -> list[Asked]:
        """What it was asked, in order."""
        return self._server.asked

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1."""
        return self._server.port

    def transport(self, deadline_s: float = 60.0) -> HttpsTransport:
        """A transport that reaches it, and trusts it alone."""
        return HttpsTransport(
            resolver=loopback,
            tls_context=self.authority.trusting,
            loopback=Loopback(self.port),
            deadline_s=deadline_s,
        )

    def trusted_in(self, path: Path) -> Path:
        """Its authority's certificate, written to `path`, for another process to trust."""
        self.authority.write(path)
        return path

    def _take(self, asked: Asked) -> Reply:
        self.changed.set()
        return self._reply(asked)

    def _serve(self) -> None:
        async def until_ended() -> None:
            async with self._server:
                self._ready.set()
                await self._ended.wait()

        self._loop.run_until_complete(until_ended())
        self._loop.close()

    def __enter__(self) -> StandIn:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)
