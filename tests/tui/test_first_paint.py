"""What the app may load before its first paint."""

from __future__ import annotations

import subprocess
import sys

PAINT = """
import asyncio, pathlib, sys, tempfile
from impl.compose import build_host
from tui.application import ArtificerApp

async def paint():
    app = ArtificerApp(build_host(pathlib.Path(tempfile.mkdtemp())))
    loaded = []
    app._after_first_paint = lambda: (loaded.extend(sys.modules), app.exit())
    await app.run_async(headless=True, size=(80, 24))
    print("\\n".join(sorted(loaded)))

asyncio.run(paint())
"""

HEAVY = {
    "pydantic",
    "httpx",
    "httpx2",
    "anthropic",
    "openai",
    "docker",
    "typer",
    "click",
    "yaml",
    "jsonschema",
    "markdown_it",
    "genai_prices",
    "mcp",
    "keyring",
    "plotext",
    "textual_plotext",
}


def test_the_first_paint_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", PAINT], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "tui.screens.home" in loaded
    assert not {name.split(".")[0] for name in loaded} & HEAVY


def test_the_first_paint_loads_no_other_screen_and_no_loop() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", PAINT], capture_output=True, text=True, check=True)
    screens = {f"tui.screens.{name}" for name in ("session", "agent", "dialogs", "lab")}
    assert not set(done.stdout.split()) & {*screens, "tui.panes.lab", "core.loop", "core.supervisor"}


def test_the_lab_loads_what_plots_only_when_it_plots() -> None:
    script = "import tui.screens.lab, sys; print([name for name in sys.modules if 'plotext' in name])"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
