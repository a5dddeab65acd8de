"""Ten thousand effects, drawn by a seed, against a server that says back what it was sent in every way it can.

No byte of a secret may reach what a tool got, the store and its log, its transcript, or any logger.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import html
import itertools
import json
import logging
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import httpcore
import pytest

from core import Binding, Broker, DenialReason, EffectPolicy, EffectRequest, EffectResponse, Ledger, SessionInfo
from impl.store.sqlite import SqliteStore
from impl.transport.https import HttpsTransport, Loopback
from tests.harness.canary import files_with, forms, processes_with
from tests.harness.inmemory import InMemory
from tests.harness.standin import loopback
from tests.harness.tls import HANG, RESET, Asked, Authority, Piece, Reply, TlsServer, answer
from tests.impl.tools.conftest import BUBBLEWRAP, DOCKER, Open

EFFECTS = 10_000
AT_ONCE = 16
OVER_TLS = 10
"""One connection in so many goes over TLS and loopback; the others are the same but for the wire."""
HOST = "api.example.com"

SECRETS: Mapping[str, str] = {
    "HEADER": "cnry/8hT+q=Zz.header-4411",
    "BEARER": "cnry.eyJhbGciOiJub25lIn0.bearer_9930-xyz",
    "QUERY": "cnry q&uery=ü<\"'>\\%41-52",
    "BASIC": "cnry:pass wörd€-7708",
    "SHORT": "Zq7#x-9P",
    "OTHER": "cnry-of-another-tool-0000123",
}
BINDINGS = {
    "HEADER": Binding([HOST], header="X-Key"),
    "BEARER": Binding([HOST], header="Authorization", format="Bearer {secret}"),
    "QUERY": Binding([HOST], query="key"),
    "BASIC": Binding([HOST], basic_user="crew"),
    "SHORT": Binding([HOST], header="X-Short", format="v1:{secret};"),
}

Encode = Callable[[random.Random, str], bytes]


def _escaped(draw: random.Random, text: str, how: Callable[[str], str]) -> str:
    """Some of the characters written another way, at least one."""
    chosen = {draw.randrange(len(text)), *(n for n in range(len(text)) if draw.random() < 0.5)}
    return "".join(how(c) if n in chosen else c for n, c in enumerate(text))


def _percent(c: str) -> str:
    return "".join(f"%{b:02x}" for b in c.encode())


def _units(c: str) -> str:
    data = c.encode("utf-16-be")
    return "".join(f"\\u{data[n]:02x}{data[n + 1]:02X}" for n in range(0, len(data), 2))


def _base64(draw: random.Random, text: str, altchars: bytes | None = None) -> bytes:
    around = (draw.randbytes(draw.randrange(4)), draw.randbytes(draw.randrange(4)))
    return base64.b64encode(around[0] + text.encode() + around[1], altchars)


ENCODINGS: Mapping[str, Encode] = {
    "raw": lambda draw, text: text.encode(),
    "rendered": lambda draw, text: f"Bearer {text}".encode(),
    "percent": lambda draw, text: quote(text, safe="").encode(),
    "percent of some": lambda draw, text: (
        _escaped(draw, quote(text, safe=""), lambda c: c).encode()
        if "%" in quote(text, safe="")
        else _escaped(draw, text, _percent).encode()
    ),
    "plus": lambda draw, text: quote_plus(text).encode(),
    "json": lambda draw, text: json.dumps(text).encode(),
    "json units": lambda draw, text: (
        json.dumps(text)[1:-1].encode() if "\\" in text or '"' in text else _escaped(draw, text, _units).encode()
    ),
    "html": lambda draw, text: html.escape(text).encode(),
    "html numbers": lambda draw, text: "".join(f"&#{ord(c)};" for c in text).encode(),
    "html hex": lambda draw, text: "".join(f"&#x{ord(c):X};" for c in text).encode(),
    "hex": lambda draw, text: text.encode().hex().encode(),
    "HEX": lambda draw, text: text.encode().hex().upper().encode(),
    "hex apart": lambda draw, text: text.encode().hex(draw.choice(" :-_,")).encode(),
    "base64": _base64,
    "base64 urlsafe": lambda draw, text: _base64(draw, text, b"-_"),
    "basic": lambda draw, text: b"Basic " + base64.b64encode(b"crew:" + text.encode()),
}


@dataclass
class Plan:
    """What the server does with one effect, and what of secrets it said."""

    number: int
    draw: random.Random
    kind: str
    said: list[bytes] = field(default_factory=list)
    turns: int = 0

    def echo(self) -> bytes:
        """One secret in one encoding."""
        name = self.draw.choice(list(SECRETS))
        encoding = self.draw.choice(list(ENCODINGS))
        data = ENCODINGS[encoding](self.draw, SECRETS[name])
        self.said.append(data)
        return data


def split(draw: random.Random, data: bytes) -> list[Piece]:
    """In pieces, cut anywhere."""
    cuts = sorted(draw.randrange(len(data) + 1) for _ in range(draw.randrange(6)))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


def chunks(draw: random.Random, body: bytes, *headers: str) -> list[Piece]:
    """The body in chunks that are cut anywhere, sent in pieces that are cut elsewhere."""
    head = "\r\n".join(["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", *headers, "", ""]).encode()
    parts = b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in split(draw, body) if isinstance(c, bytes))
    return split(draw, head + parts + b"0\r\n\r\n")


def line(data: bytes) -> str:
    """Bytes as they can stand in a header."""
    return data.decode("latin-1").replace("\r", "").replace("\n", "")


def reply(plan: Plan, asked: Asked) -> Reply:
    """What the server answers; it knows every secret, and what it was sent."""
    draw = plan.draw
    plan.turns += 1
    noise = draw.randbytes(draw.randrange(40))
    body = noise + b"".join(plan.echo() + draw.choice([b"", b" ", b"\n", b"x"]) for _ in range(draw.randrange(1, 4)))
    sent = line(asked.target.encode() + b" " + b" ".join(v.encode("latin-1") for _, v in asked.headers))
    match plan.kind:
        case "body":
            return split(draw, answer(body))
        case "chunks":
            return chunks(draw, body)
        case "gzip":
            return split(draw, answer(gzip.compress(body * 3), headers=["Content-Encoding: gzip"]))
        case "large":
            return split(draw, answer(b"a" * 70_000 + body + b"b" * 3_000))
        case "told":
            return answer(sent.encode("latin-1"), headers=[f"X-Told: {sent}"])
        case "header":
            headers = [f"X-Echo: {line(plan.echo())}", f"Set-Cookie: a={line(plan.echo())}", "X-More: 1"]
            return split(draw, answer(body, headers=headers))
        case "error":
            status = draw.choice(["400 No", "401 Unauthorized", "403 No", "500 Oh", "503 Later"])
            return answer(
                body, status=f"{status} {line(plan.echo())}", headers=[f"WWW-Authenticate: {line(plan.echo())}"]
            )
        case "redirect":
            if plan.turns > draw.randrange(1, 6):
                return answer(body)
            return answer(body, status=f"{draw.choice([301, 302, 303, 307, 308])} Go", headers=[location(plan)])
        case "truncated":
            whole = answer(body, length=len(body) + draw.randrange(1, 500))
            return split(draw, whole)
        case "reset":
            whole = answer(body * 20)
            return [*split(draw, whole[: draw.randrange(len(whole))]), RESET]
        case "nonsense":
            return split(draw, draw.choice([b"HTTP/1.1 ", b"", b"HTTP/2 200 OK\r\n", b"HTTP/1.1 200 OK\r\n"]) + body)
        case "too many headers":
            return answer(b"", headers=[f"X-{n}: {line(plan.echo())}{'y' * 3000}" for n in range(30)])
        case "too large":
            return answer(body, length=1 << 40)
        case "badly encoded":
            return answer(body, headers=["Content-Encoding: gzip"])
        case _:
            return [*split(draw, answer(body, length=len(body) + 100)), HANG]


def location(plan: Plan) -> str:
    """Where a redirect leads; most of it says a secret."""
    draw = plan.draw
    value = line(plan.echo())
    label = value if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9]", value) else "elsewhere"
    # A host's name loses its capitals, so only what has none can be read back from one.
    plan.said += [label.encode()] if label == value == value.lower() else []
    target = draw.choice(
        [
            f"/e/{plan.number}/?v={quote(value, safe='')}",
            f"/e/{plan.number}/{quote(value)}",
            f"?key={value}",
            f"https://{label}.example.net/",
            f"https://{SECRETS['OTHER'].lower()}.{HOST}/",
            f"https://{value}@{HOST}/",
            f"http://{HOST}/{value}",
            f"//{label}/",
            f"https://{HOST}:8443/{value}",
            f"https://{HOST}/e#{value}",
            value,
        ]
    )
    return f"Location: {target}"


KINDS = (
    *("body", "chunks", "gzip", "told", "header", "error", "redirect", "redirect") * 8,
    "large",
    *("truncated", "reset", "nonsense", "too many headers", "too large", "badly encoded") * 3,
    "hang",
)
BAD_URLS = (
    "http://api.example.com/",
    "https://evil.example/",
    "https://api.example.com:8443/",
    "https://a@api.example.com/",
    "https://127.0.0.1/",
    "//x",
    "https://api.example.com/#f",
    "https://api.example.com/?key=1",
)


def drawn(draw: random.Random, number: int) -> EffectRequest:
    """What a tool asks for, often what it may not."""
    url = f"https://{HOST}/e/{number}/at"
    if draw.random() < 0.3:
        url += f"?q={draw.randrange(1000)}"
    if draw.random() < 0.05:
        url = draw.choice(BAD_URLS)
    headers = [("X-Note", f"n{draw.randrange(100)}")] if draw.random() < 0.3 else []
    if draw.random() < 0.03:
        headers.append((draw.choice(["Authorization", "x-key", "Host", "X\r\n"]), "mine"))
    credential = draw.choice([None, *BINDINGS, *BINDINGS, "UNKNOWN" if draw.random() < 0.1 else "HEADER"])
    method = draw.choice(["GET", "GET", "POST", "PUT", "DELETE", "head", "TRACE" if draw.random() < 0.1 else "PATCH"])
    return EffectRequest(method, url, headers, draw.randbytes(draw.randrange(200)), credential)


class Fuzz:
    """The effects, one store and session for all, and what came of them."""

    def __init__(self, home: Path, transport: HttpsTransport, quick: HttpsTransport) -> None:
        self.store = SqliteStore(home)
        self.store.create_session(SessionInfo("s", "run", started="2026-01-01T00:00:00Z"), [("started", {})])
        self.transports = (transport, quick)
        self.policy = EffectPolicy([HOST], BINDINGS)
        self.plans: dict[int, Plan] = {}
        self.record: dict[str, list[Any]] = {}
        self.outcomes: Counter[str] = Counter()
        self.leaks: list[str] = []

    def reply(self, asked: Asked) -> Reply:
        """The server's side."""
        found = re.match(r"/e/(\d+)/", asked.target)
        plan = self.plans.get(int(found[1])) if found else None
        # A redirect may have led anywhere on this host.
        return reply(plan, asked) if plan else answer(asked.target.encode())

    async def effect(self, number: int) -> None:
        """One effect of a call of its own; some are cut off in the middle and asked again."""
        draw = random.Random(f"effect {number}")
        plan = Plan(number, random.Random(f"reply {number}"), draw.choice(KINDS))
        self.plans[number] = plan
        request = drawn(draw, number)
        if draw.random() < 0.02:
            cut = asyncio.ensure_future(self.ask(request, number, plan))
            await asyncio.sleep(draw.random() * 0.02)
            cut.cancel()
            await asyncio.gather(cut, return_exceptions=True)
            if draw.random() < 0.5:  # it was not cancelled but killed: the intent is all there is
                self.record[f"c{number}"] = [e for e in self.record.get(f"c{number}", ()) if e.kind == "effect_intent"]
        outcome = await self.ask(request, number, plan)
        kind = f"{outcome.status // 100}00" if isinstance(outcome, EffectResponse) else outcome.reason.value
        self.outcomes[kind] += 1
        got = json.dumps(outcome.to_json(), ensure_ascii=False).encode("utf-8", "surrogatepass")
        if isinstance(outcome, EffectResponse):
            got += outcome.body + "\0".join(part for pair in outcome.headers for part in pair).encode("latin-1")
        wrong = [
            said for said in plan.said if len(said) >= 8 and said in got and "redacted" not in said.decode("latin-1")
        ]
        if wrong or any(form in got for secret in SECRETS.values() for form in FORMS[secret]):
            self.leaks.append(f"{number} {plan.kind} {request.credential}: {wrong}")

    def planned(self, number: int) -> dict[str, Any]:
        """One effect as a tool is told to ask for it, its answer planned."""
        draw = random.Random(f"effect {number}")
        self.plans[number] = Plan(number, random.Random(f"reply {number}"), draw.choice(KINDS))
        request = drawn(draw, number)
        asked = {"method": request.method, "url": request.url, "credential": request.credential}
        headers = [list(header) for header in request.headers]
        return {**asked, "headers": headers, "body": base64.b64encode(request.body).decode()}

    async def ask(self, request: EffectRequest, number: int, plan: Plan) -> Any:
        """Through a broker as a call's tool would."""
        call = f"c{number}"
        events = list(self.record.get(call, ()))

        def emit(kind: str, data: Mapping[str, Any]) -> None:
            self.record.setdefault(call, []).extend(self.store.append("s", [(kind, data)]))

        broker = Broker(
            call=call,
            tool="t",
            policy=self.policy,
            transport=self.transports[plan.kind == "hang"],
            credential=SECRETS.get,
            emit=emit,
            ledger=Ledger(events, call),
            put_blob=self.store.put_blob,
            blob=self.store.blob,
            redacts=SECRETS,
        )
        return await broker.ask(request)


