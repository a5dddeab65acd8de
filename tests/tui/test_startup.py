"""What the start of Artificer may load: the budget of the first screen and of the command line."""

from __future__ import annotations

import subprocess
import sys

SDKS = ("anthropic", "openai", "docker", "mcp", "genai_prices", "keyring", "langchain", "httpx", "httpx2")


def loaded_by(code: str) -> set[str]:
    """The top-level modules a fresh interpreter has loaded after running `code`."""
    script = f"{code}\nimport sys; print('\\n'.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_the_facade_costs_nothing_until_a_name_is_used() -> None:
    script = "import core, sys; print([m for m in sys.modules if m.startswith('core.')])"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_name_of_the_facade_is_there_and_none_is_a_submodule() -> None:
    import importlib.util

    import core

    for name in core.__all__:
        assert getattr(core, name) is not None
        assert importlib.util.find_spec(f"core.{name}") is None, f"core.{name} is a module and a name"


HELP = """
import contextlib, io
from tui.commands import run
with contextlib.redirect_stdout(io.StringIO()):
    run(["--help"])
"""
ROOT = """
import pathlib, tempfile
from impl.compose import build_host
build_host(pathlib.Path(tempfile.mkdtemp())).store.sessions()
"""


def test_help_loads_no_sdk() -> None:
    assert not loaded_by(HELP) & set(SDKS)


def test_the_commands_load_no_pydantic_before_they_need_it() -> None:
    assert "pydantic" not in loaded_by("import tui.commands")


def test_the_composition_root_loads_no_provider_and_no_pydantic() -> None:
    assert not loaded_by(ROOT) & {*SDKS, "pydantic", "typer", "textual", "yaml", "jsonschema"}
