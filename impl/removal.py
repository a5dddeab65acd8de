"""Removes directories that agents have filled, however deep they nest them and whatever they close in them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove a directory and all below it, as far as that can be done; links are not followed."""
    with contextlib.suppress(RecursionError):  # a level of Python's for each of theirs
        shutil.rmtree(path, ignore_errors=True)
    if not os.path.lexists(path):
        return
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def bytes_below(path: Path) -> int:
    """How many bytes the files below a directory hold, as far as they can be seen; links are not followed."""
    total, left = 0, [os.fspath(path)]
    while left:
        with contextlib.suppress(OSError), os.scandir(left.pop()) as entries:  # closed, or its path is too long by now
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
    return total
