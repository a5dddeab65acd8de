"""The conversation: a window of at most some dozens of blocks over a session of any length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import MountError, Widget

from tui.leaving import left
from tui.view.chat import Asked, Block, Change, Said
from tui.widgets.blocks import Reply, show_block, widget_of
from tui.widgets.card import CardBox

WINDOW: Final = 40
"""Blocks shown while the pane follows its end."""
SLACK: Final = 8
"""How many more may gather before the oldest go, so that each costs the same."""
LARGEST: Final = 80
"""Blocks shown at most, when somebody reads back."""
PAGE: Final = 20


class ChatPane(VerticalScroll):
    """Shows blocks, follows the end until somebody scrolls up, and asks for older ones when they reach the top.

    `blocks` are all that are loaded, in order; the widgets are a window of them.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "scroll_down", "Down", show=False, id="chat.down", tooltip="Scroll down"),
        Binding("k", "scroll_up", "Up", show=False, id="chat.up", tooltip="Scroll up"),
        Binding("end,G", "latest", "latest", show=False, id="chat.end", tooltip="Go to the latest and follow it"),
    ]

    @dataclass
    class OlderWanted(Message):
        """The top was reached: blocks before `key` are wanted."""

        key: str

    def __init__(self, *, can_store: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.blocks: dict[str, Block] = {}
        self.widgets: dict[str, Widget] = {}
        self.complete = False
        """Whether nothing older is to be had."""
        self._following = True
        self._behind = False  # newer blocks exist that are not in the window
        self._asking = False
        self._can_store = can_store

    def on_resize(self) -> None:
        """What fitted may not fit any more."""
        self._hold_end()

    def _hold_end(self) -> None:
        """Keep the latest in view. Only where there is more than fits: an anchored pane puts less at its bottom.
        A card that is higher than the pane is read from its top."""
        card = self.card if self._following else None
        if card is not None and card.outer_size.height > self.size.height > 0:
            self.anchor(False)
            self.scroll_to(y=card.virtual_region.y, animate=False, immediate=True)
        else:
            self.anchor(self._following and self.max_scroll_y > 0)

    def watch_virtual_size(self) -> None:
        """An anchored pane moves with its content without painting its bar anew."""
        if self.show_vertical_scrollbar:
            self.call_after_refresh(self.vertical_scrollbar.refresh)

    def update_node_styles(self, animate: bool = True) -> None:
        """Only the pane itself looks different with the focus; going through all blocks would take long."""
        self.app.stylesheet.update_nodes([self], animate=animate)

    # --- the end -----------------------------------------------------------------------------------

    async def apply(self, changes: Sequence[Change]) -> None:
        """Show changes in order; several new blocks are mounted at once."""
        added: list[Block] = []
        fresh: dict[str, int] = {}
        for change in changes:
            block = change.block
            match change.what:
                case "add":
                    self.blocks[block.key] = block
                    fresh[block.key] = len(added)
                    added.append(block)
                case "replace" if block.key in fresh:
                    self.blocks[block.key] = added[fresh[block.key]] = block
                case "replace":
                    if block.key in self.blocks:
                        self.blocks[block.key] = block
                        if block.key in self.widgets:
                            with self._unless_left():
                                await show_block(self.widgets[block.key], block)
                case "remove":
                    self.blocks.pop(block.key, None)
                    if block.key in fresh:
                        added[fresh[block.key]] = block
                    widget = self.widgets.pop(block.key, None)
                    if widget is not None:
                        await widget.remove()
        with self.app.batch_update():  # laid out once, when all of it is there
            await self._append([block for block in added if block.key in self.blocks])
        self.call_after_refresh(self._hold_end)

    async def _append(self, blocks: Sequence[Block]) -> None:
        if not blocks:
            return
        if self._behind or (len(self.widgets) >= LARGEST and not self.at_end):
            self._behind = True
            return
        if len(blocks) > WINDOW:
            await self._rebuild()
            return
        await self._mount(blocks)
        over = len(self.widgets) - WINDOW
        if over >= SLACK and self.at_end:
            await self._drop(list(self.widgets)[:over])

    @property
    def at_end(self) -> bool:
        """Whether the latest is in view."""
        return not self._behind and self._following

    def trim(self, kept: int) -> int | None:
        """Forget all but the last `kept` blocks, where twice as many have gathered and the end is followed; the
        event number of the first that is left, None where nothing was forgotten."""
        if not self.at_end or len(self.blocks) < 2 * kept:
            return None
        gone = [key for key in list(self.blocks)[:-kept] if key not in self.widgets]
        for key in gone:
            del self.blocks[key]
        self.complete = False
        return next(iter(self.blocks.values())).seq

    async def _mount(self, blocks: Sequence[Block], before: Widget | None = None) -> None:
        made = {block.key: widget_of(block, can_store=self._can_store) for block in blocks}
        self.widgets = {**made, **self.widgets} if before is not None else {**self.widgets, **made}
        with self._unless_left():
            await self.mount(*made.values(), before=before)
            for block in blocks:
                widget = made[block.key]
                if isinstance(widget, Reply) and isinstance(block, Said):
                    await widget.show(block)

    @contextmanager
    def _unless_left(self) -> Iterator[None]:
        """What is being mounted when the screen is left stays unmounted, and is no error."""
        try:
            yield
        except MountError:
            if not left(self):
                raise

    async def _drop(self, keys: Sequence[str]) -> None:
        gone = [self.widgets.pop(key) for key in keys]
        await self.remove_children(gone)

    async def _rebuild(self) -> None:
        """The last window, from what is loaded."""
        self._behind = False
        await self._drop(list(self.widgets))
        shown = max(PAGE, min(WINDOW, self.app.size.height // 2))  # as many as may be seen; each takes its time
        await self._mount(list(self.blocks.values())[-shown:])
        self._following = True
        self.call_after_refresh(self._hold_end)

    async def action_latest(self) -> None:
        """To the end, and follow it again."""
        if self._behind:
            await self._rebuild()
        self._following = True
        self._hold_end()
        self.scroll_end(animate=False)

    def page(self, step: int) -> None:
        """Scroll by a page, from wherever the focus is."""
        self.anchor(False)
        self.scroll_relative(y=step * max(1, self.size.height - 1), animate=False)
        if step < 0:
            self._at_top()

    def action_scroll_up(self) -> None:
        """Up; at the very top, to what is older."""
        self._at_top()
        super().action_scroll_up()

    def action_page_up(self) -> None:
        """A page up, likewise."""
        self._at_top()
        super().action_page_up()

    def action_scroll_home(self) -> None:
        """To the top of what is shown, and on."""
        self._at_top()
        super().action_scroll_home()

    # --- the beginning -----------------------------------------------------------------------------

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Near the top, older blocks are wanted; at the end of what is shown, newer ones."""
        super().watch_scroll_y(old_value, new_value)
        if new_value < old_value or self.is_vertical_scroll_end:
            self._following = self.is_vertical_scroll_end
        if new_value < old_value and new_value < 3:
            self._want_older()
        elif self._behind and new_value > old_value and self.is_vertical_scroll_end:
            self.call_later(self._rebuild)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scrolling up at the very top asks too."""
        self._at_top()

    def _at_top(self) -> None:
        """Where there is nothing to scroll, nothing tells that the top is reached."""
        if self.scroll_offset.y == 0:
            self._want_older()

    def _want_older(self) -> None:
        first = next(iter(self.widgets), None)
        if first is None or self._asking:
            return
        self._asking = True
        keys = list(self.blocks)
        if keys.index(first) > 0:
            self.call_later(self._show_loaded)
        elif self.complete:
            self._asking = False
        else:
            self.post_message(self.OlderWanted(first))

    async def add_older(self, blocks: Sequence[Block]) -> None:
        """Take blocks that come before all others; none means that there are none."""
        if not blocks:
            self.complete, self._asking = True, False
            return
        self.blocks = {**{block.key: block for block in blocks}, **self.blocks}
        await self._show_loaded()

    async def _show_loaded(self) -> None:
        """Mount a page of loaded blocks above the window, without moving what is in view."""
        keys = list(self.blocks)
        first = next(iter(self.widgets))
        at = keys.index(first)
        page = [self.blocks[key] for key in keys[max(0, at - PAGE) : at]]
        seen = self.widgets[first]
        distance = seen.virtual_region.y - self.scroll_offset.y
        await self._mount(page, before=seen)
        if len(self.widgets) > LARGEST:
            self._behind = True
            await self._drop(list(self.widgets)[LARGEST:])

        def keep_in_view() -> None:
            self.scroll_to(y=seen.virtual_region.y - distance, animate=False, immediate=True)
            self._asking = False

        self.call_after_refresh(keep_in_view)

    # --- cards -------------------------------------------------------------------------------------

    @property
    def card(self) -> CardBox | None:
        """The card the session waits on, where it is in the window."""
        for key in reversed(self.widgets):
            block = self.blocks.get(key)
            if isinstance(block, Asked) and block.active:
                widget = self.widgets[key]
                return widget if isinstance(widget, CardBox) else None
        return None
