"""A tool whose author tries to get out, or to break what runs it: each try ends typed, and the next call is well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core import EffectPolicy
from tests.impl.tools.conftest import BUBBLEWRAP, DOCKER, HOST, Bench, Open

LINK = "import socket, struct\ns = socket.socket(socket.AF_UNIX)\ns.connect('/run/artificer/link/s')\n"
OWN = (
    "import gc, socket, struct\n"
    "s = next(o for o in gc.get_objects() if isinstance(o, socket.socket) and o.family == socket.AF_UNIX)\n"
    "def frame(data, body=b''):\n"
    "    s.sendall(struct.pack('>II', len(data), len(body)) + data + body)\n"
)
"""Speaks on the runner's own connection, past everything the runner checks."""


@pytest.fixture(params=[BUBBLEWRAP, DOCKER])
async def either(request: pytest.FixtureRequest, opened: Open) -> Bench:
    """A bench in each kind that isolates."""
    return await opened(request.param)


BAD = [
    ("raise ValueError('no')", "tool_error"),
    ("raise SystemExit(3)", "tool_error"),
    ("raise KeyboardInterrupt", "tool_error"),
    ("class E(Exception):\n    def __str__(self): raise E()\nraise E()", "tool_error"),
    ("def f(): f()\nf()", "tool_error"),
    ("return {1, 2}", "bad_result"),
    ("return float('nan')", "bad_result"),
    ("return 'x' * (5 << 20)", "bad_result"),
    ("x = []\nx.append(x)\nreturn x", "bad_result"),
    ("os._exit(0)", "tool_crashed"),
    ("os.kill(os.getpid(), 9)", "tool_crashed"),
    ("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1, 1))\nreturn bytearray(1 << 30)", "tool_error"),
]


async def test_every_bad_ending_is_typed_and_the_next_call_is_well(bench: Bench) -> None:
    for body, error in BAD:
        assert (await bench.run(body)).error == error, body
        assert (await bench.run("return 1")).value == 1


OUT = [
    "import socket\nsocket.create_connection(('192.0.2.1', 80), 2)",
    "import socket\nsocket.create_connection(('1.1.1.1', 443), 2)",
    "import socket\nsocket.getaddrinfo('example.com', 443)",
    "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1/', timeout=2)",
    "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "import socket\nsocket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
    "import subprocess\nsubprocess.run(['ping', '-c1', '192.0.2.1'], check=True, capture_output=True)",
    "return open('/etc/shadow').read()",
    "return open('/proc/1/environ').read() + open('/proc/1/mem').read()",
    "return os.listdir('/root')",
    "open('/run/artificer/tools/tool.py', 'a')",
    "open('/run/artificer/run.py', 'a')",
    "os.remove('/run/artificer/link/s')",
    "open('/run/artificer/link/x', 'w')",
    "open(ctx.corpus + '/a.md', 'a')",
    "os.symlink('/x', '/run/artificer/link/y')",
    "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\n"
    "if c.mount(b'none', b'/tmp', b'tmpfs', 0, None): raise OSError(ctypes.get_errno())",
    "import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nif c.unshare(0x10000000): raise OSError(ctypes.get_errno())",
]


async def test_there_is_nothing_to_reach_and_nothing_of_the_host_to_read_or_write(either: Bench) -> None:
    for body in OUT:
        assert (await either.run(body)).error == "tool_error", body


