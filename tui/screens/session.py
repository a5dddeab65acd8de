"""One session: the conversation, its workspace log, its agent's revisions and validations, its transcript."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from core import Event, SessionInfo
from tui.desk import Desk
from tui.panes.bundles import RevisionsPane, ValidationPane
from tui.panes.chat import ChatPane
from tui.panes.transcript import TranscriptPane
from tui.screens.agentpanes import AgentPanes
from tui.screens.messages import HomeWanted
from tui.shelf import Shelf
from tui.view.chat import Asked, Change, Chat
from tui.view.status import status
from tui.view.text import Line, Tone, line
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
PANES = ("chat", "log", "revisions", "validation", "transcript")
NARROW = 100
BUNDLE_KINDS = frozenset({"revision", "validation", "published"})
PROMPT = "Write to the Builder"


class SessionScreen(AgentPanes):
    """A Builder session or a run, whoever drives it."""

    CSS_PATH = "session.tcss"

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "pane('chat')", "chat", show=False, id="session.chat", tooltip="The conversation", priority=True),
        Binding("f3", "pane('log')", "log", show=False, id="session.log", tooltip="The workspace log", priority=True),
        Binding(
            "f4",
            "pane('revisions')",
            "revisions",
            show=False,
            id="session.revisions",
            tooltip="The revisions",
            priority=True,
        ),
        Binding(
            "f5",
            "pane('validation')",
            "checks",
            show=False,
            id="session.validation",
            tooltip="Validation runs",
            priority=True,
        ),
        Binding(
            "f6",
            "pane('transcript')",
            "events",
            show=False,
            id="session.transcript",
            tooltip="Every event",
            priority=True,
        ),
        Binding("escape", "panes", "panes", id="session.panes", tooltip="To the card or the panes, and back"),
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
        self.pane = "chat"
        self.lower = "revisions"
        self.queued = 0
        self._sandbox = ("", False)
        self.sandbox_known = False
        self._composed = False
        self._first = 1

    def compose(self) -> ComposeResult:
        """Conversation and composer on the left, the log above the other panes on the right."""
        yield Bar(id="top")
        yield Bar(id="tabs")
        with Vertical(id="stage"):
            yield ChatPane(can_store=self.desk.host.secrets is not None, id="chat")
            with Vertical(id="side"):
                yield LogView(id="log")
                yield RevisionsPane(id="revisions")
                yield ValidationPane(id="validation")
                yield TranscriptPane(id="transcript")
            yield Composer(PROMPT, history=self.desk.history(), id="composer")
        yield KeyBar(id="keys")

    async def on_mount(self) -> None:
        """Show the end of the session at once, then follow it."""
        self._composed = True
        self.query_one("#log").border_title = "Workspace log"
        self.query_one("#chat").border_title = "Conversation"
        events = self.desk.store.tail(self.session, FIRST)
        self._first = events[0].seq if events else 1
        self.query_one(ChatPane).complete = self._first <= 1
        last = events[-1].seq if events else 0
        self.query_one(TranscriptPane).source(self._read, last)
        self.query_one(Composer).restore(self.desk.store.get_value(f"composer:{self.session}"))
        await self.take(events)
        self._arrange()
        self.query_one(Composer).focus()
        self.run_worker(self._follow(last), group="follow", exit_on_error=True)
        self.run_worker(self._find_sandbox(), group="sandbox")

    def _read(self, after: int, count: int) -> Sequence[Event]:
        return list(self.desk.store.events(self.session, after=after, limit=count))

    async def _follow(self, after: int) -> None:
        async for batch in self.desk.follow(self.session, after):
            await self.take(batch)

    async def _find_sandbox(self) -> None:
        if self.info is not None:
            self._sandbox = await self.desk.sandbox(self.info)
            self.sandbox_known = True
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
        if lines:
            self.query_one(LogView).extend(lines)
        if last:
            self.query_one(TranscriptPane).grown(last)
            self.info = self.desk.store.session(self.session)
        self._show_status()
        self._forget_oldest()
        if bundles:
            self.refresh_bundles()

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

    def poll(self) -> None:
        """Another process wrote something: the session's columns may have changed without an event."""
        info = self.desk.store.session(self.session)
        if self._composed and info != self.info:
            self.info = info
            self._show_status()

    def _show_status(self) -> None:
        asked = self.chat.asked
        kind = asked.card.waiting.kind if asked is not None and asked.card.waiting is not None else None
        name, unsafe = self._sandbox
        foreign = self.info is not None and self.desk.foreign(self.session)
        narrow = self.size.width < NARROW
        shown = status(self.info, kind, sandbox=name, unsafe=unsafe, foreign=foreign, queued=self.queued, narrow=narrow)
        top = self.query_one("#top", Bar)
        top.left, top.right = shown.name, shown.around
        top.middle = line((str(shown.state), shown.state.tone))
        self.query_one("#keys", Bar).left = shown.figures
        composer = self.query_one(Composer)
        working = self.info is not None and self.info.status == "running"
        if asked is not None and asked.card.prompt:
            composer.placeholder = asked.card.prompt
        elif working:
            composer.placeholder = "It is working; what you write is read at its next turn"
        else:
            composer.placeholder = PROMPT if self.info is None or self.info.kind == "builder" else "Write to the agent"
        composer.border_subtitle = "enter sends · ctrl+j new line"

    def _arrange(self) -> None:
        """Show the panes that fit: at 80 columns one at a time, with a line that says which there are."""
        narrow = self.size.width < NARROW
        self.query_one("#tabs").display = narrow
        for name in PANES[1:]:
            wanted = name == self.pane if narrow else name in ("log", self.lower)
            self.query_one(f"#{name}").display = wanted
        self.query_one("#chat").display = not narrow or self.pane == "chat"
        self.query_one("#side").display = not narrow or self.pane != "chat"
        self.query_one("#tabs", Bar).left = _tabs(PANES, self.pane)
        for name in PANES[2:]:
            self.query_one(f"#{name}").border_title = _tabs_title(self.lower)

    def on_resize(self) -> None:
        """More or fewer panes. The first size may come before there are any."""
        if self._composed:
            self._arrange()
            self._show_status()

    def action_pane(self, name: str) -> None:
        """Go to a pane; at 80 columns it takes the place of the one shown."""
        self.pane = name
        if name in PANES[2:]:
            self.lower = name
        self._arrange()
        self.query_one(f"#{name}").focus()

    def action_panes(self) -> None:
        """From the composer to a waiting card, or to the pane in use; from anywhere else back to the composer."""
        composer = self.query_one(Composer)
        if not composer.has_focus:
            if self.size.width < NARROW and self.chat.asked is not None:
                self.pane = "chat"
                self._arrange()
            composer.focus()
            return
        card = self.query_one(ChatPane).card
        if card is not None and self.query_one("#chat").display:
            card.enter()
            card.scroll_visible(animate=False)
        else:
            self.query_one(f"#{self.pane if self.pane != 'chat' else 'chat'}").focus()

    def action_home(self) -> None:
        """Back to the list."""
        self.post_message(HomeWanted())

    # --- answers -----------------------------------------------------------------------------------

    @on(Composer.Sent)
    async def _sent(self, event: Composer.Sent) -> None:
        if await self._say(event.text):
            self.desk.remember(event.text)
        else:
            event.composer.unsent()

    @on(CardBox.Answered)
    async def _card_answered(self, event: CardBox.Answered) -> None:
        await self._say(event.text)
        self.query_one(Composer).focus()

    async def _say(self, text: str) -> bool:
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
        self._show_status()
        return True

    @on(CardBox.Secret)
    async def _card_secret(self, event: CardBox.Secret) -> None:
        """Keep an entered value; the call that waits for it runs again, and stops again where it needs another."""
        why = await self.desk.keep_secret(self.session, event.name, event.value)
        if why is not None:
            self.notify(why, severity="warning", markup=False)
            return
        self.notify(f"{event.name} is set.", markup=False)
        await self._say("retry")
        self.query_one(Composer).focus()

    @on(CardBox.Filled)
    def _card_filled(self, event: CardBox.Filled) -> None:
        self.query_one(Composer).fill(event.text)

    @on(CardBox.Acted)
    async def _card_acted(self, event: CardBox.Acted) -> None:
        match event.act:
            case "resume":
                await self.desk.resume(self.session)
                self.query_one(Composer).focus()
            case "model" | "provider":
                await self.run_action(f"app.{event.act}")
            case "evidence":
                waiting = self.chat.stop or {}
                facts = waiting.get("evidence")
                first = facts.get("first") if isinstance(facts, dict) else None
                self.action_pane("transcript")
                self.query_one(TranscriptPane).action_go(first if isinstance(first, int) else event.asked.seq)

    def keep(self) -> None:
        """Keep what is written and not sent."""
        self.desk.keep(f"composer:{self.session}", self.query_one(Composer).to_json())

    def on_descendant_focus(self) -> None:
        """Remember the pane in use."""
        for widget in (self.focused, *(self.focused.ancestors if self.focused else ())):
            if isinstance(widget, Widget) and widget.id in PANES and self.size.width >= NARROW:
                self.pane = widget.id


def _settled(asked: Asked) -> Asked:
    from dataclasses import replace

    return replace(asked, active=False)


_LABELS = {
    "chat": "Chat",
    "log": "Log",
    "revisions": "Revisions",
    "validation": "Validation",
    "transcript": "Transcript",
}


def _tabs(names: Sequence[str], current: str) -> Line:
    parts: list[str | tuple[str, Tone]] = []
    for number, name in enumerate(names, 2):
        here = name == current
        parts += [(f"F{number} ", Tone.DIM), (_LABELS[name], Tone.STRONG if here else Tone.DIM), "   "]
    return line(*parts)


def _tabs_title(current: str) -> str:
    names = [_LABELS[name] if name != current else f"[b]{_LABELS[name]}[/b]" for name in PANES[2:]]
    return " · ".join(names)
