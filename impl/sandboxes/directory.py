"""The host directory of a workspace: made, looked at, and what is wrong with it in words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from core import SandboxUnavailable


def check_directory(path: Path) -> tuple[int, int]:
    """(device, inode) of a workspace's directory. Raises SandboxUnavailable where it is gone or its disk is full."""
    try:
        status = path.stat()
        disk = os.statvfs(path)
    except OSError as error:
        raise SandboxUnavailable(
            f"The workspace {path} is gone ({error.strerror}): restore it or start a new session."
        ) from None
    free = disk.f_bfree if os.geteuid() == 0 else disk.f_bavail
    if (disk.f_blocks and not free) or (disk.f_files and not disk.f_ffree):
        raise SandboxUnavailable(f"No space is left on the disk of the workspace {path}: free some.")
    return status.st_dev, status.st_ino


def cannot_write(path: Path, problem: int) -> str:
    """What a failed write with errno `problem` means for the workspace, and what to do."""
    if problem in (errno.EACCES, errno.EPERM):
        return (
            f"The workspace {path} belongs to uid {path.stat().st_uid} and may not be written by uid {os.geteuid()} "
            "in the sandbox: give it to the user who runs Artificer."
        )
    if problem in (errno.ENOSPC, errno.EDQUOT):
        return f"No space is left on the disk of the workspace {path}: free some."
    return f"The workspace {path} cannot be written: {os.strerror(problem)}."


def make_directory(path: Path) -> Path:
    """The workspace's directory, absolute, made where absent. Raises SandboxUnavailable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        return path.resolve(strict=True)
    except OSError as error:
        raise SandboxUnavailable(f"The workspace {path} cannot be made: {error.strerror}.") from None
