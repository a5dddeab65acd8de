"""The revision tree and what publishing would do."""

from __future__ import annotations

from core import BundleDiff, FieldChange, Revision, ValidationRun
from core.bundle.diff import FileChange
from tui.view.bundles import Move, difference, move_lines, run_lines, tree_rows
from tui.view.text import plain_text

NOW = "2026-03-04T12:00:00.000Z"


def revision(name: str, *parents: str) -> Revision:
    return Revision(
        "bot", f"sha256:{name * 8}", tuple(f"sha256:{p * 8}" for p in parents), NOW, "person", f"message {name}"
    )


def ran(name: str, passed: bool) -> ValidationRun:
    problems = () if passed else ({"code": "x", "path": "agent.yaml", "message": "m", "hint": "h"},)
    return ValidationRun("r", "bot", f"sha256:{name * 8}", NOW, passed, "1", {"sandbox": "bubblewrap"}, (), problems)


def lines(*revisions: Revision, runs: tuple[ValidationRun, ...] = (), live: str | None = None) -> list[str]:
    channels = {"live": f"sha256:{live * 8}"} if live else {}
    return [plain_text(row.left).rstrip() for row in tree_rows(revisions, runs, channels, NOW)]


def test_the_newest_is_first_and_each_says_what_it_is() -> None:
    runs = (ran("a", True), ran("b", False), ran("c", True))
    found = lines(revision("a"), revision("b", "a"), revision("c", "b"), revision("d", "c"), runs=runs, live="c")
    assert [line.split("message")[0].split() for line in found] == [
        ["○", "dddddddd", "unvalidated"],
        ["●", "cccccccc", "live"],
        ["✗", "bbbbbbbb", "1", "problem"],
        ["✓", "aaaaaaaa", "passed"],
    ]


def test_a_branch_has_its_lane_until_it_meets_its_parent() -> None:
    found = lines(revision("a"), revision("b", "a"), revision("c", "a"))
    assert [line[:6].rstrip() for line in found] == ["○   cc", "│ ○ bb", "○ ╯ aa"]


def test_the_latest_run_decides() -> None:
    assert "passed" in lines(revision("a"), runs=(ran("a", False), ran("a", True)))[0]
    assert "1 problem" in lines(revision("a"), runs=(ran("a", True), ran("a", False)))[0]


def test_a_live_revision_that_fails_now_says_so() -> None:
    assert "live, failed" in lines(revision("a"), runs=(ran("a", False),), live="a")[0]


def test_publishing_shows_both_digests_the_run_and_the_difference() -> None:
    move = Move("publish", "bot", "live", "sha256:" + "b" * 64, "sha256:" + "a" * 64, ran("b", True), ("one", "two"))
    text = "\n".join(plain_text(spans) for spans in move_lines(move, NOW))
    assert "aaaaaaaa → bbbbbbbb" in text
    assert "passed 12:00 · bubblewrap · run r" in text
    assert "one" in text
    assert "two" in text
    assert "sha256:" + "b" * 64 in text


def test_a_run_shows_its_environment_and_each_problem_with_its_hint() -> None:
    text = "\n".join(plain_text(spans) for spans in run_lines(ran("a", False), NOW))
    assert "sandbox: bubblewrap" in text
    assert "x  agent.yaml" in text
    assert "Next: h" in text


def test_a_first_publication_names_a_few_of_many_and_counts_the_rest() -> None:
    tools = [f"tool_{n}" for n in range(11)]
    fields = (
        FieldChange("schema", None, "artificer/v1"),
        FieldChange("description", None, "Sells pets."),
        FieldChange("tools", None, tools),
        FieldChange("credentials", None, [{"name": "key", "hosts": ["api.example"]}]),
        FieldChange("policy.run_skill", None, "deny"),
        *(FieldChange(f"policy.tools.{name}", None, "ask") for name in tools),
    )
    found = BundleDiff(None, "sha256:b", (FileChange("agent.yaml", "added", plus=9),), fields)
    assert difference(found) == (
        "tools +tool_0 +tool_1 +tool_2 and 8 more; credentials +key (api.example); policy run_skill: deny; "
        "policy.tools tool_0, tool_1, tool_2 and 8 more: ask",
        "description: Sells pets.",
        "files: 1 added (+9 −0 lines)",
    )


def test_a_change_says_what_was_before() -> None:
    fields = (FieldChange("policy.tools.buy", "ask", "allow"), FieldChange("tools", ["a", "b"], ["b", "c"]))
    assert difference(BundleDiff("sha256:a", "sha256:b", (), fields)) == ("policy.tools buy: ask → allow; tools +c −a",)
    assert difference(BundleDiff("sha256:a", "sha256:b")) == ("no change",)
