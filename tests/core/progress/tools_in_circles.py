"""Sessions that go in circles with tools of many trades."""

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
    "terraform lock": [
        use(
            "tf",
            {"cmd": "terraform apply"},
            f"Error: Error acquiring the state lock\n\nLock Info:\n  ID:        {hx(8)}-{hx(4)}-4{hx(3)}-a{hx(3)}-{hx(12)}\n  Path:      terraform.tfstate\n  Created:   2026-08-03 10:0{n}:12.{hx(3)}123 +0000 UTC",
            False,
        )
        for n in range(7)
    ],
    "helm": [
        use(
            "helm",
            {"cmd": "helm upgrade"},
            f"Error: UPGRADE FAILED: timed out waiting for the condition (release rev {7})\nlast poll 10:0{n}:1{n}",
            False,
        )
        for n in range(7)
    ],
    "npm audit": [
        use(
            "sh",
            {"cmd": "npm ci"},
            f"npm ERR! code EUSAGE\nnpm ERR! `npm ci` can only install with an existing package-lock.json\n\nnpm ERR! A complete log of this run can be found in: /root/.npm/_logs/2026-08-03T10_0{n}_11_12{n}Z-debug-0.log",
            False,
        )
        for n in range(7)
    ],
    "pytest w/ seed": [
        use(
            "sh",
            {"cmd": "pytest"},
            f"Using --randomly-seed={R.randint(10**8, 10**10)}\nE       assert 3 == 4\nFAILED tests/test_a.py::test_x - assert 3 == 4\n1 failed, 2 passed in {R.random():.2f}s",
            False,
        )
        for n in range(7)
    ],
    "pytest progress lines": [
        use(
            "sh",
            {"cmd": "pytest -q"},
            "." * R.randint(20, 40)
            + f"F\nE   KeyError: 'x'\ntests/test_a.py:{R.randint(1, 99)}: KeyError\n1 failed, 30 passed in 0.{n}s",
            False,
        )
        for n in range(7)
    ],
    "cargo blocking": [
        use(
            "sh",
            {"cmd": "cargo build"},
            f"    Blocking waiting for file lock on build directory\nerror[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:{n + 3}:5\nFor more information about this error, try `rustc --explain E0425`.\nerror: could not compile `a` (lib) due to 1 previous error; finished in {n}.{n}s",
            False,
        )
        for n in range(7)
    ],
    "go vet": [
        use(
            "sh",
            {"cmd": "go build ./..."},
            f"# a/b\nb/x.go:{n + 10}:{n + 2}: cannot use x (variable of type int) as string value in return statement",
            False,
        )
        for n in range(7)
    ],
    "http body err": [
        use(
            "http_request",
            {"method": "POST", "url": "https://x/api"},
            json.dumps(
                {
                    "status": 422,
                    "body": {
                        "detail": [{"loc": ["body", "name"], "msg": "field required", "type": "value_error.missing"}]
                    },
                    "headers": {"date": f"Mon, 03 Aug 2026 10:00:0{n} GMT", "x-request-id": hx(32)},
                }
            ),
            False,
        )
        for n in range(7)
    ],
    "http body err ok=true": [
        use(
            "http_request",
            {"method": "POST", "url": "https://x/api"},
            {
                "status": 401,
                "body": "Unauthorized",
                "headers": {"date": f"Mon, 03 Aug 2026 10:00:0{n} GMT", "x-request-id": hx(32)},
            },
        )
        for n in range(9)
    ],
    "aws cli": [
        use(
            "sh",
            {"cmd": "aws s3 ls"},
            "An error occurred (ExpiredToken) when calling the ListBuckets operation: The provided token has expired.",
            False,
        )
        for n in range(7)
    ],
    "graphql": [
        use(
            "gql",
            {"query": "{ me }"},
            {
                "errors": [
                    {"message": "Not authenticated", "extensions": {"code": "UNAUTHENTICATED", "traceId": hx(16)}}
                ]
            },
        )
        for n in range(8)
    ],
    "mcp iserror": [
        use(
            "mcp_tool",
            {"n": n},
            {
                "content": [{"type": "text", "text": f"Tool execution failed: connection closed (session {hx(32)})"}],
                "isError": True,
            },
        )
        for n in range(7)
    ],
    "browser stale": [
        use(
            "browser_click",
            {"ref": f"e{n}"},
            f"Error: Ref e{n} not found in the current page snapshot. Try capturing new snapshot.",
            False,
        )
        for n in range(18)
    ],
    "snapshot same": [
        use("browser_snapshot", {}, "- Page URL: https://x/login\n- Page Title: Login\n- generic [ref=e1]: Sign in")
        for n in range(7)
    ],
    "sudo": [
        use("sh", {"cmd": c}, "sudo: a password is required", False)
        for c in (
            "sudo apt update",
            "sudo -n apt update",
            "sudo apt-get update",
            'sudo sh -c "apt update"',
            "sudo -E apt update",
            "sudo ls",
            "sudo id",
        )
    ],
    "readonly": [
        use("sh", {"cmd": f"echo x > /etc/f{n}"}, f"bash: line 1: /etc/f{n}: Read-only file system", False)
        for n in range(16)
    ],
    "import err respelt": [
        use(
            "sh",
            {"cmd": f'python -c "import foo; print({n})"'},
            "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nModuleNotFoundError: No module named 'foo'",
            False,
        )
        for n in range(7)
    ],
    "list files twice alt": [
        x for n in range(6) for x in (use("list", {"path": "."}, "a\nb"), use("list", {"path": "./src"}, "c\nd"))
    ],
    "todo reread": [
        x for n in range(6) for x in (use("todo_read", {}, "[ ] fix"), use("read", {"path": "a.py"}, "x = 1"))
    ],
    "edit same noop ok": [
        use("edit", {"path": "a.py", "old": "x", "new": "x"}, "The file a.py has been updated.") for n in range(7)
    ],
    "write identical ws same": [
        use("write", {"path": "a.py", "content": "x = 1\n"}, "File created successfully at: a.py") for n in range(7)
    ],
    "write grow but fail": [
        x
        for n in range(13)
        for x in (
            use("write", {"path": "a.py", "content": "x\n" * n}, f"Wrote {n * 2} bytes", True, f"w{n}"),
            use(
                "sh",
                {"cmd": "python a.py"},
                f"  File \"/w/a.py\", line {n + 1}\n    x\n    ^\nNameError: name 'x' is not defined",
                False,
                f"w{n}",
            ),
        )
    ],
    "flip flop config": [
        x
        for n in range(6)
        for x in (
            use("set", {"k": "debug", "v": "on"}, "ok", True, "wA"),
            use("sh", {"cmd": "start"}, f"boot failed: bad flag (pid {n + 100})", False, "wA"),
            use("set", {"k": "debug", "v": "off"}, "ok", True, "wB"),
            use("sh", {"cmd": "start"}, f"boot failed: missing flag (pid {n + 200})", False, "wB"),
        )
    ],
    "git push rejected": [
        use(
            "sh",
            {"cmd": "git push"},
            f"To https://x/y.git\n ! [rejected]        main -> main (fetch first)\nerror: failed to push some refs to 'https://x/y.git'\nhint: {hx(7)}",
            False,
        )
        for n in range(7)
    ],
    "git merge conflict pull/push": [
        x
        for n in range(6)
        for x in (
            use("sh", {"cmd": "git pull"}, "Already up to date."),
            use("sh", {"cmd": "git push"}, "error: failed to push some refs", False),
        )
    ],
    "ok with text between + compaction": [
        x
        for n in range(7)
        for x in ((Step("compact"),) if n == 3 else ())
        + (Step("text", output=f"look {n}"), use("sh", {"cmd": "ls"}, "a"))
    ],
    "user absent polite": [Step("text", output=f"Shall I continue?{' ' * n}") for n in range(5)],
    "screenshots tiny drift": [
        use("screenshot", {}, f"<image 1280x800 sha={hx(40)}> taken 10:00:0{n}") for n in range(9)
    ],
    "waits no poll flag fails": [
        use(
            "sh",
            {"cmd": "kubectl rollout status deploy/x --timeout=30s"},
            "error: timed out waiting for the condition",
            False,
            waited_s=30,
        )
        for n in range(18)
    ],
    "k8s crashloop poll": [
        use(
            "sh",
            {"cmd": "kubectl get pod"},
            f"api-7d9f8b6c{n % 3}5-x2k4z 0/1 CrashLoopBackOff {5} {n + 3}m",
            polls=True,
            waited_s=10,
        )
        for n in range(44)
    ],
}

KINDS.extend(Kind(name, "stop", lambda _dice, steps=tuple(steps): steps) for name, steps in SESSIONS.items())
