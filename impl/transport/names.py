"""Host names to addresses, by the system's resolver, without holding up the program or its thread pool."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""Gives every address of a host name, as text. Raises OSError where there is none."""


async def system_resolver(host: str) -> Sequence[str]:
    """All addresses of `host`, IPv4 and IPv6, in the order in which the system would try them."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str], error: OSError | None) -> None:
        if found.done():
            return
        if error is None:
            found.set_result(addresses)
        else:
            found.set_exception(error)

    def look_up() -> None:
        addresses: list[str] = []
        failed: OSError | None = None
        try:
            # As bytes: text would go through another reading of international names.
            answers = socket.getaddrinfo(host.encode("ascii"), 443, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
        except OSError as error:
            failed = error
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, addresses, failed)

    # A thread of its own: a name server that does not answer cannot be interrupted, and would else take a place
    # in the pool that everything shares, and hold up the end of the program.
    threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    return await found
