"""One widget for each kind of block of the conversation."""

from __future__ import annotations

from typing import Final

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownFence, MarkdownStream

from tui.view.chat import Asked, Block, Noted, Said, Worked
from tui.view.text import Tone, line, plural
from tui.widgets.card import CardBox
from tui.widgets.content import Hanging, Lines

MOST_LINES: Final = 200
MOST_WORDS: Final = 20_000
"""Lines and characters shown of what a person said: what they pasted may be megabytes."""
MOST_REPLY: Final = 16_000
"""Characters shown of a reply."""
REST: Final = "All of it is in the transcript: F6, enter"


class PlainBlock(Lines):
    """Lines that are no Markdown: the person's words, tool calls, notices."""

    def __init__(self, block: Noted | Worked | Said, classes: str) -> None:
        super().__init__(lines_of(block), classes=classes)


def lines_of(block: Noted | Worked | Said) -> list[Hanging]:
    """A plain block as lines."""
    match block:
        case Said():
            text = block.text[:MOST_WORDS].expandtabs(4)
            shown = text.split("\n", MOST_LINES)
            lines: list[Hanging] = [(line(words), 0) for words in shown[:MOST_LINES]]
            if len(block.text) > MOST_WORDS or len(shown) > MOST_LINES:
                lines.append((line((f"… of {plural(len(block.text), 'character')}. {REST}", Tone.DIM)), 0))
            return lines
        case Noted():
            return [(line((f"{note.sign} ", note.tone), (note.text, note.tone)), 2) for note in block.notes]
        case Worked():
            hidden = block.count - len(block.shown)
            lines = [(line((f"… {plural(hidden, 'call')} before", Tone.DIM)), 2)] if hidden else []
            for call in block.shown:
                tone = Tone.FAIL if call.state == "failed" else Tone.DIM
                parts = ((f"{call.sign} ", tone), (call.gist, Tone.DIM), (f"  {call.result}", Tone.DIM))
                lines.append((line(*parts), 4))
            return lines


class Code(MarkdownFence):
    """Code of no named language is shown as it is: to guess one takes a third of a second each time it grows."""

    @classmethod
    def highlight(cls, code: str, language: str, ansi: bool = False, dark: bool = False) -> Content:
        """The code in colours, where its language is named."""
        return super().highlight(code, language or "text", ansi, dark)


class Reply(Markdown):
    """The agent's words: Markdown that begins empty, is fed as it streams and never parsed twice.

    It is empty until `show` is called, which needs it mounted.
    """

    BLOCKS = {**Markdown.BLOCKS, "fence": Code, "code_block": Code}  # noqa: RUF012 - Textual declares it so

    def __init__(self) -> None:
        super().__init__("", classes="reply", open_links=False)
        self._written = ""
        self._stream: MarkdownStream | None = None

    async def show(self, said: Said) -> None:
        """Take a new state: text that only grew is appended, anything else is parsed anew."""
        text = said.text if not said.incomplete else f"{said.text}\n\n*(cut off here)*"
        if len(text) > MOST_REPLY:
            text = _beginning(text)
        if not text.startswith(self._written):
            await self._end_stream()
            self._written = text
            await self.update(text)
        if said.streaming and self._stream is None:
            self._stream = Markdown.get_stream(self)
        new, self._written = text[len(self._written) :], text
        if self._stream is not None:
            await self._stream.write(new)
            if not said.streaming:
                await self._end_stream()
        elif new:
            await self.append(new)

    async def _end_stream(self) -> None:
        if self._stream is not None:
            stream, self._stream = self._stream, None
            await stream.stop()


def _beginning(text: str) -> str:
    """The beginning of a long reply, cut at a line; the same for as long as the reply grows."""
    kept = text[:MOST_REPLY].rpartition("\n")[0] or text[:MOST_REPLY]
    fence = "\n```" if kept.count("```") % 2 else ""
    return f"{kept}{fence}\n\n*… {REST}*"


def widget_of(block: Block, *, can_store: bool = False) -> Widget:
    """A new widget that shows a block."""
    match block:
        case Said(role="you"):
            return PlainBlock(block, "you")
        case Said():
            return Reply()
        case Worked():
            return PlainBlock(block, "worked")
        case Noted():
            return PlainBlock(block, "noted")
        case Asked():
            return CardBox(block, can_store=can_store)


async def show_block(widget: Widget, block: Block) -> None:
    """Give a widget the new state of its block."""
    match widget, block:
        case Reply(), Said():
            await widget.show(block)
        case PlainBlock(), Said() | Worked() | Noted():
            widget.show(lines_of(block))
        case CardBox(), Asked():
            widget.show(block)
        case _:
            raise TypeError(f"{type(widget).__name__} does not show {type(block).__name__}")
