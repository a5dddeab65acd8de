"""Whether what comes back from a wait still has somewhere to be shown."""

from __future__ import annotations

from textual.widget import Widget


def left(widget: Widget) -> bool:
    """Whether the widget's screen is closed or about to be, or the app is: parts of it may be gone already."""
    if not widget.is_attached:
        return True
    return not widget.app.is_running or widget.screen not in widget.app.screen_stack
