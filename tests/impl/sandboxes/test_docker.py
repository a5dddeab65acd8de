"""The Docker kind: found or not, hardened, paused, replaced, swept."""

from __future__ import annotations

import asyncio
import grp
import gzip
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import SandboxUnavailable
from impl.sandboxes import choose, daemon, images
from impl.sandboxes.bubblewrap import survey
from impl.sandboxes.containers import EXPIRES, LABEL, OWNER, SESSION, host_mounts
from impl.sandboxes.daemon import Daemon
from impl.sandboxes.docker import DockerSandbox
from impl.sandboxes.images import local_archive, note_layer, progress
from impl.sandboxes.options import Options
from impl.sandboxes.owners import fate, own_mark
from impl.sandboxes.sweep import Sweeper, sweep
from tests.impl.sandboxes.conftest import Containers, Open


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the test's own time limit bounds it."""
    while not condition():  # noqa: ASYNC110 - containers have no event
        await asyncio.sleep(0.02)


@asynccontextmanager
async def fake_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, tuple[int, str] | None] | None
) -> AsyncIterator[None]:
    """Something that listens where a daemon would: it gives `answers` by path; for None it says nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        path = re.sub(r"^/v[\d.]+(?=/)", "", path).partition("?")[0]
        answer = None if answers is None else answers.get(path, (404, '{"message": "no such thing"}'))
        if answer is None:
            await reader.read()
        else:
            status, body = answer
            head, tail = f"HTTP/1.0 {status} x", ""
            if path == "/images/create":  # told piece by piece
                head = f"HTTP/1.1 {status} x\r\nTransfer-Encoding: chunked\r\n\r\n{len(body):x}"
                tail = "\r\n0\r\n\r\n" if body.endswith("\n") else "\r\n"
            blank = "\r\n" if tail else "\r\n\r\n"
            writer.write(f"{head}{blank}{body}{tail}".encode())
        writer.close()

    path = tmp_path / "d.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    server = await asyncio.start_unix_server(serve, str(path))
    yield
    server.close()


VERSION = {"/version": (200, '{"Os": "linux", "ApiVersion": "1.41"}')}


async def test_a_daemon_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_daemon(tmp_path, monkeypatch, None):
        problem = await DockerSandbox().probe()
    assert problem == f"the daemon at {tmp_path}/d.sock did not answer within 500 ms."


async def test_an_image_that_is_neither_here_nor_to_be_had_is_a_reason_to_take_another_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = (500, '{"message": "dial tcp: no such host"}')
    answers = {**VERSION, "/distribution/registry.invalid/a%3A1/json": refused}
    answers["/distribution/registry.invalid/a:1/json"] = refused
    async with fake_daemon(tmp_path, monkeypatch, answers):
        sandbox, reason = await choose(None, Options(image="registry.invalid/a:1"))
        with pytest.raises(SandboxUnavailable, match="export ARTIFICER_SANDBOX_IMAGE=local"):
            await choose("docker", Options(image="registry.invalid/a:1"))
    if sandbox.name != "bubblewrap":
        pytest.skip("bubblewrap does not work here")
    shown: list[str] = []
    workspace = await sandbox.open(tmp_path / "work", network=True)
    await workspace.run("true", on_output=shown.append)
    await workspace.close()
    assert shown[0].startswith("[This sandbox is bubblewrap. docker: the image registry.invalid/a:1 is not here")
    assert "registry.invalid/a:1 is not here and cannot be pulled (dial tcp: no such host)" in reason


@pytest.mark.parametrize(
    ("silent", "words"),
    [
        ("images", "did not answer within"),
        ("distribution", "cannot be pulled (its registry did not answer in time)"),
    ],
)
async def test_a_daemon_or_registry_that_hangs_over_the_image_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: str, words: str
) -> None:
    monkeypatch.setattr(images, "ASK_S", 0.1)
    hanging = {f"/{silent}/registry.invalid/a%3A1/json": None, f"/{silent}/registry.invalid/a:1/json": None}
    async with fake_daemon(tmp_path, monkeypatch, {**VERSION, **hanging}):
        assert words in str(await DockerSandbox(Options(image="registry.invalid/a:1")).probe())


@pytest.mark.parametrize("where", ["images", "distribution"])
async def test_an_image_that_is_here_or_can_be_pulled_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    answers = {**VERSION, f"/{where}/a%3A1/json": (200, "{}"), f"/{where}/a:1/json": (200, "{}")}
    async with fake_daemon(tmp_path, monkeypatch, answers):
        sandbox, _ = await choose(None, Options(image="a:1"))
    assert sandbox.name == "docker"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('{"status": "Downloading", "id": "a"}\n{"stat', "The Docker daemon says"),
        ('{"status": "Downloading", "id": "a"}\n{"stat\n', "The Docker daemon says"),
        ('{"status": "Downloading", "id": "a"}\n', "the daemon broke off"),
        ('{"error": "unexpected EOF"}\n', "unexpected EOF"),
    ],
)
async def test_a_pull_that_breaks_off_is_told_of_and_names_the_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, words: str
) -> None:
    answers = {**VERSION, "/distribution/a%3A1/json": (200, "{}"), "/images/create": (200, said)}
    answers["/images/a:1/json"] = (404, '{"message": "No such image: a:1"}')
    told: list[str] = []
    async with fake_daemon(tmp_path, monkeypatch, answers):
        sandbox = DockerSandbox(Options(image="a:1", tell=told.append))
        with pytest.raises(SandboxUnavailable, match=f"The image a:1 cannot be pulled: .*{words}") as failed:
            await sandbox.base()
    assert "--sandbox bubblewrap" in str(failed.value)
    assert "ARTIFICER_SANDBOX_IMAGE=local" in str(failed.value)
    assert told == ["[Pulling the sandbox's image a:1, once]\n"]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"/version": (200, '{"Os": "windows"}')}, "runs windows containers"),
        ({"/version": (200, "hello")}, "does not answer as Docker does"),
        ({"/version": (500, "{}")}, "status 500"),
    ],
)
async def test_what_is_no_docker_daemon_for_us_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, tuple[int, str]], words: str
) -> None:
    async with fake_daemon(tmp_path, monkeypatch, answers):
        assert words in str(await DockerSandbox().probe())


def test_a_daemon_of_another_machine_is_refused() -> None:
    assert "not local" in str(daemon.find({"DOCKER_HOST": "tcp://10.0.0.1:2375"}))


def test_a_daemon_of_this_machine_that_the_user_may_not_ask_says_which_group_to_join(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "d.sock"))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    said = str(daemon.find({"DOCKER_HOST": f"unix://{tmp_path}/d.sock"}))
    listener.close()
    group = grp.getgrgid((tmp_path / "d.sock").stat().st_gid).gr_name
    assert f"`sudo usermod -aG {group} $USER`" in said


def test_choosing_loads_no_sdk() -> None:
    code = (
        "import asyncio, sys; from impl.sandboxes import choose; asyncio.run(choose()); "
        "sys.exit('docker' in sys.modules or 'requests' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-I", "-c", code], check=False).returncode == 0


async def test_calls_that_hang_are_bounded_in_time_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "AT_ONCE", 2)
    async with fake_daemon(tmp_path, monkeypatch, None):
        asked = Daemon(tmp_path / "d.sock")
        calls = [asked.ask(lambda client: client.info(), 1.0) for _ in range(4)]
        began = time.monotonic()
        answers = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(answer, SandboxUnavailable) for answer in answers), answers
    assert time.monotonic() - began < 30


def test_the_local_image_is_the_same_bytes_each_time_and_names_the_user() -> None:
    layout = survey("", frozenset())
    archive = local_archive(layout, 1234, 99)
    assert archive == local_archive(layout, 1234, 99)
    assert b"agent:x:1234:99:agent:/work" in archive


def test_a_file_system_below_a_shown_directory_is_read_only_too() -> None:
    info = "1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /usr/local rw - ext4 b rw\n3 1 8:3 / /usrlocal rw - ext4 c rw\n"
    layout = replace(survey("", frozenset()), mounts=("/usr",), etc=())
    assert [(row["Target"], row["ReadOnly"]) for row in host_mounts(layout, info)] == [
        ("/usr", True),
        ("/usr/local", True),
    ]


def test_a_pull_shows_how_far_it_is() -> None:
    layers: dict[str, tuple[int, int]] = {}
    note_layer(layers, {"status": "Pulling from library/python"})
    note_layer(
        layers, {"id": "a", "status": "Downloading", "progressDetail": {"current": 3_000_000, "total": 9_000_000}}
    )
    note_layer(
        layers, {"id": "b", "status": "Downloading", "progressDetail": {"current": 1_000_000, "total": 1_000_000}}
    )
    note_layer(layers, {"id": "b", "status": "Pull complete", "progressDetail": {}})
    assert progress(layers) == "[4 of 10 MB]\n"


def test_a_living_owner_is_told_from_a_dead_one_and_from_one_that_cannot_be_seen() -> None:
    pid, started, boot, namespace = own_mark().split(":")
    assert fate(own_mark()) == "alive"
    assert fate(f"{pid}:{int(started) + 1}:{boot}:{namespace}") == "dead"
    assert fate(f"{pid}:{started}:another-boot:{namespace}") == "dead"
    assert fate(f"{pid}:{started}:{boot}:1") == "unknown"
    assert fate("") == "unknown"


# --- with a daemon -------------------------------------------------------------------------------------


@pytest.mark.docker
async def test_containers_are_hardened_and_labelled(opened: Open, containers: Containers) -> None:
    workspace = await opened("docker", network=True)
    rows: list[Any] = containers.rows()
    assert len(rows) == 2
    for row in rows:
        host, labels = row["HostConfig"], row["Config"]["Labels"]
        assert (host["CapDrop"], host["ReadonlyRootfs"], host["Privileged"]) == (["ALL"], True, False)
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert (host["IpcMode"], host["AutoRemove"], host["RestartPolicy"]["Name"]) == ("private", True, "")
        assert host["Memory"] == host["MemorySwap"] > 0
        assert host["PidsLimit"] > 0
        assert {limit["Name"] for limit in host["Ulimits"]} == {"core", "nofile", "fsize"}
        assert not any("docker.sock" in mount["Source"] for mount in row["Mounts"])
        assert {LABEL, OWNER, SESSION, EXPIRES} <= labels.keys()
    work, gate = rows
    assert (work["HostConfig"]["CapAdd"], gate["HostConfig"]["CapAdd"]) == (None, ["NET_ADMIN"])
    assert work["HostConfig"]["NetworkMode"] == f"container:{gate['Id']}"
    assert [mount["Destination"] for mount in work["Mounts"] if mount["RW"]] == ["/work"]
    assert workspace.path.parent == containers.home


@pytest.mark.docker
async def test_no_variable_of_the_host_reaches_the_daemon(
    opened: Open, containers: Containers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-not-for-the-daemon")
    workspace = await opened("docker")
    await workspace.run("true")
    assert "sk-not-for-the-daemon" not in str(containers.rows())


@pytest.mark.docker
async def test_an_image_without_a_shell_is_sandbox_unavailable_and_says_so(opened: Open, options: Options) -> None:
    workspace = await opened("docker")
    await workspace.run("true")
    empty = Containers(options.home or Path()).daemon.call(
        lambda client: images.ensure_local(client, survey("", frozenset())), 20
    )
    bare = await opened("docker", given=replace(options, image=empty))
    with pytest.raises(SandboxUnavailable, match="/bin/sh"):
        await bare.run("true")


class Registry:
    """A registry on loopback with one image of one layer."""

    def __init__(self, layer: bytes, port: int) -> None:
        self.blobs: dict[str, bytes] = {}
        config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}}
        config["rootfs"]["diff_ids"] = [self._keep(layer)]  # type: ignore[index]
        packed = gzip.compress(layer, mtime=0)
        kinds = "application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.container.image.v1+json"
        body = json.dumps(config).encode()
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": kinds[0],
                "config": {"mediaType": kinds[1], "size": len(body), "digest": self._keep(body)},
                "layers": [
                    {
                        "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                        "size": len(packed),
                        "digest": self._keep(packed),
                    }
                ],
            }
        ).encode()
        self.kind = kinds[0]
        self.image = f"localhost:{port}/agents/base:1"

    def _keep(self, data: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = data
        return digest

    def answer(self, path: str) -> tuple[str, bytes] | None:
        """(content type, body) of a path."""
        if path == "/v2/":
            return "application/json", b"{}"
        if "/manifests/" in path:
            return self.kind, self.manifest
        body = self.blobs.get(path.rpartition("/")[2])
        return None if body is None else ("application/octet-stream", body)


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry that holds the local image under a name of its own."""

    class Serve(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = held[0].answer(self.path)
            self.send_response(404 if found is None else 200)
            if found is not None:
                self.send_header("Content-Type", found[0])
                self.send_header("Content-Length", str(len(found[1])))
                self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(found[1]).hexdigest()}")
            self.end_headers()
            if found is not None and self.command == "GET":
                self.wfile.write(found[1])

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    held: list[Registry] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Serve)
    held.append(Registry(local_archive(survey("", frozenset()), 0, 0), server.server_port))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield held[0]
    server.shutdown()
    server.server_close()


