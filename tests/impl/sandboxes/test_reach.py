"""What a sandbox with a network reaches: the public, and nothing of this machine or its neighbours."""

from __future__ import annotations

import asyncio
import http.server
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core import Workspace
from impl.sandboxes import network
from impl.sandboxes.options import Options
from tests.harness.public import Public, ip, public_network
from tests.impl.sandboxes.conftest import DOCKER, FILTERED, Containers, Open

HOST, PUBLIC = "93.184.215.9", "93.184.215.10"
"""Public addresses that belong to nobody the test could meet: routed into a namespace of this machine."""
PORT = 8321


class Answer(http.server.BaseHTTPRequestHandler):
    """Says that it was reached."""

    def do_GET(self) -> None:
        """Every path."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def host_service() -> Iterator[int]:
    """The port of a service on every address of this host."""
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def public() -> Iterator[Public]:
    """A public server in a network namespace of its own, and a public address of this host beside it."""
    with public_network(HOST, PUBLIC) as found:
        line = [*found.within, sys.executable, "-I", "-m", "http.server", str(PORT)]
        server = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/usr/share")
        try:
            _until_reached(PUBLIC, PORT)
            yield found
        finally:
            server.kill()
            server.wait()


def _until_reached(address: str, port: int) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
            continue
        return
    pytest.skip(f"the stand-in at {address} is not reached from here")


@pytest.fixture(params=[FILTERED, DOCKER])
async def connected(request: pytest.FixtureRequest, public: Public, opened: Open) -> Workspace:
    """A workspace with the filtered network."""
    return await opened(str(request.param), network=True)


TRY = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3)"


async def verdict(workspace: Workspace, address: str, port: int) -> str:
    """How a connection attempt ends inside."""
    result = await workspace.run(f'python3 -c "{TRY}" {address} {port}', timeout=20)
    return "reached" if result.exit_code == 0 else result.output.strip().splitlines()[-1]


async def test_the_public_is_reached(connected: Workspace) -> None:
    assert await verdict(connected, PUBLIC, PORT) == "reached"


async def test_this_host_is_refused_on_every_address_it_has(connected: Workspace, host_service: int) -> None:
    addresses = [str(address) for address in network.host_addresses() if address.version == 4]
    assert HOST in addresses
    for address in [*addresses, "127.0.0.1"]:
        assert "refused" in await verdict(connected, address, host_service), address


PRIVATE = [
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
]


async def test_private_link_local_and_metadata_addresses_are_refused(connected: Workspace) -> None:
    for address in PRIVATE:
        assert "refused" in await verdict(connected, address, 80), address


async def test_what_ipv6_there_is_ends_at_the_same_rules(connected: Workspace) -> None:
    for address in ("fd00::1", "fe80::1", "::ffff:10.1.2.3", "64:ff9b::a01:203"):
        assert await verdict(connected, address, 80) != "reached"


async def test_another_session_is_refused(
    connected: Workspace, opened: Open, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kind = "docker" if connected.kind == "docker" else "filtered"
    other = await opened(kind, network=True)
    serve = f"touch up; exec python3 -m http.server {PORT + 1}"
    serving = asyncio.create_task(other.run(serve))
    try:
        while not (other.path / "up").exists():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
        own = "hostname -I 2>/dev/null || ip -4 -o addr | awk '{print $4}' | cut -d/ -f1"
        addresses = set((await connected.run(own)).output.split())
        if kind == "docker":
            rows = Containers(tmp_path).rows()
            addresses |= {
                str(net["IPAddress"])
                for row in rows
                for net in row["NetworkSettings"]["Networks"].values()  # type: ignore[index, call-overload]
                if net["IPAddress"]
            }
        for address in addresses:
            assert await verdict(connected, address, PORT + 1) != "reached", address
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


RELAY = """
import socket, threading, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def pump(a, b):
    while data := a.recv(65536):
        b.sendall(data)
def serve(client):
    try:
        server = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3)
    except OSError as error:
        print("relay:", error, flush=True)
        client.close()
        return
    threading.Thread(target=pump, args=(client, server), daemon=True).start()
    pump(server, client)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


async def test_no_proxy_setting_and_no_relay_inside_change_a_verdict(connected: Workspace, host_service: int) -> None:
    if (await connected.run("command -v curl")).exit_code != 0:
        pytest.skip("no curl to show in the sandbox")
    (connected.path / "relay.py").write_text(RELAY)
    curl = "curl -s -m 5 -o /dev/null -w '%{http_code}\\n'"
    for address, port, code in [(PUBLIC, PORT, "200"), (HOST, host_service, "000"), ("10.1.2.3", PORT, "000")]:
        direct = await connected.run(f"{curl} --noproxy '*' http://{address}:{port}/")
        relayed = await connected.run(
            f"python3 relay.py {address} {port} > said & until test -s said; do sleep 0.02; done;"
            f"{curl} http://127.0.0.1:$(head -1 said)/",
            timeout=20,
        )
        assert (direct.output, relayed.output) == (f"{code}\n", f"{code}\n"), address


