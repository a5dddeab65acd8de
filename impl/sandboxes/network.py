"""Which addresses a sandbox may reach, and the nft rules that hold it to them.

Only public addresses, which are those that effects may connect to (`core.effects.addresses`), and port 53 of the
configured resolvers alone. The host is refused under every address it has, public ones too. `allow_cidrs` opens ranges
that are not public; an address of the host only where it is named by itself (`192.0.2.7/32`). The rules sit in the
sandbox's own network namespace, which nothing inside may change, so a proxy setting, a relay or another port makes no
difference.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from core import CLOSED_V4, CLOSED_V6, ISATAP, ISATAP_MASK, OPEN_V6, is_public_address

TABLE = "artificer"
ICMP, TCP, UDP, ICMP6 = 1, 6, 17, 58
"""By number: a sandbox need not have /etc/protocols."""
RESOLVERS_KEPT = 3
FALLBACK_RESOLVERS = ("8.8.8.8", "8.8.4.4")
"""Docker's own choice for a host that names none but itself."""
CHANGE_S = 2.0

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Block = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Filter:
    """What one sandbox may reach: `resolvers` on port 53, `allowed` ranges, everything public but `hosts`."""

    resolvers: tuple[str, ...]
    hosts: tuple[str, ...]
    allowed: tuple[str, ...] = ()


def rules(reach: Filter) -> str:
    """The nft script of a filter; pure. It replaces its own table, so that it can be applied again."""
    named = [block for block in map(ipaddress.ip_network, reach.allowed) if block.num_addresses == 1]
    lines = [
        f"add table inet {TABLE}",
        f"delete table inet {TABLE}",
        f"table inet {TABLE} {{",
        "chain refuse {",
        f"meta l4proto {TCP} reject with tcp reset",
        "reject with icmpx type admin-prohibited",
        "}",
        "chain incoming {",
        "type filter hook input priority 0; policy drop;",
        'iifname "lo" accept',
        "ct state established,related accept",
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } accept",
        "}",
        "chain outgoing {",
        "type filter hook output priority 0; policy drop;",
        'oifname "lo" accept',
        "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit } accept",
    ]
    lines += _each(reach.resolvers, f"meta l4proto {{ {TCP}, {UDP} }} th dport 53 accept")
    lines += _each(map(str, named), "accept")
    lines += _each(reach.hosts, "goto refuse")
    lines += _each(reach.allowed, "accept")
    lines += [f"meta l4proto {{ {TCP}, {UDP} }} th dport 53 goto refuse"]
    lines += _each(map(str, CLOSED_V4), "goto refuse")
    lines += [f"ip6 daddr != {OPEN_V6} goto refuse"]
    lines += _each(map(str, CLOSED_V6), "goto refuse")
    lines += [f"ip6 daddr & {ISATAP_MASK} == {ISATAP} goto refuse"]
    lines += [f"meta l4proto {{ {ICMP}, {TCP}, {UDP}, {ICMP6} }} accept", "goto refuse", "}", "}"]
    return "\n".join(lines) + "\n"


def _each(blocks: Iterable[str], verdict: str) -> list[str]:
    """One rule a protocol: `verdict` for packets to any of `blocks`."""
    lines = []
    found = [ipaddress.ip_network(text) for text in blocks]
    merged: dict[str, Iterable[Block]] = {
        "ip": ipaddress.collapse_addresses(block for block in found if isinstance(block, ipaddress.IPv4Network)),
        "ip6": ipaddress.collapse_addresses(block for block in found if isinstance(block, ipaddress.IPv6Network)),
    }
    for word, same in merged.items():
        if listed := ", ".join(map(str, same)):
            lines.append(f"{word} daddr {{ {listed} }} {verdict}")
    return lines


def filter_here(allowed: Sequence[str], resolvers: Sequence[str]) -> Filter:
    """The filter for a sandbox that starts now on this host. Host addresses that are closed anyway are left out."""
    opened = [ipaddress.ip_network(text) for text in allowed]
    hosts = [
        str(address)
        for address in host_addresses()
        if is_public_address(str(address))
        or any(address.version == block.version and address in block for block in opened)
    ]
    return Filter(tuple(resolvers), tuple(sorted(hosts)), tuple(allowed))


def changed_since(reach: Filter) -> Callable[[], bool]:
    """Tells whether this host got other addresses than `reach` knows; looks at most every two seconds."""
    looked, changed = time.monotonic(), False

    def outdated() -> bool:
        nonlocal looked, changed
        if not changed and time.monotonic() - looked >= CHANGE_S:
            looked = time.monotonic()
            changed = filter_here(reach.allowed, reach.resolvers) != reach
        return changed

    return outdated


def host_addresses() -> list[Address]:
    """Every address this host answers to, but loopback."""
    found = local_v4(_read("/proc/net/fib_trie")) + local_v6(_read("/proc/net/if_inet6"))
    if not found:  # not Linux: what the name service says of us is all there is
        try:
            found = [ipaddress.ip_address(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)]
        except (OSError, ValueError):
            found = []
    return [address for address in dict.fromkeys(found) if not address.is_loopback]


def local_v4(trie: str) -> list[Address]:
    """The addresses of /proc/net/fib_trie that are local; pure."""
    found: list[Address] = []
    last = ""
    for line in trie.splitlines():
        text = line.strip()
        if text.startswith("|-- "):
            last = text[4:]
        elif text == "/32 host LOCAL":
            found.append(ipaddress.IPv4Address(last))
    return found


def local_v6(table: str) -> list[Address]:
    """The addresses of /proc/net/if_inet6; pure."""
    return [ipaddress.IPv6Address(int(line.split()[0], 16)) for line in table.splitlines() if line.strip()]


def resolvers() -> tuple[str, ...]:
    """The host's resolvers that another network namespace can reach; empty where they are all loopback."""
    found = nameservers(_read("/etc/resolv.conf"))
    return found or nameservers(_read("/run/systemd/resolve/resolv.conf"))


def nameservers(conf: str) -> tuple[str, ...]:
    """The addresses of a resolv.conf, loopback and scoped ones left out; pure."""
    found = []
    for line in conf.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            try:
                address = ipaddress.ip_address(words[1])
            except ValueError:
                continue
            if not address.is_loopback and "%" not in words[1]:
                found.append(str(address))
    return tuple(found[:RESOLVERS_KEPT])


def resolv_conf(servers: Iterable[str]) -> str:
    """The /etc/resolv.conf of a sandbox."""
    return "".join(f"nameserver {server}\n" for server in servers)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
