"""Doom-loop detection: compares what the world answered and says when a session goes in circles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.progress.step import Step, Verdict

if TYPE_CHECKING:
    from core.progress.guard import ProgressGuard

__all__ = ["ProgressGuard", "Step", "Verdict"]


def __getattr__(name: str) -> Any:
    # the guard compiles some forty patterns: only what watches a session pays for that
    if name == "ProgressGuard":
        from core.progress.guard import ProgressGuard

        globals()[name] = ProgressGuard
        return ProgressGuard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
