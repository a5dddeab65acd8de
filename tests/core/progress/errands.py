"""Sessions that do one thing after another: alike to look at, and work."""

# ruff: noqa: E501 - one session a line

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from core.progress import Step
from tests.core.progress.kinds import KINDS, WORDS, Kind

W = WORDS[:20]


def sh(cmd: str, output: Any = "", ok: bool = True, workspace: str | None = "d0", **rest: Any) -> Step:
    return Step("tool", "shell", {"cmd": cmd}, output, ok, workspace, **rest)


def use(name: str, args: Any, output: Any, ok: bool = True, workspace: str | None = None, **rest: Any) -> Step:
    return Step("tool", name, args, output, ok, workspace, **rest)


def read(path: str, **rest: Any) -> Step:
    return use("read", {"path": path}, f"content of {path}", **rest)


def edit(path: str, new: str, workspace: str | None, output: str = "ok") -> Step:
    return Step("tool", "edit", {"path": path, "old": "", "new": new}, output, True, workspace)


SESSIONS: dict[str, Iterable[Step]] = {
    "ls many dirs": [sh(f"ls {w}", f"{w}_a\n{w}_b") for w in W],
    "cat many empties": [sh(f"cat {w}", "") for w in W],
    "wc many": [sh(f"wc -l {w}.py", f"{n * 3} {w}.py") for n, w in enumerate(W)],
    "sha256sum many": [sh(f"sha256sum {w}", f"{Random(n).getrandbits(256):064x}  {w}") for n, w in enumerate(W)],
    "git log each": [sh(f"git log -1 --format=%H {w}", f"{Random(n).getrandbits(160):040x}") for n, w in enumerate(W)],
    "git show commits": [
        sh(
            f"git show {n}",
            f"commit {Random(n).getrandbits(160):040x}\nAuthor: A\nDate: Mon Aug {n + 1} 10:00:00 2026 +0000\n\n    change {w}",
        )
        for n, w in enumerate(W)
    ],
    "curl ids": [use("http", {"url": f"/users/{n}"}, f'{{"id": {1000 + n}, "name": "{w}"}}') for n, w in enumerate(W)],
    "curl uuids": [
        use("http", {"url": f"/users/{n}"}, f'{{"id": "3f2504e0-4f89-11d3-9a0c-0305e82c{n:04d}"}}')
        for n, w in enumerate(W)
    ],
    "created ids": [
        use("create", {"name": w}, f"created 3f2504e0-4f89-11d3-9a0c-0305e82c{n:04d}") for n, w in enumerate(W)
    ],
    "created json": [
        use(
            "create",
            {"name": w},
            {"id": f"3f2504e0-4f89-11d3-9a0c-0305e82c{n:04d}", "created_at": f"2026-08-03T10:00:{n:02d}Z"},
        )
        for n, w in enumerate(W)
    ],
    "same call next uuid page": [
        use(
            "next",
            {},
            "\n".join(
                f"{Random(n * 50 + k).getrandbits(128):032x} row {Random(n * 50 + k).choice(W)}" for k in range(10)
            ),
        )
        for n in range(15)
    ],
    "tests each dir fail differently": [
        sh(
            f"pytest tests/{w}",
            f"FAILED tests/{w}/test_a.py::test_{w} - assert {n} == {n + 1}\n1 failed, {n} passed in 0.{n}s",
            False,
        )
        for n, w in enumerate(W)
    ],
    "mypy each file": [
        x
        for n, w in enumerate(W)
        for x in (
            sh(
                f"mypy {w}.py",
                f"{w}.py:{n + 3}: error: Missing return statement  [return]\nFound 1 error in 1 file (checked 1 source file)",
                False,
                f"d{n}",
            ),
            edit(f"{w}.py", f"return {n}", f"d{n + 1}"),
            sh(f"mypy {w}.py", "Success: no issues found in 1 source file", True, f"d{n + 1}"),
        )
    ],
    "lint fix one by one": [
        x
        for n in range(20, 0, -1)
        for x in (
            sh(
                "ruff check .",
                f"a.py:{n * 3}:1: F401 `{W[n - 1]}` imported but unused\nFound {n} errors.",
                False,
                f"d{n}",
            ),
            edit("a.py", str(n), f"d{n - 1}"),
        )
    ],
    "clippy": [
        x
        for n in range(12, 0, -1)
        for x in (
            sh(
                "cargo clippy",
                f"warning: unused variable: `{W[n]}`\n --> src/main.rs:{n * 4}:9\nerror: could not compile `app` due to {n} previous errors",
                False,
                f"d{n}",
            ),
            edit("src/main.rs", str(n), f"d{n - 1}"),
        )
    ],
    "migration steps": [sh(f"manage migrate {n}", f"Applying app.{n:04d}_{w}... OK") for n, w in enumerate(W)],
    "docker pull layers": [sh("docker pull x", f"{n} of 12 layers pulled", polls=True, waited_s=5) for n in range(12)],
    "kubectl wait": [
        sh("kubectl get pod api", f"api 0/1 ContainerCreating 0 {n * 10}s", polls=True, waited_s=10) for n in range(12)
    ],
    "kubectl nopoll": [sh("kubectl get pod api", f"api 0/1 ContainerCreating 0 {n * 10}s") for n in range(5)],
    "ci poll": [
        use("ci_status", {"id": 1}, {"status": "in_progress", "elapsed": n * 30}, polls=True, waited_s=30)
        for n in range(18)
    ],
    "ci poll running": [
        use("ci_status", {"id": 1}, {"status": "in_progress"}, polls=True, waited_s=30) for n in range(9)
    ],
    "retry until up": [
        sh(
            "curl -sf localhost:8080/health",
            "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Connection refused",
            False,
            polls=True,
            waited_s=3,
        )
        for n in range(8)
    ]
    + [sh("curl -sf localhost:8080/health", "ok")],
    "sleep retry until up": [
        sh(
            "sleep 5; curl -sf localhost:8080/health",
            "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Connection refused",
            False,
        )
        for n in range(3)
    ]
    + [sh("curl -sf localhost:8080/health", "ok")],
    "port scan 10": [
        sh(f"nc -z host {p}", f"nc: connect to host port {p} (tcp) failed: Connection refused", False)
        for p in (21, 22, 25, 80, 110, 143, 443, 3306, 5432, 8080)
    ],
    "which tools2": [sh(f"{w} --version", f"bash: {w}: command not found", False) for w in W[:10]],
    "missing docs": [
        use("read_file", {"path": f"docs/{w}.md"}, f"Error: file not found: docs/{w}.md", False) for w in W[:10]
    ],
    "missing docs rejected": [
        use("read_file", {"path": f"docs/{w}.md"}, f"File 'docs/{w}.md' does not exist", False, rejected=True)
        for w in W[:7]
    ],
    "404 pages": [
        use("fetch", {"url": f"https://x.example/{w}"}, f"HTTP 404 Not Found: https://x.example/{w}", False)
        for w in W[:10]
    ],
    "search all differ": [use("search", {"query": w}, f"{n} results: {w}.md") for n, w in enumerate(W)],
    "search none 6": [use("search", {"query": w}, "No results found.") for w in W[:6]],
    "search mixed": [
        use("search", {"query": w}, "No results found." if n % 3 else f"{w}.md: text") for n, w in enumerate(W)
    ],
    "sql per table": [use("sql", {"q": f"select count(*) from {w}"}, f"{(n * 37) % 91}") for n, w in enumerate(W)],
    "sql empties": [use("sql", {"q": f"select * from {w}"}, "(0 rows)") for n, w in enumerate(W)],
    "sql errors": [
        use(
            "sql", {"q": f"select {w} from t"}, f'ERROR:  column "{w}" does not exist\nLINE 1: select {w} from t', False
        )
        for n, w in enumerate(W[:10])
    ],
    "translate strings": [use("translate", {"text": w}, w.upper()) for w in W],
    "edit+build ok": [
        x
        for n, w in enumerate(W)
        for x in (edit(f"{w}.c", "x", f"d{n}"), sh("make", "gcc -o app\nbuild ok", True, f"d{n}"))
    ],
    "edit+build ok none": [
        x
        for n, w in enumerate(W)
        for x in (edit(f"{w}.c", "x" + str(n), None), sh("make", "gcc -o app\nbuild ok", True, None))
    ],
    "write chapters": [
        use("write", {"path": f"ch{n}.md", "content": w * 50}, f"Wrote {len(w) * 50} bytes to ch{n}.md")
        for n, w in enumerate(W)
    ],
    "append same file": [use("append", {"path": "log.md", "content": w}, "ok", True, f"d{n}") for n, w in enumerate(W)],
    "train eval sweep": [
        sh(f"python train.py --lr {10**-n}", f"final loss {1 / (n + 1):.3f} after 10m {n}s") for n in range(12)
    ],
    "ask parallel 3": [
        use("read", {"path": f"{w}{k}"}, f"{w} content {k}", turn=n) for n, w in enumerate(W) for k in range(3)
    ],
    "undo redo compare": [
        x
        for n in range(3)
        for x in (
            sh("git stash", "Saved", True, "d0"),
            sh(f"pytest -k {W[n]}", f"{n} passed", True, "d0"),
            sh("git stash pop", "Dropped", True, "d1"),
            sh(f"pytest -k {W[n]}2", f"{n + 5} passed", True, "d1"),
        )
    ],
    "apply/revert 2 then fix": [
        x
        for n in range(2)
        for x in (
            edit("a", "1", "dA"),
            sh("pytest", "E x\n1 failed", False, "dA"),
            edit("a", "2", "d0"),
            sh("pytest", "E y\n1 failed", False, "d0"),
        )
    ]
    + [edit("a", "3", "dB"), sh("pytest", "1 passed", True, "dB")],
    "same err diff file": [
        x
        for n, w in enumerate(W)
        for x in (
            sh("tsc", f"src/{w}.ts({n + 1},4): error TS2304: Cannot find name 'foo'.", False, f"d{n}"),
            edit(f"src/{w}.ts", "foo", f"d{n + 1}"),
        )
    ],
    "gdb steps": [sh("gdb next", f"{n + 10}\t  x = f({n});") for n in range(20)],
    "dates": [sh(f'date -d "+{n} days" +%F', f"2026-08-{n + 1:02d}") for n in range(20)],
    "time zones": [sh(f"TZ={w} date +%T", f"{n:02d}:00:01") for n, w in enumerate(W)],
    "ports compare": [sh(f"ss -ltn | grep {w}", f"LISTEN 0 128 127.0.0.1:{8000 + n}") for n, w in enumerate(W)],
    "wait log same call": [sh("tail -1 app.log", f"2026-08-03T10:00:{n:02d}Z processed batch {n}") for n in range(20)],
    "test failing messages differ by value": [
        sh("pytest", f"E   assert {n * 7} == 99\n1 failed in 0.1s", False) for n in range(12)
    ],
    "different asserts, time": [
        sh("pytest", f"E   AssertionError: expected 10:00:00, got 10:{n:02d}:00\n1 failed in 0.1s", False)
        for n in range(8)
    ],
    "bytes progress": [sh("wget -c big", f"{n * 10}% downloaded, connection reset by peer", False) for n in range(10)],
    "rsync resumes": [
        sh("rsync a b", f"rsync: connection unexpectedly closed ({n * 10**6} bytes received so far)", False)
        for n in range(10)
    ],
    "bisect": [
        sh("git bisect good", f"Bisecting: {2 ** (9 - n)} revisions left to test after this (roughly {9 - n} steps)")
        for n in range(9)
    ],
    "proof goals": [
        sh("coqc p.v", f"Error: Attempt to save an incomplete proof ({9 - n} goals left)", False, f"d{n}")
        for n in range(9)
    ],
    "review comments": [use("comment", {"line": n, "text": w}, "Comment added") for n, w in enumerate(W)],
    "kanban": [use("move_card", {"card": w, "to": "done"}, "moved") for w in W],
    "screens": [
        x
        for n, w in enumerate(W)
        for x in (use("click", {"x": n}, "clicked"), use("screenshot", {}, f"screen with {w}"))
    ],
}

KINDS.extend(Kind(name, "clear", lambda _dice, steps=tuple(steps): steps) for name, steps in SESSIONS.items())
