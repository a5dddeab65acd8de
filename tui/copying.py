"""Copying: what there is to copy on a screen, and where it went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.screen import Screen


def text_to_copy(screen: Screen[Any]) -> str:
    """The selected text; else the agent's last reply in the conversation on screen."""
    selected = screen.get_selected_text()
    if selected:
        return selected
    from tui.view.chat import Said

    chat = getattr(screen, "chat", None)
    for block in reversed(list(chat.blocks.values()) if chat is not None else []):
        if isinstance(block, Said) and block.role == "agent":
            return block.text
    return ""


def copy_text(text: str, home: Path) -> str:
    """Write `text` to a file beside asking the terminal, because not every terminal does what it is asked.

    Returns what to tell the person.
    """
    path = home / "copied.txt"
    size = f"{len(text):,} characters"
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        return f"Sent {size} to the terminal's clipboard (OSC 52). The file copy failed: {error.strerror}."
    return f"Sent {size} to the terminal's clipboard (OSC 52); where it takes none, they are in {path}."
