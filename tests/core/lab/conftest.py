"""The lab's own suite and the agent it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.home import INPUTS


@pytest.fixture
def clerk() -> Path:
    """The bundle of an agent with a fault in its persona and another in a tool."""
    return INPUTS / "lab" / "clerk"


@pytest.fixture
def suite() -> Path:
    """Sixty cases for it."""
    return INPUTS / "lab" / "suite"