async def test_what_it_can_see_holds_nothing_of_the_host(
    either: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CANARY_VARIABLE", "canary-in-the-environment")
    (tmp_path / "secret").write_text("x")
    body = (
        "seen = dict(os.environ)\n"
        "for name in os.listdir('/proc'):\n"
        "    if name.isdigit():\n"
        "        seen[name] = open(f'/proc/{name}/cmdline').read()\n"
        "        try:\n            seen[name] += open(f'/proc/{name}/environ').read()\n"
        "        except OSError:\n            pass\n"
        "return seen"
    )
    value = (await either.run(body)).value
    assert "canary" not in str(value)
    ran = await either.run(f"return os.path.exists({str(tmp_path / 'secret')!r})")
    assert ran.value is False


async def test_links_in_scratch_lead_nowhere_on_the_host(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "host-file").write_text("of the host")
    body = (
        f"for name in ('s', 'tool.py', 'run.py', '.link'):\n    os.symlink({str(tmp_path / 'host-file')!r}, name)\n"
        "try:\n    open('s', 'w').write('x')\nexcept OSError as e:\n    return e.errno"
    )
    ran = await bench.run(body)
    assert ran.value is not None
    assert (await bench.run("return 1")).value == 1
    assert (tmp_path / "host-file").read_text() == "of the host"
    assert sorted(os.listdir(tmp_path)) == ["corpus", "host-file", "link", "scratch", "tools"]


async def test_its_neighbours_can_be_read_and_not_changed(bench: Bench) -> None:
    (bench.tools / "other").mkdir()
    (bench.tools / "other" / "tool.py").write_text("SECRET = None\n")
    path = "/run/artificer/tools/other/tool.py"
    assert (await bench.run(f"return open('{path}').read()")).value == "SECRET = None\n"
    assert (await bench.run(f"open('{path}', 'w')")).error == "tool_error"
    assert (await bench.run("os.mkdir('/run/artificer/tools/new')")).error == "tool_error"


# --- the protocol ----------------------------------------------------------------------------------------


async def test_a_second_connection_is_not_heard(bench: Bench) -> None:
    ran = await bench.run(
        LINK + "s.settimeout(5)\ndata = s.recv(10)\n"
        "try:\n    s.sendall(b'\\0\\0\\0\\x02\\0\\0\\0\\0{}')\nexcept OSError:\n    pass\nreturn len(data)"
    )
    assert ran.value == 0


async def test_the_first_of_two_results_counts_and_the_rest_is_not_read(bench: Bench) -> None:
    ran = await bench.run(OWN + 'frame(b\'{"kind": "result", "value": 1}\')\nreturn 2')
    assert ran.value == 1


async def test_a_result_before_the_end_ends_it(bench: Bench) -> None:
    ran = await bench.run(OWN + 'frame(b\'{"kind": "result", "value": 1}\')\nwhile True: pass', timeout=60)
    assert (ran.value, ran.error) == (1, None)


FORGED = [
    "b'not json'",
    "b'[1]'",
    "b'\\xff\\xfe'",
    "b'{}'",
    'b\'{"kind": "start"}\'',
    'b\'{"kind": "suspend"}\'',
    'b\'{"kind": ["result"]}\'',
    'b\'{"kind": "result", "value": NaN}\'',
    "b'{\"kind\": \"result\", \"value\": ' + b'1' * 100000 + b'}'",
    "b'{\"kind\": \"result\", \"value\": ' + b'[' * 500000 + b']' * 500000 + b'}'",
    'b\'{"kind": "effect"}\'',
    'b\'{"kind": "effect", "method": 1, "url": "x", "headers": []}\'',
    'b\'{"kind": "effect", "method": "GET", "url": "x", "headers": {"a": 1}}\'',
    'b\'{"kind": "effect", "method": "GET", "url": "x", "headers": [["a", null]]}\'',
    'b\'{"kind": "effect", "method": "GET", "url": "x", "headers": [], "credential": 1}\'',
]


async def test_forged_frames_end_the_call(bench: Bench) -> None:
    for data in FORGED:
        ran = await bench.run(OWN + f"frame({data})\nwhile True: pass")
        assert (ran.error, bench.events) == ("protocol", []), data


@pytest.mark.parametrize("sent", ["struct.pack('>II', 1 << 31, 0)", "struct.pack('>II', 2, 1 << 31)", "b'\\0\\0\\0'"])
async def test_a_frame_that_is_too_large_or_cut_ends_the_call(bench: Bench, sent: str) -> None:
    ran = await bench.run(OWN + f"s.sendall({sent} + b'\\xff' * 2)\ns.close()\nwhile True: pass", timeout=5)
    assert ran.error == "protocol"


async def test_forged_types_are_not_taken_over(bench: Bench) -> None:
    frame = '{"kind": "error", "error": "platform_error", "reason": "needs_credentials", "message": ["x"]}'
    ran = await bench.run(OWN + f"frame({frame.encode()!r})\nwhile True: pass")
    assert (ran.error, ran.reason, ran.needs) == ("tool_error", None, None)


async def test_a_forged_effect_is_judged_like_any_other(bench: Bench) -> None:
    effect = '{"kind": "effect", "method": "GET", "url": "https://evil.example/", "headers": [], "x": 1}'
    ran = await bench.run(
        OWN + f"frame({effect.encode()!r}, b'body')\nn, m = struct.unpack('>II', s.recv(8))\n"
        "return json.loads(s.recv(n))['denied']"
    )
    assert ran.value == "host_not_allowed"
    ran = await bench.run(f"return ctx.http.request('GET', 'https://{HOST}/\\ud800').text")
    assert ran.reason == "url_syntax"


async def test_hanging_up_early_is_a_crash_or_a_timeout(bench: Bench) -> None:
    assert (await bench.run(OWN + "s.close()\nos._exit(0)")).error == "tool_crashed"
    assert (await bench.run(OWN + "s.close()\nwhile True: pass", timeout=1)).error == "tool_timeout"


async def test_endless_logs_are_cut_and_endless_frames_end_the_call(bench: Bench) -> None:
    ran = await bench.run("while True: ctx.log('x' * 100)", timeout=30)
    assert ran.error == "protocol"
    assert len(bench.log) == 1001


async def test_endless_output_keeps_its_head_and_costs_nothing_more(bench: Bench) -> None:
    ran = await bench.run("while True: print('y' * 1000)", timeout=1)
    assert ran.error == "tool_timeout"
    assert 0 < len(ran.printed) <= 200_000


async def test_endless_effects_end_the_call(bench: Bench) -> None:
    body = (
        "while True:\n    try:\n        ctx.http.request('GET', 'https://evil.example/')\n"
        "    except Exception:\n        pass"
    )
    ran = await bench.run(body, timeout=60, policy=EffectPolicy([], {}))
    assert ran.error == "protocol"


# --- what outlives or fills ------------------------------------------------------------------------------


async def test_a_tool_that_does_not_end_is_stopped_with_all_it_started(either: Bench) -> None:
    ran = await either.run(
        "import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nwhile True: pass", timeout=1
    )
    assert ran.error == "tool_timeout"
    assert "sleep" not in str((await either.run(PROCESSES)).value)


PROCESSES = "return [open(f'/proc/{n}/cmdline').read() for n in os.listdir('/proc') if n.isdigit()]"


async def test_a_fork_does_not_outlive_its_call_nor_speak_in_the_next(either: Bench) -> None:
    ran = await either.run(
        "if os.fork() == 0:\n    os.setsid()\n    while True:\n"
        "        try:\n            open('/work/alive', 'a').write('x')\n" + _indented(LINK, 12) + ""
        "        except OSError:\n            pass\n"
        "time.sleep(0.2)\nreturn 1"
    )
    assert ran.value == 1
    (either.place.workspace.path / "alive").unlink(missing_ok=True)
    ran = await either.run("time.sleep(0.3)\nreturn os.path.exists('/work/alive')")
    assert ran.value is False


def _indented(code: str, by: int) -> str:
    return "".join(" " * by + line + "\n" for line in code.splitlines())


@pytest.mark.slow
async def test_a_fork_bomb_ends_with_its_call(either: Bench) -> None:
    ran = await either.run("while True:\n    try:\n        os.fork()\n    except OSError:\n        pass", timeout=2)
    assert ran.error in ("tool_timeout", "tool_crashed")
    assert (await either.run("return 1")).value == 1


async def test_a_full_disk_is_the_tools_own_failure(bench: Bench) -> None:
    body = "with open('/tmp/f', 'wb') as f:\n    while True: f.write(b'x' * (1 << 20))"
    ran = await bench.run(body)
    assert ran.error == "tool_error"
    assert "No space left" in ran.message
    assert (await bench.run("return 1")).value == 1


async def test_nothing_a_call_wrote_is_there_for_the_next(either: Bench) -> None:
    deep = "import sys\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nopen('/work/.hidden', 'w')\n"
    assert (await either.run(f"{deep}return os.listdir('/work')")).value is not None
    assert (await either.run("return os.listdir(ctx.scratch)")).value == []


@pytest.mark.slow
async def test_a_call_that_takes_more_than_its_quota_is_ended_and_the_next_is_well(opened: Open) -> None:
    bench = await opened("bubblewrap", quota=2_000_000)
    body = "while True:\n    open(str(time.monotonic()), 'wb').write(b'x' * 1_000_000)\n    time.sleep(0.05)"
    assert (await bench.run(body, timeout=60)).error == "tool_crashed"
    assert (await bench.run("return 1")).value == 1