@pytest.mark.docker
async def test_an_image_that_is_not_here_is_pulled_at_the_first_command_and_shown(
    opened: Open, options: Options, registry: Registry, containers: Containers
) -> None:
    shown: list[str] = []
    told: list[str] = []
    workspace = await opened("docker", given=replace(options, image=registry.image, tell=told.append))
    try:
        with pytest.raises(SandboxUnavailable, match="/bin/sh"):  # the image holds nothing but links
            await workspace.run("true", on_output=shown.append)
        assert shown[0] == f"[Pulling the sandbox's image {registry.image}, once]\n"
        assert shown[-1] == f"[The image {registry.image} is here]\n"
        assert told == shown
        assert containers.daemon.call(lambda client: images.has(client, registry.image), 20)
    finally:
        containers.daemon.call(lambda client: client.remove_image(registry.image), 20)


@pytest.mark.docker
async def test_what_packages_are_for_is_the_image_by_its_content_and_not_by_its_name(
    options: Options, containers: Containers
) -> None:
    sandbox = DockerSandbox(replace(options, image="artificer-test-base:1"))
    found = []
    try:
        for uid in (4001, 4002):
            archive = local_archive(survey("", frozenset()), uid, uid)
            containers.daemon.call(
                lambda client, archive=archive: client.import_image_from_data(  # type: ignore[misc]
                    archive, repository="artificer-test-base", tag="1"
                ),
                20,
            )
            if (problem := await sandbox.probe()) is not None:
                pytest.skip(f"docker does not work here: {problem}")
            found.append(await sandbox.base())
        assert found[0] != found[1]
        assert await sandbox.base() == found[1]
        assert all(base.startswith("the image sha256:") for base in found)
        assert "/python" in await DockerSandbox(options).base()
    finally:
        containers.daemon.call(lambda client: client.remove_image("artificer-test-base:1"), 20)


