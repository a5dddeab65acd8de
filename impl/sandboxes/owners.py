"""Whose a thing is that outlives a process: a mark of the process, and whether that process still lives."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Literal

Fate = Literal["alive", "dead", "unknown"]


def own_mark() -> str:
    """This process's mark: its pid, when it started, the machine's boot and the PID namespace, joined by colons."""
    return ":".join((str(os.getpid()), _started(os.getpid()), *_place()))


def fate(mark: str) -> Fate:
    """What became of the process of a mark; `unknown` where it cannot be seen from here."""
    words = mark.split(":")
    if len(words) != 4 or not words[0].isdigit():
        return "unknown"
    pid, started, boot, namespace = words
    here = _place()
    if boot != here[0]:
        return "dead" if boot and here[0] else "unknown"  # the machine has started again since
    if namespace != here[1]:
        return "unknown"
    return "alive" if _started(int(pid)) == started else "dead"


def _place() -> tuple[str, str]:
    """(the machine's boot, the PID namespace); empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    try:
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        namespace = ""
    return boot, namespace


def _started(pid: int) -> str:
    """When a process started, in the system's words without colons; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    if Path("/proc/self").exists():
        return ""
    try:
        done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip().replace(":", "-")
