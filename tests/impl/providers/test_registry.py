"""Providers are found by name, made once, and cost nothing until they are used."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import core.provider
from core import register_provider
from impl import providers
from impl.providers import load_provider, provider_names
from tests.harness.scripted import ScriptedProvider


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.provider, "_registry", {})
    monkeypatch.setattr(providers, "_instances", {})


def test_a_provider_is_made_once() -> None:
    assert load_provider("anthropic") is load_provider("anthropic")


def test_hyphens_do() -> None:
    assert load_provider("openai-compatible") is load_provider("openai_compatible")


def test_a_registered_provider_comes_before_a_built_in_one_and_may_be_replaced() -> None:
    one, two = ScriptedProvider(), ScriptedProvider()
    register_provider("anthropic", lambda: one)
    assert load_provider("anthropic") is one
    register_provider("anthropic", lambda: two)
    assert load_provider("anthropic") is two


def test_an_unknown_name_tells_what_there_is() -> None:
    with pytest.raises(LookupError, match=r"Did you mean anthropic\?.*openai_compatible"):
        load_provider("antropic")


def test_an_installed_package_adds_one(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("mine", "tests.harness.scripted:ScriptedProvider", providers.GROUP)
    monkeypatch.setattr(providers, "_points", lambda: [point])
    assert isinstance(load_provider("mine"), ScriptedProvider)
    assert "mine" in provider_names()


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("Mine = 5", "not callable"),
        ("Mine = dict", "makes no provider but dict"),
        ("", "no attribute 'Mine'"),
        ("import not_a_module_of_anybody", "not_a_module_of_anybody"),
    ],
)
def test_a_package_that_fails_is_an_import_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, words: str
) -> None:
    (tmp_path / "failing_plugin.py").write_text(does)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "failing_plugin", raising=False)
    point = EntryPoint("mine", "failing_plugin:Mine", providers.GROUP)
    monkeypatch.setattr(providers, "_points", lambda: [point])
    with pytest.raises(ImportError, match=words):
        load_provider("mine")


def test_nothing_heavy_is_imported_before_the_first_request() -> None:
    program = (
        "import sys\n"
        "from impl.providers import load_provider\n"
        "for name in ('anthropic', 'openai_compatible'):\n"
        "    load_provider(name).default_model()\n"
        "    load_provider(name).context_window('claude-sonnet-5-5') if name == 'anthropic' else None\n"
        "heavy = {'anthropic', 'httpx', 'httpx2', 'genai_prices', 'pydantic', 'openai'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
