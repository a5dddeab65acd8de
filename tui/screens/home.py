"""Home: who waits for the person, what runs, what was done, which agents there are; and a composer for a new one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.timer import Timer

from core import SessionInfo
from tui.desk import Desk
from tui.leaving import left
from tui.screens.base import QuietScreen
from tui.screens.messages import Opened, WritingBegun
from tui.shelf import Shelf
from tui.view.fleet import AgentInfo, Fleet, fleet, peek
from tui.view.rows import matching
from tui.view.text import Line, Tone, line, short
from tui.widgets.bars import Bar, KeyBar
from tui.widgets.composer import Composer
from tui.widgets.lines import TextView
from tui.widgets.rowlist import RowList

if TYPE_CHECKING:
    from textual.widgets import Input

PROMPT = "Which agent? A repository URL, a path, or say it in words"
SHOWN_SESSIONS = 1000

WELCOME: tuple[Line, ...] = (
    (),
    line(("  Artificer builds agents.", Tone.STRONG)),
    (),
    line("  Name a source below: a repository URL, a path on this machine, or an agent in your own words."),
    line("  The Builder reads it in a sandbox, asks when it must, and shows you what it made."),
    line("  Nothing is published until you say so."),
    (),
    line("  ", ("enter", Tone.STRONG), " sends   ", ("F1", Tone.STRONG), " help   ", ("ctrl+q", Tone.STRONG), " quits"),
)


def _thinks(provider: str) -> Line:
    """Who will answer, and how to have another."""
    if provider == "offline":
        words = "offline: rules, no model. For a model: ARTIFICER_PROVIDER=anthropic and its key"
    else:
        words = provider
    return line((f"  thinks here  {words}", Tone.DIM))


class HomeScreen(QuietScreen[None]):
    """The list of sessions and agents."""

    AUTO_FOCUS = ""  # what has the focus first is chosen below; to give it to something else before costs a restyling

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "new", "new", id="home.new", tooltip="Begin a new agent"),
        Binding("slash", "filter", "filter", key_display="/", id="home.filter", tooltip="Filter the list"),
        Binding("space", "peek", "peek", id="home.peek", tooltip="Look into a session without opening it"),
        Binding("a", "answer", "answer", id="home.answer", tooltip="Open the session and answer"),
        Binding("i", "interrupt", "interrupt", id="home.interrupt", tooltip="Interrupt the session under the cursor"),
        Binding("l", "lab", "lab", id="home.lab", tooltip="The lab: comparisons, experiments, evaluations"),
        Binding("escape", "leave", "list", id="home.list", tooltip="Back to the list"),
    ]

    class BuildWanted(Message):
        """A new Builder session is to begin with these words; `composer` keeps them until it has."""

        def __init__(self, text: str, composer: Composer) -> None:
            super().__init__()
            self.text = text
            self.composer = composer

    def __init__(self, desk: Desk, shelf: Shelf) -> None:
        super().__init__()
        self.desk = desk
        self.shelf = shelf
        self.words = ""
        self.left = ""
        """What was open over this screen a moment ago, as a row's key."""
        self._writing = False
        self._fleet = Fleet((), ())
        self._infos: dict[str, SessionInfo] = {}
        self._agents: dict[str, AgentInfo] = {}
        self._older: dict[str, SessionInfo] = {}
        """Sessions before the newest, which are read beside."""
        self._cost = 0.0
        """How long it took to read and show everything, in seconds."""
        self._again: Timer | None = None

    def compose(self) -> ComposeResult:
        """A line, the list or a welcome, the composer, the keys; what does not show yet is not made yet."""
        yield Bar(id="top")
        with Horizontal(id="home"):
            self._read()
            yield (
                RowList(id="fleet", empty="nothing matches the filter") if self._fleet.rows else TextView(id="welcome")
            )
        yield Composer(PROMPT, history=self.desk.history(), id="composer")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        """Show what there is; with nothing there, the person writes first."""
        self.query_one(Composer).restore(self.desk.store.get_value("composer:home"))
        self._show()
        self._focus_first()

    def _focus_first(self) -> None:
        (self.query_one(RowList) if self._fleet.rows else self.query_one(Composer)).focus()

    async def on_screen_resume(self) -> None:
        """What happened meanwhile."""
        await self.refresh_rows()
        if len(self._infos) >= SHOWN_SESSIONS:
            self.poll()
        self.call_after_refresh(self._back)

    def _back(self) -> None:
        """Back from a session or an agent: the list has the focus, on what was left, unless something is half
        written here."""
        left, self.left = self.left, ""
        composer = self.query_one(Composer)
        if left and self._fleet.rows and not composer.text:
            rows = self.query_one(RowList)
            rows.select(left)
            rows.focus()

    # --- rows --------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read the columns of sessions and agents."""
        newest = self.desk.store.sessions(limit=SHOWN_SESSIONS)
        for info in newest:
            self._older.pop(info.id, None)
        sessions = [self.desk.now(info) for info in (*self._older.values(), *newest)]
        agents = self.shelf.agents()
        self._infos = {info.id: info for info in sessions}
        self._agents = {agent.name: agent for agent in agents}
        self._fleet = fleet(sessions, agents, self.desk.host.now())

    def poll(self) -> None:
        """Something was written. A long list is read again so rarely that it takes a tenth of the time at most."""
        if self._again is None:
            self._again = self.set_timer(max(0.01, self._cost * 9), self._read_all)

    async def _read_all(self) -> None:
        """Read everything again: what waits for the person may be older than a thousand other sessions."""
        begin = time.perf_counter()
        try:
            if len(self._infos) >= SHOWN_SESSIONS:
                rows = self.query_one(RowList)
                top = not self._older and rows.cursor <= 1
                found = await asyncio.to_thread(self.desk.store.sessions)
                self._older = {info.id: info for info in found[:-SHOWN_SESSIONS]}
                await self.refresh_rows()
                if top and not left(self):  # nobody has chosen another row yet: the first of all has the cursor
                    rows.action_edge(-1)
            else:
                await self.refresh_rows()
        finally:
            self._cost, self._again = time.perf_counter() - begin, None

    async def refresh_rows(self) -> None:
        """Read again, and show."""
        if left(self):  # a clock may strike when the app is being closed
            return
        self._read()
        if self._fleet.rows and self.query("#welcome"):
            await self.query_one("#welcome").remove()
            await self.query_one("#home").mount(RowList(id="fleet", empty="nothing matches the filter"))
        self._show()

    def _show(self) -> None:
        top = self.query_one("#top", Bar)
        top.left = line(("Artificer", Tone.STRONG))
        top.right = self._fleet.headline if self._fleet.rows else ()
        if not self._fleet.rows:
            for welcome in self.query("#welcome").results(TextView):
                welcome.show((*WELCOME, (), _thinks(self.desk.host.settings.provider)))
            return
        self.query_one(RowList).show(matching(self._fleet.rows, self.words))
        self._look()

    @on(RowList.Moved)
    def _moved(self) -> None:
        self._look()

    def _look(self) -> None:
        """Show what is under the cursor beside the list, where that is wanted."""
        for look in self.query("#peek").results(TextView):
            look.show(self._lines(*self.query_one(RowList).key.partition(":")[::2]))

    def _lines(self, kind: str, name: str) -> tuple[Line, ...]:
        if kind == "session" and name in self._infos:
            said = []
            for event in self.desk.store.tail(name, 60):
                if event.kind == "message" and not event.damaged:
                    said.append((str(event.data.get("role")), str(event.data.get("text", ""))))
            return peek(self._infos[name], said[-3:], self.desk.host.now())
        if kind == "agent" and name in self._agents:
            agent = self._agents[name]
            return (
                line((name, Tone.STRONG)),
                line(("live    ", Tone.DIM), short(agent.live)),
                line(("latest  ", Tone.DIM), short(agent.latest)),
            )
        return ()

    # --- keys --------------------------------------------------------------------------------------

    @on(RowList.Chosen)
    def _chosen(self, event: RowList.Chosen) -> None:
        self.post_message(Opened(event.key))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The list's letters act only where no text is being written."""
        if action in ("new", "filter", "peek", "answer", "interrupt", "lab"):
            return isinstance(self.focused, RowList)
        if action == "leave":
            return bool(self._fleet.rows) and (bool(self.words) or not isinstance(self.focused, RowList))
        return True

    def action_new(self) -> None:
        """Write what is wanted."""
        self.query_one(Composer).focus()

    def action_lab(self) -> None:
        """To the lab."""
        self.post_message(Opened("lab:"))

    def action_answer(self) -> None:
        """Open it; its composer is where answers go."""
        self.query_one(RowList).action_choose()

    async def action_peek(self) -> None:
        """Show or hide a look into what is under the cursor, beside the list."""
        if self.query("#peek"):
            await self.query("#peek").remove()
        else:
            await self.query_one("#home").mount(TextView(id="peek"))
            self._look()

    async def action_interrupt(self) -> None:
        """Stop the session under the cursor."""
        kind, _, name = self.query_one(RowList).key.partition(":")
        if kind != "session":
            return
        stopped = await self.desk.interrupt(name)
        self.notify("Stopping it; it can go on later." if stopped else "Nothing runs there.", markup=False)

    async def action_filter(self) -> None:
        """Write a filter; its field is made when it is first wanted."""
        if not self.query("#filter"):
            from tui.widgets.field import Field

            await self.mount(Field(placeholder="filter", id="filter"), before=self.query_one(Composer))
        box = self.query_one("#filter")
        box.display = True
        box.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The filter's words changed."""
        self.words = event.value
        self._show()

    def on_input_submitted(self) -> None:
        """The filter is written: to the list."""
        self.query_one(RowList).focus()

    async def action_leave(self) -> None:
        """Forget the filter, and to the list."""
        if not self.query_one(Composer).has_focus:
            await self.query("#filter").remove()
            self.words = ""
            self._show()
        self._focus_first()

    @on(Composer.Changed)
    def _writes(self) -> None:
        if not self._writing:
            self._writing = True
            self.post_message(WritingBegun())

    @on(Composer.Paged)
    def _paged(self, event: Composer.Paged) -> None:
        """A page of the list, while writing."""
        for rows in self.query(RowList).results(RowList):
            rows.action_page(event.step)

    @on(Composer.Sent)
    def _sent(self, event: Composer.Sent) -> None:
        self.post_message(self.BuildWanted(event.text, event.composer))

    def keep(self) -> None:
        """Keep what is written and not sent."""
        self.desk.keep("composer:home", self.query_one(Composer).to_json())
