"""What a person does with a revision or a session by key: publish, roll back, compare, edit, validate, go on."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.app import App, SuspendNotSupported

from tui.screens import messages
from tui.view.text import one_line, short

if TYPE_CHECKING:
    from core import ValidationRun
    from tui.desk import Desk
    from tui.shelf import Shelf


class ActingApp(App[int]):
    """The part of the app that acts; each act is a worker, so that the screen stays alive."""

    desk: Desk
    shelf: Shelf
    own_keys: Mapping[str, str] = MappingProxyType({})
    """The person's own keys, by binding id."""
    terminal_lent = False
    """Whether a program of the person's has the terminal now."""

    @property
    def acting(self) -> bool:
        """Whether an act is under way that waits for no answer."""
        return self.screen_stack[-1].is_modal is False and any(
            worker.group == "act" and not worker.is_finished for worker in self.workers
        )

    # --- wishes of the panes -----------------------------------------------------------------------

    @on(messages.RevisionWish)
    def _wished(self, event: messages.RevisionWish) -> None:
        match event.wish:
            case "publish":
                self.publish_revision(event.agent, event.digest)
            case "rollback":
                self.roll_back(event.agent, event.digest)
            case "diff":
                self.show_diff(event.agent, event.digest, event.marked)
            case "edit":
                self.edit_revision(event.agent, event.digest)
            case "manifest":
                self.edit_revision(event.agent, event.digest, "agent.yaml")
            case "validate":
                self.validate_again(event.agent, event.digest)
            case "talk":
                self.talk_to(event.agent, event.digest)

    @work(group="act", exit_on_error=True)
    async def publish_revision(self, agent: str, digest: str) -> None:
        """Validate where that was not done, ask once, publish; refused ones show why."""
        if self.shelf.store.channels(agent).get("live") == digest:
            self.notify(f"{short(digest)} is live already.", markup=False)
            return
        if self.shelf.passed(agent, digest) is None:
            run = await self._validated(agent, digest, "✗ not published")
            if run is None or not run.passed:
                return
        await self._move(agent, digest, rollback=False)

    @work(group="act", exit_on_error=True)
    async def roll_back(self, agent: str, digest: str) -> None:
        """Roll back to a revision; on the live one, to the one published before it."""
        from core import UnknownRef

        try:
            if self.shelf.agent(agent).channels.get("live") == digest:
                digest = self.shelf.before_live(agent)
        except UnknownRef as error:
            self._say_no("Not rolled back", str(error))
            return
        if self.shelf.passed(agent, digest, ever=True) is None:
            self._say_no("Not rolled back", f"{short(digest)} never passed validation. Press v to validate it.")
            return
        await self._move(agent, digest, rollback=True)

    async def _move(self, agent: str, digest: str, *, rollback: bool) -> None:
        from core import StoreError, UnknownRef
        from tui.screens.dialogs import MoveScreen

        try:
            move = await asyncio.to_thread(self.shelf.plan, agent, digest, rollback=rollback)
            self.clear_notifications()  # what was said before would lie over what is asked
            if not await self.push_screen_wait(MoveScreen(move, self.shelf.host.now())):
                self.notify("Left as it was.", markup=False)
                return
            entry = await asyncio.to_thread(self.shelf.move, move)
        except (StoreError, UnknownRef) as error:
            self._say_no("Nothing was changed", f"{error} {getattr(error, 'hint', '')}")
            return
        if entry.refused:
            self._say_no(
                f"{'Rollback' if rollback else 'Publishing'} was refused: {entry.refused}", _refusal(entry.refused)
            )
        else:
            title = "● Rolled back" if rollback else "● Published"
            self.notify(f"{entry.channel} of {agent} is {short(entry.digest)}.", title=title, markup=False)
        self._refresh_bundles()

    def _say_no(self, title: str, words: str) -> None:
        self.notify(words, title=f"✗ {title}", severity="error", markup=False, timeout=10)

    def _refresh_bundles(self, select: str | None = None) -> None:
        from tui.panes.bundles import RevisionsPane
        from tui.screens.agentpanes import AgentPanes

        for screen in self.screen_stack:
            if isinstance(screen, AgentPanes):
                screen.refresh_bundles()
                if select is not None:
                    screen.query_one(RevisionsPane).select(select)

    # --- validating --------------------------------------------------------------------------------

    @work(group="act", exit_on_error=True)
    async def validate_again(self, agent: str, digest: str) -> None:
        """Run the gate on a revision and show what it said."""
        run = await self._validated(agent, digest)
        if run is not None and run.passed:
            self.notify(f"{short(digest)} passed: well-formed.", title="✓ Validation", markup=False)

    async def _validated(self, agent: str, digest: str, failed: str = "") -> ValidationRun | None:
        """A fresh run; a failed one is opened with its problems, and `failed` says what came of it."""
        from core import SandboxUnavailable, StoreError, UnknownRef

        self.notify(f"Validating {short(digest)} …", markup=False, timeout=2)
        try:
            run = await self.shelf.validate(agent, digest)
        except (StoreError, UnknownRef, SandboxUnavailable) as error:
            self._say_no("Not validated", f"{error} {getattr(error, 'hint', '')}")
            return None
        self._refresh_bundles()
        if not run.passed:
            self._open_run(run, failed)
        return run

    def _open_run(self, run: ValidationRun, note: str = "") -> None:
        from tui.screens.dialogs import RunScreen

        self.clear_notifications()  # they would lie over what it says
        self.push_screen(RunScreen(run, self.shelf.host.now(), note))

    @on(messages.RunOpened)
    def _run_opened(self, event: messages.RunOpened) -> None:
        for run in self.shelf.store.validations(event.agent):
            if run.id == event.run:
                self._open_run(run)

    # --- reading -----------------------------------------------------------------------------------

    @work(group="act", exit_on_error=True)
    async def show_diff(self, agent: str, digest: str, marked: str | None) -> None:
        """Compare a revision with the marked one, else with its parent."""
        from core import StoreError, UnknownRef
        from tui.screens.dialogs import TextScreen

        try:
            revision = self.shelf.revision(agent, digest)
            before = marked if marked and marked != digest else revision.parents[0] if revision.parents else None
            lines = await asyncio.to_thread(self.shelf.diff, agent, before, digest)
        except (StoreError, UnknownRef) as error:
            self._say_no("No difference to show", str(error))
            return
        self.push_screen(TextScreen(f"{agent}: {short(before) if before else 'nothing'} → {short(digest)}", lines))

    @on(messages.RevisionOpened)
    def _revision_opened(self, event: messages.RevisionOpened) -> None:
        from core import StoreError, UnknownRef
        from tui.screens.dialogs import TextScreen

        try:
            lines = self.shelf.read(event.agent, event.digest)
        except (StoreError, UnknownRef) as error:
            self._say_no("It cannot be read", str(error))
            return
        self.push_screen(TextScreen(f"{event.agent} {short(event.digest)}", lines))

    @on(messages.EventOpened)
    def _event_opened(self, event: messages.EventOpened) -> None:
        from core import StoreError
        from tui.screens.dialogs import TextScreen
        from tui.view.events import event_lines

        session = str(getattr(self.screen, "session", ""))
        for found in self.desk.store.events(session, after=event.seq - 1, limit=1):
            whole = None
            blob = found.data.get("blob")
            if isinstance(blob, str):
                try:
                    whole = self.desk.store.blob(blob).decode("utf-8", "replace")
                except StoreError as error:
                    whole = f"{found.data.get('output')}\n[the whole output cannot be read: {error}]"
            self.push_screen(TextScreen(f"Event {found.seq}", event_lines(found, whole)))

    # --- editing -----------------------------------------------------------------------------------

    @on(messages.FileOpened)
    async def _file_opened(self, event: messages.FileOpened) -> None:
        from tui.screens.dialogs import TextScreen
        from tui.view.files import file_lines
        from tui.workspace import read

        try:
            lines = file_lines(*await asyncio.to_thread(read, event.root, event.path))
        except OSError as error:
            self._say_no("It cannot be read", error.strerror or str(error))
            return
        self.push_screen(TextScreen(one_line(event.path, 200), lines))

    @on(messages.MendWanted)
    def _mend_wanted(self, event: messages.MendWanted) -> None:
        self.edit_revision(event.agent, event.digest, event.path)

    @work(group="act", exit_on_error=True)
    async def edit_revision(self, agent: str, digest: str, path: str | None = None) -> None:
        """Open a file (the persona, where `path` is none of it) in the person's editor; what they saved becomes a
        revision, and is validated."""
        from core import StoreError, UnknownRef
        from tui.shelf import editor

        command = editor()
        if command is None:
            self._say_no("No editor", "Set EDITOR to the one you like, and try again.")
            return
        try:
            directory = await asyncio.to_thread(self.shelf.checkout, agent, digest)
            before = not await asyncio.to_thread(self.shelf.untouched, directory, digest)
        except (StoreError, UnknownRef, OSError) as error:
            self._say_no("Not checked out", str(error))
            return
        try:
            known = self.shelf.holds(agent, digest, path)
            name = path if path is not None and known else self.shelf.persona(agent, digest)
            code = await self._in_terminal([*command, str(directory / name)])
        except (SuspendNotSupported, OSError) as error:
            why = "there is no such program" if isinstance(error, FileNotFoundError) else str(error)
            self._say_no("The editor did not start", f"{command[0]}: {why}. Set EDITOR to one that is here.")
            return
        if code != 0:
            self._say_no("Nothing was saved", f"{command[0]} ended with {code}. e goes on with {directory}.")
            return
        revision, created, problems = await asyncio.to_thread(
            self.shelf.save, agent, directory, digest, f"edited from {short(digest)}"
        )
        if revision is not None:
            await asyncio.to_thread(self.shelf.forget, directory)
        if before:
            self.notify("This went on with what was edited before and not saved.", markup=False)
        if revision is None:
            self._say_no("Not saved", f"{'; '.join(problems)}. e goes on with {directory}.")
        elif not created:
            self.notify("Nothing was changed.", markup=False)
        else:
            self._refresh_bundles(revision.digest)
            run = await self._validated(agent, revision.digest, f"✗ saved as {short(revision.digest)}, and failed")
            if run is not None and run.passed:
                self.notify(
                    f"Saved as {short(revision.digest)}. F4, p publishes it.", title="✓ It passed", markup=False
                )

    async def _in_terminal(self, command: Sequence[str]) -> int:
        """Give the terminal to a program until it ends; its exit code. Sessions go on meanwhile, nothing is drawn.

        Nothing may be raised while the terminal is lent: it would not be taken back.
        """
        failure: OSError | None = None
        code = 0
        with self.batch_update(), self.suspend():
            try:
                code = await self._lent(command)
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure
        return code

    async def _lent(self, command: Sequence[str]) -> int:
        from core import PASSPHRASE

        env = {name: value for name, value in os.environ.items() if name != PASSPHRASE}
        process = await asyncio.create_subprocess_exec(*command, stderr=sys.__stderr__, env=env)
        self.terminal_lent = True
        try:
            return await process.wait()
        finally:
            self.terminal_lent = False
            if process.returncode is None:
                process.terminate()

    # --- sessions ----------------------------------------------------------------------------------

    def talk_to(self, agent: str, digest: str | None) -> None:
        """Write a task for an agent's revision."""
        from tui.screens.agent import AgentScreen

        if isinstance(self.screen, AgentScreen):
            self.screen.talk(digest)
        else:
            self.run_worker(self.open_agent(agent, talk=True, ref=digest))

    async def open_agent(self, name: str, *, talk: bool = False, ref: str | None = None) -> None:
        """Show an agent; with `talk` the person writes a task for its revision `ref` at once."""
        raise NotImplementedError

    def _session(self) -> str | None:
        session: Any = getattr(self.screen, "session", None)
        return session if isinstance(session, str) else None

    async def action_resume(self) -> None:
        """Go on without words."""
        session = self._session()
        if session is not None:
            await self.desk.resume(session)

    @work(group="act", exit_on_error=True)
    async def action_model(self) -> None:
        """Go on with another model."""
        from tui.screens.dialogs import AskScreen

        session = self._session()
        if session is None:
            return
        info = self.desk.store.session(session)
        hint = f"The name as {info.provider if info else 'the provider'} knows it."
        model = await self.push_screen_wait(AskScreen("Another model", hint, (info.model or "") if info else ""))
        if model:
            await self.desk.change(session, model=model)

    @work(group="act", exit_on_error=True)
    async def action_provider(self) -> None:
        """Go on with another provider."""
        from core import registered_providers
        from impl.providers import BUILTIN
        from tui.screens.dialogs import AskScreen

        session = self._session()
        if session is None:
            return
        names = sorted({*BUILTIN, *registered_providers()})
        name = await self.push_screen_wait(AskScreen("Another provider", f"One of: {', '.join(names)}."))
        if name in names:
            await self.desk.change(session, provider=name)
        elif name:
            self._say_no("No such provider", f"There are: {', '.join(names)}.")


def _refusal(code: str) -> str:
    words = {
        "stale_head": "Somebody published meanwhile. Look at the tree and press the key again.",
        "not_validated": "Press v to validate it first.",
        "validation_failed": "Open its validation run (F5, enter), mend the problems, validate again.",
        "checks_changed": "The checks have changed since. Press v to validate it again.",
        "never_passed": "It never passed validation.",
        "unknown_revision": "There is no such revision.",
    }
    return words.get(code, "The channel names what it named before.")
