"""The rules of the filtered network: which addresses, in which order, read from which files."""

from __future__ import annotations

import ipaddress
import os
import re
import shutil
import subprocess

import pytest

from core import CLOSED_V4, CLOSED_V6, OPEN_V6, is_public_address
from impl.sandboxes import network, pasta
from impl.sandboxes.network import Filter, local_v4, local_v6, nameservers, rules
from impl.sandboxes.pasta import Pasta

EDGES = [
    str(edge)
    for block in (*CLOSED_V4, *CLOSED_V6, OPEN_V6)
    for edge in (
        block[0],
        block[-1],
        *([block[0] - 1] if int(block[0]) else []),
        *([block[-1] + 1] if int(block[-1]) + 1 < 2**block.max_prefixlen else []),
    )
]


def refused(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether the rules of a sandbox that may reach the public alone refuse an address, read from their text."""
    word = "ip6" if address.version == 6 else "ip"
    for line in rules(Filter((), ())).splitlines():
        if not line.endswith("goto refuse") or not line.startswith(f"{word} daddr"):
            continue
        if listed := re.search(r"{ (.*) }", line):
            if any(address in ipaddress.ip_network(block) for block in listed[1].split(", ")):
                return True
        elif masked := re.search(r"& (\S+) == (\S+)", line):
            mask, value = (int(ipaddress.ip_address(text)) for text in masked.groups())
            if int(address) & mask == value:
                return True
        elif outside := re.search(r"!= (\S+)", line):
            if address not in ipaddress.ip_network(outside[1]):
                return True
        else:
            raise AssertionError(line)
    return False


@pytest.mark.parametrize(
    "text",
    [
        *EDGES,
        *("::1", "fe80::1", "::ffff:8.8.8.8", "64:ff9b::1", "2a00::5efe:a00:1", "2a00::200:5efe:a00:1", "ff02::1"),
        *("8.8.8.8", "2606:4700:4700::1111", "2a00::5eff:a00:1"),
    ],
)
def test_what_a_sandbox_may_not_reach_is_what_an_effect_may_not(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert refused(address) is not is_public_address(str(address))


def lines(reach: Filter) -> list[str]:
    """The rules of the outgoing chain."""
    text = rules(reach)
    return text[text.index("chain outgoing") :].splitlines()


def place(reach: Filter, words: str) -> int:
    """Which rule holds the words."""
    return next(n for n, line in enumerate(lines(reach)) if words in line)


REACH = Filter(("10.0.0.53",), ("192.0.2.2", "93.184.215.9"), ("192.0.2.0/24", "192.0.2.9/32"))


def test_nothing_passes_that_no_rule_lets_pass() -> None:
    assert "policy drop" in lines(REACH)[1]
    assert lines(REACH)[-3] == "goto refuse"


def test_the_host_stays_refused_within_an_allowed_range() -> None:
    assert place(REACH, "{ 93.184.215.9/32, 192.0.2.2/32 } goto refuse") < place(REACH, "192.0.2.0/24 } accept")


def test_an_address_of_the_host_opens_where_it_is_named_by_itself() -> None:
    reach = Filter((), ("192.0.2.2",), ("192.0.2.2/32",))
    assert place(reach, "192.0.2.2/32 } accept") < place(reach, "192.0.2.2/32 } goto refuse")


def test_name_service_is_the_resolvers_alone() -> None:
    assert place(REACH, "10.0.0.53/32 } meta l4proto { 6, 17 } th dport 53 accept") < place(REACH, "10.0.0.0/8")
    assert place(REACH, "} th dport 53 goto refuse") < place(REACH, "{ 1, 6, 17, 58 } accept")


def test_the_kernel_takes_the_rules_twice() -> None:
    if os.geteuid() != 0 or not shutil.which("nft") or not shutil.which("unshare"):
        pytest.skip("loading rules needs root, nft and unshare")
    reach = Filter(
        ("10.0.0.53", "2001:4860:4860::8888"), ("93.184.215.9", "fd00::2"), ("fd00::/8", "10.0.0.0/8", "10.1.0.0/16")
    )
    line = ["unshare", "--net", "sh", "-c", 'nft -f "$1"; nft -f "$1"; nft list ruleset', "sh", "/dev/stdin"]
    script = 'rules=$(cat); echo "$rules" | nft -f - && echo "$rules" | nft -f - && nft list ruleset'
    done = subprocess.run([*line[:3], "-c", script], input=rules(reach), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("policy drop") == 2


TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 127.255.255.255
        /32 link BROADCAST
     |-- 192.0.2.0
        /24 link UNICAST
     |-- 192.0.2.2
        /32 host LOCAL
"""
INET6 = "fe800000000000000000000000000001 04 40 20 80     eth0\n20010db8000000000000000000000001 02 40 00 80     eth0\n"


def test_host_addresses_are_read_from_the_kernels_tables() -> None:
    assert list(map(str, local_v4(TRIE))) == ["127.0.0.1", "192.0.2.2"]
    assert list(map(str, local_v6(INET6))) == ["fe80::1", "2001:db8::1"]
    assert not any(address.is_loopback for address in network.host_addresses())


def test_only_host_addresses_that_are_not_closed_anyway_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [ipaddress.ip_address(text) for text in ("192.168.1.5", "93.184.215.9", "10.1.2.3")]
    monkeypatch.setattr(network, "host_addresses", lambda: found)
    assert network.filter_here(("10.0.0.0/8",), ()).hosts == ("10.1.2.3", "93.184.215.9")


def test_a_new_address_of_the_host_outdates_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "CHANGE_S", 0.0)
    monkeypatch.setattr(network, "host_addresses", lambda: [])
    outdated = network.changed_since(network.filter_here((), ()))
    assert not outdated()
    monkeypatch.setattr(network, "host_addresses", lambda: [ipaddress.ip_address("93.184.215.9")])
    assert outdated()


def test_resolvers_that_only_the_host_reaches_are_left_out() -> None:
    conf = "# made\nnameserver 127.0.0.53\nnameserver 10.0.0.53\nnameserver fe80::1%eth0\nnameserver ::1\nsearch a\n"
    assert nameservers(conf) == ("10.0.0.53",)


def test_a_resolver_on_loopback_is_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasta, "resolvers", tuple)
    reach, forward = pasta.reach(())
    assert (reach.resolvers, forward) == ((pasta.FORWARDED,), True)
    line = pasta.command(Pasta("pasta", "nft", "bash", ()), reach, forward, ["true"], ())
    assert line[line.index("--dns-forward") + 1] == pasta.FORWARDED


def test_the_rules_are_loaded_before_anything_of_the_users_starts() -> None:
    script = pasta.command(Pasta("pasta", "nft", "bash", ()), REACH, False, ["bwrap", "it's"], ("one\n",))[-1]
    assert script.startswith("set -e\n")
    assert script.index("nft -f -") < script.index("exec bwrap 'it'\"'\"'s'")
    assert script.index("policy drop") < script.index("exec bwrap")


@pytest.mark.parametrize("program", ["pasta", "nft", "bash"])
def test_what_is_missing_for_a_network_is_named(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None if name == program else f"/usr/bin/{name}")
    problem = pasta.find()
    assert isinstance(problem, str)
    assert problem.startswith(f"{program} is not installed")


async def test_a_connector_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pasta, "TRIAL_S", 0.2)
    bash = shutil.which("bash") or "/bin/sh"
    problem = await pasta.trial(Pasta("/bin/sh", "nft", bash, (bash, "-c", "sleep 100; exit", "x")), ["true"])
    assert problem == "pasta did not connect a network within 0 s."
