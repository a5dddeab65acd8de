"""The app: screens over one host, and the keys that act everywhere."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import time
from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on, work
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui.acts import ActingApp
from tui.desk import LEFT, Desk
from tui.input import TerminalDriver
from tui.screens import messages
from tui.screens.home import HomeScreen
from tui.shelf import Shelf
from tui.view.fleet import RECORDS
from tui.widgets.composer import Composer

if TYPE_CHECKING:
    from core import Host

AGAIN_S = 2.0
"""A second ctrl+c within this time leaves."""
POLL_S = 0.25
WARM_S = 0.5
"""How long after the first paint other screens are loaded."""
INTERRUPTED = 130


class ArtificerApp(ActingApp):
    """Artificer in a terminal."""

    TITLE = "Artificer"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = True

    # The function keys come first: a text field has uses of its own for some of them.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "help", id="app.help", tooltip="Every key"),
        Binding("ctrl+p", "command_palette", "commands", key_display="^p", id="app.commands", tooltip="Every command"),
        Binding("ctrl+q", "quit", "quit", key_display="^q", id="app.quit", tooltip="Leave Artificer", priority=True),
        Binding(
            "ctrl+c",
            "stop",
            "stop",
            show=False,
            id="app.stop",
            tooltip="Stop the running turn; twice: leave Artificer",
            priority=True,
        ),
        Binding("f9", "search", "search", show=False, id="app.search", tooltip="Search all sessions", priority=True),
        Binding(
            "f7", "mouse", "mouse", show=False, id="app.mouse", tooltip="Give the mouse to the terminal, or take it"
        ),
        Binding(
            "f8",
            "copy",
            "copy",
            show=False,
            id="app.copy",
            tooltip="Copy the selection, or the last reply",
            priority=True,
        ),
    ]

    def __init__(self, host: Host, *, session: str | None = None) -> None:
        super().__init__(driver_class=TerminalDriver)
        self.host = host
        self.desk = Desk(host, self._drive_failed)
        self.shelf = Shelf(host)
        self.open_at_start = f"session:{session}" if session else None
        self.opened = False
        """Whether what is opened at the start is open."""
        self._stop_pressed = 0.0
        self._mouse = True
        self._ending = False
        theme = host.store.get_value("app:theme") or host.settings.theme
        if isinstance(theme, str) and theme in self.available_themes:
            self.theme = theme

    # --- beginning and end -------------------------------------------------------------------------

    async def run_async(self, **options: Any) -> Any:
        """Run in the terminal. A signal gives it back from the first moment on: they are heard before it is taken."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_end, number)
        return await super().run_async(**options)

    def get_default_screen(self) -> Screen[Any]:
        """Home."""
        return HomeScreen(self.desk, self.shelf)

    def on_mount(self) -> None:
        """First the screen, then everything else."""
        self._load_keymap()
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # fg after a stop: all anew
        self.call_after_refresh(self._after_first_paint)

    def _load_keymap(self) -> None:
        from tui.keymap import KeymapError, load_keymap, split

        try:
            self.own_keys, wrong = split(load_keymap(self.host.home))
        except KeymapError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        if self.own_keys:
            self.set_keymap(self.own_keys)
        self._keymap_warning(wrong)

    def _keymap_warning(self, wrong: Sequence[str]) -> None:
        if wrong:
            more = [f"and {len(wrong) - 3} more"] if len(wrong) > 3 else []
            words = "\n".join([*wrong[:3], *more, "F1 lists the names of all keys."])
            self.notify(words, title="! keymap", severity="warning", markup=False, timeout=15)

    async def _after_first_paint(self) -> None:
        self.theme_changed_signal.subscribe(self, lambda theme: self.desk.keep("app:theme", theme.name))
        self.set_interval(POLL_S, self._poll)
        key = self.open_at_start or self.host.store.get_value(LEFT)
        if isinstance(key, str):
            await self.open_key(key)
        self.opened = True
        self.set_timer(WARM_S, self._warm)

    def _warm(self) -> None:
        """While the person reads, load the screens they open next."""
        if self.own_keys:
            from tui.screens.groups import wrong_keys

            self._keymap_warning(wrong_keys(self))
        self._load("tui.screens.session", "tui.screens.dialogs")
        gc.enable()
        gc.collect()
        gc.freeze()

    @work(thread=True, group="load")
    def _load(self, *names: str) -> None:
        from importlib import import_module

        for name in names:
            import_module(name)

    def _told_to_end(self, number: int) -> None:
        if number == signal.SIGINT and self.terminal_lent:
            return  # ctrl+c in the editor reaches this process too
        self.run_worker(self._leave(128 + number), exit_on_error=False)

    async def action_quit(self) -> None:
        """Leave; what runs here is interrupted and can go on later."""
        await self._leave(0)

    async def _leave(self, code: int) -> None:
        if self._ending:
            return
        self._ending = True
        if self.opened:
            self._keep_place()
        await self.desk.close()
        self.exit(code, return_code=code)

    def _keep_place(self) -> None:
        """Remember the screen and what is written in it."""
        from core import StoreError

        try:
            for screen in self.screen_stack:
                keep = getattr(screen, "keep", None)
                if keep is not None:
                    keep()
        except StoreError:
            return
        self.desk.keep(LEFT, self._place())

    def _place(self) -> str | None:
        for screen in reversed(self.screen_stack):
            session = getattr(screen, "session", None)
            if isinstance(session, str):
                return f"session:{session}"
            agent = getattr(screen, "agent", None)
            if isinstance(agent, str):
                return f"agent:{agent}"
            place = getattr(screen, "place", None)
            if isinstance(place, str):
                return place
        return None

    def _drive_failed(self, session: str, error: BaseException) -> None:
        """A drive that ended without a stop: say what happened and what to do."""
        from core import Busy

        whole = self.host.store.session(session) is not None
        hint = getattr(error, "hint", "") or ("The session is whole; write to it to go on." if whole else "Try again.")
        words = str(error) or type(error).__name__
        if isinstance(error, Busy):
            words, hint = "Another process drives this session.", "What you write here reaches it."
        for screen in self.screen_stack:
            if getattr(screen, "session", None) == session and hasattr(screen, "drive_failed"):
                screen.drive_failed()
        self.notify(f"{words}\n{hint}", title="✗ This turn ended with an error", severity="error", markup=False)

    # --- the store, as others change it ------------------------------------------------------------

    async def _poll(self) -> None:
        if self._ending or not self.is_running or not self.desk.poll():  # a clock may strike when all is closed
            return
        poll = getattr(self.screen, "poll", None)
        if poll is not None:
            poll()

    def get_key_display(self, binding: Binding) -> str:
        """A key as the bottom line and the help name it: `enter`, `esc`, `^p`, `F1`."""
        key = binding.key_display or binding.key.split(",")[0]
        short = {"escape": "esc", "slash": "/", "space": "space"}
        if key.startswith("ctrl+") and len(key) == 6:
            return "^" + key[-1]
        return short.get(key, key.upper() if len(key) < 4 and key[:1] == "f" and key[1:].isdigit() else key)

    # --- opening -----------------------------------------------------------------------------------

    @on(messages.Opened)
    async def _opened(self, event: messages.Opened) -> None:
        await self.open_key(event.key, over=event.over)

    @on(messages.RunWanted)
    async def _run_wanted(self, event: messages.RunWanted) -> None:
        if event.change:
            beginning = self.desk.build(event.task, agent=event.agent)
        else:
            beginning = self.desk.run(event.agent, event.ref, event.task)
        await self._begin(beginning, event.task, event.composer)

    async def _begin(self, beginning: Awaitable[str], text: str, composer: Composer) -> None:
        """Open a session that begins with `text`; where it does not, the words stand in `composer` again."""
        from core import StoreError, UnknownRef

        try:
            session = await beginning
        except (StoreError, UnknownRef) as error:
            self._say_no("Not started", f"{error} {error.hint}")
            composer.unsent()
            return
        if self.host.store.session(session) is None:
            composer.unsent()
            return
        self.desk.remember(text)
        await self.open_session(session)
        if composer.text:  # typed while it opened
            self.screen.query_one(Composer).fill(composer.text)
            composer.text = ""

    @on(messages.HomeWanted)
    async def action_home(self) -> None:
        """Back to the list of sessions and agents, or to the lab where that lies between."""
        await self._home(until=self.beneath)
        self.desk.keep(LEFT, self._place())

    @property
    def beneath(self) -> Screen[Any] | None:
        """The lab, where the screen in front was opened over it."""
        below = self.screen_stack[-2] if len(self.screen_stack) > 2 else None
        return below if str(getattr(below, "place", "")).startswith("lab:") else None

    @on(messages.WritingBegun)
    def _writing_begun(self) -> None:
        """While the person writes, load what reads it."""
        self._load("core.drive", "impl.drivers.builder")

    @on(HomeScreen.BuildWanted)
    async def _build_wanted(self, event: HomeScreen.BuildWanted) -> None:
        await self._begin(self.desk.build(event.text), event.text, event.composer)

    async def open_key(self, key: str, *, over: bool = False) -> None:
        """Open `session:ID`, `agent:NAME` or `lab:RECORD`; nothing happens where there is none."""
        kind, _, name = key.partition(":")
        info = self.host.store.session(name) if kind == "session" else None
        if info is not None and info.kind in RECORDS:
            await self.open_lab(name)
        elif info is not None:
            await self.open_session(name, over=over)
        elif kind == "agent" and name in self.host.store.agents():
            await self.open_agent(name)
        elif kind == "lab":
            await self.open_lab(name or None)

    async def open_session(self, session: str, *, over: bool = False) -> None:
        """Show a session over the home screen, or `over` the one in front."""
        from tui.screens.session import SessionScreen

        await self._show(SessionScreen(self.desk, self.shelf, session), over=over)

    async def open_lab(self, record: str | None = None) -> None:
        """Show the lab over the home screen, with a record of it opened where one is named."""
        from tui.screens.lab import LabScreen

        await self._show(LabScreen(self.desk, record))

    async def action_lab(self) -> None:
        """Comparisons, experiments, evaluations."""
        await self.open_lab()

    async def open_agent(self, name: str, *, talk: bool = False, ref: str | None = None) -> None:
        """Show an agent over the home screen, and begin a task for it where that is wanted."""
        from tui.screens.agent import AgentScreen

        await self._show(AgentScreen(self.desk, self.shelf, name, talk=talk, ref=ref))

    async def _show(self, screen: Screen[Any], *, over: bool = False) -> None:
        if not over:
            await self._home()
        await self.push_screen(screen)
        self.desk.keep(LEFT, self._place())

    async def _home(self, until: Screen[Any] | None = None) -> None:
        """Close everything over the home screen, or over `until`."""
        while len(self.screen_stack) > 1 and self.screen is not until:
            keep = getattr(self.screen, "keep", None)
            if keep is not None:
                keep()
            left = self._place()
            await self.pop_screen()
            if isinstance(self.screen, HomeScreen):
                self.screen.left = left or ""

    # --- keys that act everywhere ------------------------------------------------------------------

    async def action_stop(self) -> None:
        """First cancels the running turn and says so; again within two seconds leaves."""
        now = time.monotonic()
        if now - self._stop_pressed < AGAIN_S:
            await self._leave(INTERRUPTED)
            return
        self._stop_pressed = now
        sessions = [getattr(screen, "session", None) for screen in self.screen_stack]
        session = next((one for one in sessions if isinstance(one, str) and self.desk.drives(one)), None)
        if session is not None:
            await self.desk.interrupt(session)
            self.notify("Stopping this turn; write to go on. Press ctrl+c again to leave.", markup=False)
            return
        others = any(isinstance(one, str) and self.desk.foreign(one) for one in sessions)
        why = "Another process drives this one: at home, i interrupts it. " if others else ""
        self.notify(f"{why}Press ctrl+c again to leave.", markup=False)

    def action_mouse(self) -> None:
        """Let the terminal select text by itself, or scroll and click here again."""
        self._mouse = not self._mouse
        if not self.is_headless and sys.__stderr__ is not None:
            end = "h" if self._mouse else "l"
            sys.__stderr__.write("".join(f"\x1b[?{mode}{end}" for mode in (1000, 1003, 1015, 1006)))
            sys.__stderr__.flush()
        words = (
            "The mouse scrolls and clicks here." if self._mouse else "The mouse is the terminal's: select freely. F7"
        )
        self.notify(words, markup=False)

    def action_copy(self) -> None:
        """Copy the selected text, or the last reply: to the terminal's clipboard and to a file, and say both."""
        from tui.copying import copy_text, text_to_copy

        text = text_to_copy(self.screen)
        if not text:
            self.notify("Nothing is selected, and there is no reply to copy.", markup=False)
            return
        self.copy_to_clipboard(text)
        self.notify(copy_text(text, self.host.home), markup=False)

    def action_search(self) -> None:
        """Search all sessions, and open one where the words stand."""
        from tui.screens.search import SearchScreen

        if not isinstance(self.screen, SearchScreen):
            self.push_screen(SearchScreen(self.desk), self._found)

    async def _found(self, found: tuple[str, int] | None) -> None:
        from tui.screens.session import SessionScreen

        if found is None:
            return
        session, seq = found
        if self._session() != session:
            await self.open_key(f"session:{session}")
        if isinstance(self.screen, SessionScreen):
            self.screen.show_event(seq)

    def action_help(self) -> None:
        """Every key."""
        from tui.screens.dialogs import TextScreen
        from tui.screens.groups import all_help

        if not isinstance(self.screen, TextScreen):
            self.push_screen(TextScreen("Help", all_help(self)))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """What the palette offers here."""
        from tui.screens.groups import commands

        yield from commands(self, screen)
