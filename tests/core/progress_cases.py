"""Sessions that go in circles and sessions that only look like it, each with the verdict it must get."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from core.progress import Step


@dataclass(frozen=True, slots=True)
class Case:
    """`stop`: a nudge, then a stop by the end. `nudge`: a nudge and no stop. `clear`: no verdict at all."""

    name: str
    expect: Literal["stop", "nudge", "clear"]
    steps: tuple[Step, ...]


CASES: list[Case] = []

Build = Callable[[], Iterable[Step]]


def case(expect: Literal["stop", "nudge", "clear"]) -> Callable[[Build], Build]:
    """Add the steps that the decorated function yields, under its name."""

    def add(build: Build) -> Build:
        CASES.append(Case(build.__name__, expect, tuple(build())))
        return build

    return add


def sh(cmd: str, output: str = "", ok: bool = True, workspace: str | None = "w0", **rest: Any) -> Step:
    return Step("tool", tool="run_sandbox", args={"command": cmd}, output=output, ok=ok, workspace=workspace, **rest)


def bad(cmd: str, output: str, workspace: str | None = "w0", **rest: Any) -> Step:
    return sh(cmd, output, False, workspace, **rest)


def tool(name: str, args: Any, output: Any, ok: bool = True, workspace: str | None = None, **rest: Any) -> Step:
    return Step("tool", tool=name, args=args, output=output, ok=ok, workspace=workspace, **rest)


def edit(path: str, new: str, workspace: str | None) -> Step:
    return tool("edit", {"path": path, "new": new}, "ok", workspace=workspace)


# --- the same failure, told differently ----------------------------------------------------------------


@case("stop")
def failure_with_iso_times_and_pids() -> Iterable[Step]:
    for n in range(7):
        yield bad("deploy", f"2026-08-03T10:00:0{n}.{n}12Z deployd[{4000 + n}]: error: lock held by another process")


@case("stop")
def failure_with_syslog_times() -> Iterable[Step]:
    for n in range(7):
        yield bad("mount /x", f"Aug  {n + 1} 10:0{n}:12 box kernel[{800 + n}]: mount: wrong fs type on /x")


@case("stop")
def failure_with_http_dates_and_nginx_times() -> Iterable[Step]:
    for n in range(7):
        yield bad(
            "curl x",
            f"HTTP 403 Forbidden\nDate: Mon, 0{n + 1} Aug 2026 10:00:0{n} GMT\n"
            f"[0{n + 1}/Aug/2026:10:00:0{n} +0000] denied",
        )


@case("stop")
def failure_with_epoch_and_duration() -> Iterable[Step]:
    for n in range(7):
        yield bad("job", f"{1785700000 + n * 37} fatal: worker gave up after {n * 3 + 1}.{n}s (t={1785700000123 + n})")


@case("stop")
def failure_with_minutes_and_seconds() -> Iterable[Step]:
    for n in range(7):
        yield bad("ci", f"Error: build failed after {n + 1}m {n * 7}s (queue 0:0{n}:1{n})")


@case("stop")
def failure_with_uuid_and_request_ids() -> Iterable[Step]:
    for n in range(7):
        yield bad(
            "api", f"error 401 unauthorized (request 3f2504e0-4f89-11d3-9a0c-0305e82c33{n:02d}, req_01{n}HxQ7zKp9L2m)"
        )


@case("stop")
def failure_with_addresses() -> Iterable[Step]:
    for n in range(7):
        yield bad("./a.out", f"==41{n}2== Invalid read of size 8 at 0x7ffd12{n}abc0\nSegmentation fault (core dumped)")


@case("stop")
def failure_with_temporary_paths() -> Iterable[Step]:
    for n in range(7):
        yield bad("pip install x", f"error: could not create '/tmp/pip-install-a{n}b9/x': Read-only file system")


@case("stop")
def failure_with_mac_temporary_paths() -> Iterable[Step]:
    for n in range(7):
        yield bad("build", f"fatal error: /var/folders/zz/ab{n}c_d0/T/tmp.x{n}Y/out.o: No such file or directory")


@case("stop")
def failure_with_drifting_lines_and_columns() -> Iterable[Step]:
    for n in range(7):
        yield bad(
            "tsc", f"src/a.ts:{10 + n}:{n + 3} - error TS2304: Cannot find name 'foo'.", f"w{n}" if n == 0 else "w0"
        )


@case("stop")
def failure_with_growing_traceback_lines() -> Iterable[Step]:
    for n in range(7):
        yield bad(
            "python a.py",
            f"Traceback (most recent call last):\n  File \"a.py\", line {n * 3 + 4}, in <module>\nKeyError: 'x'",
        )


@case("stop")
def failure_with_byte_offsets() -> Iterable[Step]:
    for n in range(7):
        yield tool(
            "save_json",
            {"text": "{" + "a" * n},
            f"invalid JSON: expecting ':' at line 1 column {n + 2} (char {n + 1})",
            False,
        )


@case("stop")
def failure_in_changing_colours() -> Iterable[Step]:
    for n in range(7):
        yield bad("npm test", f"\x1b[{31 + n % 3}mFAIL\x1b[0m src/a.test.js \x1b[1;{30 + n}m(0.{n} s)\x1b[0m")


@case("stop")
def failure_after_a_progress_bar() -> Iterable[Step]:
    for n in range(7):
        bar = "".join(f"\r{p:3d}% [{'#' * (p // 5):20}] {p * n + 1}.{n} MB/s" for p in range(0, 100, 13 - n))
        yield bad("wget big", f"{bar}\nERROR 404: Not Found.")


@case("stop")
def failure_after_changing_preambles() -> Iterable[Step]:
    words = ("alpine", "birch", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel", "iris", "juniper")
    for n, word in enumerate(words):
        yield bad(
            "fetch",
            f"Trying mirror {word} of the pool\nusing cache {word}{n}\n"
            "fatal: certificate verify failed for pool.example.org",
        )


@case("stop")
def failure_wrapped_by_each_tool() -> Iterable[Step]:
    wraps = (
        "connect ECONNREFUSED 10.0.0.5:5432",
        "MigrationError: cannot start: connect ECONNREFUSED 10.0.0.5:5432",
        '{"error": {"message": "connect ECONNREFUSED 10.0.0.5:5432"}}',
        "psql: could not connect: Connection refused 10.0.0.5:5432",
        "[ERROR] seed - dial tcp 10.0.0.5:5432: connection refused",
    )
    for n in range(11):
        yield tool(f"tool{n % 5}", {"n": n}, wraps[n % 5], False)


@case("stop")
def failure_by_other_spellings_of_the_command() -> Iterable[Step]:
    for cmd in (
        "pip install q",
        "pip3 install q",
        "python -m pip install q",
        "pip install --user q",
        "pip install -U q",
        "uv pip install q",
        "pip install 'q'",
    ):
        yield bad(cmd, "ERROR: No matching distribution found for q")


@case("stop")
def failure_hidden_by_or_true() -> Iterable[Step]:
    for n in range(7):
        yield sh(
            f"make {'x' * n} || true", "make: *** No rule to make target 'x'.  Stop.\nbash: cc1: command not found"
        )


@case("stop")
def failure_reported_as_ok() -> Iterable[Step]:
    for n in range(8):
        yield tool("fetch", {"url": "https://x.example/a", "n": n}, "Error: HTTP 403 Forbidden")


@case("stop")
def failure_echoing_the_argument() -> Iterable[Step]:
    for n in range(7):
        old = f"def f(x):\n    return x + {n}"
        yield tool(
            "edit", {"path": "a.py", "old": old}, f"old_string not found in a.py:\n{old}\nRead the file first.", False
        )


@case("stop")
def failure_at_the_end_of_64_kilobytes() -> Iterable[Step]:
    for n in range(8):
        yield bad(
            "make all",
            "\n".join(f"[{n}{k}] compiling unit {k * (n + 3)}" for k in range(3000))
            + "\nld: symbol not found: _main\nmake: *** [all] Error 1",
        )


@case("stop")
def failure_with_keys_in_another_order() -> Iterable[Step]:
    for n in range(7):
        body = {"code": 422, "message": "name is required", "field": "name", "at": f"2026-08-03T10:00:0{n}Z"}
        names = list(body)[n % 4 :] + list(body)[: n % 4]
        yield tool("create", {"n": n}, json.dumps({name: body[name] for name in names}, indent=n % 3 or None), False)


@case("stop")
def failure_with_the_number_of_the_attempt() -> Iterable[Step]:
    for n in range(7):
        yield bad("push", f"attempt {n + 1}/10: remote: Permission denied to push to main (retry {n})")


@case("stop")
def failure_with_other_whitespace() -> Iterable[Step]:
    for n in range(7):
        yield bad("x", "  " * n + "error:" + " " * (n + 1) + "no space left on device" + "\n" * n)


@case("stop")
def failure_from_a_changing_source_port() -> Iterable[Step]:
    for n in range(7):
        yield bad("ping db", f"read tcp 10.0.0.2:{53000 + n}->10.0.0.5:5432: i/o timeout")


@case("stop")
def failure_with_new_reads_between() -> Iterable[Step]:
    for n in range(12):
        yield tool("read", {"path": f"f{n}.py"}, f"def f{n}(): return {n}  # something else in every file")
        yield bad("pytest -q", "E   assert 1 == 2\n1 failed")


@case("stop")
def failure_after_every_edit_of_many() -> Iterable[Step]:
    for n in range(13):
        yield edit("a.py", str(n), f"w{n}")
        yield edit("b.py", str(n), f"v{n}")
        yield bad("pytest -q", f"E AssertionError: assert f(2)==4\n1 failed in 0.{n}s", f"v{n}")


@case("stop")
def failure_after_edits_with_growing_lines() -> Iterable[Step]:
    for n in range(13):
        yield edit("a.py", "\n" * n, f"w{n}")
        yield bad("python a.py", f'  File "a.py", line {n + 3}\nSyntaxError: invalid syntax', f"w{n}")


@case("stop")
def failure_over_compactions_and_nudges() -> Iterable[Step]:
    for _ in range(7):
        yield bad("make", "cc: fatal error: no input files")
        yield Step("compact")
        yield Step("nudge")


@case("stop")
def failure_of_a_whole_fan_out_every_turn() -> Iterable[Step]:
    for turn in range(7):
        for host in "abc":
            yield bad(f"ping {host}", "ping: sendmsg: Network is unreachable", turn=turn)


@case("stop")
def failure_of_pods_with_made_up_names() -> Iterable[Step]:
    for n in range(7):
        yield bad("kubectl logs", f'error: container "app" in pod "api-7d9f8b6c{n}5-x2k4{n}" cannot be pulled')


@case("stop")
def failure_in_a_stack_of_frames() -> Iterable[Step]:
    for n in range(7):
        frames = f"\tat com.x.A.b(A.java:{30 + n})\n\tat com.x.Proxy${40 + n}.run(Unknown Source)"
        yield bad("mvn", f"[ERROR] 10:0{n}:11.123 [main] FATAL o.a.App - boot failed\n{frames}")


@case("stop")
def failure_in_the_body_of_an_ok() -> Iterable[Step]:
    for name in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"):
        yield tool("http", {"path": name}, {"status": "error", "code": 503, "message": "upstream unavailable"})


@case("stop")
def two_failures_in_turn() -> Iterable[Step]:
    for n in range(10):
        yield bad("a", "error: one") if n % 2 else bad("b", "error: other")


# --- failures that are not the same --------------------------------------------------------------------


@case("clear")
def failures_shrink() -> Iterable[Step]:
    for n in range(20, 0, -1):
        yield edit("a.py", str(n), f"w{n}")
        yield bad(
            "pytest -q",
            f"FAILED tests/test_a.py::test_last - assert 1 == 2\n{n} failed, {30 - n} passed in 1.{n}s",
            f"w{n}",
        )


@case("clear")
def another_error_each_time() -> Iterable[Step]:
    names = ["alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta", "iota", "kappa", "lam", "mu"]
    for n, name in enumerate(names):
        yield edit("a.c", str(n), f"w{n}")
        yield bad("make", f"a.c:{n + 1}: error: '{name}' undeclared (first use in this function)", f"w{n}")


@case("clear")
def statuses_differ() -> Iterable[Step]:
    for status in (400, 401, 403, 404, 409, 422, 429, 500, 502, 503):
        yield tool("api", {"path": "/x"}, f"HTTP {status} from upstream", False)


@case("clear")
def ports_differ() -> Iterable[Step]:
    for port in (22, 80, 443, 3000, 5432, 6379, 8000, 8080, 8443, 9200):
        yield bad("probe", f"connect to db.local:{port}: connection refused")


@case("clear")
def exit_codes_differ() -> Iterable[Step]:
    for code in (1, 2, 3, 126, 127, 128, 130, 137, 139, 143):
        yield bad("run", f"process failed with exit code {code}")


@case("clear")
def errnos_differ() -> Iterable[Step]:
    for number in (1, 2, 5, 13, 17, 22, 28, 98, 104, 110, 111):
        yield bad("io", f"OSError: [Errno {number}] cannot open device")


@case("clear")
def windows_codes_differ() -> Iterable[Step]:
    for number in (0x80070005, 0x80070002, 0x8007000E, 0xC0000005, 0xC0000135, 0x80004005, 0x80070057):
        yield bad("setup", f"install failed with 0x{number:08X}")


@case("clear")
def missing_files_differ() -> Iterable[Step]:
    for name in "abcdefghijkl":
        yield bad(f"cat {name}.py", f"cat: {name}.py: No such file or directory")


@case("clear")
def missing_modules_installed_one_by_one() -> Iterable[Step]:
    for n, name in enumerate(("yaml", "httpx", "rich", "numpy", "attrs", "click", "jinja2", "lxml", "toml", "redis")):
        yield bad("python app.py", f"File \"app.py\", line {n + 1}\nModuleNotFoundError: No module named '{name}'")
        yield sh(f"pip install {name}", f"Successfully installed {name}-1.0")


@case("nudge")
def missing_semicolons_mended_one_by_one() -> Iterable[Step]:
    for n in range(7):
        yield bad("make", f"a.c:{n * 17 + 4}:9: error: expected ';' before '}}' token", f"w{n}")
        yield edit("a.c", f";{n}", f"w{n + 1}")


@case("clear")
def tests_written_first_fail_and_pass() -> Iterable[Step]:
    for n in range(10):
        yield edit("test_a.py", f"test {n}", f"t{n}")
        yield bad("pytest -q", f"NameError: name 'f{n}' is not defined\n1 failed, {n} passed in 0.0{n}s", f"t{n}")
        yield edit("a.py", f"f{n}", f"c{n}")
        yield sh("pytest -q", f"{n + 1} passed in 0.0{n}s", workspace=f"c{n}")


@case("clear")
def rate_limits_healed_again_and_again() -> Iterable[Step]:
    for n in range(12):
        yield tool("web", {"q": f"topic {n}"}, "HTTP 429 rate limit, retry later", False)
        yield tool("web", {"q": f"topic {n}"}, f"page about topic {n} with much to say")


@case("clear")
def the_same_slip_far_apart() -> Iterable[Step]:
    for n in range(12):
        yield bad("rg x", "bash: rg: command not found")
        for k in range(9):
            yield tool("read", {"path": f"{n}/{k}"}, f"contents of file {n} and {k}")


@case("clear")
def one_dead_service_for_a_whole_fan_out() -> Iterable[Step]:
    for n in range(12):
        yield tool("sql", {"q": n}, "connect ECONNREFUSED 10.0.0.5:5432", False, turn=1)


@case("clear")
def three_failures_then_success() -> Iterable[Step]:
    for _ in range(3):
        yield bad("curl api", "curl: (28) Operation timed out")
    yield sh("curl api", "hello")


@case("clear")
def a_person_hints_between_failures() -> Iterable[Step]:
    for _ in range(5):
        for _ in range(3):
            yield bad("make", "error: nothing works")
        yield Step("user")


@case("clear")
def a_credential_comes_between_failures() -> Iterable[Step]:
    for _ in range(4):
        for _ in range(3):
            yield tool("api", {}, "401 unauthorized", False)
        yield Step("credential")


@case("nudge")
def five_of_the_same_then_another_way() -> Iterable[Step]:
    for _ in range(5):
        yield bad("make", "error: nothing works")
    yield sh("ls", "Makefile")


# --- the same answer -----------------------------------------------------------------------------------


@case("stop")
def same_success_with_drifting_times() -> Iterable[Step]:
    for n in range(9):
        yield sh("pytest -q", f"5 passed in 0.{n}1s")


@case("stop")
def same_call_with_keys_in_another_order() -> Iterable[Step]:
    for n in range(7):
        yield tool("read", {"a": 1, "b": 2} if n % 2 else {"b": 2, "a": 1}, "content")


@case("stop")
def same_answer_with_keys_in_another_order() -> Iterable[Step]:
    for n in range(9):
        yield tool("get", {"id": 1}, '{"name": "x", "size": 3}' if n % 2 else '{"size":3,\n "name":"x"}')


@case("stop")
def same_listing_under_comments_and_sleeps() -> Iterable[Step]:
    cmds = ("ls", "ls  ", "ls # again", "sleep 1; ls", "sleep 2 && ls", "ls || true", "ls 2>/dev/null", "echo look; ls")
    for cmd in cmds:
        yield sh(cmd, "a\nb")


@case("stop")
def same_page_with_a_nonce_in_the_url() -> Iterable[Step]:
    for n in range(7):
        yield tool("fetch", {"url": f"https://x.example/a?q=1&_={n}99"}, "20 repos")


@case("stop")
def same_call_with_an_attempt_counter() -> Iterable[Step]:
    for n in range(7):
        yield tool("search", {"q": "x", "attempt": n}, "one hit")


@case("stop")
def same_page_whatever_the_parameter() -> Iterable[Step]:
    page = "\n".join(f"item {n}: description of the thing" for n in range(12))
    for n in range(9):
        yield tool("list", {"page": n}, page)


@case("stop")
def search_reworded_without_result() -> Iterable[Step]:
    words = (
        *("reset password api", "password reset endpoint", "how to reset a password", "api for passwords"),
        *("recover account", "forgotten password", "account recovery", "credentials reset", "change password"),
        *("password docs", "login help", "auth reset guide"),
    )
    for q in words:
        yield tool("search_corpus", {"query": q}, "No results found.")


@case("stop")
def same_small_set_in_no_order() -> Iterable[Step]:
    for n in "abcacbbacabcbacabcacbbcacbacbabc":
        yield tool("read", {"path": n}, f"content of {n}")


@case("stop")
def cycle_of_six() -> Iterable[Step]:
    for _ in range(4):
        for n in "abcdef":
            yield tool("read", {"path": n}, f"content of {n}")


@case("stop")
def cycle_of_two_turns_in_parallel() -> Iterable[Step]:
    for turn in range(10):
        for n in "ab" if turn % 2 else "cd":
            yield tool("read", {"path": n}, f"content of {n}", turn=turn)


@case("stop")
def same_fan_out_every_turn() -> Iterable[Step]:
    for turn in range(7):
        for n in "abc":
            yield tool("read", {"path": n}, f"content of {n}", turn=turn)


@case("stop")
def identical_writes() -> Iterable[Step]:
    for _ in range(7):
        yield tool("write", {"path": "a.md", "content": "x"}, "ok")


@case("stop")
def edits_of_one_file_that_change_nothing() -> Iterable[Step]:
    for n in range(11):
        yield edit("a.py", f"x = {n}", "w0")


@case("clear")
def greps_of_many_files_find_nothing() -> Iterable[Step]:
    for name in ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]:
        yield bad(f"grep -n TODO src/{name}.py", "")


@case("clear")
def durations_are_what_the_test_compares() -> Iterable[Step]:
    for n in range(10):
        yield bad("pytest -q", f"E   AssertionError: expected 90s, got {n}s\n1 failed in 0.1s")


@case("stop")
def edits_undo_one_another() -> Iterable[Step]:
    for n in range(9):
        yield edit("a.py", f"{n % 2}", f"w{n % 2}")


@case("stop")
def edits_undo_one_another_in_threes_with_drifting_output() -> Iterable[Step]:
    for n in range(24):
        yield edit("a.py", f"{n % 3}", f"w{n % 3}")
        yield bad("pytest", f"weird {'abcdefghijklmnopqrstuvwxyz'[n]}{'zyxwvutsrq'[n % 10]} output", f"w{n % 3}")


@case("stop")
def same_answer_interrupted_by_words() -> Iterable[Step]:
    for n in range(8):
        yield Step("text", output=f"Let me check that once more, idea {'abcdefgh'[n]}.")
        yield sh("ls", "a")


# --- repetition that is work ---------------------------------------------------------------------------


@case("clear")
def same_tests_pass_after_every_edit() -> Iterable[Step]:
    for n in range(20):
        yield edit("a.py", str(n), f"w{n}")
        yield sh("pytest -q", f"5 passed in 0.{n}s", workspace=f"w{n}")
        yield sh("git status -s", " M a.py", workspace=f"w{n}")


@case("clear")
def listing_between_new_reads() -> Iterable[Step]:
    for n in range(20):
        yield sh("ls", "a\nb")
        yield tool("read", {"path": f"f{n}"}, f"content {n}")


@case("clear")
def pages_of_a_big_file() -> Iterable[Step]:
    for n in range(30):
        text = "\n".join(f"{k}: value {k * 31 % 97}" for k in range(n * 200, n * 200 + 200))
        yield tool("read", {"path": "big", "offset": n * 200}, text)


@case("clear")
def many_distinct_searches() -> Iterable[Step]:
    for n in range(40):
        yield tool("search", {"query": f"term{n}"}, f"hit about term{n} in chapter {n}")


@case("clear")
def many_files_written_where_the_workspace_is_unknown() -> Iterable[Step]:
    for n in range(40):
        yield tool("write", {"path": f"f{n}.txt", "content": "x"}, "ok")


@case("clear")
def many_files_written_silently() -> Iterable[Step]:
    for n in range(30):
        yield sh(f"cp template.txt out_{n}.txt", "", workspace=f"w{n}")


@case("clear")
def many_records_valid() -> Iterable[Step]:
    for n in range(30):
        yield tool("validate", {"id": n}, "valid", workspace="w0")


@case("clear")
def many_test_files_pass() -> Iterable[Step]:
    for n in range(25):
        yield sh(f"pytest tests/test_{n}.py", f"3 passed in 0.{n}s")


@case("clear")
def thoughts_logged() -> Iterable[Step]:
    for name in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota"):
        yield tool("think", {"thought": name}, "Your thought has been logged.")


@case("clear")
def the_screen_looked_at_after_every_click() -> Iterable[Step]:
    for n in range(12):
        yield tool("click", {"x": n % 3}, "clicked")
        yield tool("screenshot", {}, f"a page that shows {n} things")


@case("clear")
def compiler_errors_shrink() -> Iterable[Step]:
    for n in range(12, 0, -1):
        yield bad("mypy", f"a.py:{n * 3}: error: bad type  [arg]\nFound {n} errors in 1 file", f"w{n}")


@case("clear")
def a_flaky_test_between_edits() -> Iterable[Step]:
    for n in range(20):
        yield sh("pytest", "2 passed", workspace=f"w{n}") if n % 2 else bad("pytest", "1 failed: t_x", f"w{n}")


@case("clear")
def messages_sent_to_many() -> Iterable[Step]:
    for n in range(25):
        yield tool("send", {"to": f"user{n}", "text": "hello"}, {"ok": True})


@case("clear")
def a_fan_out_of_identical_calls() -> Iterable[Step]:
    for _ in range(10):
        yield sh("ls", "a", turn=3)


@case("clear")
def the_same_question_asked_again_by_a_person() -> Iterable[Step]:
    for _ in range(8):
        yield Step("user", output="and now?")
        yield sh("date +%F; ls", "2026-08-03\na")
        yield Step("text", output="Still the same.")


@case("clear")
def files_read_again_after_a_compaction() -> Iterable[Step]:
    for n in range(25):
        yield tool("read", {"path": f"f{n}"}, f"content {n}")
    yield Step("compact")
    for n in range(25):
        yield tool("read", {"path": f"f{n}"}, f"content {n}")


@case("clear")
def files_read_again_for_a_review() -> Iterable[Step]:
    for n in range(12):
        yield tool("read", {"path": f"f{n}"}, f"content {n}")
    for n in range(12):
        yield tool("read", {"path": f"f{n}"}, f"content {n}")


@case("clear")
def versions_compared_by_checkout() -> Iterable[Step]:
    for n in range(8):
        yield sh(f"git checkout {'old' if n % 2 else 'new'}", "Switched", workspace=f"w{n % 2}")
        yield sh(f"cat file{n // 2}", f"{'old' if n % 2 else 'new'} content of file {n // 2}", workspace=f"w{n % 2}")


@case("clear")
def one_revert_then_another_fix() -> Iterable[Step]:
    for n in range(6):
        yield edit("a.py", f"try {n}", f"w{n}")
        yield bad("pytest", f"E assert {n} == 99\n1 failed", f"w{n}")
        yield sh("git checkout a.py", "Updated 1 path from the index", workspace="base")


@case("clear")
def benchmark_with_drifting_timings() -> Iterable[Step]:
    for n in range(5):
        yield sh("bench", f"mean 1{n}.{n}3 us")


@case("clear")
def a_log_that_grows() -> Iterable[Step]:
    for n in range(30):
        yield sh("sleep 30; tail -1 log", f"step {n * 10} loss 0.{99 - n}")


@case("clear")
def next_page_by_the_same_call() -> Iterable[Step]:
    for n in range(20):
        yield tool("next_page", {}, f"results {n * 10} to {n * 10 + 9}")


@case("clear")
def grep_lines_differ() -> Iterable[Step]:
    for n in range(12):
        yield sh("grep -n TODO a.py | shuf -n1", f"a.py:{n * 7}: # TODO")


# --- waiting -------------------------------------------------------------------------------------------


@case("clear")
def waiting_with_percentages() -> Iterable[Step]:
    for n in range(60):
        yield tool("poll", {"job": 1}, f"running {n}%", polls=True, waited_s=5)


@case("clear")
def waiting_with_elapsed_time() -> Iterable[Step]:
    for n in range(15):
        yield tool("poll", {"job": 1}, f"running, elapsed {n * 10}s", polls=True, waited_s=10)


@case("clear")
def waiting_for_two_jobs() -> Iterable[Step]:
    for n in range(14):
        yield tool("poll", {"job": n % 2}, "status: running", polls=True, waited_s=60)


@case("clear")
def waiting_while_the_server_starts() -> Iterable[Step]:
    for _ in range(8):
        yield bad("curl localhost:8080", "curl: (7) Failed to connect to localhost port 8080", polls=True, waited_s=5)
    yield sh("curl localhost:8080", "hello")


@case("stop")
def waiting_forever() -> Iterable[Step]:
    for _ in range(20):
        yield tool("poll", {"job": 1}, "status: running", polls=True, waited_s=60)


@case("stop")
def waiting_forever_with_a_clock() -> Iterable[Step]:
    for n in range(45):
        yield tool("poll", {"job": 1}, f"10:{n % 60:02}:00 status: running for {n * 60}s", polls=True, waited_s=60)


@case("stop")
def waiting_without_waiting() -> Iterable[Step]:
    for _ in range(14):
        yield tool("poll", {"job": 1}, "status: running", polls=True)


@case("stop")
def waiting_on_what_fails() -> Iterable[Step]:
    for _ in range(20):
        yield tool("poll", {"job": 1}, "job not found", False, polls=True, waited_s=10)


# --- words ---------------------------------------------------------------------------------------------


@case("stop")
def same_words_again() -> Iterable[Step]:
    for n in range(5):
        yield Step("text", output=f"I will now run the tests{'.' * n}")


@case("stop")
def words_alternate() -> Iterable[Step]:
    for n in range(8):
        yield Step("text", output="I will fix it." if n % 2 else "I will test it.")


@case("stop")
def words_and_silence() -> Iterable[Step]:
    for n in range(8):
        yield Step("text", output="Working on it.") if n % 2 else Step("empty")


@case("stop")
def words_upon_words() -> Iterable[Step]:
    for n in range(12):
        yield Step("text", output=f"Thought {'abcdefghijkl'[n]} leads me to plan {'zyxwvutsrqpo'[n]}.")


@case("stop")
def words_alternate_thrice() -> Iterable[Step]:
    for _ in range(3):
        yield Step("text", output="I will fix it.")
        yield Step("text", output="I will test it.")


@case("clear")
def a_long_answer_in_parts() -> Iterable[Step]:
    for n in range(4):
        yield Step("text", output=f"Part {'abcd'[n]} of the report, with its own content.")


@case("clear")
def same_words_with_real_work() -> Iterable[Step]:
    for n in range(12):
        yield Step("text", output="Next file.")
        yield tool("read", {"path": f"f{n}"}, f"content {n}")


@case("clear")
def two_empty_replies_then_work() -> Iterable[Step]:
    for n in range(6):
        yield Step("empty")
        yield Step("empty")
        yield tool("read", {"path": f"f{n}"}, f"content {n}")


# --- as the sandbox tells it: what the command said, then how it ended --------------------------------------


@case("clear")
def different_things_said_before_the_same_exit_code() -> Iterable[Step]:
    for n in range(20):
        yield bad(f"download --part {n}", f"transfer closed with {2_000_000 - n * 90_000} bytes to go\n[exit code 18]")


@case("clear")
def a_bisection_whose_halves_fail() -> Iterable[Step]:
    for n in range(12):
        yield bad(f"bisect {n}", f"{2 ** (12 - n)} revisions left, at {n * 7919:05x}x\n[exit code 1]")


@case("stop")
def crashes_after_words_that_differ() -> Iterable[Step]:
    for n in range(8):
        yield bad("run", f"loaded unit {n * 37}\n[exit code -11]")


@case("stop")
def nothing_said_but_the_exit_code() -> Iterable[Step]:
    for _ in range(7):
        yield bad("check", "[exit code 1]")


# --- refusals and reasons that are the same under many names -------------------------------------------------


@case("stop")
def made_up_tools_one_after_another() -> Iterable[Step]:
    for name in ("grep", "find", "open", "edit", "search", "write", "shell", "exec", "browse", "fetch", "python"):
        yield tool(name, {}, f"There is no tool {name!r}. The tools are: ask_user, run.", ok=False, rejected=True)


@case("stop")
def a_file_system_that_takes_no_file_whatever_its_name() -> Iterable[Step]:
    for n in range(16):
        yield bad(f"touch /etc/f{n}", f"touch: cannot touch '/etc/f{n}': Read-only file system\n[exit code 1]")


@case("stop")
def no_network_whichever_host_is_asked() -> Iterable[Step]:
    ways = (
        "curl: (6) Could not resolve host: {}.example.com",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution: {}.example.com",
        "ping: {}.example.com: Name or service not known",
    )
    for n in range(16):
        yield bad(f"get {n}", ways[n % 3].format(f"mirror{n}"))


# --- a call that is made again because its answer moves by itself --------------------------------------------


@case("nudge")
def a_poll_that_began_to_move_and_pauses() -> Iterable[Step]:
    for percent in (0, 1, 2, *(3,) * 12, 4, 5, 6, *(7,) * 9):
        yield sh("status", f"building {percent}%")


@case("clear")
def a_failing_poll_that_moves_slowly() -> Iterable[Step]:
    for n in range(40):
        yield bad("rollout", f"{n if n < 3 else 3 + n // 5} of 40 pods are ready\n[exit code 1]")


@case("stop")
def a_poll_that_moved_and_stands_still_for_good() -> Iterable[Step]:
    for percent in (0, 1, 2, *(3,) * 17):
        yield sh("status", f"building {percent}%")


@case("stop")
def another_failure_first_and_then_the_same() -> Iterable[Step]:
    yield bad("deploy", "cache miss: dependencies are not installed")
    for _ in range(7):
        yield bad("deploy", "deploy failed: lock held by another process")


# --- what the world puts before its lines ---------------------------------------------------------------------


@case("stop")
def an_image_build_that_fails_with_its_seconds_before_each_line() -> Iterable[Step]:
    for n in range(9):
        yield bad(
            "docker build .",
            f"#8 [4/6] RUN npm ci\n#8 {n}.{n}31 npm ERR! code ERESOLVE\n#8 {n}.512 npm ERR! could not resolve peers\n"
            "ERROR: failed to solve: process did not complete successfully: exit code: 1",
        )


@case("stop")
def a_crash_told_by_the_kernel_at_other_addresses() -> Iterable[Step]:
    for n in range(8):
        yield bad(
            "./run", f"[{n + 9}.{n * 99991 + 100000}] run[{2000 + n}]: segfault at 0 ip 00007f00{n:04x}d000 error 4"
        )


@case("clear")
def a_bisection() -> Iterable[Step]:
    for n in range(8):
        left = f"Bisecting: {2 ** (8 - n) - 1} revisions left to test after this\n[{n * 1234567:040x}] commit {n}"
        yield sh("git bisect bad" if n % 2 else "git bisect good", left, workspace=f"w{n}")


@case("clear")
def the_same_clean_check_after_each_edit() -> Iterable[Step]:
    for n in range(8):
        yield Step("tool", tool="edit", args={"path": f"f{n}.py", "new": str(n)}, output="ok", workspace=f"w{n}")
        yield sh("make lint", "All checks passed!", workspace=f"w{n}")
