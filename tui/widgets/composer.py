"""The composer: several lines, a history, pastes of any size; enter sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from tui.view.paste import Pastes
from tui.view.text import safe


class Composer(TextArea):
    """Where a person writes. What they type goes nowhere else and is never lost: a card that appears changes
    only the prompt, and an unsent text can be kept with `to_json`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "send", show=False, id="composer.send", tooltip="Send what is written"),
        Binding(
            "ctrl+j,shift+enter,alt+enter",
            "newline",
            "new line",
            show=False,
            id="composer.newline",
            key_display="^j",
            tooltip="Start a new line",
        ),
        Binding(
            "pageup",
            "cursor_page_up",
            "page up",
            show=False,
            id="composer.page_up",
            tooltip="A page up, in what is above",
        ),
        Binding(
            "pagedown",
            "cursor_page_down",
            "page down",
            show=False,
            id="composer.page_down",
            tooltip="A page down, in what is above",
        ),
    ]

    @dataclass
    class Sent(Message):
        """The person sent `text`, pastes in full."""

        composer: Composer
        text: str

        @property
        def control(self) -> Composer:
            """The composer it came from."""
            return self.composer

    @dataclass
    class Paged(Message):
        """The person wants to read on above while they write: a page up (-1) or down (1)."""

        step: int

    def __init__(self, prompt: str = "", *, history: Sequence[str] = (), id: str | None = None) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            show_line_numbers=False,
            placeholder=prompt,
            highlight_cursor_line=False,
            compact=True,
        )
        self.border_subtitle = "enter sends · ctrl+j new line"
        self.pastes = Pastes()
        self.sent_before: list[str] = list(history)
        """What was sent, oldest first."""
        self._place: int | None = None
        self._unsent = ""
        self._left: tuple[str, dict[str, str]] = ("", {})

    def on_mount(self) -> None:
        """Where nothing is to move, the cursor does not blink either."""
        self.cursor_blink = self.app.animation_level != "none"

    def on_key(self, event: events.Key) -> None:
        """Send and newline act here, in the order the keys came: as bindings of the app's they would overtake
        what was typed right before them, or be overtaken."""
        if event.is_printable:
            return
        active = self.screen.active_bindings.get(event.key)
        if active is not None and active.node is self and active.binding.action in ("send", "newline"):
            event.prevent_default()
            event.stop()
            if active.binding.action == "send":
                self.action_send()
            else:
                self.action_newline()

    # --- sending -----------------------------------------------------------------------------------

    def action_send(self) -> None:
        """Send the text, if there is any. It leaves at once, so that what is typed next is a text of its own."""
        text = self.pastes.whole(self.text)
        if not text.strip():
            return
        self._left = (self.text, dict(self.pastes.texts))
        from core import screen

        kept = screen(self.text)[0]  # a key is not to come back with the history
        if not self.sent_before or self.sent_before[-1] != kept:
            self.sent_before.append(kept)
            del self.sent_before[:-200]
        self._place = None
        self.text = ""
        self.post_message(self.Sent(self, text))

    @property
    def last_sent(self) -> str:
        """What was sent last, pastes in full; empty once it was taken back."""
        return Pastes(dict(self._left[1])).whole(self._left[0])

    def unsent(self) -> None:
        """What was sent was not taken: it stands here again, before what was typed since."""
        shown, pastes = self._left
        self._left = ("", {})
        self.pastes.texts.update(pastes)
        self.fill(shown)

    def action_newline(self) -> None:
        """Break the line at the cursor."""
        self.insert("\n")

    def fill(self, text: str) -> None:
        """Put `text` before what is written, with the cursor at the end."""
        self.text = text + self.text
        self.move_cursor(self.document.end)
        self.focus()

    # --- reading on while writing ------------------------------------------------------------------

    def action_cursor_page_up(self) -> None:
        """A page up: of a text too long for the field in itself, else of what stands above."""
        if self.max_scroll_y > 0:
            super().action_cursor_page_up()
        else:
            self.post_message(self.Paged(-1))

    def action_cursor_page_down(self) -> None:
        """A page down, likewise."""
        if self.max_scroll_y > 0:
            super().action_cursor_page_down()
        else:
            self.post_message(self.Paged(1))

    # --- history -----------------------------------------------------------------------------------

    def action_cursor_up(self, select: bool = False) -> None:
        """Up a line; on the first one, back in what was sent before."""
        if select or self._row() > 0:
            super().action_cursor_up(select)
        else:
            self._recall(-1)

    def action_cursor_down(self, select: bool = False) -> None:
        """Down a line; on the last one, forward in the history."""
        if select or self._row() < self.wrapped_document.height - 1:
            super().action_cursor_down(select)
        else:
            self._recall(1)

    def _row(self) -> int:
        """The row of the cursor as wrapped on screen."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def _recall(self, step: int) -> None:
        if not self.sent_before:
            return
        if self._place is None:
            if step > 0:
                return
            self._unsent, self._place = self.text, len(self.sent_before)
        place = self._place + step
        if place < 0:
            return
        if place >= len(self.sent_before):
            self._place, text = None, self._unsent
        else:
            self._place, text = place, self.sent_before[place]
        self.text = text
        self.move_cursor(self.document.end)

    # --- pasting -----------------------------------------------------------------------------------

    def on_paste(self, event: events.Paste) -> None:
        """A big paste becomes a chip; a small one is text like any other. What a terminal would obey is left out."""
        event.prevent_default()
        event.stop()
        text = safe(event.text)
        if text:
            result = self.replace(self.pastes.take(text), *self.selection, maintain_selection_offset=False)
            self.move_cursor(result.end_location)

    # --- keeping -----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any] | None:
        """What is written and not sent, without keys, to be kept over a restart; None where there is nothing."""
        if not self.text.strip():
            return None
        from core import screen

        self.pastes.forget_absent(self.text)
        pastes = {chip: screen(text)[0] for chip, text in self.pastes.texts.items()}
        return {"text": screen(self.text)[0], "pastes": pastes}

    def restore(self, kept: Any) -> None:
        """Show what `to_json` kept; anything else is ignored."""
        if isinstance(kept, Mapping) and isinstance(kept.get("text"), str) and not self.text:
            pastes = kept.get("pastes")
            if isinstance(pastes, Mapping):
                self.pastes.texts.update({str(chip): str(text) for chip, text in pastes.items()})
            self.text = kept["text"]
            self.move_cursor(self.document.end)
