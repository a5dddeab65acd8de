"""System calls that would reach past a sandbox's namespaces are not there inside."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from core import SandboxUnavailable, Workspace
from impl.sandboxes import calls
from impl.sandboxes.bubblewrap import BubblewrapSandbox

EAFNOSUPPORT, ENOSYS = 97, 38


async def said(workspace: Workspace, code: str) -> object:
    """What a Python program prints inside, as JSON."""
    (workspace.path / "said.py").write_text(f"import ctypes, json, os, socket\n{code}\n")
    result = await workspace.run("python3 said.py")
    if result.exit_code == -11 or "Segmentation fault" in result.output:
        pytest.skip("this kernel runs no 32-bit programs")
    return json.loads(result.output)


FAMILIES = """
found = []
for family in range(46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
        try:
            socket.socket(family, kind).close()
        except OSError as error:
            if error.errno == 97:
                continue
        found.append(family)
        break
print(json.dumps(found))
"""


async def test_there_are_sockets_of_four_families_and_none_to_the_hypervisor(isolated: Workspace) -> None:
    assert set(await said(isolated, FAMILIES)) <= set(calls.FAMILIES)  # type: ignore[call-overload]
    assert {1, 2} <= set(await said(isolated, FAMILIES))  # type: ignore[call-overload]


CALL = """
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps([[libc.syscall(number, 0, 0, 0, 0), ctypes.get_errno()] for number in {numbers}]))
"""


async def test_requests_that_the_kernel_carries_out_by_itself_and_keys_are_not_there(isolated: Workspace) -> None:
    sets = calls.SETS.get(os.uname().machine)
    if sets is None:
        pytest.skip(f"the numbers of {os.uname().machine} are not known")
    numbers = list(sets[0].refused)
    assert await said(isolated, CALL.format(numbers=numbers)) == [[-1, ENOSYS]] * len(numbers)


THIRTY_TWO = """
import mmap
def call(number, first, second):
    code = b"\\x53\\xb8" + number.to_bytes(4, "little") + b"\\xbb" + first.to_bytes(4, "little")
    code += b"\\xb9" + second.to_bytes(4, "little") + b"\\x31\\xd2\\xcd\\x80\\x5b\\xc3"
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
libc = ctypes.CDLL(None, use_errno=True)
print(json.dumps([call(359, 40, 1), call(102, 1, 0), call(425, 1, 0), call(359, 1, 1) > 0, call(20, 0, 0) > 0]))
"""
"""Calls of a 32-bit program, by the instruction it makes them with: socket, socketcall, io_uring_setup, getpid."""


async def test_calls_of_32_bit_programs_are_held_to_the_same(isolated: Workspace) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the test speaks x86")
    assert await said(isolated, THIRTY_TWO) == [-EAFNOSUPPORT, -ENOSYS, -ENOSYS, True, True]


async def test_calls_with_the_mark_of_the_third_set_are_held_to_the_same(isolated: Workspace) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("only x86 has a third set")
    libc = "libc = ctypes.CDLL(None, use_errno=True)\n"
    code = f"{libc}print(json.dumps([libc.syscall((1 << 30) | 41, 40, 1, 0), ctypes.get_errno()]))"
    assert await said(isolated, code) in ([-1, EAFNOSUPPORT], [-1, ENOSYS])


async def test_a_sandbox_whose_filter_cannot_be_set_is_unavailable(tmp_path: Path) -> None:
    sandbox = BubblewrapSandbox()
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"bubblewrap does not work here: {problem}")
    assert sandbox._layout is not None
    sandbox._layout = replace(sandbox._layout, refused="AAAAAAAAAAA=")
    workspace = await sandbox.open(tmp_path / "work")
    with pytest.raises(SandboxUnavailable, match="the filter of system calls cannot be set"):
        await workspace.run("true")


def test_a_machine_whose_numbers_are_not_known_gets_no_filter() -> None:
    assert calls.program("riscv64") == b""
    assert calls.encoded("riscv64") == ""


def test_a_kernel_that_takes_no_filter_is_given_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(calls, "KERNEL_TAKES_FILTERS", tmp_path / "absent")
    assert calls.encoded_here() == ""


@pytest.mark.parametrize("machine", calls.SETS)
def test_no_jump_leads_out_of_the_program(machine: str) -> None:
    program = calls.program(machine)
    lines = [program[at : at + 8] for at in range(0, len(program), 8)]
    assert all(number + 1 + max(line[2], line[3]) < len(lines) for number, line in enumerate(lines[:-1]))
    assert lines[-1][0] == calls.END
