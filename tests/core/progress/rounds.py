"""Sessions that go round and round in one way or another."""

# ruff: noqa: E501 - one session a line

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

from core.progress import Step
from tests.core.progress.kinds import KINDS, WORDS, Kind

W = WORDS[:20]


def sh(cmd: str, output: Any = "", ok: bool = True, workspace: str | None = "d0", **rest: Any) -> Step:
    return Step("tool", "shell", {"cmd": cmd}, output, ok, workspace, **rest)


def use(name: str, args: Any, output: Any, ok: bool = True, workspace: str | None = "d0", **rest: Any) -> Step:
    return Step("tool", name, args, output, ok, workspace, **rest)


def read(path: str, **rest: Any) -> Step:
    return use("read", {"path": path}, f"content of {path}", **rest)


def edit(path: str, new: str, workspace: str | None, output: str = "ok") -> Step:
    return Step("tool", "edit", {"path": path, "old": "", "new": new}, output, True, workspace)


SESSIONS: dict[str, Iterable[Step]] = {
    "aabb": [read(x) for _ in range(5) for x in "aabb"],
    "aab": [read(x) for _ in range(5) for x in "aab"],
    "abac": [read(x) for _ in range(5) for x in "abac"],
    "abba": [read(x) for _ in range(5) for x in "abba"],
    "random of 3": [read(Random(n).choice("abc")) for n in range(24)],
    "cycle 8 x3": [read(x) for _ in range(4) for x in "abcdefgh"],
    "cycle of 12 x4": [read(x) for _ in range(4) for x in "abcdefghijkl"],
    "cycle 15 x6": [read(x) for _ in range(6) for x in "abcdefghijklmno"],
    "ls -la drift": [
        sh(
            "ls -la",
            f"total 8\ndrwxr-xr-x 2 root root 4096 Aug  3 10:{n:02d} .\n-rw-r--r-- 1 root root 12 Aug  3 09:00 a",
        )
        for n in range(9)
    ],
    "docker ps": [sh("docker ps", f"CONTAINER ID IMAGE STATUS\nabc123def456 web Up {n + 2} minutes") for n in range(9)],
    "git status x": [sh("git status", "On branch main\nnothing to commit, working tree clean") for n in range(7)],
    "curl hdr": [
        sh(
            "curl -i x",
            f"HTTP/1.1 200 OK\nDate: Mon, 03 Aug 2026 10:00:{n:02d} GMT\nX-Request-Id: 3f2504e0-4f89-11d3-9a0c-0305e82c{n:04d}\n\n<html>hello world page</html>",
        )
        for n in range(9)
    ],
    "json ts": [
        use(
            "api",
            {"id": 1},
            json.dumps({"data": ["a", "b"], "ts": 1785700000 + n, "request_id": f"req_{n}8HxQ7zKp9L2m"}),
        )
        for n in range(9)
    ],
    "json ts dict": [use("api", {"id": 1}, {"data": ["a", "b"], "elapsed_ms": 10 + n}) for n in range(9)],
    "thought in args": [use("shell", {"cmd": "ls", "thought": f"idea {n}"}, "a\nb") for n in range(7)],
    "comment varies": [sh(f"ls  # look {n}", "a\nb") for n in range(7)],
    "cd prefix": [
        sh(c, "a\nb\nc\nd")
        for c in (
            "ls",
            "ls .",
            "ls ./",
            "cd . && ls",
            "ls -1",
            "command ls",
            "/bin/ls",
            "ls -- .",
            "ls --color=never",
            "env ls",
        )
    ],
    "rewritten failing": [
        sh(c, "E   assert 1 == 2\n1 failed in 0.1s", False)
        for c in (
            "pytest",
            "pytest -q",
            "python -m pytest",
            "pytest -x",
            "pytest -v",
            "pytest --tb=short",
            "pytest -rA",
            "py.test",
        )
    ],
    "read then fail edit": [
        x
        for n in range(7)
        for x in (
            read("a.py"),
            use(
                "edit",
                {"path": "a.py", "old": f"x = {n}", "new": "y"},
                "old_string not found in a.py",
                False,
                rejected=True,
            ),
        )
    ],
    "write same file variants": [
        use("write", {"path": "a.md", "content": "x" * n}, "ok", True, "d1") for n in range(12)
    ],
    "write new ws but failing": [
        x
        for n in range(13)
        for x in (
            edit("a.py", str(n), f"d{n}", f"Edited a.py line {n}"),
            sh("make", f"a.c:{n + 1}:2: error: expected ';'\nmake: *** [all] Error 1", False, f"d{n}"),
        )
    ],
    "three states": [x for n in range(15) for x in (edit("a.py", str(n % 3), f"w{n % 3}"),)],
    "stash pop": [
        x for n in range(9) for x in (sh("git stash", "Saved", True, "w0"), sh("git stash pop", "Dropped", True, "w1"))
    ],
    "permission denied": [sh(f"cat /root/{w}", f"cat: /root/{w}: Permission denied", False) for w in W + W],
    "disk full": [sh(f"cp {w} /x", f"cp: error writing '/x/{w}': No space left on device", False) for w in W[:16]],
    "rate limit varied": [
        use("web", {"q": w}, f"HTTP 429 Too Many Requests. Retry after {n * 3 + 1} seconds", False)
        for n, w in enumerate(W[:9])
    ],
    "auth": [
        use("api", {"path": w}, '{"error":{"code":401,"message":"Invalid API key provided: sk-***abc"}}', False)
        for w in W[:8]
    ],
    "auth2": [
        use("api", {"path": f"/{w}"}, f"401 Client Error: Unauthorized for url: https://x.example/{w}", False)
        for w in W + W[:4]
    ],
    "quota": [
        use(f"t{n % 3}", {"n": n}, f"RESOURCE_EXHAUSTED: Quota exceeded for metric (req {n}{n}abc9{n}def)", False)
        for n in range(16)
    ],
    "timeout svc": [
        use("db", {"q": w}, f"TimeoutError: timed out after {30 + n * 0.1:.1f}s", False) for n, w in enumerate(W[:8])
    ],
    "poll no wait": [use("poll", {"job": 1}, "running", polls=True) for n in range(13)],
    "poll waited 1": [use("poll", {"job": 1}, "running", polls=True, waited_s=1) for n in range(20)],
    "poll fail": [use("poll", {"job": 1}, "job not found", False, polls=True, waited_s=5) for n in range(18)],
    "poll elapsed 60": [
        use("poll", {"job": 1}, f"running, elapsed {n * 10}s", polls=True, waited_s=10) for n in range(45)
    ],
    "sleep cmd fail": [
        sh("sleep 10; curl x", "curl: (7) Failed to connect to x port 80: Connection refused", False) for n in range(8)
    ],
    "text alternating": [Step("text", output="I will do it." if n % 2 else "Let me do it.") for n in range(8)],
    "text then same tool": [x for n in range(7) for x in (Step("text", output=f"Trying again ({n})."), sh("ls", "a"))],
    "empty+same tool": [x for n in range(7) for x in (Step("empty"), sh("ls", "a"))],
    "ask tool": [use("ask_user", {"q": "ok?"}, "no answer", True) for n in range(7)],
    "jp": [sh("x", f"2026年08月03日 10:00:{n:02d} エラー: 接続できません", False) for n in range(8)],
    "ru": [sh("x", f"03.08.2026 10:00:{n:02d} ошибка: файл не найден (pid {n + 100})", False) for n in range(8)],
    "parallel same 6": [read(x, turn=n) for n in range(6) for x in "abc"],
    "parallel fail 6": [sh(f"ping {x}", "Network is unreachable", False, turn=n) for n in range(6) for x in "abc"],
    "parallel alt": [read(x, turn=n) for n in range(8) for x in ("ab" if n % 2 else "cd")],
    "compaction each": [
        x for n in range(6) for x in (sh("make", "make: *** No rule to make target", False), Step("compact"))
    ],
    "identical+compact each": [x for n in range(6) for x in (sh("ls", "a"), Step("compact"))],
    "schema errs": [
        use(
            "create",
            {"a": n},
            f"Error: 'title' is a required property\n\nFailed validating 'required' in schema\n\nOn instance:\n    {{'a': {n}}}",
            False,
            rejected=True,
        )
        for n in range(6)
    ],
    "bad json args": [
        use(
            "create",
            '{"a": ' + "x" * n,
            f"Invalid JSON arguments: Expecting value: line 1 column {7 + n} (char {6 + n})",
            False,
            rejected=True,
        )
        for n in range(7)
    ],
    "patch fail": [
        use(
            "apply_patch",
            {"patch": f"@@ -{n},3 +{n},3 @@\n-a\n+b"},
            f"error: patch failed: a.py:{n + 10}\nerror: a.py: patch does not apply",
            False,
        )
        for n in range(8)
    ],
    "pip conflict": [
        sh(
            f"pip install foo=={n}.0",
            f"ERROR: Cannot install foo=={n}.0 because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible",
            False,
        )
        for n in range(15)
    ],
    "apt lock": [
        sh(
            "apt-get install x",
            f"E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process {2000 + n} (apt-get)",
            False,
        )
        for n in range(7)
    ],
    "port busy": [
        sh(
            "serve &",
            f"Error: listen EADDRINUSE: address already in use :::3000\n    at Server.setupListenHandle (node:net:{1800 + n}:16)",
            False,
        )
        for n in range(7)
    ],
    "selenium": [
        use(
            "click",
            {"sel": f"#b{n}"},
            f"TimeoutException: Message: \nStacktrace:\n#0 0x55d{n:03x}f8a3 <unknown>\n#1 0x55d{n:03x}f111 <unknown>",
            False,
        )
        for n in range(8)
    ],
    "playwright sel": [
        use(
            "click",
            {"selector": f"text={w}"},
            f"Error: locator.click: Timeout 5000ms exceeded.\n  waiting for locator('text={w}')",
            False,
        )
        for w in W + W[:4]
    ],
    "java trace": [
        sh(
            "mvn test",
            f"[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.{n}12 s <<< FAILURE! - in com.x.ATest\n[ERROR] testA  Time elapsed: 0.0{n} s  <<< FAILURE!\njava.lang.AssertionError: expected:<4> but was:<3>\n\tat com.x.ATest.testA(ATest.java:{20 + n})",
            False,
        )
        for n in range(7)
    ],
}

KINDS.extend(Kind(name, "stop", lambda _dice, steps=tuple(steps): steps) for name, steps in SESSIONS.items())
