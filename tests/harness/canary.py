"""Looking for a secret in everything that is left behind: files, databases, output, the processes of this machine."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote, quote_plus


def forms(secret: str) -> list[bytes]:
    """The secret as it may stand somewhere: raw, percent, JSON, hexadecimal, Base64 at each alignment."""
    data = secret.encode()
    found = {data, quote(secret, safe="").encode(), quote_plus(secret).encode(), json.dumps(secret)[1:-1].encode()}
    found |= {data.hex().encode(), data.hex().upper().encode()}
    for shift in range(3):
        text = base64.b64encode(b"\0" * shift + data)
        whole = text[(4 if shift else 0) : len(text) // 4 * 4 - 4]  # what the neighbours' bits do not touch
        found |= {whole, whole.translate(bytes.maketrans(b"+/", b"-_"))}
    return sorted(found)


def traces(secret: str, data: bytes) -> list[bytes]:
    """The forms of the secret that stand in `data`."""
    return [form for form in forms(secret) if form in data]


def files_with(secret: str, directory: Path) -> list[str]:
    """The files below `directory` that hold the secret, in their bytes or names; links are not followed."""
    found = []
    for path in sorted(directory.rglob("*")):
        if traces(secret, str(path).encode()) or (
            path.is_file() and not path.is_symlink() and traces(secret, path.read_bytes())
        ):
            found.append(str(path))
    return found


def processes_with(secret: str) -> list[str]:
    """The processes of this machine whose environment or command line holds the secret."""
    found = []
    for entry in os.listdir("/proc"):
        for part in ("environ", "cmdline"):
            try:
                data = Path("/proc", entry, part).read_bytes() if entry.isdigit() else b""
            except OSError:
                continue  # it has ended, or is another user's
            if traces(secret, data):
                found.append(f"{entry}/{part}")
    return found
