"""Which addresses count as public."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.effects.addresses import is_public_address, is_public_name


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "100.63.255.255",
        "100.128.0.0",
        "168.63.129.15",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.1",
        "192.88.98.1",
        "198.17.0.1",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2001:4860:4860::8888",
        "2001:200::1",
        "2a00:1450:4001:81b::200e",
        "2620:4f:8001::1",
        "2001:db7::1",
        # the same addresses, spelled otherwise
        *("2606:4700:0:0:0:0:0:1111", "2606:4700::ABCD", "2606:4700::01"),
    ],
)
def test_global_unicast_is_public(address: str) -> None:
    assert is_public_address(address)


@pytest.mark.parametrize(
    "address",
    [
        # special ranges
        *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "100.127.255.255", "127.0.0.1"),
        *("127.255.255.254", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.9"),
        *("192.0.0.192", "192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.1.1", "192.175.48.1"),
        *("198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
        "255.255.255.255",
        # other spellings
        *("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "127.0.0.01", "08.8.8.8", "8.8.8.08", "8.8.8", "8.8"),
        *("0x8.8.8.8", "134744072", "8.8.8.8.", " 8.8.8.8", "8.8.8.8 ", "8.8.8.8\n", "8.8.8.8\0", "8.8.8.8:443"),
        *("8.8.8.8/32", "８.8.8.8", "8。8.8.8", "٨.8.8.8", "1.2.3.256", "1.2.3.4.5", "-1.2.3.4", "+8.8.8.8", "8..8.8"),
        # IPv6
        *("::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:808:808", "::127.0.0.1", "::8.8.8.8"),
        *("64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "100::1", "2001::1", "2001:0:4136:e378::1"),
        *("2001:2::1", "2001:3::1", "2001:10::1", "2001:20::1", "2001:30::1", "2001:1ff::1", "2001:db8::1"),
        *("2002:7f00:1::", "2002:808:808::1", "2620:4f:8000::1", "3ffe::1", "3fff::1", "3fff:fff::1", "5f00::1"),
        *("fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "2606:4700::1%1", "fec0::1"),
        *("ff02::1", "ff0e::1", "4000::1", "2606:4700::5efe:a00:1", "2606:4700::200:5efe:a00:1"),
        *(
            "[2606:4700::1111]",
            "0:0:0:0:0:0:0:1",
            "0000::7F00:1",
            "FE80::1",
            "2606:4700::8.8.8.8",
            "2606:4700::5EFE:A00:1",
            "2606:4700:0:0:0:5efe:a00:1",
        ),
        *("2606:4700:::1", "2606:4700::1::1", ":", ":::", "2606:4700::1/64", "2606:4700::g"),
        # not addresses
        *("", "localhost", "example.com", "a" * 10_000, "1" * 5_000, ":" * 5_000),
    ],
)
def test_everything_else_is_not(address: str) -> None:
    assert not is_public_address(address)


@pytest.mark.parametrize(
    ("host", "public"),
    [
        *(("example.com", True), ("local.example.com", True), ("internal.io", True), ("signals.invalid", True)),
        *(("localhost", False), ("a.localhost", False), ("localhost.localdomain", False), ("printer.local", False)),
        *(("metadata.google.internal", False), ("nas.home.arpa", False), ("host.docker.internal", False)),
        *(("intranet", False), ("10.0.0.1", False), ("127.1", False), ("127.0x1", False), ("1.0x7f", False)),
    ],
)
def test_a_name_of_this_machine_or_its_network_is_not_public(host: str, public: bool) -> None:
    assert is_public_name(host) is public


@pytest.mark.parametrize("thing", [None, 134744072, b"8.8.8.8", ["8.8.8.8"]])
def test_what_is_no_text_is_not_an_address(thing: object) -> None:
    assert not is_public_address(thing)  # type: ignore[arg-type]


@given(st.text(alphabet="0123456789abcdefx.:%[]/ "))
def test_it_never_raises(text: str) -> None:
    assert is_public_address(text) in (True, False)
