"""What a sandbox hides of the host, and what it lets nobody write."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from core import Workspace

SECRET = "not-for-the-sandbox-5f1c"


async def test_the_host_is_not_reached_over_the_network(isolated: Workspace) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=5)"
        result = await isolated.run(f'python3 -c "{code}"')
        assert "ConnectionRefusedError" in result.output
    assert (await isolated.run("cat /proc/net/dev | grep -vc -e lo: -e '|'")).output == "0\n"


async def test_there_is_no_way_out(isolated: Workspace) -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 443), timeout=5)"
    result = await isolated.run(f'python3 -c "{code}"')
    assert "Network is unreachable" in result.output


async def test_abstract_sockets_of_the_host_are_not_reached(isolated: Workspace) -> None:
    name = f"artificer-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{name}")
        server.listen()
        result = await isolated.run(
            f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect(chr(0) + '{name}')\""
        )
    assert "ConnectionRefusedError" in result.output


@pytest.mark.parametrize("path", ["/root", "/home", "/etc/shadow", "/etc/ssl/private", "/var", "/sys", "/boot", "/mnt"])
async def test_host_files_are_not_there(isolated: Workspace, path: str) -> None:
    if (isolated.kind, path) == ("docker", "/sys"):
        assert (await isolated.run("test -w /sys || mkdir /sys/fs/cgroup/pids/x")).exit_code != 0  # read-only there
        return
    result = await isolated.run(f"ls {path}")
    assert "No such file or directory" in result.output


async def test_the_users_are_not_the_hosts(isolated: Workspace) -> None:
    result = await isolated.run("cut -d: -f1 /etc/passwd; id -un")
    assert result.output == "agent\nnobody\nagent\n"


async def test_files_beside_the_workspace_are_not_there(isolated: Workspace) -> None:
    secret = isolated.path.parent / "secret"
    secret.write_text(SECRET)
    result = await isolated.run(f"cat {secret} ../secret /proc/1/root{secret}")
    assert (result.exit_code, SECRET in result.output) == (1, False)


async def test_no_variable_of_the_host_is_seen(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:{SECRET}@proxy.invalid")
    result = await workspace.run("env; cat /proc/$$/environ /proc/$PPID/environ")
    assert "HOME=" in result.output
    assert SECRET not in result.output


async def test_no_process_of_the_host_is_seen(isolated: Workspace) -> None:
    result = await isolated.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; cat /proc/1/environ")
    assert "inside.py" in result.output
    assert "pytest" not in result.output
    assert "bwrap" not in result.output


async def test_the_serving_process_is_closed_to_commands(isolated: Workspace) -> None:
    result = await isolated.run("cat /proc/1/mem >/dev/null; ls -l /proc/1/fd/ | grep -c socket:")
    assert "Permission denied" in result.output
    assert result.output.endswith("0\n")


async def test_commands_have_no_capability_and_gain_none(isolated: Workspace) -> None:
    result = await isolated.run("grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status | tr -d '\\t'")
    assert result.output == "CapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1\n"


@pytest.mark.parametrize(
    "path", ["/file", "/usr/file", "/etc/file", "/dev/file", "/run/file", "/proc/sys/kernel/core_pattern"]
)
async def test_only_the_workspace_and_temporary_files_are_written(isolated: Workspace, path: str) -> None:
    if isolated.kind == "docker" and path in ("/dev/file", "/run/file"):
        assert (await isolated.run(f"stat -f -c %T {Path(path).parent}")).output == "tmpfs\n"  # and bounded
        return
    result = await isolated.run(f": >> {path}")
    assert result.exit_code != 0
    assert "Read-only file system" in result.output or "Permission denied" in result.output


@pytest.mark.parametrize("path", ["/tmp", "/dev/shm"])
async def test_temporary_files_are_bounded(isolated: Workspace, path: str) -> None:
    result = await isolated.run(f"head -c 1G /dev/zero > {path}/fill; stat -c %s {path}/fill")
    assert "No space left on device" in result.output
    assert int(result.output.split()[-1]) <= 256 << 20


async def test_a_link_out_of_the_workspace_leads_nowhere(isolated: Workspace) -> None:
    (isolated.path / "link").symlink_to("/etc/shadow")
    assert "No such file" in (await isolated.run("cat link")).output


async def test_what_is_written_belongs_to_the_user_of_the_application(isolated: Workspace) -> None:
    await isolated.run("touch mine; mkdir folder")
    assert {Path(isolated.path, name).stat().st_uid for name in ("mine", "folder")} == {os.geteuid()}
