"""Whether what comes back from a wait still has somewhere to be shown."""

from __future__ import annotations

from textual.widget import Widget


def left(widget: Widget) -> bool:
    """Whether the widget's screen is closed or about to be, or the app is: parts of it may be gone already."""
    app = widget.app
    return not (app.is_running and widget.is_attached and widget.screen in app.screen_stack)
