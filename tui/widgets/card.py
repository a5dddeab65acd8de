"""A card in the flow: it waits as data, shows its keys, and acts on them only while it has the focus itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Click, MouseDown
from textual.geometry import Region
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input

from core import Stop
from tui.view.cards import Card, Key
from tui.view.chat import Asked
from tui.view.text import Line, Tone, button, line
from tui.widgets.content import ACT, Hanging, Lines, own_key, to_content
from tui.widgets.field import Field


def _binding(key: str, label: str, name: str, tooltip: str) -> Binding:
    return Binding(key, f"press('{key}')", label, show=False, id=f"card.{name}", tooltip=tooltip)


class CardBox(Vertical, can_focus=True):
    """One card. Never takes the focus by itself, so no keystroke meant for the composer reaches it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(str(n), f"press('{n}')", f"option {n}", show=False, id=f"card.option_{n}", tooltip=f"Option {n}")
            for n in range(1, 10)
        ),
        _binding("y", "once", "once", "Approvals: allow this once"),
        _binding("s", "session", "session", "Approvals: allow for this session"),
        _binding("a", "always", "always", "Approvals: allow always"),
        _binding("n", "deny", "deny", "Approvals: deny"),
        _binding("h", "hint", "hint", "Stuck: give a hint"),
        _binding("r", "retry", "retry", "Stuck or failed: try again from before it"),
        _binding("m", "model", "model", "Stuck or failed: go on with another model"),
        _binding("p", "provider", "provider", "Failed: go on with another provider"),
        _binding("x", "extend", "extend", "Budget: extend it"),
        _binding("e", "end", "end", "End here"),
        Binding("space", "mark", "mark", show=False, id="card.mark", tooltip="Questions: mark an option"),
        Binding("up,k", "move(-1)", "Up", show=False, id="card.up", tooltip="Questions: the option above"),
        Binding("down,j", "move(1)", "Down", show=False, id="card.down", tooltip="Questions: the option below"),
        Binding("enter", "take", "answer", id="card.take", tooltip="Answer with the chosen option; open the evidence"),
    ]

    @dataclass
    class Answered(Message):
        """The person answered with `text`."""

        text: str

    @dataclass
    class Filled(Message):
        """The person wants to finish the answer in the composer, which begins with `text`."""

        text: str

    @dataclass
    class Acted(Message):
        """The person asked for something that is no answer: `resume`, `model`, `evidence`."""

        act: str
        asked: Asked

    @dataclass
    class Secret(Message):
        """A credential's value was entered. It goes to the key store and nowhere else."""

        name: str
        value: str

    def __init__(self, asked: Asked, *, can_store: bool = False) -> None:
        super().__init__(classes="card")
        self.asked = asked
        self.at = 0
        self.marked: set[str] = set()
        self._can_store = can_store
        self._pressed = ""
        recommended = [n for n, choice in enumerate(asked.card.choices) if choice.recommended]
        if recommended:
            self.at = recommended[0]

    @property
    def card(self) -> Card:
        """What it shows."""
        return self.asked.card

    def compose(self) -> ComposeResult:
        """The text, and a masked input for each credential that can be stored here."""
        yield Lines(self._lines(), classes="card--text")
        if self._can_store and self.asked.active:
            for name in self.card.names:
                hint = f"value of {name}, hidden"
                yield Field(password=True, placeholder=hint, name=name, classes="card--secret", compact=True)

    def on_mount(self) -> None:
        """Name it by its sign and state."""
        self._dress()

    def enter(self) -> None:
        """Take the focus: the value that is asked for first, or the card's own keys."""
        box = next(iter(self.query(Input).results(Input)), None)
        if box is not None:
            box.focus()
        else:
            self.focus(scroll_visible=not self._higher)
        if self._higher:
            self._keep_in_view()
        else:
            self.scroll_visible(animate=False)

    @property
    def _higher(self) -> bool:
        """Whether it is higher than its pane."""
        return isinstance(self.parent, Widget) and self.outer_size.height > self.parent.size.height

    def show(self, asked: Asked) -> None:
        """Take a new state of the same card."""
        self.asked = asked
        self._dress()
        if not asked.active:
            self.query(Input).remove()

    def _dress(self) -> None:
        active, card = self.asked.active, self.card
        self.set_class(not active, "-settled")
        self.set_class(active and card.tone is Tone.FAIL, "-fail")
        self.border_title = (
            to_content((line((f"{card.sign} ", card.tone), (card.title, Tone.STRONG)),)) if active else ""
        )
        self.can_focus = active
        self._redraw()

    def _redraw(self) -> None:
        for text in self.query(Lines).results(Lines):
            text.show(self._lines())

    def _lines(self) -> list[Hanging]:
        asked, card = self.asked, self.card
        if not asked.active:
            said = [(f"  → {asked.answer}", Tone.PLAIN)] if asked.answer else []
            return [(line((f"{card.sign} {card.title}", Tone.DIM), *said), 2)]
        # What follows a label is set off from it; plain words are a paragraph.
        lines: list[Hanging] = [(spans, 2 if spans and spans[0].tone is Tone.DIM else 0) for spans in card.body]
        if (card.choices and not card.keys) or (card.choices and card.keys[0].key == "1"):
            lines += [self._choice(n) for n in range(len(card.choices))]
        elif self._can_store and card.names:
            words = "esc, then the value and enter · or say: retry, end"
            lines.append((line((words, Tone.PLAIN)), 0))
        elif card.keys:
            lines.append((self._keys(), 0))
        footer = self._footer()
        if footer:
            lines.append((line((footer, Tone.DIM)), 0))
        return lines

    def _footer(self) -> str:
        """How to answer: in words while the composer has the focus, by keys while the card has it."""
        card = self.card
        if not self.has_focus:
            return f"{card.footer} · esc: by keys" if card.choices and card.stop is Stop.AWAITING_USER else card.footer
        if card.stop is Stop.AWAITING_USER and card.choices:
            marks = " · space marks" if card.multiple else ""
            return f"↑↓ choose{marks} · enter answers · esc to write"
        return "esc to write"

    def _choice(self, number: int) -> Hanging:
        choice = self.card.choices[number]
        here = "› " if self.has_focus and number == self.at else "  "
        box = ("[x] " if choice.id in self.marked else "[ ] ") if self.card.multiple else ""
        marked = choice.recommended and "recommended" not in choice.label  # a label may say it, with its reason
        best = ("  recommended", Tone.YOU) if marked else ("", Tone.PLAIN)
        name = f"{choice.number:>{len(str(len(self.card.choices)))}}"
        spans = line(here, (name, Tone.STRONG), f"  {box}{choice.label}", best)
        act = f"choose({number})"
        return tuple(replace(span, act=act) for span in spans), len(f"{here}{name}  {box}")

    def _keys(self) -> Line:
        parts: Line = () if self.has_focus else line(("esc, then  ", Tone.DIM))
        for key in self.card.keys:
            named = button(own_key(self, IDS.get(key.key, ""), key.key), key.label, f"press('{key.key}')")
            # A key and its label stay together where the line breaks.
            parts = (*parts, *(replace(span, text=span.text.replace(" ", "\u00a0")) for span in named), *line("   "))
        return parts

    async def on_click(self, event: Click) -> None:
        """What is written as a key or an option does the same when it is clicked; a second click on an option
        answers with it."""
        if not self._pressed:
            return
        event.stop()
        again = event.chain > 1 and self._pressed == f"choose({self.at})" and not self.card.multiple
        await self.app.run_action(self._pressed, self)
        if again:
            self.action_take()

    def on_mouse_down(self, event: MouseDown) -> None:
        """What was meant stood there before the card had the focus, and was drawn anew with it."""
        self._pressed = event.style.meta.get(ACT, "")

    # --- keys --------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only the keys that this card shows do anything."""
        if not self.asked.active:
            return False
        if action == "press":
            return any(key.key == parameters[0] for key in self.card.keys)
        if action == "mark":
            return self.card.multiple
        if action in ("move", "choose"):
            return bool(self.card.choices)
        return True

    def action_press(self, name: str) -> None:
        """A key of the card."""
        for key in self.card.keys:
            if key.key == name:
                if self.card.multiple and key.send is not None:
                    self.at = int(name) - 1
                    self.action_mark()
                else:
                    self._act(key)

    def _act(self, key: Key) -> None:
        if key.send is not None:
            self.post_message(self.Answered(key.send))
        elif key.fill is not None:
            self.post_message(self.Filled(key.fill))
        elif key.act is not None:
            self.post_message(self.Acted(key.act, self.asked))

    def action_mark(self) -> None:
        """Mark or unmark the option under the cursor."""
        self.marked ^= {self.card.choices[self.at].id}
        self._redraw()

    def action_choose(self, number: int) -> None:
        """Put the cursor on an option; where several may be taken, mark or unmark it."""
        self.at = number
        if self.card.multiple:
            self.action_mark()
        else:
            self._redraw()

    def action_move(self, step: int) -> None:
        """Another option."""
        self.at = min(max(self.at + step, 0), len(self.card.choices) - 1)
        self._redraw()
        self._keep_in_view()

    def _keep_in_view(self) -> None:
        """A card may be higher than its pane: show the option under the cursor; with the first, what is asked; with
        the last, how to answer."""
        parent = self.parent
        if not self._higher or not isinstance(parent, Widget) or not self.card.choices:
            return
        text = self.query_one(".card--text", Lines)
        row, rows = text.rows_of(len(self.card.body) + self.at)
        top = self.virtual_region.y + self.gutter.top + text.virtual_region.y + row
        if self.at == 0:
            rows, top = rows + top - self.virtual_region.y, self.virtual_region.y
        elif self.at == len(self.card.choices) - 1:
            rows = self.virtual_region.bottom - top
        parent.scroll_to_region(Region(0, top, 1, rows), animate=False, immediate=True, x_axis=False)

    def action_take(self) -> None:
        """Answer with the marked options, or the one under the cursor."""
        card = self.card
        if card.stop.value == "awaiting_user" and card.choices:
            chosen = [choice.id for choice in card.choices if choice.id in self.marked] or [card.choices[self.at].id]
            self.post_message(self.Answered(",".join(chosen)))
            return
        for key in card.keys:
            if key.key == "enter":
                self._act(key)

    def on_focus(self) -> None:
        """Show the option under the cursor, once the focus is really here."""
        self.call_next(self._redraw)

    def on_blur(self) -> None:
        """Hide it again."""
        self.call_next(self._redraw)

    @on(Input.Submitted)
    def _secret_entered(self, event: Input.Submitted) -> None:
        event.stop()
        value = event.value
        event.input.value = ""
        if value and event.input.name:
            self.post_message(self.Secret(event.input.name, value))


IDS = {binding.key: binding.id or "" for binding in CardBox.BINDINGS if isinstance(binding, Binding)}
"""The name of each key of a card."""
