"""Driving a session from a command: to its next stop, through given answers, with events as they happen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from core import Busy, Event, Host, LaunchInput, Outcome, Stop, Supervisor
from impl.control import deliver, serve
from tui.commands import output
from tui.commands.credentials import unlock_for
from tui.commands.ending import finish

POLL_S = 0.05
HAND_OVER_S = 5.0
"""How long a session may be neither free nor reachable before it counts as stuck."""
HEARD_S = 2.0
"""How long after a stop the process that drives may take to go on with words it was given."""


def drive(host: Host, launch: LaunchInput, *, answers: Sequence[str] = (), json: bool, stream: bool = False) -> int:
    """Drive to a stop that no answer is left for; prints events and the result; returns the stop's exit code."""
    unlock_for(host, launch)
    left = list(answers)
    outcome = asyncio.run(_to_stop(host, launch, left, Printer(json=json, stream=stream)))
    if left:
        output.say(f"Note: {len(left)} answer{'s were' if len(left) > 1 else ' was'} not needed.")
    return finish(outcome, json=json)


class Printer:
    """Shows events as they are stored: every one as a JSON line, or progress for a person."""

    def __init__(self, *, json: bool, stream: bool) -> None:
        self._json = json
        self.stream = stream

    def __call__(self, event: Event) -> None:
        if event.kind == "draft" and not self.stream:
            return
        if self._json:
            output.line(event.to_json())
        elif event.kind == "notice":
            output.say(f"Note: {event.data.get('text')}")
        elif (words := describe(event)) is not None:
            output.progress(words)


async def _to_stop(host: Host, launch: LaunchInput, answers: list[str], printer: Printer) -> Outcome:
    """Drive here, or, where another process drives, hand over to it and follow."""
    launch = replace(launch, session=launch.session or host.new_id(), watch=_dated(host, printer))
    deadline = asyncio.get_running_loop().time() + HAND_OVER_S
    while True:
        try:
            return await _here(host, launch, answers)
        except Busy:
            outcome = await _there(host, launch, printer)
        if outcome is not None:
            return outcome
        if asyncio.get_running_loop().time() > deadline:
            message = f"Another process drives {launch.session} and does not answer."
            raise output.Refused("busy", message, "Try again, or end that process and then resume the session.")
        await asyncio.sleep(POLL_S)


def _dated(host: Host, printer: Printer) -> Callable[[Event], None]:
    """The printer; text still streaming has no time of its own, so it gets the present one."""

    def show(event: Event) -> None:
        printer(event if event.at else Event(event.session, event.seq, host.now(), event.kind, data=event.data))

    return show


# --- here ----------------------------------------------------------------------------------------------


async def _here(host: Host, launch: LaunchInput, answers: list[str]) -> Outcome:
    """Drive in this process, reachable by others; takes the answers it uses from the list."""
    session = launch.session or ""
    supervisor = Supervisor(host)
    with _signals(lambda: supervisor.interrupt(session)) as interrupted:
        server = await serve(host, supervisor)
        try:
            if host.store.session(session) is None:
                supervisor.start(launch)
            else:
                supervisor.resume(launch)
            if interrupted():
                supervisor.interrupt(session)
            while True:
                outcome = await _outcome(host, supervisor, session)
                if answers and asks(outcome) and not interrupted():
                    supervisor.resume(_answering(launch, answers.pop(0)))
                    continue
                server.close()
                if session not in supervisor.running():
                    return outcome
        finally:
            server.close()
            await supervisor.close()


def _answering(launch: LaunchInput, text: str) -> LaunchInput:
    """Going on with an answer. What the launch chose is stored with the session, and an answer may change it."""
    return replace(launch, task=None, answer=text, provider=None, model=None, sandbox=None)


async def _outcome(host: Host, supervisor: Supervisor, session: str) -> Outcome:
    """The outcome of the present drive; that of an interrupted one from what it stored."""
    try:
        return await supervisor.wait(session)
    except asyncio.CancelledError:
        info = host.store.session(session)
        stops = [event for event in host.store.tail(session, 20) if event.kind == "stop"]
        if info is None or not stops:
            raise KeyboardInterrupt from None
        return Outcome.of(info, stops[-1].data)


def asks(outcome: Outcome) -> bool:
    """Whether an answer would let the session go on."""
    return outcome.record.waiting is not None or outcome.stop is Stop.AWAITING_USER


