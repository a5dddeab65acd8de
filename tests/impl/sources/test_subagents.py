"""A subagent becomes an agent: its text the persona, its tools mapped and never widened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core import check_bundle, read_manifest
from impl.sources import ImportResult

Write = Callable[..., Path]
Convert = Callable[..., ImportResult]


def changes(result: ImportResult) -> str:
    return "\n".join(loss.change for loss in result.losses)


def test_several_are_asked_about_and_one_is_taken(inputs: Path, convert: Convert) -> None:
    asked = convert(inputs / "subagents")
    assert (asked.asks, asked.multiple, asked.recommended) == ("choice", False, "reader")
    assert [option.id for option in asked.options] == ["reader", "runner", "talker"]
    assert convert(inputs / "subagents", choice=["reader", "runner"]).outcome == "question"


def test_the_text_is_the_persona(inputs: Path, convert: Convert) -> None:
    result = convert(inputs / "subagents", choice=["reader"], name="helpers")
    assert result.bundle is not None
    assert check_bundle(result.bundle) == []
    assert (result.bundle / "persona.md").read_text() == ("You read changes and explain them in three sentences.\n")
    manifest = read_manifest(result.bundle)
    assert (manifest.name, manifest.description, manifest.model) == (
        "helpers",
        "Reads a change and says what it does.",
        None,
    )


@pytest.mark.parametrize(("chosen", "policy"), [("reader", "deny"), ("runner", "allow"), ("talker", "deny")])
def test_only_a_shell_grant_opens_the_sandbox(inputs: Path, convert: Convert, chosen: str, policy: str) -> None:
    result = convert(inputs / "subagents", choice=[chosen])
    assert result.bundle is not None
    assert read_manifest(result.bundle).policy.run_sandbox == policy


def test_what_has_no_counterpart_stands_in_the_loss_report(inputs: Path, convert: Convert) -> None:
    said = changes(convert(inputs / "subagents", choice=["reader"]))
    for tool in ("Read", "Grep", "WebFetch", "mcp__tracker__search"):
        assert f"{tool}: not granted" in said
    assert "the model 'sonnet' is not taken over" in said


def test_file_tools_are_no_loss_beside_a_shell(inputs: Path, convert: Convert) -> None:
    assert "Read" not in changes(convert(inputs / "subagents", choice=["runner"]))


def test_omitted_tools_become_none_and_that_is_said(inputs: Path, convert: Convert) -> None:
    assert "no tools are granted" in changes(convert(inputs / "subagents", choice=["talker"]))


@pytest.mark.parametrize(
    ("tools", "policy"),
    [
        ("tools: '*'", "deny"),
        ("tools: Bash(ls:*)", "ask"),
        ("tools: Bash\ndisallowedTools: Bash", "deny"),
        ("tools: Read, Bash\ndisallowedTools: Bash(rm:*)", "deny"),
        ("tools:", "deny"),
    ],
)
def test_narrowed_and_wide_grants_take_the_least(write: Write, convert: Convert, tools: str, policy: str) -> None:
    text = f"---\nname: one\ndescription: Is one.\n{tools}\n---\n\nYou are one.\n"
    result = convert(write({"agents/one.md": text}))
    assert result.bundle is not None
    assert read_manifest(result.bundle).policy.run_sandbox == policy


def test_unknown_keys_are_reported(write: Write, convert: Convert) -> None:
    text = "---\nname: one\ndescription: Is one.\nhooks: {Stop: []}\npermissionMode: acceptEdits\n---\n\nYou are one.\n"
    said = changes(convert(write({"agents/one.md": text})))
    assert "'hooks'" in said
    assert "'permissionMode'" in said


def test_a_subagent_without_text_is_described_by_its_description(write: Write, convert: Convert) -> None:
    root = write({"agents/one.md": "---\nname: one\ndescription: Is one.\n---\n"})
    result = convert(root)
    assert result.bundle is not None
    assert (result.bundle / "persona.md").read_text() == "Is one.\n"
    assert convert(root, mode="strict").outcome == "refused"
