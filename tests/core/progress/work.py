"""Kinds of sessions that repeat themselves and get on all the same."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from core.progress import Step
from tests.core.progress.drifts import Fill
from tests.core.progress.failures import FAILURES
from tests.core.progress.kinds import Bench, kind, words

#: What tells one failure from another by a number, and numbers that do.
TELLING = (
    ("curl: (7) Failed to connect to svc port {}: Connection refused", (80, 443, 8080, 22, 5432, 6379, 9200, 3000)),
    ("connect ECONNREFUSED 127.0.0.1:{}", (80, 443, 8080, 22, 5432, 6379, 9200, 3000)),
    ("dial tcp 10.0.0.5:{}: connect: connection refused", (80, 443, 8080, 22, 5432, 6379, 9200, 50051)),
    ("listen tcp :{}: bind: address already in use", (80, 443, 8080, 3000, 5432, 6379, 9200, 45678)),
    ("Error: listen EADDRINUSE: address already in use 0.0.0.0:{}", (80, 443, 8080, 3000, 5432, 6379)),
    ("GET http://api.local:{}/health failed", (80, 443, 8080, 3000, 5432, 6379)),
    ("OSError: [Errno {}] cannot open device", (1, 2, 5, 13, 17, 22, 28, 98, 104)),
    ("write failed: errno {}", (1, 2, 5, 13, 17, 22, 28, 98, 104)),
    ("Error: cannot read (os error {})", (1, 2, 5, 13, 17, 22, 28, 98)),
    ("HTTP {} server error", (400, 401, 403, 404, 409, 422, 500, 502, 503, 504)),
    ("HTTP/1.1 {} from upstream", (400, 401, 403, 404, 409, 422, 500, 502, 503, 504)),
    ("requests.exceptions.HTTPError: {} Client Error for url: https://x.example/a", (400, 401, 403, 404, 409, 422)),
    ('{{"status": {}, "error": "request failed"}}', (400, 401, 403, 404, 409, 422, 500, 502)),
    ('{{"error": {{"code": {}, "message": "request failed"}}}}', (400, 401, 403, 404, 409, 422, 500, 502)),
    ("Request failed with status code {}", (400, 401, 403, 404, 409, 422, 500, 502)),
    ("process failed with exit code {}", (1, 2, 3, 4, 126, 127, 128, 130, 137, 139)),
    ("child exited, exit status {}", (1, 2, 3, 4, 126, 127, 128, 130, 137, 139)),
    ("subprocess.CalledProcessError: Command 'x' returned non-zero exit status {}.", (1, 2, 3, 4, 126, 127, 137)),
    ("make: *** [all] Error {}", (1, 2, 3, 4, 126, 127, 137)),
    ("worker terminated by signal {}", (1, 2, 6, 9, 11, 15)),
    ("src/a.ts(3,4): error TS{}: broken", (2304, 2345, 2322, 2551, 1005, 7006, 2339)),
    ("error[E0{}]: cannot compile", (382, 499, 502, 505, 308, 277, 425)),
    ("ORA-0{}: statement failed", (1017, 1400, 1722, 1555, 1031)),
    ("SQLSTATE[{}]: query failed", (42601, 42703, 23505, 23503, 40001)),
    ("MySQL ERROR {} (HY000): failed", (1045, 1049, 1062, 1146, 2002, 2013)),
    ("AssertionError: got {}", ("None", "3", "'4'", "4.0", "[]", "-1")),
    ("E       assert {} == 99", (1, 2, 3, 4, 5, 6, 7, 8)),
    ("Expected: 12\nReceived: {}", (1, 2, 3, 4, 5, 6, 7, 8)),
    ("expected 90s, got {}s", (1, 2, 3, 4, 5, 6, 7, 8)),
    ("want 10:00:00, got 1{}:00:00", (1, 2, 3, 4, 5, 6)),
    ("KeyError: {}", ("'a'", "'b'", "'c'", "'d'", "'e'", "'f'")),
)


@kind("clear")
def failures_told_apart_by_a_number(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape, numbers = dice.choice(TELLING)
    before = dice.choice(("", "", "[[time]] ", "(request [[id]]) "))
    for n, number in enumerate(dice.sample(numbers, len(numbers))):
        yield b.bad("curl svc", fill(before, n) + shape.format(number))


@kind("clear")
def a_failure_thrice_then_something_else(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    for n in range(3):
        yield b.bad("run it", fill(shape, n))
    yield b.sh("run it", "worked: 12 rows")


@kind("clear")
def a_call_thrice_then_another(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    for _ in range(3):
        yield b.sh("ls", "a")
    yield b.sh("pwd", "/w")


#: How test runners and compilers count what fails.
COUNTS = (
    "{n} failed, {m} passed in [[dur:s2]]",
    "=== {n} failed, {m} passed in [[dur:s2]] ===",
    "FAILED tests/test_a.py::test_last - assert 1 == 2\n{n} failed, {m} passed in [[dur:s2]]",
    "Tests:       {n} failed, {m} passed, 30 total\nTime:        [[dur:seconds]]",
    "test result: FAILED. {m} passed; {n} failed; 0 ignored; finished in [[dur:s2]]",
    "Tests run: 30, Failures: {n}, Errors: 0, Skipped: 0, Time elapsed: [[dur:s_apart]]",
    "30 examples, {n} failures\nFinished in [[dur:seconds]]",
    "  {m} passing ([[dur:ms]])\n  {n} failing",
    "FAILURES!\nTests: 30, Assertions: 90, Failures: {n}.",
    "{m} tests passed, {n} tests failed out of 30\nTotal Test time (real) = [[dur:s2]]",
    "Found {n} errors in 3 files (checked 12 source files)",
    "✖ {n} problems ({n} errors, 0 warnings)",
    "Ran 30 tests in [[dur:s2]]\n\nFAILED (failures={n})",
    "{n} errors generated.",
    "error: could not compile `app` due to {n} previous errors",
    "    {n} Error(s)\n\nTime Elapsed 00:00:01.52",
    '{{"failed": {n}, "passed": {m}, "duration": 1.52}}',
)


@kind("clear")
def counts_of_failures_that_fall(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(COUNTS)
    edits = dice.random() < 0.7
    start = dice.randint(5, 20)
    for n in range(start, 0, -1):
        if edits:
            yield b.edit("a.py", str(n), str(n + 1), f"d{n}")
        yield b.bad("run the tests", fill(shape.format(n=n, m=30 - n), n), f"d{n}" if edits else "d0")


@kind("clear")
def a_poll_that_moves(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    shape = dice.choice(
        (
            "running {p}%",
            "{n}/40 pods ready",
            "epoch {n} loss {f:.3f}",
            "copied {p} MB of 900",
            '{{"state": "running", "done": {n}}}',
            "step {n}: {f:.4f}",
            "[{bar:40}] {p}%",
            "{n} of 40 rows",
            "layer {n}: pulling",
        )
    )
    polls = dice.random() < 0.5
    wait = {"polls": True, "waited_s": 10} if polls else {}
    for n in range(dice.randint(10, 20)):
        text = shape.format(p=n * 7, n=n, f=1 / (n + 1), bar="#" * n)
        yield b.tool("poll", {"job": "j1"}, text, **wait) if polls else b.sh("sleep 60; tail -3 log", text)


@kind("clear")
def a_poll_that_stands_for_a_while(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    state = dice.choice(("status: running", "PENDING", '{"state": "queued"}', "0/3 ready"))
    for _ in range(dice.randint(4, 8)):
        yield b.tool("poll", {"job": "j1"}, state, polls=True, waited_s=dice.choice((10, 60, 200)))


@kind("clear")
def the_same_edit_of_many_files(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    known = dice.random() < 0.7
    said = dice.choice(("ok", "", "Edited {}", "The file {} has been updated."))
    for n in range(20):
        yield b.edit(f"f{n}.c", "", "// (c)", f"d{n}" if known else None, said.format(f"f{n}.c"))


@kind("clear")
def a_file_page_by_page(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(
        (
            "page {n}",
            "{n}00 lines of it",
            "row [[id:uuid]] [[time:iso_z]]",
            "[[id:sha40]]",
            "[[time:day]] {n}",
            "[[time:iso_z]] user {n} in",
            "rows",
        )
    )
    for n in range(20):
        text = fill(shape.format(n=n), n)
        if shape == "rows":
            text = "\n".join(fill("[[id:uuid]] [[time:sql]] [[dur:ms]]", n) for _ in range(12))
        yield b.tool(b.reader, {"path": "big", "off": 200 * n}, text)


@kind("clear")
def many_things_asked_for_by_name(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(
        (
            "[[id:sha40]]",
            "[[time:iso_z]]",
            "[[dur:ms]]",
            "mean [[dur:us]], best [[dur:us]]",
            "last changed [[time:date]]",
            "[[id:uuid]]",
        )
    )
    for n, word in enumerate(words(dice, 20)):
        yield b.sh(f"show {word}", fill(shape, n))


@kind("clear")
def debug_prints(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    for n, word in enumerate(words(dice, dice.randint(4, 12))):
        yield b.bad("pytest -q", fill(f"E   AssertionError: got {word}\n1 failed in [[dur:s2]]", n))


@kind("clear")
def a_person_between(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    fails = dice.random() < 0.5
    for n in range(16):
        yield b.bad("run it", fill(shape, n)) if fails else b.sh("ls", "a")
        if n % 3 == 2:
            yield Step(dice.choice(("user", "credential")))


@kind("clear")
def a_refusal_that_heals(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    text = dice.choice(
        (
            "HTTP 429 rate limit, retry later",
            "503 Service Unavailable",
            "ETIMEDOUT",
            "Resource temporarily unavailable (try after [[dur]])",
        )
    )
    for word in words(dice, dice.randint(1, 8)):
        for n in range(dice.randint(1, 3)):
            yield b.tool("web", {"q": word}, fill(text, n), False)
        yield b.tool("web", {"q": word}, f"ok result: a page about {word}")


@kind("clear")
def a_look_between_steps_of_work(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    said = dice.choice((" M a{}", " M a.py", "5 passed", ""))
    for n in range(dice.randint(8, 20)):
        yield b.edit("a", str(n), str(n + 1), f"d{n}")
        yield b.sh(dice.choice(("git status -s", "pytest -q")), said.format(n), workspace=f"d{n}")


@kind("clear")
def a_list_ticked_off(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    said = dice.choice(("{}/12 done", "ok", "Todos have been modified successfully.", "[{}] done"))
    for n in range(12):
        yield b.tool("todo", {"done": n}, said.format(n))


@kind("clear")
def one_revert_then_another_fix(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    yield b.edit("a", "1", "2", "dA")
    yield b.bad("pytest", "E x\n1 failed", "dA")
    yield b.edit("a", "2", "1", "d0")
    if dice.random() < 0.5:
        yield b.bad("pytest", "E x\n1 failed", "d0")
    yield b.edit("a", "1", "3", "dB")
    yield b.sh("pytest", "5 passed", workspace="dB")


@kind("clear")
def a_measurement_repeated(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(
        (
            "mean [[dur:us]], n=1000",
            "real [[dur:real]]",
            "Time: [[dur:s2]]",
            "[[dur:ms_apart]]",
            "{n} requests/s, p99 [[dur:ms]]",
        )
    )
    for n in range(5):
        yield b.sh("bench", fill(shape.format(n=1000 + 13 * n), n))


@kind("clear")
def many_files_some_missing(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    names = words(dice, 30)
    for n, name in enumerate(names):
        if dice.random() < 0.5:
            yield b.bad(f"cat {name}.py", f"cat: {name}.py: No such file or directory")
        else:
            yield b.sh(f"cat {name}.py", f"def {name}(): return {n}")


@kind("clear")
def searches_that_find_something(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    for n, word in enumerate(words(dice, 30)):
        hit = dice.random() < 0.7
        yield b.tool("search", {"query": word}, f"{n}.md: {word} is explained" if hit else "No results found.")


@kind("clear")
def calls_in_parallel_fail_alike(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    for n in range(dice.randint(6, 12)):
        yield b.bad("run it", fill(shape, n), turn=1) if dice.random() < 0.7 else b.sh("ls", "a", turn=1)


@kind("clear")
def the_tests_first(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    for n, word in enumerate(words(dice, 12)):
        yield b.edit("test_a.py", "", word, f"t{n}")
        yield b.bad("pytest -q", f"NameError: name '{word}' is not defined\n1 failed, {n} passed", f"t{n}")
        yield b.edit("a.py", "", word, f"c{n}")
        yield b.sh("pytest -q", f"{n + 1} passed", workspace=f"c{n}")


@kind("clear")
def a_file_read_again_after_a_compaction(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    names = words(dice, dice.randint(3, 25))
    for _ in range(2):
        for name in names:
            yield b.read(name, f"content of {name}")
        yield Step("compact")


@kind("clear")
def an_error_after_another(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    shape = dice.choice(
        (
            "a.c:{n}:4: error: '{w}' undeclared (first use in this function)",
            "ModuleNotFoundError: No module named '{w}'",
            "src/{w}.ts:{n}:4 - error TS2304: Cannot find name 'x'.",
            "{w}.py:{n}: error: bad type  [arg]",
            "undefined: {w}",
            "error: cannot find value `{w}` in this scope",
            "fatal error: {w}.h: No such file or directory",
        )
    )
    for n, word in enumerate(words(dice, 12)):
        yield b.bad("make", shape.format(w=word, n=n + 1), f"d{n}")
        yield b.edit("a.c", "", word, f"d{n + 1}")


@kind("clear")
def a_sweep_of_parameters(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(
        ("took [[dur:ms]]", "mean [[dur:us]]", "accuracy {f:.4f} in [[dur:s2]]", "Finished in [[dur:seconds]]")
    )
    for n in range(24):
        yield b.sh(f"bench --size {2**n}", fill(shape.format(f=dice.random()), n))


@kind("clear")
def a_person_who_asks_the_same_again(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    for _ in range(10):
        yield Step("user", output="and now?")
        yield b.sh("git status", "clean")
        yield Step("text", output="Nothing changed.")


@kind("clear")
def things_that_are_alike(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    same = dice.choice(
        (
            "index.js\npackage.json\nREADME.md\nsrc",
            '{"extends": "../base.json"}',
            "MIT License\n\nCopyright\n\nPermission is\ngranted",
        )
    )
    for word in words(dice, 8):
        yield b.sh(f"{'ls' if 'index' in same else 'cat'} packages/{word}", same)


@kind("clear")
def a_failure_and_one_more_try_far_apart(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    shape = dice.choice(FAILURES)[1]
    for n in range(8):
        yield b.bad("run it", fill(shape, n))
        for word in words(dice, 10):
            yield b.edit(f"{word}.py", "", f"{word} {n}", f"d{n}{word}")


@kind("clear")
def words_between_deeds(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    for n, word in enumerate(words(dice, 20)):
        yield Step("text", output="Next one.")
        yield b.read(f"{word}.py", f"def {word}(): return {n}")


@kind("clear")
def a_few_silences(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    for n, word in enumerate(words(dice, 10)):
        for _ in range(dice.randint(0, 2)):
            yield Step("empty")
        yield b.read(f"{word}.py", f"def {word}(): return {n}")


@kind("clear")
def packages_installed_one_by_one(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    for word in words(dice, 12):
        yield b.bad(
            "python app.py",
            f"Traceback (most recent call last):\n  File \"app.py\"\nModuleNotFoundError: No module named '{word}'",
        )
        yield b.sh(f"pip install {word}", dice.choice((f"Successfully installed {word}-1.0", "")), workspace=None)


@kind("clear")
def a_build_that_gets_further(dice: Random) -> Iterable[Step]:
    b, fill = Bench(dice), Fill(dice)
    names = words(dice, 12)
    for n, word in enumerate(names):
        done = "\n".join(f"[{k + 1}/40] compiled {name}.c" for k, name in enumerate(names[:n]))
        yield b.bad(
            "make",
            fill(f"{done}\n{word}.c:{n + 3}:1: error: unknown type name 'u32'\nmake: *** [Makefile:9] Error 1", n),
            f"d{n}",
        )
        yield b.edit(f"{word}.c", "u32", "uint32_t", f"d{n + 1}")


@kind("clear")
def messages_to_many(dice: Random) -> Iterable[Step]:
    b = Bench(dice)
    said = dice.choice(('{"ok": true}', "sent", "ok", "Message delivered"))
    for word in words(dice, 25):
        yield b.tool("send_message", {"to": word, "text": "hello"}, said)
