"""Sessions that work with tools of many trades and repeat themselves in it."""

# ruff: noqa: E501 - the lines are as long as the world makes them

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

from core.progress import Step
from tests.core.progress.kinds import KINDS, Kind

R = Random(5)


def use(name: str, args: Any, output: Any, ok: bool = True, workspace: str | None = "d0", **rest: Any) -> Step:
    return Step("tool", name, args, output, ok, workspace, **rest)


def hx(count: int) -> str:
    """So many hex digits."""
    return "".join(R.choice("0123456789abcdef") for _ in range(count))


SESSIONS: dict[str, Iterable[Step]] = {
    "terraform drift plan": [
        use("sh", {"cmd": "terraform plan"}, f"Plan: {9 - n} to add, 0 to change, {n} to destroy.") for n in range(9)
    ],
    "read big log slices w/ same error": [
        use(
            "read",
            {"path": "app.log", "offset": n * 100},
            "\n".join(
                f"2026-08-03T10:{n:02d}:{k:02d}Z ERROR worker {R.randint(1, 99)} cannot open {R.choice('abcdef')}{R.randint(1, 999)}.db"
                for k in range(20)
            ),
        )
        for n in range(15)
    ],
    "grep error counts": [use("sh", {"cmd": f"grep -c ERROR log.{n}"}, str(R.randint(3, 400))) for n in range(15)],
    "view images": [use("view_image", {"path": f"{n}.png"}, f"<image {hx(64)}>") for n in range(15)],
    "fetch pages": [
        use("fetch", {"url": f"https://x/{n}"}, f"# Page {n}\nText {hx(20)} about {R.choice('abcdef')}{n}")
        for n in range(20)
    ],
    "db rows uuid": [
        use("sql", {"q": f"select id from t limit 1 offset {n}"}, f"{hx(8)}-{hx(4)}-4{hx(3)}-a{hx(3)}-{hx(12)}")
        for n in range(20)
    ],
    "created at": [
        use("stat", {"path": f"f{n}"}, f"Modify: 2026-08-{n + 1:02d} 10:00:00.000000000 +0000") for n in range(20)
    ],
    "durations per test": [
        use("sh", {"cmd": f"pytest -k test_{n} --durations=1"}, f"{R.random() * 9:.2f}s call tests/test_a.py::test_{n}")
        for n in range(20)
    ],
    "pings": [
        use("sh", {"cmd": f"ping -c1 h{n}"}, f"64 bytes from h{n}: icmp_seq=1 ttl=64 time={R.random() * 9:.2f} ms")
        for n in range(20)
    ],
    "jobs submit": [use("submit", {"i": n}, f"Submitted batch job {9000 + n}") for n in range(20)],
    "jobs submit uuid": [
        use("submit", {"i": n}, f'{{"job_id": "{hx(8)}-{hx(4)}-4{hx(3)}-a{hx(3)}-{hx(12)}", "status": "queued"}}')
        for n in range(20)
    ],
    "commits": [
        use(
            "sh",
            {"cmd": f'git commit -am "part {n}"'},
            f"[main {hx(7)}] part {n}\n 1 file changed, 1 insertion(+)",
            True,
            f"w{n}",
        )
        for n in range(20)
    ],
    "commits no ws": [
        use(
            "sh",
            {"cmd": f'git commit -am "part {n}"'},
            f"[main {hx(7)}] part {n}\n 1 file changed, 1 insertion(+)",
            True,
            None,
        )
        for n in range(20)
    ],
    "tail same file growth": [
        use(
            "sh",
            {"cmd": "tail -n 2 train.log"},
            f"[10:{n:02d}:00] step {n * 100} loss {3 / (n + 1):.3f}\n[10:{n:02d}:30] step {n * 100 + 50} loss {2.9 / (n + 1):.3f}",
        )
        for n in range(20)
    ],
    "progress only time+count": [
        use("poll", {"id": 1}, f"[10:{n:02d}:00] processed {n * 1000} of 90000", polls=True, waited_s=30)
        for n in range(30)
    ],
    "eta only": [use("poll", {"id": 1}, f"running, ETA 00:{30 - n:02d}", polls=True, waited_s=30) for n in range(12)],
    "fix types one by one": [
        x
        for n in range(14, 0, -1)
        for x in (
            use(
                "sh",
                {"cmd": "mypy ."},
                f"a/m{n}.py:{n * 2}: error: Incompatible types in assignment  [assignment]\nFound {n} errors in {n} files (checked 40 source files)",
                False,
                f"w{n}",
            ),
            use("edit", {"path": f"a/m{n}.py", "new": "y"}, "ok", True, f"w{n - 1}"),
        )
    ],
    "http statuses": [
        use("http", {"u": "/x"}, json.dumps({"status": s, "error": "failed", "request_id": hx(32)}), False)
        for s in (400, 401, 403, 404, 409, 500, 502, 503)
    ],
    "five retries then ok x3": [
        x
        for m in range(3)
        for x in (
            [use("web", {"q": m}, "HTTP 503 Service Unavailable", False) for n in range(3)]
            + [use("web", {"q": m}, f"result {m}")]
        )
    ],
    "parallel 10 fails one turn": [
        use("fetch", {"url": f"https://x/{n}"}, "HTTP 503 Service Unavailable", False, turn=1) for n in range(10)
    ],
    "3 turns parallel fails": [
        use("fetch", {"url": f"https://x/{n}"}, "HTTP 503 Service Unavailable", False, turn=n // 5) for n in range(15)
    ],
    "deps one by one": [
        x
        for w in ("a1", "b2", "c3", "d4", "e5", "f6", "g7", "h8")
        for x in (
            use(
                "sh",
                {"cmd": "make"},
                f"fatal error: {w}.h: No such file or directory\ncompilation terminated.\nmake: *** [Makefile:3: x.o] Error 1",
                False,
            ),
            use("sh", {"cmd": f"apt-get install -y lib{w}-dev"}, f"Setting up lib{w}-dev ...", True, None),
        )
    ],
    "config keys one by one": [
        x
        for w in ("DB_URL", "API_KEY", "PORT", "HOST", "MODE", "REGION", "BUCKET")
        for x in (
            use("sh", {"cmd": "start"}, f"config error: {w} is required", False),
            use("set_env", {"k": w}, "ok", True, None),
        )
    ],
    "puzzles": [
        use("guess", {"w": w}, f"{'gyx'[n % 3] * 2}{'xyg'[n % 3] * 3}")
        for n, w in enumerate(("crane", "slate", "audio", "pious", "mount", "light"))
    ],
    "binary search": [use("guess", {"n": n}, "too high" if n % 2 else "too low") for n in (50, 25, 37, 31, 34, 32, 33)],
    "game moves": [use("move", {"dir": d}, f"You are in room {k}") for k, d in enumerate("neswneswneswnesw")],
    "repl": [use("python", {"code": f"x[{n}]"}, str(n * n % 17)) for n in range(20)],
}

KINDS.extend(Kind(name, "clear", lambda _dice, steps=tuple(steps): steps) for name, steps in SESSIONS.items())