@pytest.mark.docker
async def test_an_idle_sandbox_is_paused_and_wakes_with_the_next_command(
    opened: Open, options: Options, containers: Containers
) -> None:
    workspace = await opened("docker", network=True, given=replace(options, idle_s=0.05))
    await workspace.run("echo kept > /tmp/note")

    def paused() -> list[bool]:
        rows: list[Any] = containers.rows()
        return [row["State"]["Paused"] for row in rows]

    await until(lambda: paused() == [True, True])
    assert (await workspace.run("cat /tmp/note")).output == "kept\n"
    await until(lambda: paused() == [True, True])
    await workspace.close()
    await until(lambda: containers.rows() == [])


@pytest.mark.docker
async def test_a_sandbox_past_its_age_is_replaced_and_its_files_stay(
    opened: Open, options: Options, containers: Containers
) -> None:
    workspace = await opened("docker", given=replace(options, ttl_s=1.5))
    await workspace.run("echo kept > note; echo lost > /tmp/note")
    first = containers.work()["Id"]
    await until(lambda: containers.rows() == [])
    assert (await workspace.run("cat note /tmp/note 2>&1")).output.startswith("kept\ncat: /tmp/note")
    assert containers.work()["Id"] != first


@pytest.mark.docker
async def test_a_container_removed_under_us_is_replaced(opened: Open, containers: Containers) -> None:
    workspace = await opened("docker", network=True)
    await workspace.run("echo kept > note")
    for row in containers.rows():
        containers.daemon.call(lambda client, row=row: client.remove_container(row["Id"], force=True), 20)  # type: ignore[misc]
    assert (await workspace.run("cat note")).output == "kept\n"


