"""Bundles broken by hand: each kind of damage has its own problem code, and none can be published."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.commands import artificer, expecting
from tests.harness.home import fresh_home

MANIFEST = """\
schema: artificer/v1
name: clerk
description: Keeps a list.
tools:
  - count
credentials:
  - name: LIST_TOKEN
    hosts: [api.example.org]
    header: Authorization
"""
TOOL = """\
name: count
description: Counts the words of a text.
entrypoint: tool.py
input_schema:
  type: object
  properties:
    text: {type: string}
  required: [text]
requirements: []
"""
CODE = "def run(ctx, input):\n    return {'words': len(input['text'].split())}\n"
KEY = (
    "-----BEGIN " + "PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n" * 8 + "-----END " + "PRIVATE KEY-----\n"
)

Break = Callable[[Path], object]


def replace(name: str, old: str, new: str) -> Break:
    def _break(bundle: Path) -> None:
        text = (bundle / name).read_text()
        assert old in text
        (bundle / name).write_text(text.replace(old, new))

    return _break


def write(name: str, text: str) -> Break:
    return lambda bundle: (bundle / name).write_text(text)


BOMB = "metadata:\n  a: &a [x, x]\n  b: &b [*a, *a]\n  c: [*b, *b]\n"

BROKEN: dict[str, tuple[str, Break]] = {
    "duplicate keys": ("yaml_duplicate_key", replace("agent.yaml", "name: clerk\n", "name: clerk\nname: clerk\n")),
    "alias bomb": ("yaml_alias", lambda bundle: (bundle / "agent.yaml").write_text(MANIFEST + BOMB)),
    "missing persona": ("persona_missing", lambda bundle: (bundle / "persona.md").unlink()),
    "syntax error": ("python_syntax", write("tools/count/tool.py", "def run(ctx, input):\n    return (\n")),
    "entrypoint signature": ("entrypoint_signature", write("tools/count/tool.py", "def run(input):\n    return 1\n")),
    "undeclared import": ("undeclared_import", write("tools/count/tool.py", "import requests\n\n" + CODE)),
    "requirement from a file": (
        "requirement_url",
        replace("tools/count/tool.yaml", "requirements: []", "requirements: ['evil @ file:///tmp/evil.whl']"),
    ),
    "symlink": ("symlink", lambda bundle: (bundle / "notes.md").symlink_to("/etc/hostname")),
    "path outside": ("path_outside", replace("agent.yaml", "tools:", "persona: ../persona.md\ntools:")),
    "case clash": ("case_clash", lambda bundle: (bundle / "PERSONA.md").write_text("Another.\n")),
    "remote ref": (
        "schema_remote_ref",
        replace("tools/count/tool.yaml", "{type: string}", "{$ref: 'https://example.org/schema.json'}"),
    ),
    "wildcard host": ("wildcard_host", replace("agent.yaml", "[api.example.org]", "['*.example.org']")),
    "credential with a value": (
        "credential_value",
        replace("agent.yaml", "header: Authorization", "header: Authorization\n    value: hunter2"),
    ),
    "private key": ("private_key", write("tools/count/key.pem", KEY)),
}


@pytest.fixture(scope="module")
def clerks_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which an agent with a tool and a credential is published."""
    bundle = tmp_path_factory.mktemp("bundle") / "clerk"
    (bundle / "tools" / "count").mkdir(parents=True)
    (bundle / "agent.yaml").write_text(MANIFEST)
    (bundle / "persona.md").write_text("You keep a list.\n")
    (bundle / "tools" / "count" / "tool.yaml").write_text(TOOL)
    (bundle / "tools" / "count" / "tool.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as patch:
        home = fresh_home(bundle.parent, patch)
        expecting(0, "save", bundle)
        expecting(0, "validate", "clerk")
        expecting(0, "publish", "clerk")
    return home


@pytest.fixture
def clerk(home: Path, clerks_home: Path, tmp_path: Path) -> Path:
    """That agent in a home of this test's own, checked out."""
    shutil.copytree(clerks_home, home)
    expecting(0, "checkout", "clerk", tmp_path / "clerk")
    return tmp_path / "clerk"


def test_every_kind_of_damage_has_a_code_of_its_own() -> None:
    codes = [code for code, _ in BROKEN.values()]
    assert len(codes) == len(set(codes)) == 14


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_bundle_says_how_and_is_never_published(clerk: Path, kind: str) -> None:
    code, damage = BROKEN[kind]
    live = expecting(0, "agents").value[0]["live"]
    damage(clerk)
    saved = artificer("save", clerk)
    if saved.code == 0:
        digest = saved.value["digest"]
        ran = expecting(1, "validate", f"clerk@{digest}").value
        # A value that holds the bomb is also no value of its key.
        assert (ran["passed"], {p["code"] for p in ran["problems"]} - {"bad_value"}) == (False, {code})
        assert expecting(1, "publish", f"clerk@{digest}").error["code"] == "validation_failed"
        assert expecting(1, "rollback", "clerk", "--to", digest).error["code"] == "never_passed"
    else:
        assert {p["code"] for p in saved.error["problems"]} == {code}
        assert expecting(0, "agents").value[0]["latest"] == live
    assert expecting(0, "agents").value[0]["live"] == live
