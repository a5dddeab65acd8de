"""What all screens share: a move of the focus paints what had it and what has it, nothing else."""

from __future__ import annotations

from typing import TypeVar

from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

T = TypeVar("T")


class QuietScreen(Screen[T]):
    """A screen that draws nothing itself, and so is not painted anew when the focus moves."""

    focused: Reactive[Widget | None] = Reactive(None, repaint=False)
