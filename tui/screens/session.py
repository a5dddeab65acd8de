"""One session: the conversation, its workspace log, its agent's revisions and validations, its transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical

from core import Event, SessionInfo, Stop
from tui.desk import Desk
from tui.leaving import left
from tui.panes.chat import ChatPane
from tui.panes.side import LOWER, UPPER, Fed
from tui.panes.transcript import TranscriptPane
from tui.screens.messages import HomeWanted, Opened
from tui.screens.secrets import KeepsSecrets
from tui.screens.sessionpanes import NARROW
from tui.shelf import LIVE, Shelf
from tui.view.chat import Asked, Change, Chat
from tui.view.status import status
from tui.view.text import line, short
from tui.view.worklog import LogLine, WorkLog
from tui.widgets.bars import Bar, KeyBar
from tui.widgets.card import CardBox
from tui.widgets.composer import Composer
from tui.widgets.logview import LogView

FIRST = 300
"""Events read to show a session first; older ones come when somebody scrolls up."""
OLDER = 300
KEPT = 300
"""Blocks kept of a session that is followed; twice as many may gather."""
TOUCHING = frozenset({"tool_result", "source"})
"""Events after which the workspace may hold something else."""
BUNDLE_KINDS = frozenset({"revision", "validation", "published"})
PROMPT = "Write to the Builder"
WORKING = "what you write is read at its next turn"
FORKING = (
    line("A new session begins with this conversation, its workspace and its settings, and rests at the same place."),
    line("This one stays as it is. What it cost and what you allowed in it stays here."),
)
RESUMABLE = frozenset({None, "cancelled", "provider_error", "platform_error"})
"""Stops after which a session can go on without words."""


class SessionScreen(KeepsSecrets):
    """A Builder session or a run, whoever drives it."""

    CSS_PATH = "session.tcss"
    AUTO_FOCUS = ""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+r",
            "resume",
            "go on",
            key_display="^r",
            id="session.resume",
            tooltip="Go on after an interruption, a stop or an error, without words",
        ),
        Binding(
            "ctrl+t",
            "fork",
            "fork",
            show=False,
            id="session.fork",
            tooltip="Fork: go on in a copy, and leave this session as it is",
        ),
        Binding("f10,ctrl+o", "home", "home", key_display="^o", id="session.home", tooltip="All sessions and agents"),
    ]

    def __init__(self, desk: Desk, shelf: Shelf, session: str) -> None:
        super().__init__()
        self.desk = desk
        self.shelf = shelf
        self.session = session
        self.info: SessionInfo | None = None
        self.chat = Chat()
        self.log_lines = WorkLog()
        self.queued = 0
        self._sandbox = ("", False)
        self._model = ""
        self._next = ""
        self.sandbox_known = False
        self._first = 1
        self.fed: tuple[Fed, ...] = ()
        self.early = True

    def compose(self) -> ComposeResult:
        """Conversation and composer on the left, the log above the other panes on the right."""
        yield Bar(id="top")
        yield Bar(id="tabs")
        with Vertical(id="stage"):
            yield ChatPane(can_store=self.desk.host.secrets is not None, id="chat")
            with Vertical(id="side"):
                work = self.desk.host.workspace_path(self.session)
                for place, panes in (("upper", UPPER), ("lower", LOWER)):
                    for make in panes.values():
                        yield make(work).add_class(place)
            yield Composer(PROMPT, history=self.desk.history(), id="composer")
        yield KeyBar(id="keys")

    async def on_mount(self) -> None:
        """Show the end of the session at once, then follow it."""
        self.composed = True
        self.fed = tuple(pane for pane in self.query_one("#side").children if isinstance(pane, Fed))
        self.query_one("#chat").border_title = "F2 Conversation"
        events = self.desk.store.tail(self.session, FIRST)
        self._first = events[0].seq if events else 1
        self.query_one(ChatPane).complete = self._first <= 1
        last = events[-1].seq if events else 0
        self.query_one(TranscriptPane).source(self._read, last)
        self.query_one(Composer).restore(self.desk.store.get_value(f"composer:{self.session}"))
        await self.take(events)
        self.show_panes()
        self.set_focus(self.query_one(Composer))
        self.run_worker(self._follow(last), group="follow", exit_on_error=True)
        self._know(self.desk.session(self.session))

    def _know(self, info: SessionInfo | None) -> None:
        """Take the session's columns; with the first of them, find out what surrounds it. A session that just began
        may have none yet when its screen opens."""
        first = self.info is None and info is not None
        self.info = info if info is not None else self.info
        if first:
            self.run_worker(self._find_surroundings(), group="sandbox")

    def _read(self, after: int, count: int) -> Sequence[Event]:
        return list(self.desk.store.events(self.session, after=after, limit=count))

    async def _follow(self, after: int) -> None:
        async for batch in self.desk.follow(self.session, after):
            if left(self):
                return
            await self.take(batch)

    async def _find_surroundings(self) -> None:
        if self.info is not None:
            self._sandbox = await self.desk.sandbox(self.info)
            self._model = await self.desk.usual_model(self.info)
            self.sandbox_known = True
            if not left(self):
                self._show_status()

    # --- events ------------------------------------------------------------------------------------

    async def take(self, events: Sequence[Event]) -> None:
        """Show more events, in order: each pane gets what concerns it."""
        changes: list[Change] = []
        lines: list[LogLine] = []
        last, bundles = 0, self.info is None
        for event in events:
            changes += self.chat.apply(event)
            if event.kind == "draft":
                continue
            lines += self.log_lines.apply(event)
            last = event.seq
            bundles = bundles or event.kind in BUNDLE_KINDS
            if event.kind == "message" and event.data.get("role") == "user":
                self.queued = max(0, self.queued - 1)
        await self.query_one(ChatPane).apply(changes)
        if left(self):
            return
        if lines:
            self.query_one(LogView).extend(lines)
        for pane in self.fed:
            pane.feed(events)
        if last:
            self.query_one(TranscriptPane).grown(last)
            self._know(self.desk.session(self.session))
        self._show_status()
        self._forget_oldest()
        if bundles:
            self.refresh_bundles()
        if any(event.kind in TOUCHING for event in events):
            self.look_again("files")

    def _forget_oldest(self) -> None:
        """Of a long session that is only followed, the store keeps the beginning, not the screen."""
        pane = self.query_one(ChatPane)
        first = pane.trim(KEPT)
        if first is not None:
            self.chat.forget([key for key in self.chat.blocks if key not in pane.blocks])
            self._first = first

    @property
    def agent(self) -> str | None:
        """The agent this session is about, once it has a name."""
        if self.info is not None and self.info.agent:
            return self.info.agent
        named = None
        for event in self.desk.store.events(self.session, kinds=("revision",)):
            named = event.data.get("agent")
        return named if isinstance(named, str) else None

    @on(ChatPane.OlderWanted)
    async def _older(self) -> None:
        pane = self.query_one(ChatPane)
        events = self.desk.before(self.session, self._first, OLDER)
        chat = Chat()
        for event in events:
            chat.apply(event)
        if events:
            for event in self.desk.store.events(self.session, after=self._first - 1, limit=200, kinds=("tool_result",)):
                chat.apply(event)
            self._first = events[0].seq
        await pane.add_older([_settled(block) if isinstance(block, Asked) else block for block in chat.blocks.values()])
        pane.complete = self._first <= 1

    # --- what is shown -----------------------------------------------------------------------------

    def refresh_bundles(self) -> None:
        """Also the diff, and what the person may do with the newest revision."""
        super().refresh_bundles()
        self._next = ""
        name = self.agent
        if name is not None:
            found = self.shelf.agent(name)
            newest = found.revisions[-1].digest if found.revisions else None
            if newest is not None and newest == found.channels.get(LIVE):
                self._next = f"{short(newest)} is live: F4, t runs it"
            elif newest is not None and self.shelf.passed(name, newest) is not None:
                self._next = f"F4, p publishes {short(newest)}"
        self._show_status()
        self.look_again("diff")

    def poll(self) -> None:
        """Another process wrote something: the session's columns may have changed without an event."""
        info = self.desk.session(self.session)
        if not self.composed:
            return
        if info != self.info:
            self._know(info)
            self._show_status()
        self.refresh_changed_bundles()

    def _show_status(self) -> None:
        asked = self.chat.asked
        kind = asked.card.waiting.kind if asked is not None and asked.card.waiting is not None else None
        name, unsafe = self._sandbox
        foreign = self.info is not None and self.desk.foreign(self.session)
        narrow = self.size.width < NARROW
        shown = status(
            self.info,
            kind,
            sandbox=name,
            unsafe=unsafe,
            model=self._model,
            foreign=foreign,
            queued=self.queued,
            narrow=narrow,
        )
        top = self.query_one("#top", Bar)
        top.left, top.right = shown.name, shown.around
        top.middle = line((str(shown.state), shown.state.tone))
        self.query_one("#keys", Bar).left = shown.figures
        composer = self.query_one(Composer)
        working = self.info is not None and self.info.status == "running"
        if asked is not None and asked.card.prompt:
            composer.placeholder = asked.card.prompt
        elif working:
            composer.placeholder = WORKING if foreign else f"ctrl+c stops it · {WORKING}"
        elif self._interrupted:
            composer.placeholder = "It was interrupted: ctrl+r goes on, or write"
        else:
            builds = self.info is None or self.info.kind == "builder"
            prompt = PROMPT if builds else "Write to the agent"
            done = builds and self.info is not None and self.info.stop == Stop.COMPLETED.value
            composer.placeholder = f"{prompt} · {self._next}" if done and self._next else prompt
        self.query_one(KeyBar).keys_changed()

    def on_resize(self) -> None:
        """More or fewer panes. The first size may come before there are any."""
        if self.composed:
            self.show_panes()
            self._show_status()

    @property
    def _interrupted(self) -> bool:
        return self.info is not None and self.info.status == "interrupted"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Going on without words is for a session that stopped in the middle."""
        if action != "resume":
            return True
        info = self.info
        return info is not None and (
            info.status == "interrupted" or (info.status != "running" and info.stop in RESUMABLE)
        )

    async def action_resume(self) -> None:
        """Go on where it stopped."""
        await self.desk.resume(self.session)
        self.set_focus(self.query_one(Composer))

    @work(group="act", exit_on_error=True)
    async def action_fork(self) -> None:
        """Ask once, and go on in a copy."""
        from tui.screens.dialogs import YesScreen

        if self.info is not None and self.info.status == "running":
            self.notify("It is working: ctrl+c stops it, then it can be forked.", severity="warning", markup=False)
            return
        if not await self.app.push_screen_wait(YesScreen("Fork this session?", FORKING, "fork it")):
            return
        made, why = await self.desk.fork(self.session)
        if made is None:
            self.notify(why, title="✗ Not forked", severity="error", markup=False, timeout=10)
            return
        self.post_message(Opened(f"session:{made}"))

    def action_home(self) -> None:
        """Back to the list."""
        self.post_message(HomeWanted())

    # --- answers -----------------------------------------------------------------------------------

    @on(Composer.Sent)
    async def _sent(self, event: Composer.Sent) -> None:
        pasted = self.pasted_key(event.text)
        if pasted is not None:
            self.offer_to_keep(pasted, event.text, event.composer)
        else:
            await self.send(event.text, event.composer)

    @on(CardBox.Answered)
    async def _card_answered(self, event: CardBox.Answered) -> None:
        await self.say(event.text)
        self.set_focus(self.query_one(Composer))

    async def say(self, text: str) -> bool:
        """Answer what it waits for, or say something to it."""
        from core import StoreError

        running = self.desk.drives(self.session)
        try:
            why = await self.desk.say(self.session, text)
        except StoreError as error:
            why = f"{error} {error.hint}"
        if why is not None:
            self.notify(why, severity="warning", markup=False)
            return False
        self.queued += running
        await self.query_one(ChatPane).action_latest()
        if self.info is not None and not running and self.desk.foreign(self.session):
            self.notify("Handed to the process that drives it; it is read at its next turn.", markup=False)
        self._show_status()
        return True

    @on(CardBox.Filled)
    def _card_filled(self, event: CardBox.Filled) -> None:
        self.query_one(Composer).fill(event.text)

    @on(CardBox.Acted)
    async def _card_acted(self, event: CardBox.Acted) -> None:
        match event.act:
            case "resume":
                await self.action_resume()
            case "model" | "provider":
                await self.run_action(f"app.{event.act}")
            case "evidence":
                waiting = self.chat.stop or {}
                facts = waiting.get("evidence")
                first = facts.get("first") if isinstance(facts, dict) else None
                self.show_event(first if isinstance(first, int) else event.asked.seq)

    def drive_failed(self) -> None:
        """A drive of this session ended by an error: it is nobody's now, and words it did not store are written
        still."""
        self.info = self.desk.session(self.session)
        composer = self.query_one(Composer)
        stored = [str(e.data.get("text")) for e in self.desk.store.tail(self.session, 20) if not e.damaged]
        if composer.last_sent.strip() and composer.last_sent.strip() not in (text.strip() for text in stored):
            composer.unsent()
        self._show_status()

    def keep(self) -> None:
        """Keep what is written and not sent."""
        self.desk.keep(f"composer:{self.session}", self.query_one(Composer).to_json())


def _settled(asked: Asked) -> Asked:
    from dataclasses import replace

    return replace(asked, active=False)
