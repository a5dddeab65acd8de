"""What the lab's screen does with comparisons, experiments and evaluations: read on, label. No widgets in here."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tui.view.cases import PERSON, agreement_words, same_series
from tui.view.lab import KINDS, PAIR, Kept

if TYPE_CHECKING:
    from core import Host, Record, SessionInfo

SHOWN: Final = 500
"""Records of the lists, the newest."""
WORKING: Final = 300
"""Sessions of one record that are looked at while they work."""
SERIES: Final = 60
"""Evaluations of one plot, the newest."""


class Laboratory:
    """The records of a host. What was read of one is kept, and only what came since is read again."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.store = host.store
        self.infos: dict[str, SessionInfo] = {}
        self._kept: dict[str, Kept] = {}
        self._reading = threading.Lock()
        """A series is read in a thread while the screen follows what grows."""

    def look(self) -> None:
        """Read the columns of all records, and on in those that are being written."""
        found = self.store.sessions(limit=SHOWN, kinds=KINDS)
        self.infos = {info.id: info for info in reversed(found)}
        for key, kept in list(self._kept.items()):  # a thread may add to them
            if key in self.infos:
                kept.info = self.infos[key]
        for info in found:
            if info.status == "running":
                self.read(info.id)

    def of_kind(self, kind: str) -> list[SessionInfo]:
        """The records of a kind, newest first."""
        return [info for info in self.infos.values() if info.kind == kind]

    def read(self, record: str) -> Kept | None:
        """A record, read to its end; None where there is none."""
        info = self.infos.get(record) or self.store.session(record)
        if info is None or info.kind not in KINDS:
            return None
        with self._reading:
            kept = self._kept.setdefault(record, Kept(info))
            kept.info = info
            if info.last_seq > kept.seen:
                kept.take(self.store.events(record, after=kept.seen))
            if info.status == "running" or kept.live:
                self._watch(kept)
        return kept

    def known(self, record: str) -> Kept | None:
        """What was read of a record, without reading on."""
        return self._kept.get(record)

    def mark(self, record: str) -> object:
        """Changes with everything that is shown of a record and of those it is compared with; cheap to ask for."""
        kept, info = self._kept.get(record), self.infos.get(record)
        state = (info.status, info.stop) if info is not None else None
        return (
            record,
            state,
            kept.changes if kept else -1,
            len(self.infos),
            sum(k.changes for k in list(self._kept.values())),
        )

    def _watch(self, kept: Kept) -> None:
        infos = self.store.sessions(limit=WORKING, parent=kept.info.id) if kept.info.status == "running" else []
        kept.watch(infos)
        for session in kept.live if kept.info.kind == "evaluation" else ():
            if session not in kept.case_of:
                for event in self.store.events(session, limit=1):
                    suite = event.data.get("suite")
                    kept.case_of[session] = str(suite.get("case")) if isinstance(suite, Mapping) else ""

    def series(self, kept: Kept) -> list[Kept]:
        """The newest evaluations of the same suite and agent, itself among them. Reads much: call it in a thread."""
        found = [kept]
        for info in self.of_kind("evaluation"):
            if info.agent == kept.info.agent and info.id != kept.info.id:
                other = self.read(info.id)
                if other is not None and same_series(kept, other):
                    found.append(other)
            if len(found) == SERIES:
                break
        return found

    # --- labels ------------------------------------------------------------------------------------

    def labels(self, kept: Kept) -> dict[str, list[Mapping[str, Any]]]:
        """The labels that stand, by case, the person's own last."""
        from core import labels_now

        found: dict[str, list[Mapping[str, Any]]] = {}
        for row in sorted(labels_now(kept.labels), key=lambda row: row.get("by") == PERSON):
            found.setdefault(str(row.get("case")), []).append(row)
        return found

    def agreement(self, kept: Kept) -> str:
        """How far checks and judges agree with the labels, in words; empty without labels."""
        if not kept.labels or kept.info.kind != "evaluation":
            return ""
        from core import agreement, judges_agreement

        rows = list(kept.rows.values())
        return agreement_words(agreement(rows, kept.labels), judges_agreement(rows, kept.labels))

    def label(self, record: str, case: str, verdict: str, note: str) -> str | None:
        """Say of a case whether it is good, or of a pair which arm is better, as `artificer label` does. Why not, in
        words, where it was not kept."""
        from core import Busy, Record, StoreError, UnknownCase

        try:
            writer = Record.append_to(self.host, record)
        except Busy:
            return "Another process writes this record. Label it when that is done."
        except StoreError as error:
            return str(error)
        try:
            _write_label(writer, case, verdict, note)
        except (UnknownCase, StoreError) as error:
            return str(error.args[0])
        finally:
            writer.close()
        return None


def _write_label(record: Record, case: str, verdict: str, note: str) -> None:
    from core import LABEL_WORDS, Label, add_label, add_pair_label

    if case == PAIR:
        add_pair_label(record, verdict, note, PERSON)
    else:
        add_label(record, Label(case, next(word for word in LABEL_WORDS if word == verdict), note, PERSON))