@contextlib.contextmanager
def _signals(interrupt: Callable[[], Any]) -> Iterator[Callable[[], bool]]:
    """The first SIGINT, SIGTERM or SIGHUP ends the run as `cancelled`, with its result; from the third on they do
    what they always do. Gives a function that says whether one came."""
    loop = asyncio.get_running_loop()
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    count = 0

    def came() -> None:
        nonlocal count
        count += 1
        if count == 1:
            interrupt()
        else:
            restore()

    def restore() -> None:
        for name in names:
            loop.remove_signal_handler(name)

    for name in names:
        loop.add_signal_handler(name, came)
    try:
        yield lambda: count > 0
    finally:
        restore()


# --- there ---------------------------------------------------------------------------------------------


async def _there(host: Host, launch: LaunchInput, printer: Printer) -> Outcome | None:
    """Give the words to the process that drives, then follow it to its next stop; None where it drives no more. An
    interrupt ends the following alone."""
    session = launch.session or ""
    info = host.store.session(session)
    after = info.last_seq if info else 0
    words = launch.task or launch.answer
    op = "say" if launch.task else "answer"
    following = asyncio.current_task()
    assert following is not None
    with _signals(following.cancel) as interrupted:
        try:
            if words is not None and not await asyncio.to_thread(deliver, host, session, op, words):
                return None
            given = "was given this" if words is not None else "drives this session"
            output.say(f"Another process {given}; following it to its next stop.")
            return await _follow(host, session, after, words, printer)
        except asyncio.CancelledError:
            if interrupted():
                raise output.Unfollowed(session) from None
            raise


async def _follow(host: Host, session: str, after: int, words: str | None, printer: Printer) -> Outcome:
    """Show what another process stores until the stop that comes after `words`, or the next one."""
    clock = asyncio.get_running_loop().time
    heard, stop, shown = words is None, None, None
    stopped = 0.0
    while True:
        info = host.store.session(session)
        for event in list(host.store.events(session, after=after)):
            after = event.seq
            printer(event)
            heard = heard or (event.kind in ("message", "answer") and (words or "") in str(event.data.get("text")))
            stop, stopped = (event, clock()) if event.kind == "stop" else (None, 0.0)
        if printer.stream and (draft := host.store.draft(session)) is not None and draft != shown:
            shown = draft
            printer(draft_now(host, session, draft))
        if info is None or info.status == "interrupted":
            unheard = "" if heard else " -m TEXT (what you said was not heard)"
            hint = f"Go on with: artificer resume {session}{unheard}"
            raise output.Refused("interrupted", f"The process that drove {session} died.", hint)
        if stop is None and info.status == "stopped" and words is None:
            stop = next((e for e in reversed(host.store.tail(session, 20)) if e.kind == "stop"), None)
        if stop is not None and (heard or clock() - stopped > HEARD_S):
            if not heard:
                output.say("Note: the session came to its stop before it heard this.")
            return Outcome.of(host.store.session(session) or info, stop.data)
        await asyncio.sleep(POLL_S)


def draft_now(host: Host, session: str, draft: tuple[str, str, str]) -> Event:
    """Text that is still streaming, as an event of kind `draft`."""
    return Event(session, 0, host.now(), "draft", data={"id": draft[0], "text": draft[1], "thinking": draft[2]})


# --- progress ------------------------------------------------------------------------------------------


def describe(event: Event) -> str | None:
    """One line on a running session for a person, or None where there is nothing to say."""
    data = event.data
    match event.kind:
        case "message" if data.get("role") == "assistant" and data.get("finish") == "tool_calls" and data.get("text"):
            return str(data["text"])
        case "tool_call":
            args = json.dumps(data.get("args"), ensure_ascii=False)
            return f"  {data.get('tool')} {args if len(args) < 100 else args[:99] + '…'}"
        case "tool_result" if not data.get("ok"):
            return f"  ✗ {' '.join(str(data.get('output', '')).split())[:160]}"
        case "source":
            count = f" ({data['files']} files)" if data.get("files") is not None else ""
            return f"  source: {data.get('url') or data.get('path')}{count}"
        case "revision":
            return f"  saved {data.get('agent')} {output.short(data.get('digest'))}"
        case "validation":
            return f"  validation {'passed' if data.get('passed') else 'failed'} ({data.get('id')})"
        case "published" if not data.get("refused"):
            return f"  published {data.get('agent')} {output.short(data.get('digest'))} to {data.get('channel')}"
        case "nudge":
            return f"  to the model: {data.get('text')}"
        case _:
            return None
