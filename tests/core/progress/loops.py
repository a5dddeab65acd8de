"""Kinds of sessions that go in circles."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random

from core.progress import Step
from tests.core.progress.drifts import Fill
from tests.core.progress.failures import FAILURES
from tests.core.progress.kinds import Bench, kind, words

ANSWERS = (
    "a\nb",
    "",
    "20 repos",
    "1",
    "status: ok",
    '{"items": [], "next": null}',
    "README.md\nsrc\ntests\nsetup.cfg",
    "total 8\n-rw-r--r-- 1 root root 120 Aug  3 10:00 a.py",
    "x" * 5_000,
    "\n".join(f"row {n} of the table" for n in range(900)),
    "No matches found.",
)
COMMANDS = ("ls", "cat notes.md", "git status", "curl -s api", "flake8 --count", "python check.py", "rg TODO src")


@kind("stop")
def the_same_call_and_answer(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    cmd, answer = dice.choice(COMMANDS), dice.choice(ANSWERS)
    for n in range(dice.randint(6, 20)):
        yield b.sh(cmd, answer, thought=f"let me look again {n}")


@kind("stop")
def the_same_call_and_answer_but_for_times(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    cmd = dice.choice(COMMANDS)
    shape = dice.choice(
        ("5 passed in [[dur]]", "[[time]] status: idle", "3 files checked, took [[dur]]", "as of [[time]]: 20 repos")
    )
    for n in range(dice.randint(8, 14)):
        yield b.sh(cmd, fill(shape, n))


@kind("stop")
def the_same_call_refused(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    args, text = dice.choice(
        (
            ({"command": "create"}, "`file_text` is required for command: create."),
            ({}, "Missing required parameter: path"),
            ({"path": None}, "path: None is not of type 'string'"),
            (
                {"n": "x"},
                "1 validation error for Args\nn\n  Input should be a valid integer [type=int_parsing, input_value='x']",
            ),
            ("{", "invalid JSON in arguments: Expecting property name at line 1 column 2"),
        )
    )
    for _ in range(dice.randint(6, 9)):
        yield b.tool("edit", args, text, False, rejected=True)


@kind("stop")
def a_call_refused_whatever_its_values(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    form = dice.choice(("missing", "pydantic", "schema", "unknown"))
    name = dice.choice(("create_issue", "edit", "search_web"))
    for n, word in enumerate(words(dice, dice.randint(8, 10))):
        args = {"title": word, "n": n}
        text = {
            "missing": "Missing required parameter: body",
            "pydantic": "1 validation error for Args\nbody\n"
            f"  Field required [type=missing, input_value={args!r}, input_type=dict]",
            "schema": f"{json.dumps(args)} is not valid: 'body' is a required property",
            "unknown": f"unknown tool: {name}",
        }[form]
        yield b.tool(name, args, text, False, rejected=True)


@kind("stop")
def tools_that_do_not_exist(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    shape = dice.choice(
        ("unknown tool: {}", "Tool '{}' not found", 'There is no tool "{}".', "Error: {} is not a registered tool")
    )
    for word in words(dice, dice.randint(8, 11)):
        yield b.tool(word, {"q": 1}, shape.format(word), False, rejected=True)


@kind("stop")
def an_edit_whose_text_is_not_there(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    shape = dice.choice(
        (
            "Failed to edit, 0 occurrences found for old_string in r.ts. Use read_file.",
            "old_str not found in r.ts: {!r}",
            "String to replace not found in file.\nString: {}",
            "No match for\n{}\nin r.ts",
        )
    )
    base = dice.choice(("GROUP BY u.id", "def f(x):\n    return x", "x = 1"))
    rejected = dice.random() < 0.7
    for n in range(dice.randint(8, 10)):
        old = dice.choice((base + " " * n, " " * n + base, f"{base} {n}", f"{base}\n" * (n + 1)))
        yield b.tool(b.editor, {"path": "r.ts", "old": old, "new": "x"}, shape.format(old), False, rejected=rejected)


@kind("stop")
def a_cycle_of_calls(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    names = words(dice, dice.randint(2, 6))
    drifts = dice.random() < 0.4
    failing = dice.choice((None, None, names[0]))
    for n in range(5 * len(names)):
        name = names[n % len(names)]
        answer = f"content of {name}" + (fill(" at [[time]]", n) if drifts else "")
        yield b.bad(f"check {name}", f"error in {name}") if name == failing else b.read(name, answer)


@kind("stop")
def a_cycle_with_words_between(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    names = words(dice, dice.randint(2, 4))
    for n in range(5 * len(names)):
        yield Step("text", output=f"Now let me look at {names[n % len(names)]}, thought {n}.")
        yield b.read(names[n % len(names)], f"content of {names[n % len(names)]}")


@kind("stop")
def the_same_calls_in_parallel_every_turn(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    names = words(dice, dice.randint(2, 5))
    for turn in range(dice.randint(7, 9)):
        dice.shuffle(names)
        for name in names:
            yield b.read(name, f"content of {name}", turn=turn)


@kind("stop")
def a_fix_and_its_revert(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    states = dice.randint(2, 3)
    drift = dice.choice(("", " in [[dur:s2]]"))
    on_test = dice.choice((True, False))
    for n in range(5 * 2 if states == 2 else 5 * 3):
        at = n % states
        yield b.edit("a.py", f"x={at}", f"x={(at + 1) % states}", f"d{at}")
        yield b.bad("pytest", fill(f"E assert {at} == {at + 7}\n1 failed" + drift, n), f"d{at}" if on_test else None)


@kind("stop")
def other_edits_the_same_failure(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    said = dice.choice(("ok", "", "Edited a.py: 1 replacement", "diff"))
    cmd = dice.choice(("pytest -q", "make", "npm test", "cargo test"))
    known = dice.random() < 0.7
    for n in range(13):
        diff = f"--- a.py\n+++ a.py\n@@ -{n},1 +{n},1 @@\n-x = {n}\n+x = {n + 1}"
        yield b.edit("a.py", str(n), str(n + 1), f"d{n}", diff if said == "diff" else said)
        yield b.bad(cmd, fill(shape, n), f"d{n}" if known else None)


@kind("stop")
def the_same_failure_however_it_drifts(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    for n in range(dice.randint(7, 9)):
        yield b.bad("run it", fill(shape, n))


@kind("stop")
def the_same_failure_of_other_commands(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    for n, word in enumerate(words(dice, dice.randint(8, 9))):
        yield b.bad(f"run it {dice.choice(('--' + word, '# ' + word, '| tail -' + str(n), ''))}", fill(shape, n))


@kind("stop")
def the_same_failure_at_the_end_of_much(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    lines = dice.randint(100, 900)
    for n in range(dice.randint(8, 9)):
        log = "\n".join(fill("[[time:iso_z]] compiling unit " + str(k) + " [[dur:ms]]", n) for k in range(lines))
        yield b.bad("make all", log + "\n" + fill(shape, n))


@kind("stop")
def the_same_failure_with_looks_between(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    between = dice.choice(("read", "same", "empty", "compact", "text", "ack"))
    for n in range(13):
        yield b.bad("run it", fill(shape, n))
        match between:
            case "read":
                yield b.read(f"src/{n}.py", f"# file {n}: {dice.choice('abcdefgh')}{n * 7}")
            case "same":
                yield b.sh("ls", "a\nb")
            case "ack":
                yield b.tool("think", {"thought": f"idea {n}"}, "ok")
            case "text":
                yield Step("text", output=f"Let me try this, idea {n}.")
            case "empty":
                yield Step("empty")
            case _:
                yield Step("compact")


@kind("stop")
def the_same_failure_over_a_compaction(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    at = dice.sample(range(1, 6), dice.randint(1, 4))
    for n in range(6):
        if n in at:
            yield Step("compact")
        yield b.bad("make", "cc: fatal error: no input files")


@kind("stop")
def a_loop_over_a_compaction(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    names = words(dice, dice.randint(1, 3))
    for n in range(7 * len(names)):
        if n == 3 * len(names):
            yield Step("compact")
        yield b.read(names[n % len(names)], f"content of {names[n % len(names)]}")


@kind("stop")
def one_dead_service_behind_all_tools(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    text = dice.choice(
        (
            "connect ECONNREFUSED 10.0.0.5:5432",
            "dial tcp 10.0.0.5:5432: connect: connection refused",
            "getaddrinfo ENOTFOUND db.internal",
            "HTTPConnectionPool(host='api.internal', port=8080): Max retries exceeded (Caused by ConnectTimeoutError)",
            '{"status": 503, "error": "Service Unavailable", "service": "ledger"}',
            "connect ETIMEDOUT 10.1.2.3:443",
            "HTTP 503 Service Unavailable: upstream ledger",
            "certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)",
        )
    )
    names = words(dice, 4)
    wrapped = dice.random() < 0.3
    for n in range(10 if wrapped else 8):
        name = dice.choice(names)
        yield b.tool(name, {"q": n}, f"{name.title()}Error: {text}" if wrapped else text, False)


@kind("stop")
def the_same_content_to_paths_in_turn(dice: Random) -> Iterable[Step]:
    paths = [f"/tmp/{word}.md" for word in words(dice, dice.randint(1, 3))]
    digest = dice.choice(("d1", None))
    for n in range(6 * len(paths)):
        yield Step(
            "tool", "write", {"path": paths[n % len(paths)], "content": "same"}, dice.choice(("ok",)), True, digest
        )


@kind("stop")
def silence(dice: Random) -> Iterable[Step]:
    for n in range(dice.randint(4, 8)):
        yield Step("empty") if dice.random() < 0.8 else Step("text", output=" " * n)
        if dice.random() < 0.2:
            yield Step("compact")


@kind("stop")
def waiting_for_nothing(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    state = dice.choice(("status: running", "PENDING", '{"state": "queued"}', "0/3 ready"))
    for _ in range(dice.randint(18, 30)):
        yield b.tool("poll", {"job": "j1"}, state, polls=True, waited_s=dice.choice((5, 10, 60)))


@kind("stop")
def a_search_reworded_that_finds_nothing(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    answer = dice.choice(
        (
            "No results found.",
            "[]",
            "0 hits",
            "No matches",
            '{"results": []}',
            "",
            "No documents matched the query.",
            '{"total": 0, "hits": []}',
        )
    )
    if not answer:
        for word in words(dice, 20):
            yield b.bad(f"rg '{word}' src", "")
        return
    for word in words(dice, 14):
        yield b.tool("search", {"query": f"how to {word} the {dice.choice(('api', 'client', 'server'))}"}, answer)


@kind("stop")
def versions_that_do_not_exist(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    shape, cmd = dice.choice(
        (
            (
                "ERROR: Could not find a version that satisfies the requirement foo=={v}\n"
                "ERROR: No matching distribution found for foo=={v}",
                "pip install foo=={v}",
            ),
            ("npm error code ETARGET\nnpm error notarget No matching version found for foo@{v}.", "npm i foo@{v}"),
            ('error: failed to select a version for the requirement `foo = "^{v}"`', "cargo add foo@{v}"),
            ("Error response from daemon: manifest for foo:{v} not found: manifest unknown", "docker pull foo:{v}"),
            ("E: Version '{v}' for 'foo' was not found", "apt-get install foo={v}"),
        )
    )
    for n in range(16):
        v = f"{1 + n // 5}.{n % 5}.{dice.randint(0, 9)}"
        yield b.bad(cmd.format(v=v), shape.format(v=v))


@kind("stop")
def names_that_do_not_exist(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    shape, cmd = dice.choice(
        (
            ("cat: {w}.txt: No such file or directory", "cat {w}.txt"),
            ("ERROR: No matching distribution found for {w}", "pip install {w}"),
            ("E: Unable to locate package {w}", "apt-get install -y {w}"),
            ("fatal: repository 'https://git.example/{w}.git' not found", "git clone https://git.example/{w}.git"),
            ("bash: {w}: command not found", "{w} --version"),
        )
    )
    for word in words(dice, 26):
        yield b.bad(cmd.format(w=word), shape.format(w=word))


@kind("stop")
def a_search_reworded_with_the_same_hits(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    key = dice.choice(("query", "q", "keywords"))
    hits = dice.choice(
        ("3 hits: setup.md, install.md, faq.md", "setup.md\ninstall.md\nfaq.md\nhome.md", '{"hits": ["a", "b"]}')
    )
    for word in words(dice, dice.randint(9, 12)):
        yield b.tool("search", {key: f"{word} installation guide"}, hits)


@kind("stop")
def the_same_failure_with_nothing_but_reading_between(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    b.idle = "d0"
    shape = dice.choice(FAILURES)[1]
    for n, word in enumerate(words(dice, 9)):
        yield b.bad("pytest -q", fill(shape, n))
        yield b.read(f"src/{word}.py", f"def {word}(): return {n}")


@kind("stop")
def an_edit_that_changes_nothing(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    said = dice.choice(("No changes to apply: old and new are identical.", "ok", "No changes made to a.py"))
    refused = dice.random() < 0.5
    for _ in range(dice.randint(6, 9)):
        yield b.tool(b.editor, {"path": "a.py", "old": "x", "new": "x"}, said, not refused, rejected=refused)


@kind("stop")
def two_failing_tools_in_turn(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    first, second = dice.sample([shape for _, shape in FAILURES], 2)
    for n in range(7):
        yield b.bad("first", fill(first, n))
        yield b.bad("second", fill(second, n))


@kind("stop")
def a_sleeping_look_at_what_stands_still(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    for _ in range(dice.randint(11, 20)):
        yield b.sh(f"sleep {dice.choice((30, 60))}; tail -1 log", "epoch 3 loss 0.25")


@kind("stop")
def the_same_words(dice: Random) -> Iterable[Step]:
    said = dice.choice(("I will now run the tests.", "Ich führe jetzt die Tests aus", "Done!", "让我再试一次"))
    for n in range(dice.randint(4, 7)):
        yield Step("text", output=said + "." * n)


@kind("stop")
def nothing_but_compactions(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    yield b.sh("ls", "a")
    for _ in range(dice.randint(6, 10)):
        yield Step("compact")


@kind("stop")
def a_parallel_round_of_failures_every_turn(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    hosts = words(dice, dice.randint(2, 4))
    for turn in range(7):
        for host in hosts:
            yield b.bad(f"check {host}", fill(shape, turn), turn=turn)


@kind("stop")
def a_result_told_as_ok(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    text = dice.choice(
        (
            "Error: HTTP 403 Forbidden (request [[id]])",
            "[[time]] error: lock held",
            "Traceback (most recent call last):\n  File \"a.py\", line [[line]]\nKeyError: 'x'",
            "bash: line [[line]]: foo: command not found",
            '{"error": "not allowed", "trace": "[[id:uuid]]"}',
            "fatal: not a git repository\n[exit code 128]",
        )
    )
    for n in range(dice.randint(7, 9)):
        yield b.sh(f"try {n}", fill(text, n))


@kind("stop")
def one_dead_service_told_by_each_tool_in_its_words(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    host, port = dice.choice(("10.0.0.5", "db.internal")), dice.choice((5432, 6379))
    told = [
        f"connect ECONNREFUSED {host}:{port}",
        f"MigrationError: cannot start: connect ECONNREFUSED {host}:{port}",
        f'psql: error: connection to server at "{host}", port {port} failed: Connection refused',
        f"dial tcp {host}:{port}: connect: connection refused",
        f"[ERROR] seed - Connection refused: {host}:{port}",
        f"Error: connect ECONNREFUSED {host}:{port}\n    at afterConnect {{\n  code: 'ECONNREFUSED'\n}}",
        f"java.net.ConnectException: Connection refused: {host}:{port}",
    ]
    dice.shuffle(told)
    for n in range(10):
        yield b.tool(f"tool{n % 4}", {"n": n}, told[n % len(told)], False)
