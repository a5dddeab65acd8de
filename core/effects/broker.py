"""The host's side of effects: each request of a tool call is checked, recorded, performed once, and answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from core.effects.ledger import SAFE_METHODS, Ledger, Outcome, ReplayBook, fingerprint, outcome_from
from core.effects.policy import EffectPolicy
from core.effects.redaction import MIN_SECRET, redact
from core.effects.requests import Allowed, DenialReason, Denied, EffectRequest, EffectResponse
from core.ports import SecretsError, StoreError, Transport

FATAL: Final = frozenset({DenialReason.NONDETERMINISTIC, DenialReason.REPLAY_MISS, DenialReason.OUTCOME_UNKNOWN})
"""Reasons after which a call has no more effects: going on would leave the record, or do a thing twice."""
INLINE_BODY: Final = 64_000
"""A response body longer than this is stored as a blob."""


class NeedsCredential(Exception):
    """An allowed effect needs the value of the credential `name`, which has none, or, where `why` says so, one
    that cannot be read now."""

    def __init__(self, name: str, why: str | None = None) -> None:
        super().__init__(name)
        self.name = name
        self.why = why


class Broker:
    """Answers the effects of one tool call, one at a time, in order.

    `credential(name)` gives a value or None, and may raise SecretsError; it is called in a thread. `redacts` names
    credentials that this tool may not use but whose values must not reach it either.
    `emit(kind, data)` stores an event before anything else happens;
    `put_blob` and `blob` keep large bodies. With `replay` nothing is ever sent.

    `fatal` is the denial that ended the call's effects (a reason of FATAL), None while there is none.
    """

    def __init__(
        self,
        *,
        call: str,
        tool: str,
        policy: EffectPolicy,
        transport: Transport | None,
        credential: Callable[[str], str | None],
        emit: Callable[[str, Mapping[str, Any]], None],
        ledger: Ledger,
        put_blob: Callable[[bytes], str],
        blob: Callable[[str], bytes],
        replay: ReplayBook | None = None,
        redacts: Iterable[str] = (),
    ) -> None:
        self._call = call
        self._tool = tool
        self._policy = policy
        self._transport = transport
        self._credential = credential
        self._emit = emit
        self._ledger = ledger
        self._put_blob = put_blob
        self._blob = blob
        self._replay = replay
        self._names = tuple(dict.fromkeys((*policy.credentials, *redacts)))
        self._next = 0
        self.fatal: Denied | None = None

    async def ask(self, request: EffectRequest) -> Outcome:
        """The answer to the call's next effect. Raises NeedsCredential, having sent and recorded nothing."""
        if self.fatal is not None:
            return self.fatal
        outcome = await self._answer(request)
        if isinstance(outcome, Denied) and outcome.reason in FATAL:
            self.fatal = outcome
        return outcome

    def finish(self) -> Denied | None:
        """The call has ended: why its result must not count, None where it may."""
        if self.fatal is None and self._ledger.reaches(self._next):
            detail = f"it ended after {self._next} effects, and more are on record"
            self.fatal = Denied(DenialReason.NONDETERMINISTIC, detail)
        return self.fatal

    async def _answer(self, request: EffectRequest) -> Outcome:
        index = self._next
        asked = self._ledger.at(index)
        mark = fingerprint(request)
        if asked is not None:
            if asked.fingerprint != mark:
                detail = f"effect {index} differs from the one on record; a tool that resumes asks the same again"
                return Denied(DenialReason.NONDETERMINISTIC, detail)
            if asked.outcome is not None:
                self._next += 1
                return self._recorded(asked.outcome)
        outcome = await self._fresh(index, mark, request, asked_before=asked is not None)
        self._next += 1
        return outcome

    async def _fresh(self, index: int, mark: str, request: EffectRequest, *, asked_before: bool) -> Outcome:
        verdict = self._policy.check(request)
        if isinstance(verdict, Denied):
            return self._record(index, mark, request, verdict)
        if self._replay is not None:
            found = self._replay.answer(self._tool, request)
            if found is None:
                detail = f"{verdict.method} {verdict.url} is not on record, and a replay sends nothing"
                return self._record(index, mark, request, Denied(DenialReason.REPLAY_MISS, detail))
            return self._record(index, mark, request, self._recorded(found))
        if asked_before and verdict.method not in SAFE_METHODS:
            detail = f"{verdict.method} {verdict.url} may have been sent before a crash; it is not sent again"
            return self._record(index, mark, request, Denied(DenialReason.OUTCOME_UNKNOWN, detail, sent=True))
        # The keyring may wait for a person, and a passphrase is slow to use on purpose: not on the event loop.
        secrets = await asyncio.to_thread(self._secrets, verdict) if self._names else {}
        if self._transport is None:
            return self._record(index, mark, request, Denied(DenialReason.NETWORK, "no network is configured"))
        if not asked_before:
            self._emit("effect_intent", self._facts(index, mark, request))
        try:
            outcome = await self._transport.perform(verdict, self._policy, secrets)
        except asyncio.CancelledError:
            detail = f"the call ended while {verdict.method} {verdict.url} was under way"
            with contextlib.suppress(StoreError):  # its intent is stored, which says the same
                self._record(index, mark, request, Denied(DenialReason.OUTCOME_UNKNOWN, detail, sent=True))
            raise
        return self._record(index, mark, request, _without(outcome, secrets))

    def _secrets(self, verdict: Allowed) -> dict[str, str]:
        """Every declared value: the one that is sent, and the others so that an echo of theirs is redacted."""
        values: dict[str, str] = {}
        for name in self._names:
            try:
                value = self._credential(name)
            except SecretsError as error:
                if name == verdict.credential:
                    raise NeedsCredential(name, f"{error.message} {error.hint}".strip()) from error
                continue
            if value is not None:
                values[name] = value
        if verdict.credential is not None and verdict.credential not in values:
            raise NeedsCredential(verdict.credential)
        return values

    def _facts(self, index: int, mark: str, request: EffectRequest) -> dict[str, Any]:
        return {
            "call": self._call,
            "tool": self._tool,
            "index": index,
            "fingerprint": mark,
            "method": str(request.method)[:16],
            "url": str(request.url)[:2000],
            "credential": None if request.credential is None else request.credential[:200],
        }

    def _record(self, index: int, mark: str, request: EffectRequest, outcome: Outcome) -> Outcome:
        data = outcome.to_json()
        if isinstance(outcome, EffectResponse) and len(outcome.body) > INLINE_BODY:
            data = {**data, "body": "", "blob": self._put_blob(outcome.body)}
        self._emit("effect", {**self._facts(index, mark, request), "outcome": data})
        return outcome

    def _recorded(self, data: Mapping[str, Any]) -> Outcome:
        outcome = outcome_from(data)
        if isinstance(outcome, EffectResponse) and isinstance(data.get("blob"), str):
            return EffectResponse(outcome.status, outcome.headers, self._blob(data["blob"]), outcome.redirects)
        return outcome


def _without(outcome: Outcome, secrets: Mapping[str, str]) -> Outcome:
    """A denial whose words hold no secret: they may name where a server tried to redirect to. Answers come redacted."""
    if not isinstance(outcome, Denied) or not secrets:
        return outcome
    known = {name: value for name, value in secrets.items() if len(value) >= MIN_SECRET}
    words = redact(outcome.detail.encode("utf-8", "replace"), known).decode("utf-8", "replace")
    # A host's name is written in small letters, whatever was asked for.
    if any(value.lower() in words.lower() for value in known.values()):
        words = "what the server said cannot be shown: it holds a credential"
    return replace(outcome, detail=words)