OWNER_APP = """
import asyncio, sys
from pathlib import Path
from impl.sandboxes.docker import DockerSandbox
from impl.sandboxes.options import Options

async def main():
    home = Path(sys.argv[1])
    options = Options(home=home, image="local", idle_s=float(sys.argv[2]))
    workspace = await DockerSandbox(options).open(home / "workspaces" / "s1" / "work", network=True)
    await workspace.run("true")
    print("ready", flush=True)
    await asyncio.sleep(300)

asyncio.run(main())
"""


async def owner(home: Path, idle_s: float) -> asyncio.subprocess.Process:
    """Another Artificer process with a workspace open."""
    line = [sys.executable, "-I", "-c", OWNER_APP, str(home), str(idle_s)]
    process = await asyncio.create_subprocess_exec(*line, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def kill(process: asyncio.subprocess.Process) -> None:
    """SIGKILL."""
    process.send_signal(signal.SIGKILL)
    await process.communicate()


@pytest.mark.docker
async def test_a_killed_application_leaves_no_container(tmp_path: Path, containers: Containers) -> None:
    process = await owner(tmp_path, 300)
    await kill(process)
    await until(lambda: containers.rows() == [])
    lines = await asyncio.to_thread(sweep, tmp_path)
    assert [line.partition(" /")[0] for line in lines] == ["removed the sockets"]
    assert await asyncio.to_thread(sweep, tmp_path) == []


@pytest.mark.docker
async def test_what_dies_while_another_stays_open_is_taken_away_meanwhile(
    tmp_path: Path, containers: Containers
) -> None:
    living = await owner(tmp_path, 300)
    Sweeper(every_s=0.05).keep(tmp_path)
    dying = await owner(tmp_path, 0.01)
    await until(lambda: sum(row["State"]["Paused"] for row in containers.rows()) == 2)  # type: ignore[index, call-overload]
    await kill(dying)
    await until(lambda: len(containers.rows()) == 2)
    assert not any(row["State"]["Paused"] for row in containers.rows())  # type: ignore[index, call-overload]
    await kill(living)
    await until(lambda: containers.rows() == [])
    shutil.rmtree(tmp_path)  # what is gone is swept no more


@pytest.mark.docker
async def test_a_sweep_takes_what_a_killed_application_left_asleep_and_nothing_else(
    tmp_path: Path, containers: Containers
) -> None:
    living, other = await owner(tmp_path, 300), await owner(tmp_path / "other", 0.01)
    dying = await owner(tmp_path, 0.01)

    def asleep(rows: list[Any]) -> int:
        return sum(row["State"]["Paused"] for row in rows)

    others = Containers(tmp_path / "other")
    await until(lambda: asleep(containers.rows()) == 2 and asleep(others.rows()) == 2)
    await kill(dying)
    await kill(other)
    lines = await asyncio.to_thread(sweep, tmp_path)
    assert sum(line.startswith("removed the container artificer-") for line in lines) == 2
    assert (len(containers.rows()), len(others.rows())) == (2, 2)
    await kill(living)
    await until(lambda: containers.rows() == [])
    await asyncio.to_thread(sweep, tmp_path / "other")
    await until(lambda: others.rows() == [])


@pytest.mark.docker
async def test_cancelling_a_start_leaves_nothing(tmp_path: Path, options: Options, containers: Containers) -> None:
    sandbox = DockerSandbox(options)
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"docker does not work here: {problem}")
    workspace = await sandbox.open(tmp_path / "work", network=True)
    task = asyncio.create_task(workspace.run("true"))
    await until(lambda: containers.rows() != [])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await workspace.close()
    await until(lambda: containers.rows() == [] and not list(tmp_path.glob(".sandbox-*")))


@pytest.mark.docker
async def test_commands_do_not_need_the_daemon_and_a_start_without_it_is_sandbox_unavailable(
    tmp_path: Path, options: Options, containers: Containers
) -> None:
    sandbox = DockerSandbox(options)
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"docker does not work here: {problem}")
    workspace = await sandbox.open(tmp_path / "work")
    await workspace.run("true")
    asked: Any = sandbox._daemon
    here, asked._path = asked._path, tmp_path / "gone.sock"
    assert (await workspace.run("echo still")).output == "still\n"
    os.kill(int(containers.work()["State"]["Pid"]), signal.SIGKILL)  # type: ignore[index, call-overload]
    await until(lambda: containers.rows() == [])
    with pytest.raises(SandboxUnavailable, match="Docker daemon"):
        await workspace.run("true")
    asked._path = here
    assert (await workspace.run("echo again")).output == "again\n"
    await workspace.close()
