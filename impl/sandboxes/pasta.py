"""The filtered network of a bubblewrap sandbox: a namespace that `pasta` connects and `nft` closes before bwrap starts.

The process that loads the rules becomes bwrap, so nothing of the user's runs before them, and the capabilities that
could change them end with it. Where pasta, nft or the device is missing there is no network, never an unfiltered one.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from impl.sandboxes.network import Filter, filter_here, resolvers, rules

TUN = "/dev/net/tun"
TRIAL_S = 3.0
CHANNEL = 7
"""The descriptor of the channel inside."""
FIRST_FILE = 10
"""The first of the descriptors with files' contents. Several shells cannot write numbers of two digits, hence bash."""
FORWARDED = "192.0.0.53"
"""Stands for the host's resolver where that listens on loopback only: pasta forwards what is sent to it."""
DELIMITER = "END-OF-FILE-OF-THE-SANDBOX"


@dataclass(frozen=True, slots=True)
class Pasta:
    """What the filtered network needs, found on this host; `become` prefixes the command line where root runs it."""

    pasta: str
    nft: str
    bash: str
    become: tuple[str, ...]


def find() -> Pasta | str:
    """The programs, or what is missing and how to get it."""
    nft_path = os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin:/sbin"
    programs = {"pasta": ("passt", None), "nft": ("nftables", nft_path), "bash": ("bash", None)}
    found: dict[str, str] = {}
    for program, (package, path) in programs.items():
        where = shutil.which(program, path=path)
        if where is None:
            return f"{program} is not installed: `apt install {package}` (or your system's package of that name)."
        found[program] = where
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} may not be opened: `modprobe tun; chmod 666 {TUN}` as root allows it."
    become: tuple[str, ...] = ()
    if os.geteuid() == 0:
        # pasta gives root up for `nobody`, who could not write the workspace. In a namespace where root is called
        # 1000 it stays who it is.
        unshare = shutil.which("unshare")
        if unshare is None:
            return "unshare is not installed: `apt install util-linux`."
        become = (unshare, "--user", "--map-user=1000", "--map-group=1000")
    return Pasta(found["pasta"], found["nft"], found["bash"], become)


def reach(allowed: Sequence[str]) -> tuple[Filter, bool]:
    """The filter for a sandbox that starts now, and whether its resolver is the one pasta forwards."""
    servers = resolvers()
    return filter_here(allowed, servers or (FORWARDED,)), not servers


def command(found: Pasta, reach: Filter, forward: bool, inner: Sequence[str], contents: Sequence[str]) -> list[str]:
    """The command line that ends as `inner` within the filtered network; pure.

    Its standard input is the channel, which `inner` finds on descriptor CHANNEL; `contents` become the files on
    FIRST_FILE and those after it.
    """
    script = ["set -e", f"exec {CHANNEL}<&0 0</dev/null", _here(f"{shlex.quote(found.nft)} -f - ", rules(reach))]
    script += [_here(f"exec {FIRST_FILE + n}", text) for n, text in enumerate(contents)]
    script.append(f"exec {shlex.join(inner)}")
    return [*_pasta(found, forward), "--", found.bash, "-c", "\n".join(script)]


def _pasta(found: Pasta, forward: bool) -> list[str]:
    line = [*found.become, found.pasta, "--foreground", "--quiet", "--config-net", "--no-map-gw"]
    for option in ("-t", "-u", "-T", "-U"):
        line += [option, "none"]
    return [*line, "--dns-forward", FORWARDED] if forward else line


def _here(command: str, text: str) -> str:
    """A shell command that reads `text`, which ends with a newline."""
    return f"{command}<<'{DELIMITER}'\n{text}{DELIMITER}"


async def trial(found: Pasta, inner: Sequence[str]) -> str | None:
    """None where a namespace could be connected and closed, and `inner` succeeded in it; else why not, in TRIAL_S."""
    line = command(found, Filter((), ()), False, inner, ())
    process = await asyncio.create_subprocess_exec(
        *line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={},
    )
    try:
        async with asyncio.timeout(TRIAL_S):
            _, said = await process.communicate()
    except TimeoutError:
        return f"pasta did not connect a network within {TRIAL_S:.0f} s."
    finally:
        if process.returncode is None:
            os.killpg(process.pid, 9)  # it is a session of its own: its child that hangs goes with it
            await process.wait()
    if process.returncode == 0:
        return None
    lines = [line for line in said.decode("utf-8", "replace").splitlines() if "syslog" not in line]
    return f"pasta, nft or bwrap failed: {lines[-1].strip() if lines else f'status {process.returncode}'}."
