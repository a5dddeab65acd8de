"""The durable record of a session: ordered events, readable even where a kind is unknown or a body damaged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

#: Kinds this version writes. A reader meets others (newer versions, damage) and must show them, not fail.
KINDS: Final = frozenset(
    {
        # kind, agent, digest, parent, depth, provider, model, sandbox, limits, publish, source, replay; where they
        # apply also inherited {policy, deepest}, network (false), suite {path, digest}, and what a lab was asked for
        "started",
        "message",  # role, text; assistant: id, blocks, finish, provider, route, model, effort, turn; incomplete
        "tool_call",  # call, tool, args; raw (what the model sent, where it was not valid); turn; recorded
        "tool_result",  # call, ok, output; status, blob, size, duration_s, data
        "usage",  # input_tokens, output_tokens, cached_tokens, requests, cost {"usd"}, provider, model
        "nudge",  # text, rule, evidence
        "stop",  # stop, detail, output, waiting, evidence
        "answer",  # waiting, kind, text, choice
        "settings",  # provider, model, sandbox, limits: what changed
        "log",  # call, text: output of a command while it runs
        "source",  # url | path, commit, licence, files, bytes
        "tool_check",  # path, tool, digest, registered, problems: a generated tool of a draft was registered, or not
        "revision",  # agent, digest, parents, message, by
        "validation",  # id, digest, passed, problems
        "published",  # agent, channel, digest, previous, validation_run, by, refused
        "approval",  # tool, decision, scope, call
        "rewind",  # messages: how many were kept
        "effect_intent",  # call, tool, index, fingerprint, method, url, credential (its name)
        "effect",  # the same, and outcome: a redacted response, or denied and detail
        "compaction",  # summary, upto, before_tokens, after_tokens
        "repair",  # what, calls: a history mended at load
        "permission",  # id, tool, args, allowed: what an agent CLI was told about a tool of its own
        "provider_session",  # provider, route, native, model, mode, directory, total, told: an agent CLI's own session
        "forked",  # session, seq, events: those before are another session's up to its event `seq`, this one's parent
        "child",  # call, preset, agent, digest, channel, session, depth: stored before the child begins
        "cell",  # id, session, and the row: one arm of a comparison or experiment, recorded once
        "case",  # id, session, passed, checks, and the row: one case of an evaluation, recorded once
        "preference",  # winner, state, consistent, judge, rubric, sessions, usd: what a judge found of a comparison
        "label",  # case, session, verdict, note, by: a person's word on a case
        "notice",  # text: something a person should know, not part of the conversation
    }
)


class Event:
    """One stored event. `data` is decoded on first use, so that a list of many costs little.

    A body that does not decode gives `{"damaged": reason, "raw": first 200 characters}`; `damaged` is then
    true and everything else of the session stays readable.
    """

    __slots__ = ("_data", "_raw", "at", "kind", "seq", "session")

    def __init__(
        self,
        session: str,
        seq: int,
        at: str,
        kind: str,
        raw: str | bytes | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        self.session = session
        self.seq = seq
        self.at = at
        self.kind = kind
        self._raw = raw
        self._data: Mapping[str, Any] | None = data

    @property
    def data(self) -> Mapping[str, Any]:
        """The body, as stored."""
        if self._data is None:
            self._data = _decode(self._raw)
        return self._data

    @property
    def damaged(self) -> bool:
        """Whether the stored body could not be read."""
        return "damaged" in self.data

    def to_json(self) -> dict[str, Any]:
        """The line that `--json` prints: the stable outside form, version 1."""
        return {
            "type": "event",
            "v": 1,
            "session": self.session,
            "seq": self.seq,
            "at": self.at,
            "kind": self.kind,
            "data": dict(self.data),
        }

    def __repr__(self) -> str:
        return f"Event({self.session!r}, {self.seq}, {self.kind!r}, {dict(self.data)!r})"


_read: Final = json.JSONDecoder().raw_decode


def _decode(raw: str | bytes | None) -> Mapping[str, Any]:
    try:
        if isinstance(raw, str) and raw.startswith("{"):  # as we write it: no need to look for space around it
            found, end = _read(raw)
            if end == len(raw):
                return cast("dict[str, Any]", found)
        value = json.loads(raw or b"")
    except (ValueError, RecursionError) as error:
        return {"damaged": str(error), "raw": _preview(raw)}
    if isinstance(value, dict):
        return value
    return {"damaged": "not an object", "raw": _preview(raw)}


def _preview(raw: str | bytes | None) -> str:
    if isinstance(raw, bytes):
        return raw[:200].decode("utf-8", "replace")
    return (raw or "")[:200]


_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""As `json.dumps` does, but made once."""


def encode(data: Mapping[str, Any]) -> str:
    """The stored form of a body: compact JSON. Lone surrogates become U+FFFD, so that it is always UTF-8."""
    text = _encode(data)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
