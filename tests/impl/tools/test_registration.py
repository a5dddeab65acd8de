"""Registering a tool: what is wrong is said with its code, what runs is run on its record, and a digest is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from core import digest_tree
from core.builder.registration import Registration, compare, register, tool_digests
from core.bundle.tree import scan_tree
from impl.settings import Settings
from impl.tools.gate import example_check
from tests.harness.eval_driver import make_host
from tests.harness.wheels import make_wheel

TOOL = """\
name: find_berth
description: Finds berths.
input_schema:
  type: object
  properties: {harbour: {type: string}}
credentials: [HARBOUR_KEY]
hosts: [api.example.com]
examples:
  - input: {harbour: north}
    effects:
      - request: {method: GET, url: "https://api.example.com/berths?harbour=north", credential: HARBOUR_KEY}
        response: {status: 200, body: {free: [3, 4]}}
    output: {free: [3, 4]}
"""
CODE = """\
def run(ctx, input):
    url = "https://api.example.com/berths?harbour=" + input["harbour"]
    return ctx.http.request("GET", url, credential="HARBOUR_KEY").json()
"""
MANIFEST = """\
schema: artificer/v1
name: harbour
tools: [find_berth]
credentials:
  - name: HARBOUR_KEY
    hosts: [api.example.com]
    header: X-Key
"""


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """A draft whose tool is good."""
    tool = tmp_path / "agent" / "tools" / "find_berth"
    tool.mkdir(parents=True)
    (tool / "tool.yaml").write_text(TOOL)
    (tool / "tool.py").write_text(CODE)
    (tmp_path / "agent" / "agent.yaml").write_text(MANIFEST)
    return tmp_path / "agent"


async def registered(draft: Path, tmp_path: Path, settings: Settings | None = None) -> Registration:
    """Register the draft's tool with the gate's own checks, as the tool does: in a thread."""
    host = make_host(tmp_path / "home")
    host.settings = settings or host.settings
    sandbox, _ = await host.sandboxes.choose(None)
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"bubblewrap: {problem}")
    return await asyncio.to_thread(register, draft / "tools" / "find_berth", (example_check(host, None),))


def change(draft: Path, name: str, old: str, new: str) -> None:
    """Replace text in one of the tool's files."""
    path = draft / "tools" / "find_berth" / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


async def test_a_good_tool_is_registered_by_its_digest_and_its_examples_ran(draft: Path, tmp_path: Path) -> None:
    found = await registered(draft, tmp_path)
    assert (found.problems, found.log) == ([], ["find_berth example 1: as shown"])
    assert found.digest == digest_tree(draft / "tools" / "find_berth")


@pytest.mark.parametrize(
    ("name", "old", "new", "code"),
    [
        ("tool.py", "def run(", "def run((", "python_syntax"),
        ("tool.py", "def run(ctx, input)", "def run(ctx)", "entrypoint_signature"),
        ("tool.py", "def run", "import requests\ndef run", "undeclared_import"),
        ("tool.yaml", "hosts: [api", "requirements: ['x @ file:///x']\nhosts: [api", "requirement_url"),
        ("tool.yaml", "hosts: [api.example.com]", "hosts: ['*.example.com']", "wildcard_host"),
        ("tool.yaml", "type: object", "type: array", "schema_not_object"),
        ("tool.yaml", "credentials: [HARBOUR_KEY]", "credentials: [OTHER_KEY]", "credential_undeclared"),
        ("tool.yaml", "hosts: [api.example.com]", "hosts: [example.org]", "credential_hosts"),
        ("tool.yaml", "output: {free: [3, 4]}", "output: {free: [3]}", "example_failed"),
        ("tool.py", "api.example.com", "api.example.org", "example_failed"),
        ("tool.py", "?harbour=", "?h=", "example_failed"),
        ("tool.py", "return ctx", "raise KeyError\n    return ctx", "example_failed"),
    ],
)
async def test_each_fault_is_a_problem_of_its_own(
    draft: Path, tmp_path: Path, name: str, old: str, new: str, code: str
) -> None:
    change(draft, name, old, new)
    found = await registered(draft, tmp_path)
    assert code in {str(problem.code) for problem in found.problems}
    assert {problem.path for problem in found.problems} <= {"tool.yaml", "tool.py"}


async def test_a_link_in_the_tool_is_a_problem_and_not_followed(draft: Path, tmp_path: Path) -> None:
    (draft / "tools" / "find_berth" / "more.py").symlink_to("/etc/passwd")
    found = await registered(draft, tmp_path)
    assert ([str(problem.code) for problem in found.problems], found.digest) == (["symlink"], None)


async def test_an_example_that_asks_an_undeclared_host_says_so(draft: Path, tmp_path: Path) -> None:
    change(draft, "tool.py", "api.example.com", "evil.example")
    found = await registered(draft, tmp_path)
    assert "host_not_allowed" in found.problems[0].message


async def test_without_a_draft_beside_it_what_cannot_be_compared_is_said(draft: Path, tmp_path: Path) -> None:
    (draft / "agent.yaml").unlink()
    found = await registered(draft, tmp_path)
    assert found.problems == []
    assert any("no agent.yaml" in note for note in found.notes)
    assert any("examples were not run" in note for note in found.notes)


async def test_a_later_revision_is_compared_by_digest(draft: Path, tmp_path: Path) -> None:
    found = await registered(draft, tmp_path)
    known: dict[str, set[str]] = {"find_berth": {str(found.digest)}}
    same: dict[str, Any] = compare(scan_tree(draft), known)
    assert same == {"find_berth": {"digest": found.digest, "registered": True}}
    change(draft, "tool.py", "GET", "POST")
    assert compare(scan_tree(draft), known)["find_berth"]["registered"] is False
    assert tool_digests(scan_tree(draft))["find_berth"] == digest_tree(draft / "tools" / "find_berth")


async def test_what_it_requires_is_installed_and_its_examples_run_on_it(draft: Path, tmp_path: Path) -> None:
    make_wheel(tmp_path / "wheels", "tide_tables", "1.2", {"tide_tables.py": "def free(): return {'free': [3, 4]}\n"})
    change(draft, "tool.yaml", "hosts: [api", "requirements: [tide-tables]\nhosts: [api")
    change(draft, "tool.py", "def run(ctx, input):", "import tide_tables\n\n\ndef run(ctx, input):")
    change(draft, "tool.py", ".json()", " and tide_tables.free()")
    found = await registered(draft, tmp_path, Settings(package_index=str(tmp_path / "wheels")))
    assert found.problems == []
    assert found.log == ["find_berth: installed tide-tables", "find_berth example 1: as shown"]
    change(draft, "tool.yaml", "tide-tables", "tide-tables>2")
    found = await registered(draft, tmp_path, Settings(package_index=str(tmp_path / "wheels")))
    assert [str(problem.code) for problem in found.problems] == ["environment_failed"]
    assert "No matching distribution" in found.problems[0].message
