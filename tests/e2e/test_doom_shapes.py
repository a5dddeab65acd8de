"""What a model does again and again through the whole product: circles end with evidence, work and waiting never do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.harness.marker import Home, Play
from tests.harness.warm import Warm

Turn = Callable[[int], list[Any]]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
#: A counter that no workspace digest sees: something outside that moves whenever it is looked at.
COUNT = "N=$(cat /tmp/n 2>/dev/null || echo 0); echo $((N+1)) > /tmp/n; "
REFUSALS = (
    "curl: (7) Failed to connect to db port 5432: Connection refused",
    "psql: error: connection to server at db (10.0.0.5), port 5432 failed: Connection refused",
    "nc: connect to db port 5432 (tcp) failed: Connection refused",
)


def sh(command: str, call: str = "") -> dict[str, Any]:
    """A call of run_sandbox."""
    return {"tool": "run_sandbox", "input": {"command": command}, **({"id": call} if call else {})}


def fail(words: str, code: int = 1) -> str:
    """A command that says it and fails."""
    return f'echo "{words}"; exit {code}'


def turns(*pattern: Turn) -> Turn:
    """One after another, again and again."""
    return lambda n: pattern[n % len(pattern)](n)


#: What a model does in its nth turn, and by which turn it must have been stopped.
CIRCLES: dict[str, tuple[Turn, int]] = {
    "a failure with drifting times": (
        lambda n: [sh(f"date +%FT%T.%N; {fail('connect to box port 22: Connection refused', 7)}")],
        8,
    ),
    "a failure with new paths and ids": (
        lambda n: [sh('D=$(mktemp -d); echo "pid $$: cannot stat $D/out: No such file or directory"; exit 1')],
        10,
    ),
    "one dead service behind many tools": (lambda n: [sh(fail(REFUSALS[n % 3], 1 + n % 3))], 26),
    "two failures in parallel": (
        lambda n: [sh(fail("fatal: no remote", 128), f"a{n}"), sh(fail("E: no package foo", 100), f"b{n}")],
        8,
    ),
    "a failure beside calls that work": (
        lambda n: [sh(fail("fatal: not a git repository", 128), f"a{n}"), sh(f"echo fine {n}", f"b{n}")],
        14,
    ),
    "edits that only move the line": (
        lambda n: [
            sh(
                'echo >> main.py; echo "File main.py, line $(wc -l < main.py)"; '
                + fail("SyntaxError: unexpected EOF while parsing")
            )
        ],
        16,
    ),
    "edits between the same failing test": (
        turns(
            lambda n: [sh(f"echo 'x = {n}' > m.py")],
            lambda n: [sh("echo 'E   assert 3 == 4'; echo \"1 failed, 11 passed in 0.0${RANDOM}s\"; exit 1")],
        ),
        30,
    ),
    "an edit and its undoing": (lambda n: [sh(f"echo {n % 2} > flag")], 14),
    "a listing that stays": (lambda n: [sh("ls -la /usr/lib | head -5")], 8),
    "three looks in turn": (lambda n: [sh(("echo a", "echo b", "pwd")[n % 3])], 16),
    "made-up tools": (lambda n: [{"tool": f"tool_{LETTERS[n % 26]}", "input": {}}], 12),
    "arguments that do not fit": (lambda n: [{"tool": "run_sandbox", "input": {"cmd": f"ls {n}"}}], 10),
    "errors that claim success": (lambda n: [sh(f"echo 'Error: no such table: users (pid {4000 + n})' || true")], 10),
    "a disk that takes nothing": (lambda n: [sh(f"touch /etc/file{n}")], 18),
    "crashes after other words": (lambda n: [sh(f"echo loaded unit {n * 37}; kill -SEGV $$")], 12),
    "waiting that is in vain": (lambda n: [sh(f"sleep 0.0{n % 9}; {fail(f'HTTP 503 (attempt {n})', 22)}")], 10),
    "a search with other words": (
        lambda n: [{"tool": "search_corpus", "input": {"query": f"{LETTERS[n % 26]}zebra stripes {'?' * (n % 3)}"}}],
        24,
    ),
    "nothing said at all": (lambda n: [], 12),
}

#: What a model does in its nth turn, and for how many turns it goes on undisturbed.
WORK: dict[str, tuple[Turn, int]] = {
    "steps that change something": (
        lambda n: [sh(f"echo step {n} > f{n}; echo build at $(({n} * 4))%; exit $(({n} % 2))")],
        50,
    ),
    "two hundred steps": (lambda n: [sh("echo line >> log.txt; wc -l log.txt")], 200),
    "two hundred looks at what moves": (lambda n: [sh(f'{COUNT} echo "job 17: $N of 200 done"')], 200),
    "a poll that moves slowly": (
        lambda n: [sh(f'{COUNT} echo "building $(( N < 3 ? N : 3 + N / 7 ))%"')],
        70,
    ),
    "a poll that fails until it is ready": (
        lambda n: [sh(f'{COUNT} echo "$(( N / 5 )) of 40 pods are ready"; exit 1')],
        70,
    ),
    "a log that grows now and then": (
        lambda n: [sh(f"{COUNT} seq 1 $((N / 3)) | sed 's/^/step /' | tail -n 3")],
        60,
    ),
    "page after page": (lambda n: [sh(f"seq {n * 20} {n * 20 + 19}")], 60),
    "file after file": (lambda n: [sh(f"echo 'def f{n}(): return {n}' > f.py; cat f.py")], 60),
    "many files that say nothing": (lambda n: [sh(f"mkdir -p d && echo {n} > d/file{n}.txt")], 60),
    "five tries and then success": (
        lambda n: [sh(fail("HTTP 503 Service Unavailable", 22) if n < 5 else f"echo got row {n}")],
        12,
    ),
    "ever fewer failing tests": (
        turns(
            lambda n: [sh(f"echo 'fix {n}' >> m.py")],
            lambda n: [sh(f"echo 'E  assert broken'; {fail(f'{21 - n // 2} failed, {n // 2} passed in 1.2s')}")],
        ),
        42,
    ),
    "another error after each edit": (
        turns(
            lambda n: [sh(f"echo 'import {n}' >> m.py")],
            lambda n: [sh(fail(f"NameError: name {LETTERS[n // 2 % 26]}_{LETTERS[n // 3 % 26]} is not defined"))],
        ),
        50,
    ),
    "a linter with fewer complaints": (
        turns(
            lambda n: [sh(f"echo '# {n}' >> a.py")],
            lambda n: [sh(f"echo 'a.py:{100 - n}:80: E501 line too long'; {fail(f'Found {31 - n // 2} errors.')}")],
        ),
        60,
    ),
    "a bisection": (lambda n: [sh(f"echo 'at commit {n * 7919:07x}, {99 - n} left'; exit {n % 2}")], 30),
    "a download that is taken up again": (
        lambda n: [sh(fail(f"transfer closed with {2_000_000 - n * 90_000} bytes to go", 18))],
        20,
    ),
    "git status between steps": (
        turns(lambda n: [sh(f"echo {n} > g{n}")], lambda n: [sh("echo 'nothing to commit, working tree clean'")]),
        40,
    ),
    "tests that pass between edits": (
        turns(lambda n: [sh(f"echo {n} > g{n}")], lambda n: [sh("echo '12 passed in 0.42s'")]),
        40,
    ),
    "a failing service while others are set up": (
        lambda n: [
            sh(fail("curl: (7) port 8080: Connection refused", 7) if n % 6 == 3 else f"echo loading module {n}")
        ],
        40,
    ),
}
QUICK = ("a failure with drifting times", "made-up tools", "steps that change something", "a poll that moves slowly")


def cases(shapes: dict[str, tuple[Turn, int]]) -> list[Any]:
    """The shapes as parameters; most of them for the slow lane."""
    return [
        pytest.param(*shape, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name, shape in shapes.items()
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    scratch = tmp_path_factory.mktemp("shapes")
    with Warm() as warm:
        yield Home(scratch / "home", warm).publish(scratch / "marker")


def play(home: Home, do: Turn, most: int) -> Play:
    """A run whose model does that for so many turns, then says that all is done."""
    played = Play(home, "calls", script=lambda turn, request: do(turn) if turn < most else "All done.")
    played.env.pop("ARTIFICER_CONTEXT_WINDOW")
    with played.checking.server:
        code = played.drive("run", "marker", "go")
    assert played.checking.violations == []
    assert played.result is not None
    assert code == {"completed": 0, "doom_loop": 14}[played.result["stop"]]
    return played


@pytest.mark.parametrize(("do", "most"), cases(CIRCLES))
def test_a_circle_is_ended_with_its_evidence(home: Home, do: Turn, most: int) -> None:
    played = play(home, do, most)
    result = played.result or {}
    assert result["stop"] == "doom_loop"
    assert result["waiting"]["kind"] == "doom_loop"
    evidence = result["evidence"]
    assert evidence["rule"] == result["detail"]
    assert evidence["failure"]
    assert evidence["progress_would_be"]
    assert evidence["count"] >= 3
    assert 0 < evidence["first"] < evidence["last"]
    assert "nudge" in {line["kind"] for line in played.shown}, "no stop without a word before"


@pytest.mark.parametrize(("do", "most"), cases(WORK))
def test_work_and_waiting_for_what_moves_go_on(home: Home, do: Turn, most: int) -> None:
    assert (play(home, do, most).result or {})["output"] == "All done."
