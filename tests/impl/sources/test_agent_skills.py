"""Agent Skills become skills of one agent, with no more rights than they had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core import check_bundle, digest_tree, read_manifest
from impl.sources import ImportResult

Write = Callable[..., Path]
Convert = Callable[..., ImportResult]


BOMB = "a0: &a0 [x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


def skill(front: str, body: str = "Do it.\n") -> str:
    return f"---\n{front.strip()}\n---\n\n{body}"


def bundle_of(result: ImportResult) -> Path:
    assert result.bundle is not None, result
    assert check_bundle(result.bundle) == []
    return result.bundle


def changes(result: ImportResult) -> str:
    return "\n".join(f"{loss.path}: {loss.change}" for loss in result.losses)


def test_several_skills_are_asked_about_and_several_may_be_taken(inputs: Path, convert: Convert) -> None:
    asked = convert(inputs / "skills")
    assert (asked.outcome, asked.asks, asked.multiple) == ("question", "choice", True)
    assert [option.id for option in asked.options] == ["release-notes", "table-maker", "weather-report"]
    assert asked.recommended in [option.id for option in asked.options]
    assert [o.id for o in asked.options if "recommended" in o.label] == [asked.recommended]


def test_the_chosen_ones_become_skills_of_one_agent(inputs: Path, convert: Convert) -> None:
    result = convert(inputs / "skills", name="office", choice=["table-maker", "release-notes"])
    bundle = bundle_of(result)
    manifest = read_manifest(bundle)
    assert (manifest.name, manifest.skills) == ("office", ("release-notes", "table-maker"))
    original = inputs / "skills/skills/release-notes"
    assert digest_tree(bundle / "skills/release-notes") == digest_tree(original)
    assert "not taken: weather-report" in changes(result)


def test_all_takes_every_one(inputs: Path, convert: Convert) -> None:
    assert convert(inputs / "skills", choice=["all"]).counts["skills"] == 3


def test_an_answer_that_names_none_of_them_asks_again(inputs: Path, convert: Convert) -> None:
    asked = convert(inputs / "skills", choice=["nonsense"])
    assert asked.outcome == "question"
    assert asked.question.startswith("There is no nonsense here.")


def test_one_skill_is_taken_without_a_question(write: Write, convert: Convert) -> None:
    result = convert(write({"one/SKILL.md": skill("name: one\ndescription: Does one.")}))
    assert result.outcome == "imported"
    assert result.description == "Does one."


def test_the_same_source_gives_the_same_bundle(inputs: Path, convert: Convert) -> None:
    first, second = (convert(inputs / "skills", choice=["all"]) for _ in range(2))
    assert digest_tree(bundle_of(first)) == digest_tree(bundle_of(second))


def test_the_persona_does_not_list_the_skills(inputs: Path, convert: Convert) -> None:
    bundle = bundle_of(convert(inputs / "skills", choice=["all"], name="office"))
    persona = (bundle / "persona.md").read_text()
    assert "office" in persona
    assert "table-maker" not in persona


def test_deviations_are_mended_and_each_is_reported(inputs: Path, convert: Convert) -> None:
    result = convert(inputs / "skills", choice=["weather-report"])
    text = (bundle_of(result) / "skills/weather-report/SKILL.md").read_text()
    assert text.startswith("---\nname: weather-report\ndescription: 'Words for the weather: short")
    assert text.endswith("---\n\nSay first what to wear.\n")
    said = changes(result)
    for part in ("not valid YAML", "'Weather Report' became 'weather-report'", "directory weather_Report", "'version'"):
        assert part in said


def test_strict_mode_refuses_deviations(inputs: Path, convert: Convert) -> None:
    result = convert(inputs / "skills", choice=["weather-report"], mode="strict")
    assert result.outcome == "refused"
    assert all(line.startswith("skills/weather_Report/SKILL.md: ") for line in result.evidence)
    assert convert(inputs / "skills", choice=["table-maker"], mode="strict").outcome == "imported"


@pytest.mark.parametrize(
    "front",
    [
        "name: one\ndescription: " + "long words " * 200,
        "name: one",
        "description: no name",
        "name: One--Two\ndescription: x",
        "name: one\ndescription: x\nmetadata: {a: 1, b: [2]}",
        "name: one\ndescription: x\nallowed-tools: [Read, Bash]",
        "name: one\ndescription: x\ncompatibility: " + "y " * 400,
        "name: one\ndescription: &a x\nlicense: *a",
        "name: one\nname: two\ndescription: x",
        "name: 12\ndescription: 2026-01-02",
        "name: one\ndescription: x\nlicense:",
        "- a list",
        "name: 潮汐\ndescription: 潮汐表",
        "description: {a: b}",
        f"name: one\ndescription: x\n{BOMB}metadata: {{k: *a9}}",
        f"name: one\ndescription: x\n{BOMB}compatibility: *a9",
        "name: one\ndescription: x\nmetadata: {n: 0x" + "f" * 9_000 + "}",
    ],
)
def test_odd_front_matter_still_gives_a_sound_bundle(write: Write, convert: Convert, front: str) -> None:
    result = convert(write({"skills/one/SKILL.md": skill(front)}))
    bundle_of(result)
    assert result.losses
    assert convert(write({"skills/one/SKILL.md": skill(front)}), mode="strict").outcome == "refused"


def test_a_skill_without_front_matter_gets_one(write: Write, convert: Convert) -> None:
    result = convert(write({"skills/one/SKILL.md": "# One\n\nDoes one thing.\n"}))
    text = (bundle_of(result) / "skills/one/SKILL.md").read_text()
    assert text == "---\nname: one\ndescription: Does one thing.\n---\n# One\n\nDoes one thing.\n"


@pytest.mark.parametrize("file", ["skill.md", "Skill.md", "SKILL.MD"])
def test_a_skill_file_called_otherwise_but_for_case_is_renamed(write: Write, convert: Convert, file: str) -> None:
    result = convert(write({f"one/{file}": skill("name: one\ndescription: Does one.")}))
    assert (bundle_of(result) / "skills/one/SKILL.md").is_file()
    assert changes(result) == f"one/{file}: {file} was renamed to SKILL.md"


def test_front_matter_that_nothing_closes_is_read_all_the_same(write: Write, convert: Convert) -> None:
    result = convert(write({"a/SKILL.md": "---\nname: one\ndescription: Does: one.\n\n# One\n\nDo it.\n"}))
    assert result.description == "Does: one."
    assert "not closed" in changes(result)
    assert (bundle_of(result) / "skills/one/SKILL.md").read_text().endswith("---\n\n# One\n\nDo it.\n")


def test_text_in_another_encoding_is_converted(write: Write, convert: Convert) -> None:
    data = skill("name: one\ndescription: Größe").encode("latin-1")
    result = convert(write({"skills/one/SKILL.md": data}))
    assert "Größe" in (bundle_of(result) / "skills/one/SKILL.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("tools", "script", "run_sandbox", "run_skill"),
    [
        ("", False, "deny", "deny"),
        ("allowed-tools: Read Write", False, "deny", "deny"),
        ("allowed-tools: Read, Bash", False, "allow", "deny"),
        ("allowed-tools: Bash(git add:*) Read", False, "ask", "deny"),
        ("", True, "ask", "ask"),
        ("allowed-tools: Bash", True, "allow", "allow"),
    ],
)
def test_an_import_grants_what_its_source_grants(
    write: Write, convert: Convert, tools: str, script: bool, run_sandbox: str, run_skill: str
) -> None:
    files = {"one/SKILL.md": skill(f"name: one\ndescription: x\n{tools}")}
    if script:
        files["one/scripts/go.py"] = "x = 1\n"
    policy = read_manifest(bundle_of(convert(write(files)))).policy
    assert (policy.run_sandbox, policy.run_skill) == (run_sandbox, run_skill)


def test_a_shell_that_one_of_two_skills_grants_is_asked_about(write: Write, convert: Convert) -> None:
    files = {"a/SKILL.md": skill("name: a\ndescription: x\nallowed-tools: Bash"),
             "b/SKILL.md": skill("name: b\ndescription: x")}  # fmt: skip
    result = convert(write(files), choice=["a", "b"])
    assert read_manifest(bundle_of(result)).policy.run_sandbox == "ask"
    assert "run_sandbox is asked about" in changes(result)


def test_an_executable_file_counts_as_a_script(write: Write, convert: Convert) -> None:
    root = write({"one/SKILL.md": skill("name: one\ndescription: x"), "one/tool": "#!/bin/sh\n"})
    (root / "one/tool").chmod(0o755)
    bundle = bundle_of(convert(root))
    assert read_manifest(bundle).policy.run_skill == "ask"
    assert (bundle / "skills/one/tool").stat().st_mode & 0o100


def test_tools_without_a_counterpart_stand_in_the_loss_report(write: Write, convert: Convert) -> None:
    result = convert(write({"one/SKILL.md": skill("name: one\ndescription: x\nallowed-tools: Read WebFetch")}))
    assert "Read: not granted" in changes(result)
    assert "WebFetch: not granted" in changes(result)


def test_a_root_skill_leaves_the_skills_below_it_out(write: Write, convert: Convert) -> None:
    files = {"SKILL.md": skill("name: whole\ndescription: x"), "a.md": "x"}
    bundle = bundle_of(convert(write(files)))
    assert sorted(path.name for path in (bundle / "skills/whole").iterdir()) == ["SKILL.md", "a.md"]


def test_a_link_to_a_skill_that_comes_along_is_no_loss(write: Write, convert: Convert) -> None:
    linking = skill("name: a\ndescription: x", "See [b](../b/more.md) and [c](../../c.md).\n")
    root = write({"skills/a/SKILL.md": linking, "skills/b/SKILL.md": skill("name: b\ndescription: x")})
    assert "../b/more.md" in changes(convert(root, choice=["a"]))
    both = changes(convert(root, choice=["a", "b"]))
    assert "../b/more.md" not in both
    assert "../../c.md" in both


def test_a_reference_with_a_private_key_is_left_out(write: Write, convert: Convert) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA" * 8 + "\n-----END RSA PRIVATE KEY-----\n"
    result = convert(write({"a/SKILL.md": skill("name: a\ndescription: x"), "a/references/keys.md": key}))
    bundle_of(result)
    assert (result.losses[0].path, result.counts["files"]) == ("a/references/keys.md", 1)
