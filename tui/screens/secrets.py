"""What a session's screen does with the values of credentials: they go to the key store and nowhere else."""

from __future__ import annotations

from textual import on, work

from tui.desk import Desk
from tui.screens.sessionpanes import SessionPanes
from tui.view.chat import Chat
from tui.view.pasted import Pasted, pasted_key
from tui.widgets.card import CardBox
from tui.widgets.composer import Composer


class KeepsSecrets(SessionPanes):
    """A screen on a session that may wait for a value, or be given one among words."""

    desk: Desk
    session: str
    chat: Chat

    async def say(self, text: str) -> bool:
        """Give the session words of the person's; whether they were taken."""
        raise NotImplementedError

    async def send(self, text: str, composer: Composer) -> None:
        """The same for what was written in the composer, where it stands again if it was not taken."""
        if await self.say(text):
            self.desk.remember(text)
        else:
            composer.unsent()

    @on(CardBox.Secret)
    def _card_secret(self, event: CardBox.Secret) -> None:
        self.keep_secret(event.name, event.value)

    @property
    def wanted_names(self) -> tuple[str, ...]:
        """The credentials the session waits for."""
        return self.chat.asked.card.names if self.chat.asked is not None else ()

    def pasted_key(self, text: str) -> Pasted | None:
        """The key in what was written, where there is one and it could be stored."""
        return None if self.desk.host.secrets is None else pasted_key(text, wanted=bool(self.wanted_names))

    @work(group="act", exit_on_error=True)
    async def offer_to_keep(self, pasted: Pasted, text: str, composer: Composer) -> None:
        """A key came by way of the composer: keep it now, leave it out, or let it stand where it was written."""
        from tui.screens.keeping import KeepScreen

        wanted = self.wanted_names
        places = await self.desk.keepable(self.session, wanted)
        if not places:
            await self.send(text, composer)
            return
        name = await self.app.push_screen_wait(KeepScreen(pasted, places))
        if name is None:
            composer.unsent()
            return
        if not name:
            if pasted.words:
                await self.send(text, composer)
            else:
                self.notify("Nothing was stored, and nothing was sent.", markup=False)
            return
        why = await self._kept(name, pasted.value)
        if why is not None:
            self.notify(why, severity="warning", markup=False)
            composer.unsent()
        elif wanted:
            await self.say("retry")
        elif pasted.words:
            await self.send(pasted.without(name), composer)

    @work(group="act", exit_on_error=True)
    async def keep_secret(self, name: str, value: str) -> None:
        """Keep an entered value; the call that waits for it runs again, and stops again where it needs another."""
        why = await self._kept(name, value)
        if why is not None:
            self.notify(why, severity="warning", markup=False)
            return
        await self.say("retry")
        self.set_focus(self.query_one(Composer))

    async def _kept(self, name: str, value: str) -> str | None:
        """Keep it and say so; why not, in words, where it was not kept."""
        why = await self._unlock() or await self.desk.keep_secret(self.session, name, value)
        if why is None:
            self.notify(f"{name} is set.", markup=False)
        return why

    async def _unlock(self) -> str | None:
        """Ask for the passphrase where values are kept in a file; why not, in words, where none was given."""
        from tui.screens.dialogs import AskScreen

        wanted = await self.desk.passphrase_wanted()
        if wanted == "none":
            return None
        hint = "Values are kept in an encrypted file, because there is no system keyring here."
        title = "Passphrase" if wanted == "needed" else "A new passphrase, at least 8 characters"
        given = await self.app.push_screen_wait(AskScreen(title, hint, hidden=True))
        if given and wanted == "new" and await self.app.push_screen_wait(AskScreen("Again", hidden=True)) != given:
            return "The two differ. Nothing was stored; enter the value again."
        return await self.desk.unlock(given) if given else "Nothing was stored: there is no passphrase."
