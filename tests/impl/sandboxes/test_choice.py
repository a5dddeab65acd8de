"""Which kind of sandbox is taken, and what is said where one does not work."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from core import SandboxUnavailable
from impl.sandboxes import SANDBOXES, choose
from impl.sandboxes.bubblewrap import BubblewrapSandbox, Layout, argv, choose_python, explain
from impl.sandboxes.bubblewrap import environment as isolated_environment
from impl.sandboxes.process import environment as process_environment

LAYOUT = Layout(
    bwrap="/usr/bin/bwrap",
    options=frozenset({"--size", "--disable-userns"}),
    python="/usr/bin/python3",
    shell="/usr/bin/bash",
    mounts=("/usr",),
    links=(("usr/bin", "/bin"),),
    etc=("/etc/alternatives",),
    inside="/app/inside.py",
)


def pairs(line: list[str], option: str, count: int) -> list[list[str]]:
    """The arguments of every use of an option."""
    return [line[i + 1 : i + 1 + count] for i, word in enumerate(line) if word == option]


def test_every_kind_names_itself() -> None:
    kinds = {name: factory() for name, factory in SANDBOXES.items()}
    assert {name: kind.name for name, kind in kinds.items()} == {name: name for name in SANDBOXES}
    assert [name for name, kind in kinds.items() if kind.unsafe] == ["process"]


@pytest.fixture(autouse=True)
def no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Docker daemon, whatever runs here."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")


async def test_without_a_daemon_bubblewrap_is_taken_and_the_reason_said(bubblewrap: BubblewrapSandbox) -> None:
    sandbox, reason = await choose()
    assert sandbox.name == "bubblewrap"
    assert reason.startswith("docker: no Docker daemon runs here")


async def test_without_bwrap_the_unsafe_kind_is_taken_and_the_reason_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent:/bin")
    monkeypatch.setattr("shutil.which", lambda program, path=None: None if program == "bwrap" else f"/bin/{program}")
    sandbox, reason = await choose()
    assert (sandbox.name, sandbox.unsafe) == ("process", True)
    assert "unsafe" in reason
    assert "apt install bubblewrap" in reason


async def test_a_kind_that_was_asked_for_is_never_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program, path=None: None)
    with pytest.raises(SandboxUnavailable, match="apt install bubblewrap"):
        await choose("bubblewrap")


async def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SandboxUnavailable, match="bubblewrap, process"):
        await choose("chroot")


CHOOSE = """
import asyncio, json
from impl.sandboxes import choose
sandbox, reason = asyncio.run(choose())
print(json.dumps([sandbox.name, reason]))
"""


async def test_without_the_right_to_make_a_namespace_the_reason_is_said(bubblewrap: BubblewrapSandbox) -> None:
    outer = ["bwrap", "--unshare-user", "--unshare-pid", "--disable-userns", "--dev-bind", "/", "/", "--proc", "/proc"]
    line = [*outer, "--cap-drop", "ALL", "--", sys.executable, "-I", "-c", CHOOSE]
    process = await asyncio.create_subprocess_exec(*line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await process.communicate()
    if b"--disable-userns" in err:
        pytest.skip("this bwrap cannot forbid namespaces")
    name, reason = json.loads(out)
    assert name == "process"
    assert "no user namespaces" in reason


async def test_a_probe_that_hangs_is_given_up(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\nexec sleep 300\n")
    program.chmod(0o755)
    problem = await BubblewrapSandbox(str(program)).probe()
    assert problem == "bwrap did not answer within 500 ms, 4 times."


async def test_a_probe_that_was_slow_once_is_tried_again(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f'#!/bin/sh\nif mkdir {tmp_path}/slow 2>/dev/null; then exec sleep 300; fi\nexec bwrap "$@"\n')
    program.chmod(0o755)
    if await BubblewrapSandbox().probe() is not None:
        pytest.skip("bubblewrap does not work here")
    assert await BubblewrapSandbox(str(program)).probe() is None


async def test_a_verdict_is_kept(bubblewrap: BubblewrapSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda program, path=None: None)
    assert await bubblewrap.probe() is None


@pytest.mark.parametrize(
    ("said", "sysctls", "words"),
    [
        (
            "bwrap: No permissions to create new namespace",
            {"kernel.unprivileged_userns_clone": "0"},
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            "bwrap: setting up uid map: Permission denied",
            {"kernel.apparmor_restrict_unprivileged_userns": "1", "user.max_user_namespaces": "9000"},
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("bwrap: Creating new namespace failed: No space left on device", {"user.max_user_namespaces": "0"}, "=15000"),
        ("bwrap: Creating new namespace failed: Operation not permitted", {}, "container"),
        ("bwrap: Can't find source path /lib64: No such file", {}, "bwrap failed: Can't find source path"),
        ("", {}, "it said nothing"),
    ],
)
def test_a_failure_is_explained_with_the_next_step(said: str, sysctls: dict[str, str], words: str) -> None:
    assert words in explain(said, sysctls)


def test_the_command_line_unshares_everything_and_drops_every_capability() -> None:
    line = argv(LAYOUT, "/home/u/work", 7, {})
    for option in ("--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--new-session"):
        assert option in line
    assert pairs(line, "--cap-drop", 1) == [["ALL"]]
    assert "--share-net" not in line


def test_the_command_line_shows_only_what_the_layout_names() -> None:
    line = argv(LAYOUT, "/home/u/work", 7, {"/etc/passwd": 9})
    assert pairs(line, "--bind", 2) == [["/home/u/work", "/work"]]
    assert pairs(line, "--ro-bind", 2) == [
        ["/usr", "/usr"],
        ["/etc/alternatives", "/etc/alternatives"],
        ["/app/inside.py", "/run/artificer/inside.py"],
    ]
    assert pairs(line, "--file", 2) == [["9", "/etc/passwd"]]


def test_what_is_not_a_mount_of_its_own_is_read_only() -> None:
    assert pairs(argv(LAYOUT, "/w", 7, {}), "--remount-ro", 1) == [["/proc"], ["/dev"], ["/"]]


def test_the_helper_is_started_isolated_on_its_descriptor() -> None:
    line = argv(LAYOUT, "/w", 7, {})
    helper = line[line.index("--") + 1 :]
    assert helper == ["/usr/bin/python3", "-I", "-S", "/run/artificer/inside.py", "namespace", "7", "/usr/bin/bash"]


def test_an_older_bwrap_is_not_given_what_it_does_not_know() -> None:
    line = argv(replace(LAYOUT, options=frozenset()), "/w", 7, {})
    assert not {"--size", "--disable-userns"} & set(line)


def test_the_running_interpreter_is_shown_where_the_system_has_none(tmp_path: Path) -> None:
    python, prefix = choose_python(tmp_path / "usr", tmp_path / "opt")
    assert (Path(python).parent, prefix) == (tmp_path / "opt" / "bin", str(tmp_path / "opt"))
    assert isolated_environment(replace(LAYOUT, python=python))["PATH"].split(":")[1] == str(tmp_path / "opt" / "bin")


async def test_a_sandbox_with_the_running_interpreter_works(bubblewrap: BubblewrapSandbox, tmp_path: Path) -> None:
    assert bubblewrap._layout is not None
    python, prefix = choose_python(tmp_path / "none", Path(sys.base_prefix))
    assert prefix is not None
    bubblewrap._layout = replace(bubblewrap._layout, python=python, mounts=(*bubblewrap._layout.mounts, prefix))
    workspace = await bubblewrap.open(tmp_path / "work")
    result = await workspace.run('python3 -c "import sys, ssl; print(sys.version_info[:2])"')
    await workspace.close()
    assert result.output == f"{sys.version_info[:2]}\n"


def test_process_commands_see_an_allow_list_and_no_environment_of_ours() -> None:
    host = {"PATH": "/app/venv/bin:/usr/bin", "LANG": "de_DE.UTF-8", "API_KEY": "x", "PYTHONPATH": "/app"}
    env = process_environment(host, Path("/w"), "/app/venv", "/usr")
    assert env["PATH"] == "/w/.local/venv/bin:/w/.local/bin:/usr/bin"
    assert (env["HOME"], env["WORK"], env["LANG"]) == ("/w", "/w", "de_DE.UTF-8")
    assert not {"API_KEY", "PYTHONPATH"} & env.keys()