FORMS = {secret: forms(secret) for secret in SECRETS.values()}


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_ten_thousand_effects_leave_no_byte_of_a_secret_anywhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    authority = Authority()
    fuzz: Fuzz
    async with TlsServer(authority, lambda asked: fuzz.reply(asked)) as server:
        real, nth = httpcore.AnyIOBackend, itertools.count()
        backend = lambda: InMemory(server.serve) if next(nth) % OVER_TLS else real()  # noqa: E731
        monkeypatch.setattr("impl.transport.exchange.httpcore.AnyIOBackend", backend)
        reach: dict[str, Any] = {"resolver": loopback, "tls_context": authority.trusting}
        reach["loopback"] = Loopback(server.port)
        fuzz = Fuzz(tmp_path / "home", HttpsTransport(**reach), HttpsTransport(**reach, deadline_s=0.2))
        numbers = iter(range(EFFECTS))

        async def work() -> None:
            for number in numbers:
                await fuzz.effect(number)
                server.asked.clear()

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        connections = server.connections
    transcript = "\n".join(json.dumps(event.to_json(), ensure_ascii=False) for event in fuzz.store.events("s"))
    fuzz.store.close()
    assert fuzz.leaks == []
    for name, secret in SECRETS.items():
        assert files_with(secret, tmp_path) == [], name
        for text in (transcript, caplog.text):
            assert [form for form in FORMS[secret] if form in text.encode()] == [], name
    # It was what it claims to be: everything happened, and often.
    assert sum(fuzz.outcomes.values()) == EFFECTS
    assert connections > EFFECTS // 2
    expected = {"200", "400", "500", "redirect", "truncated", "network", "protocol", "deadline", "encoding"}
    expected |= {"response_headers", "response_too_large", "host_not_allowed", "forbidden_header", "outcome_unknown"}
    assert {kind for kind in expected if fuzz.outcomes[kind] < 5} == set(), fuzz.outcomes
    assert set(fuzz.outcomes) <= {"100", "200", "300", "400", "500", *map(str, DenialReason)}
    assert transcript.count("[redacted") > EFFECTS // 4


