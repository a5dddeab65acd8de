"""Driving a session from a command: to its next stop, through given answers, with events as they happen."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from core import Busy, Event, Host, LaunchInput, Outcome, Stop, Supervisor, outside
from impl.control import deliver, serve
from tui.commands import output

POLL_S = 0.1


def drive(host: Host, launch: LaunchInput, *, answers: Sequence[str] = (), json: bool, stream: bool = False) -> int:
    """Drive to a stop that no answer is left for; prints events and the result; returns the stop's exit code."""
    printer = Printer(json=json, stream=stream)
    try:
        outcome, left = asyncio.run(_drive(host, replace(launch, watch=printer), list(answers)))
    except Busy:
        return asyncio.run(_hand_over(host, launch, printer))
    if left:
        output.say(f"Note: {len(left)} answer{'s were' if len(left) > 1 else ' was'} not needed.")
    return finish(host, outcome, json=json)


class Printer:
    """Shows events as they are stored: every one as a JSON line, or progress for a person."""

    def __init__(self, *, json: bool, stream: bool) -> None:
        self._json = json
        self._stream = stream

    def __call__(self, event: Event) -> None:
        if event.kind == "draft" and not self._stream:
            return
        if self._json:
            output.line(event.to_json())
        elif (words := output.describe(event)) is not None:
            output.progress(words)


async def _drive(host: Host, launch: LaunchInput, answers: list[str]) -> tuple[Outcome, list[str]]:
    supervisor = Supervisor(host)
    session = launch.session or host.new_id()
    launch = replace(launch, session=session)
    with _signals(lambda: supervisor.interrupt(session)):
        known = host.store.session(session)
        server = None
        try:
            server = await serve(host, supervisor)
            supervisor.start(launch) if known is None else supervisor.resume(launch)
            outcome = await supervisor.wait(session)
            while answers and _asks(outcome):
                answer = replace(launch, task=None, answer=answers.pop(0))
                supervisor.resume(answer)
                outcome = await supervisor.wait(session)
        finally:
            if server is not None:
                server.close()
            await supervisor.close()
    return outcome, answers


def _asks(outcome: Outcome) -> bool:
    return outcome.record.waiting is not None or outcome.stop is Stop.AWAITING_USER


@contextlib.contextmanager
def _signals(interrupt: Callable[[], Any]) -> Any:
    """SIGINT and SIGTERM end the run as `cancelled`, with its result."""
    loop = asyncio.get_running_loop()
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for name in names:
        loop.add_signal_handler(name, interrupt)
    try:
        yield
    finally:
        for name in names:
            loop.remove_signal_handler(name)


async def _hand_over(host: Host, launch: LaunchInput, printer: Printer) -> int:
    """Another process drives the session: give it the words, then follow it to its next stop."""
    session = launch.session or ""
    info = host.store.session(session)
    after = info.last_seq if info else 0
    words = launch.task or launch.answer
    if words is not None:
        sent = await asyncio.to_thread(deliver, host, session, "say" if launch.task else "answer", words)
        if not sent:
            raise output.Refused("busy", f"Another process drives {session} and does not answer.", "Try again.")
    with _signals(lambda: deliver(host, session, "interrupt")):
        while True:
            for event in list(host.store.events(session, after=after)):
                after = event.seq
                printer(event)
                if event.kind == "stop":
                    return _report_stop(host, event, json=printer._json)
            current = host.store.session(session)
            if current is None or current.status == "interrupted":
                hint = f"Go on with: artificer resume {session}"
                raise output.Refused("interrupted", f"The process that drove {session} died.", hint)
            await asyncio.sleep(POLL_S)


def _report_stop(host: Host, event: Event, *, json: bool) -> int:
    info = host.store.session(event.session)
    if info is None:
        raise output.Refused("not_found", f"Session {event.session} is gone.")
    outcome = Outcome.of(info, event.data)
    return finish(host, outcome, json=json)


def finish(host: Host, outcome: Outcome, *, json: bool) -> int:
    """Print the result: a JSON line, or the reply and what a person may do next."""
    if json:
        output.line(outcome.to_json())
    else:
        if outcome.record.output:
            output.text(outcome.record.output)
        for words in next_steps(outcome):
            output.say(words)
    return outcome.stop.exit_code


def next_steps(outcome: Outcome) -> list[str]:
    """Whose turn it is, and what to type."""
    session, record = outcome.info.id, outcome.record
    waiting = record.waiting
    lines: list[str] = []
    if waiting is not None:
        lines.append(f"\n{waiting.message}")
        for number, option in enumerate(outside(waiting)["options"], 1):
            mark = "  (recommended)" if option["id"] == waiting.recommended else ""
            lines.append(f"  {number}  {option['label']}{mark}")
    match outcome.stop:
        case Stop.COMPLETED:
            pass
        case Stop.AWAITING_USER | Stop.NEEDS_APPROVAL | Stop.DOOM_LOOP | Stop.BUDGET:
            lines.append(f"\nYour turn ({outcome.stop}). Answer with: artificer answer {session} TEXT")
        case Stop.NEEDS_CREDENTIALS:
            names = " ".join(waiting.names) if waiting else "NAME"
            agent = outcome.agent or "AGENT"
            lines.append(f"\nYour turn. Set it with: artificer credentials set {agent} {names}")
            lines.append(f"Then go on with: artificer resume {session}")
        case Stop.CANNOT_CONVERT:
            lines += _evidence(record.evidence)
        case Stop.CANCELLED:
            lines.append(f"Cancelled. Go on with: artificer resume {session}")
        case Stop.REFUSED:
            lines.append(f"The model refused. Say it differently with: artificer resume {session} -m TEXT")
        case Stop.PROVIDER_ERROR | Stop.PLATFORM_ERROR:
            words = record.evidence.get("text") if isinstance(record.evidence, dict) else None
            lines.append(f"{outcome.stop} ({record.detail}): {words or ''}".rstrip(": "))
            lines.append(f"Go on, once it is mended, with: artificer resume {session}")
    return lines


def _evidence(evidence: Any) -> list[str]:
    if not isinstance(evidence, dict):
        return ["This source cannot be converted."]
    lines = [f"Cannot convert: {evidence.get('capability')}. {evidence.get('reason')}"]
    lines += [f"  {row}" for row in evidence.get("evidence", ())]
    return lines
