"""Which IP addresses generated code may reach, by an effect or from a sandbox: an explicit list, the same on every
Python."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

# `ipaddress.is_global` is not used: it answers differently between patch releases and is wrong for some of these.
# Sources: the IANA special-purpose address registries, and addresses clouds use for their hosts' services.
CLOSED_V4: Final = tuple(
    IPv4Network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # carrier-grade NAT, and a cloud's metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's host service
        "169.254.0.0/16",  # link-local, metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, and a cloud's metadata
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# Only global unicast is open, so loopback, mapped, compatible, NAT64, ULA, link-local, site-local, discard,
# segment routing and multicast need no line here.
OPEN_V6: Final = IPv6Network("2000::/3")
CLOSED_V6: Final = tuple(
    IPv6Network(block)
    for block in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID, AMT and others
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # the former 6bone
        "3fff::/20",  # documentation
    )
)
ISATAP_MASK: Final = IPv6Address(0xFCFFFFFF << 32)
ISATAP: Final = IPv6Address(0x00005EFE << 32)
"""What an address that embeds an IPv4 address for ISATAP has under the mask: the interface identifier is 0000:5efe or
0200:5efe and the address."""
_LONGEST: Final = 39
# A last label that some program reads as part of an address; names of this machine or of the network it is in.
_NEARBY: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*|localhost|localdomain|local|internal|home\.arpa)")


def is_public_address(text: str) -> bool:
    """Whether `text` is a public unicast address.

    Everything else is False and never an error: host names, special ranges, addresses that embed an IPv4
    address, zones, ports, and spellings that some programs read as an IPv4 address (`127.1`, `0x7f000001`).
    """
    if not isinstance(text, str) or not text.isascii() or not 2 <= len(text) <= _LONGEST:
        return False
    try:
        return _public_v6(text) if ":" in text else _public_v4(text)
    except ValueError:
        return False


def is_public_name(host: str) -> bool:
    """Whether a lower-case host name may lead to a public address: not one of a single label, a spelling of an address,
    or what is reserved for this machine and its own network (`x.localhost`, `x.local`, `x.internal`)."""
    return "." in host and _NEARBY.fullmatch(host) is None


def _public_v4(text: str) -> bool:
    address = IPv4Address(text)
    return str(address) == text and not any(address in block for block in CLOSED_V4)


def _public_v6(text: str) -> bool:
    if "%" in text:
        return False
    address = IPv6Address(text)
    if "." in text or address not in OPEN_V6 or any(address in block for block in CLOSED_V6):
        return False
    return int(address) & int(ISATAP_MASK) != int(ISATAP)