CALLS, EACH = 12, 25
ASKING = """
import base64, subprocess
got = open("/work/got", "ab")
answered = 0
for asked in input["requests"]:
    try:
        asked["body"] = base64.b64decode(asked["body"])
        answer = ctx.http.request(**asked)
        got.write(answer.body + repr(answer.headers).encode())
        ctx.log(answer.text[:3000])
        print(answer.headers)
        answered += 1
    except ctx.EffectDenied as denied:
        got.write(str(denied).encode("utf-8", "replace"))
        print(denied)
got.close()
seen = subprocess.run("cat /proc/*/environ /proc/*/cmdline; env", shell=True, capture_output=True)
return [answered, seen.stdout.decode("latin-1"), open("/work/got", "rb").read().decode("latin-1")]
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BUBBLEWRAP, DOCKER])
async def test_a_tool_that_keeps_all_it_gets_and_sees_in_its_sandbox_has_no_byte_of_a_secret(
    kind: str, opened: Open, tmp_path: Path
) -> None:
    bench, authority, answered = await opened(kind), Authority(), 0
    fuzz: Fuzz
    async with TlsServer(authority, lambda asked: fuzz.reply(asked)) as server:
        reach: dict[str, Any] = {"resolver": loopback, "tls_context": authority.trusting, "deadline_s": 0.5}
        quick = HttpsTransport(**reach, loopback=Loopback(server.port))
        fuzz = Fuzz(tmp_path / "home", quick, quick)
        for number in range(CALLS):
            requests = [fuzz.planned(number * EACH + n) for n in range(EACH)]
            ran = await bench.run(
                ASKING,
                {"requests": requests},
                timeout=60,
                policy=fuzz.policy,
                transport=quick,
                credential=SECRETS.get,
                emit=lambda kind, data: fuzz.store.append("s", [(kind, data)]),
                put_blob=fuzz.store.put_blob,
                blob=fuzz.store.blob,
                redacts=SECRETS,
            )
            assert ran.error is None, ran
            count, seen, got = ran.value
            answered += count
            everything = "\n".join((seen, got, ran.printed, *bench.log)).encode("latin-1", "replace")
            for secret in SECRETS.values():
                assert [form for form in FORMS[secret] if form in everything] == []
                assert processes_with(secret) == []
    fuzz.store.close()
    assert [files_with(secret, tmp_path) for secret in SECRETS.values()] == [[]] * len(SECRETS)
    assert answered > CALLS * EACH // 3