async def test_only_the_resolver_answers_on_the_port_of_names(connected: Workspace) -> None:
    assert "refused" in await verdict(connected, PUBLIC, 53)


async def test_rules_cannot_be_changed_from_inside(connected: Workspace) -> None:
    for command in (
        "nft flush ruleset",
        "ip link set lo down",
        "unshare -Urn true && nsenter -t 1 -n nft flush ruleset",
    ):
        assert (await connected.run(f"PATH=$PATH:/usr/sbin:/sbin; {command}")).exit_code != 0, command
    assert "refused" in await verdict(connected, "10.1.2.3", 80)


@pytest.mark.parametrize("kind", [FILTERED, DOCKER])
async def test_an_allowed_range_is_reached_on_any_port_and_the_host_in_it_is_not(
    kind: str, opened: Open, options: Options, public: Public, host_service: int
) -> None:
    inner, ours = "10.231.7.2", "10.231.7.1"
    ip("addr", "add", f"{ours}/24", "dev", f"{public.namespace}h")
    ip("-n", public.namespace, "addr", "add", f"{inner}/24", "dev", f"{public.namespace}n")
    try:
        closed = await opened(kind, network=True)
        assert "refused" in await verdict(closed, inner, PORT)
        allowing = await opened(kind, network=True, given=replace(options, allow_cidrs=("10.231.7.0/24",)))
        assert await verdict(allowing, inner, PORT) == "reached"
        assert "refused" in await verdict(allowing, ours, host_service)
        assert "refused" in await verdict(allowing, "10.231.8.2", PORT)
    finally:
        ip("-n", public.namespace, "addr", "del", f"{inner}/24", "dev", f"{public.namespace}n")
        ip("addr", "del", f"{ours}/24", "dev", f"{public.namespace}h")


@pytest.mark.docker
async def test_after_a_restart_of_its_containers_the_verdicts_are_the_same(
    opened: Open, public: Public, containers: Containers, host_service: int
) -> None:
    workspace = await opened("docker", network=True)
    for role in ("-work-", "-gate-"):
        row = next(row for row in containers.rows() if role in str(row["Name"]))
        containers.daemon.call(lambda client, row=row: client.restart(row["Id"], timeout=0), 30)  # type: ignore[misc]
        assert await verdict(workspace, PUBLIC, PORT) == "reached"
        for address, port in ((HOST, host_service), ("10.1.2.3", 80), ("169.254.169.254", 80)):
            assert "refused" in await verdict(workspace, address, port)


@pytest.mark.docker
async def test_a_work_container_started_by_hand_in_the_gate_meets_the_rules_at_once(
    opened: Open, public: Public, containers: Containers, host_service: int
) -> None:
    await opened("docker", network=True)
    gate = next(row for row in containers.rows() if "-gate-" in str(row["Name"]))
    if shutil.which("docker") is None:
        pytest.skip("no docker client to start a container by hand with")
    code = f"import socket; socket.create_connection(('{HOST}', {host_service}), timeout=3)"
    line = ["docker", "run", "--rm", "--network", f"container:{gate['Id']}", "-v", "/usr:/usr:ro"]
    line += [str(gate["Config"]["Image"]), "python3", "-c", code]  # type: ignore[index, call-overload]
    done = await asyncio.to_thread(subprocess.run, line, capture_output=True, text=True, check=False, timeout=60)
    assert "ConnectionRefusedError" in done.stderr


@pytest.mark.parametrize("kind", [FILTERED, DOCKER])
async def test_a_new_address_of_the_host_is_refused_by_the_next_command(
    kind: str, opened: Open, public: Public, host_service: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "CHANGE_S", 0.0)
    workspace = await opened(kind, network=True)
    new = "93.184.215.77"
    ip("addr", "add", f"{new}/32", "dev", f"{public.namespace}h")
    try:
        assert "refused" in await verdict(workspace, new, host_service)
    finally:
        ip("addr", "del", f"{new}/32", "dev", f"{public.namespace}h")


@pytest.mark.parametrize("kind", [FILTERED, DOCKER])
async def test_a_set_bundle_of_authorities_is_what_programs_trust(
    kind: str, opened: Open, options: Options, tmp_path: Path
) -> None:
    bundle = tmp_path / "authorities.pem"
    bundle.write_text("-- ours --\n")
    workspace = await opened(kind, network=True, given=replace(options, ca_bundle=bundle))
    result = await workspace.run("cat $SSL_CERT_FILE; test $SSL_CERT_FILE = $PIP_CERT; echo >> $SSL_CERT_FILE")
    assert result.output.startswith("-- ours --\n")
    assert (result.exit_code != 0, bundle.read_text()) == (True, "-- ours --\n")
