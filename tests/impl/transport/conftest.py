"""An authority for the module's servers, and effects sent to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from core import Allowed, Binding, Denied, EffectPolicy, EffectRequest, EffectResponse
from impl.transport.https import HttpsTransport, Loopback
from tests.harness.tls import Authority, TlsServer

SECRET = "s3cret-Value/+for=tests"
POLICY = EffectPolicy(
    ["api.example.com", "files.example.com"],
    {
        "bearer": Binding(("api.example.com",), header="Authorization", format="Bearer {secret}"),
        "query": Binding(("api.example.com",), query="api_key"),
        "basic": Binding(("api.example.com",), basic_user="me"),
    },
)


class Names:
    """A resolver that gives its answers in order, the last one again and again, and counts."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        return self._answers[min(len(self.asked), len(self._answers)) - 1]


class Sender:
    """Sends an effect to a server on loopback, through the policy and the transport."""

    def __init__(self, authority: Authority) -> None:
        self.authority = authority

    def transport(self, server: TlsServer, **settings: Any) -> HttpsTransport:
        return HttpsTransport(
            **{
                "resolver": Names(["127.0.0.1"]),
                "tls_context": self.authority.trusting,
                "loopback": Loopback(server.port),
                **settings,
            }
        )

    async def __call__(
        self,
        server: TlsServer,
        path: str = "/",
        *,
        method: str = "GET",
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        credential: str | None = None,
        secrets: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> EffectResponse | Denied:
        request = POLICY.check(EffectRequest(method, f"https://api.example.com{path}", headers, body, credential))
        assert isinstance(request, Allowed)
        values = {credential: SECRET} if secrets is None and credential else secrets or {}
        return await self.transport(server, **settings).perform(request, POLICY, values)

    async def response(self, server: TlsServer, path: str = "/", **how: Any) -> EffectResponse:
        """The answer, which must be one."""
        answer = await self(server, path, **how)
        assert isinstance(answer, EffectResponse), answer
        return answer

    async def denied(self, server: TlsServer, path: str = "/", **how: Any) -> str:
        """The reason of a denial, which must be one, and whose words must not hold the secret."""
        answer = await self(server, path, **how)
        assert isinstance(answer, Denied), answer
        assert SECRET not in repr(answer)
        return answer.reason.value


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def send(authority: Authority) -> Sender:
    return Sender(authority)


@pytest.fixture
def names() -> Callable[..., Names]:
    return Names


@pytest.fixture
def secret() -> str:
    return SECRET
