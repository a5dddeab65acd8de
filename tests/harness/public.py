"""A stand-in for the public network: a namespace of this machine with a public address that it routes to."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Public:
    """`host` is a public address of this machine, `address` one of the namespace beside it."""

    namespace: str
    host: str
    address: str

    @property
    def within(self) -> Sequence[str]:
        """What a command line begins with that runs in the namespace."""
        return ("ip", "netns", "exec", self.namespace)


def ip(*words: str) -> None:
    """Change this machine's addresses."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextlib.contextmanager
def public_network(host: str, address: str) -> Iterator[Public]:
    """Make one of two neighbouring addresses that belong to nobody the test could meet, and take it away."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("a network namespace needs root and ip")
    name = f"art{uuid.uuid4().hex[:6]}"
    try:
        ip("netns", "add", name)
        ip("link", "add", f"{name}h", "type", "veth", "peer", "name", f"{name}n", "netns", name)
        ip("addr", "add", f"{host}/30", "dev", f"{name}h")
        ip("link", "set", f"{name}h", "up")
        ip("-n", name, "addr", "add", f"{address}/30", "dev", f"{name}n")
        ip("-n", name, "link", "set", f"{name}n", "up")
        ip("-n", name, "link", "set", "lo", "up")
        ip("-n", name, "route", "add", "default", "via", host)
    except subprocess.CalledProcessError as error:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        pytest.skip(f"no network namespace can be made here: {error.stderr!r}")
    try:
        yield Public(name, host, address)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
