"""Doom-loop detection: compares what the world answered and says when a session goes in circles."""

from core.progress.guard import ProgressGuard
from core.progress.step import Step, Verdict

__all__ = ["ProgressGuard", "Step", "Verdict"]
