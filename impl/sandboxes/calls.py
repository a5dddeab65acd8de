"""Which system calls a sandbox is refused: those that reach past its namespaces, as a filter for the kernel (seccomp).

Namespaces hold neither sockets to the hypervisor (vsock) nor requests that the kernel carries out by itself (io_uring,
which opens sockets too). Keys, kernel programs and the like are refused because nothing in a sandbox needs them.
"""

from __future__ import annotations

import base64
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from errno import EAFNOSUPPORT, ENOSYS
from pathlib import Path

KERNEL_TAKES_FILTERS = Path("/proc/sys/kernel/seccomp/actions_avail")
FAMILIES = (1, 2, 10, 16)
"""The families of sockets there are inside: Unix, IPv4, IPv6, netlink."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The numbers of one set of system calls: `audit` names the set, `socket` is looked into, `refused` are not there.

    `mask` takes off what marks a variant of the set.
    """

    audit: int
    socket: int
    refused: tuple[int, ...]
    mask: int = 0xFFFFFFFF


# io_uring_setup has one number everywhere; the others are add_key, request_key, keyctl, bpf, perf_event_open and
# userfaultfd. On i386, socketcall (102) hides the family behind a pointer.
IO_URING = 425
SETS = {
    "x86_64": (
        Calls(0xC000003E, 41, (IO_URING, 248, 249, 250, 321, 298, 323), 0xBFFFFFFF),
        Calls(0x40000003, 359, (IO_URING, 286, 287, 288, 357, 336, 374, 102)),
    ),
    "aarch64": (
        Calls(0xC00000B7, 198, (IO_URING, 217, 218, 219, 280, 241, 282)),
        Calls(0x40000028, 281, (IO_URING, 309, 310, 311, 386, 364, 388)),
    ),
}
"""What a kernel of a machine takes, its own calls first and then those of its 32-bit programs."""

LOAD, MASK, EQUAL, END = 0x20, 0x54, 0x15, 0x06
NUMBER, AUDIT, FIRST = 0, 4, 16
"""Where the number, the set and the low half of the first argument lie."""
ALLOW, FAIL = 0x7FFF0000, 0x00050000


def program(machine: str) -> bytes:
    """The filter for a machine, as the kernel reads it; empty for one whose numbers are not known here. Pure."""
    sets = SETS.get(machine, ())
    if not sets:
        return b""
    blocks = [_block(calls) for calls in sets]
    lines = [_line(LOAD, AUDIT)]
    for calls, block in zip(sets, blocks, strict=True):
        lines += [_line(EQUAL, calls.audit, 0, len(block)), *block]
    return b"".join([*lines, _line(END, FAIL | ENOSYS)])


def encoded(machine: str) -> str:
    """The same as text, for a command line."""
    return base64.b64encode(program(machine)).decode()


def encoded_here() -> str:
    """The filter for this machine; empty where its kernel takes none: there the namespaces are all there is."""
    return encoded(os.uname().machine) if KERNEL_TAKES_FILTERS.exists() else ""


def _block(calls: Calls) -> list[bytes]:
    """Judge a call of this set; never falls out at its end."""
    family = [_line(LOAD, FIRST), *_one_of(FAMILIES, ALLOW), _line(END, FAIL | EAFNOSUPPORT)]
    lines = [_line(LOAD, NUMBER), _line(MASK, calls.mask), _line(EQUAL, calls.socket, 0, len(family)), *family]
    return [*lines, *_one_of(calls.refused, FAIL | ENOSYS), _line(END, ALLOW)]


def _one_of(values: Iterable[int], verdict: int) -> list[bytes]:
    """End with a verdict where what was loaded is one of the values."""
    return [line for value in values for line in (_line(EQUAL, value, 0, 1), _line(END, verdict))]


def _line(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """One instruction: its code, how many to skip where it holds and where it does not, and its value."""
    return struct.pack("=HBBI", code, then, otherwise, value)
