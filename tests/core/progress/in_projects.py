"""Sessions as agents of real projects had them, each with the verdict it must get and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from core.progress import Step
from tests.core.progress_cases import CASES, Case, bad, case, edit, sh, tool

_DICE = Random(5)
_REJECTED = "error: upload rejected: manifest is not signed"


def hx(count: int) -> str:
    return "".join(_DICE.choice("0123456789abcdef") for _ in range(count))


# --- one failure eight times: nothing drifts but when, where and by which name it was told --------------------------

_TOLD: dict[str, Callable[[int], str]] = {
    "kanji_clock": lambda n: f"2026年05月14日 08時3{n}分{n}7秒 エラー: データベースに接続できません",
    "chinese_seconds": lambda n: f"错误：连接被拒绝（耗时{n + 3}秒，2026年5月{n + 1}日 8时3{n}分）",
    "russian_seconds": lambda n: f"Ошибка: соединение отклонено (за {n + 3} сек., 14.05.2026 08:3{n}:11)",
    "german_day_and_minute": lambda n: f"Fehler: Verbindung abgelehnt (nach {n + 3} Sekunden, 14.05.2026 08:3{n} Uhr)",
    "french_hour": lambda n: f"Erreur : délai dépassé après {n + 3} secondes (le 14/05/2026 à 08h3{n})",
    "iso_duration": lambda n: f"{_REJECTED} elapsed=PT{n + 1}.{n}3S",
    "kubernetes_event": lambda n: (
        f"Warning  Failed  {n + 2}s (x{n + 2} over {n * 17 + 30}s)  Failed to pull x:1: not found"
    ),
    "spring_boot": lambda n: f"2026-05-14 08:31:0{n}.111 ERROR {3000 + n} --- [main] c.e.Api : cart must not be null",
    "dart_runner": lambda n: (
        f"00:0{n} +3 -1: total [E]\n  Expected: <119>\n    Actual: <100>\n00:0{n} +3 -1: Some failed."
    ),
    "erlang_report": lambda n: (
        f"=ERROR REPORT==== 14-May-2026::08:31:0{n}.{n * 11:06d} ===\n"
        f"Error in process <0.{80 + n * 3}.0> with exit value:\n{{badarg,[{{erlang,list_to_integer}}]}}"
    ),
    "curl_source_port": lambda n: (
        f"* connect to 203.0.113.5 port 443 from 10.0.2.15 port {40000 + n * 77} failed: refused"
    ),
    "patch_hunk": lambda n: f"patching file src/a.c\nHunk #1 FAILED at {100 + n * 3}.\n1 out of 1 hunk FAILED",
    "linker_object": lambda n: f"/usr/bin/ld: /tmp/main-{hx(6)}.o: in function `main': undefined reference to `frob'",
    "seeded_order": lambda n: (
        f"Randomized with seed {_DICE.randint(1000, 65000)}\n1) User is valid\n"
        f"  Failure/Error: expect(user).to be_valid\n    #<User:0x0000{hx(12)}>\n1 example, 1 failure"
    ),
    "kafka_client": lambda n: (
        f"%3|{1778000000 + n}.{n * 111:03d}|FAIL|c#p-1| Connect to 10.0.0.4:9092 failed (after {n}ms)"
    ),
    "small_pids": lambda n: f"2026-05-14T08:31:0{n}.21768{n} connect to box[{2 * n + 2}]: Connection refused",
    "worker_of_a_sandbox": lambda n: f"[2026-05-14 08:31:0{n} +0000] [{n + 5}] [ERROR] Exception in worker process",
    "death_of_a_small_pid": lambda n: f"bash: line 1: {n + 4:5d} Segmentation fault      (core dumped) ./x",
    "numbered_requests": lambda n: f"[req-{n + 1}] sync failed: remote closed (txid {88213 + n * 7})",
    "a_busy_machine": lambda n: f'level=error err="remote closed" heap={110 + n}MB goroutines={40 + n * 3}',
    "bazel_invocation": lambda n: (
        f"INFO: Invocation ID: {hx(8)}-{hx(4)}-4{hx(3)}-a{hx(3)}-{hx(12)}\n"
        f"ERROR: /work/BUILD:3:10: no such target '//:lib'\nINFO: Elapsed time: 0.{n}31s"
    ),
}

for _name, _tell in _TOLD.items():
    CASES.append(Case(f"a_failure_told_by_{_name}", "stop", tuple(bad("deploy", _tell(n)) for n in range(8))))


# --- guesses: what was asked for is all that differs in the refusal -----------------------------------------------

_NAMES = (
    "users",
    "user",
    "people",
    "v1/users",
    "v2/users",
    "api/users",
    "api/v1/users",
    "rest/users",
    "accounts",
    "usr",
)
_NAMES += ("members", "all/users", "users/list", "list/users", "staff", "crew", "team", "folk", "persons", "clients")


@case("stop")
def paths_of_any_depth_that_do_not_exist() -> Iterable[Step]:
    for name in _NAMES:
        yield tool("read", {"path": f"{name}.yml"}, f"Error: ENOENT: no such file, open '/work/{name}.yml'", ok=False)


@case("stop")
def options_in_any_spelling_that_do_not_exist() -> Iterable[Step]:
    for n in range(20):
        option = (f"--{'abcdefghijklmnopqrst'[n]}-json", f"--{'abcdefghijklmnopqrst'[n]}=json")[n % 2]
        yield bad(f"list {option}", f"list: unrecognized option '{option}'\nTry 'list --help'.")


@case("stop")
def numbers_in_quotes_where_the_schema_wants_a_number() -> Iterable[Step]:
    for n in range(8):
        said = f"This call was not run: its arguments do not fit the schema: '{n}' is not of type 'integer'"
        yield tool("search", {"limit": str(n)}, said, ok=False, rejected=True)


@case("stop")
def addresses_that_do_not_exist() -> Iterable[Step]:
    for name in _NAMES:
        yield tool("http_get", {"url": f"https://api.example.com/{name}"}, "HTTP 404 Not Found", ok=False)


@case("clear")
def six_pages_looked_for() -> Iterable[Step]:
    for name in _NAMES[:6]:
        yield sh(f"curl -sI https://x.example.com/{name} | head -1", "HTTP/2 404")


@case("clear")
def modules_without_tests() -> Iterable[Step]:
    for name in _NAMES[:7]:
        yield bad(f"pytest {name}", "no tests ran in 0.01s\n[exit code 5]")


@case("clear")
def counts_of_nothing() -> Iterable[Step]:
    for name in _NAMES[:7]:
        yield bad(f"grep -c {name} package.json", "0\n[exit code 1]")


@case("clear")
def ten_symbols_nobody_uses() -> Iterable[Step]:
    for name in _NAMES[:10]:
        yield bad(f"grep -rn {name} src", "")


# --- many things, of which all say the same little -----------------------------------------------------------------


@case("clear")
def a_licence_asked_of_each_package() -> Iterable[Step]:
    for name in _NAMES:
        yield tool("license_of", {"package": name}, "MIT")


@case("clear")
def a_record_of_each_number() -> Iterable[Step]:
    for n in range(16):
        yield tool("get_user", {"id": n}, {"role": "member", "active": True})


@case("stop")
def a_file_read_on_after_its_end() -> Iterable[Step]:
    for n in range(16):
        yield tool("read", {"path": "log", "offset": n * 200}, "(end of file)")


@case("clear")
def one_question_to_ten_judges() -> Iterable[Step]:
    for name in _NAMES[:10]:
        yield tool(
            "ask_agent", {"name": name, "question": "Which is better?"}, "Option B is the better one of the two."
        )


@case("stop")
def one_question_in_other_words_to_one_judge() -> Iterable[Step]:
    for name in _NAMES[:10]:
        yield tool("ask_agent", {"question": f"What of {name}?"}, "Option B is the better one of the two.")


@case("clear")
def fields_of_a_form() -> Iterable[Step]:
    for name in _NAMES[:10]:
        yield tool("fill", {"field": name, "value": "x"}, "Filled.")


@case("stop")
def a_file_read_by_every_way_there_is() -> Iterable[Step]:
    ways = ("cat a.py", "head -100 a.py", "sed -n 1,100p a.py", "less a.py")
    for n in range(16):
        yield sh(ways[n % 4], "import os\nprint(os.getcwd())\n# end of file a")


@case("stop")
def names_looked_up_for_ever() -> Iterable[Step]:
    for _ in range(44):
        yield tool("lookup", {"name": hx(6)}, "unknown")


@case("clear")
def two_programs_measured_by_turns() -> Iterable[Step]:
    for n in range(5):
        yield sh("./bench --old", f"mean {10.1 + n * 0.37:.2f} us")
        yield sh("./bench --new", f"mean {8.1 + n * 0.31:.2f} us")


@case("stop")
def two_logs_looked_at_by_turns() -> Iterable[Step]:
    for n in range(5):
        yield sh("date +%T; tail -1 a.log", f"10:3{n}:11\nnothing to do")
        yield sh("date +%T; tail -1 b.log", f"10:3{n}:12\nstill nothing")


@case("clear")
def many_pictures_of_which_a_third_cannot_be_converted() -> Iterable[Step]:
    for n in range(36):
        if n % 3 == 1:
            yield bad(f"python convert.py img_{n}.png", "error: unsupported colour mode CMYK\n[exit code 1]")
        else:
            yield sh(f"python convert.py img_{n}.png", f"wrote img_{n}.webp", workspace=f"w{n}")


@case("clear")
def many_records_of_which_a_quarter_is_invalid() -> Iterable[Step]:
    for n in range(40):
        fault = {"valid": False, "error": "missing postcode"}
        yield tool("validate", {"id": n}, fault if n % 4 == 1 else {"valid": True}, ok=n % 4 != 1)


@case("stop")
def versions_tried_in_vain_with_looks_between() -> Iterable[Step]:
    for n in range(20):
        yield bad(f"npm install tabs@3.{n}", "npm error code ERESOLVE\nnpm error could not resolve peer react@17")
        yield sh(f"npm view tabs@3.{n} peerDependencies", f"{{ react: '^17.0.{n}' }}")


# --- errors mended one after the other -----------------------------------------------------------------------------


@case("clear")
def the_next_symbol_that_javac_misses() -> Iterable[Step]:
    for n, name in enumerate(_NAMES[:10]):
        yield edit("A.java", f"import {n}", f"w{n}")
        said = f"A.java:{12 + n}: error: cannot find symbol\n  symbol:   class {name}\n  location: class A\n1 error"
        yield bad("javac A.java", said, f"w{n}")


@case("clear")
def a_latency_that_falls_and_is_still_too_long() -> Iterable[Step]:
    for n in range(8):
        yield edit("nginx.conf", f"{n}", f"w{n}")
        yield bad("make slo", f"SLO violated: p99 {900 - n * 77} ms > 250 ms", f"w{n}")


@case("clear")
def the_next_test_that_fails_at_once() -> Iterable[Step]:
    for n, name in enumerate(_NAMES[:9]):
        yield edit("A.php", f"{n}", f"w{n}")
        said = f"1) CartTest::{name}\nFailed asserting that false is true.\n\nTests: {n + 1}, Failures: 1."
        yield bad("phpunit --stop-on-failure", said, f"w{n}")


@case("clear")
def the_next_field_a_schema_misses() -> Iterable[Step]:
    for n, name in enumerate(_NAMES[:6]):
        said = f"This call was not run: its arguments do not fit the schema: '{name}' is a required property"
        yield tool("create", dict.fromkeys(_NAMES[:n], 1), said, ok=False, rejected=True)


@case("stop")
def two_tests_that_fail_by_turns_whatever_is_edited() -> Iterable[Step]:
    for n in range(26):
        yield edit("a.py", f"{n}", f"w{n}")
        yield bad("pytest -q", f"FAILED t.py::test_{'ab'[n % 2]} - AssertionError: no\n1 failed in 0.{n}s", f"w{n}")


@case("stop")
def a_formatter_that_undoes_each_edit() -> Iterable[Step]:
    for _ in range(8):
        yield edit("a.py", 'x = "a"', "wA")
        yield sh("npm run fix", "1 file reformatted", workspace="wB")
