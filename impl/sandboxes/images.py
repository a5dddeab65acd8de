"""Images of the Docker sandbox: the one that needs no registry, and pulling any other with its progress shown."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from core import SandboxUnavailable
from impl.sandboxes import daemon
from impl.sandboxes.bubblewrap import FILES, UID, Layout

if TYPE_CHECKING:
    from docker import APIClient

REPOSITORY = "artificer-local"
PULL_S = 1800.0
ASK_S = 2.0
SHOW_S = 1.0
NEXT = (
    "Try again, take another kind (`--sandbox bubblewrap`), or use this machine's own programs, which need no "
    "registry: `export ARTIFICER_SANDBOX_IMAGE=local`."
)
"""What a person may do where a pull has failed."""
HOSTS_OWN = ("/etc/hosts", "/etc/resolv.conf")
"""What Docker makes itself."""


def local_archive(layout: Layout, uid: int, gid: int) -> bytes:
    """The tar of the local image: the host's top-level symlinks and a passwd for `uid`; the same bytes each time."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for target, path in layout.links:
            link = tarfile.TarInfo(path.lstrip("/"))
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, target, 0o777
            tar.addfile(link)
        for path, text in FILES.items():
            if path not in HOSTS_OWN:
                body = text.replace(f":{UID}:{UID}:", f":{uid}:{gid}:").replace(f":{UID}:", f":{gid}:").encode()
                file = tarfile.TarInfo(path.lstrip("/"))
                file.size, file.mode = len(body), 0o644
                tar.addfile(file, io.BytesIO(body))
    return buffer.getvalue()


def ensure_local(client: APIClient, layout: Layout) -> str:
    """The local image's name, made on the daemon where it is not there yet."""
    archive = local_archive(layout, os.getuid(), os.getgid())
    tag = hashlib.sha256(archive).hexdigest()[:16]
    if not has(client, f"{REPOSITORY}:{tag}"):
        client.import_image_from_data(archive, repository=REPOSITORY, tag=tag)
    return f"{REPOSITORY}:{tag}"


def has(client: APIClient, image: str) -> bool:
    """Whether the daemon has an image."""
    from docker.errors import ImageNotFound

    try:
        client.inspect_image(image)  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return False
    return True


def identity(client: APIClient, image: str) -> str:
    """The id of an image that is here: its content's, whatever its name points at tomorrow."""
    return str(client.inspect_image(image)["Id"])  # type: ignore[no-untyped-call]


async def problem_with(socket: Path, image: str) -> str | None:
    """None where `image` is on the daemon or its registry says that it can be pulled; ASK_S at most for that. Raises
    TimeoutError where the daemon itself does not answer."""
    import asyncio

    async with asyncio.timeout(daemon.ANSWER_S):
        status, _ = await daemon.get(socket, f"/images/{quote(image)}/json")
    if status == 200:
        return None
    why = "its registry did not answer in time"
    try:
        async with asyncio.timeout(ASK_S):
            status, body = await daemon.get(socket, f"/distribution/{quote(image)}/json")
        if status == 200:
            return None
        why = str(body.get("message", status)) if isinstance(body, dict) else str(status)
    except TimeoutError:
        pass
    return (
        f"the image {image} is not here and cannot be pulled ({why}). Name another in the setting sandbox_image; this "
        "machine's own programs need no registry: `export ARTIFICER_SANDBOX_IMAGE=local`."
    )


def pull(client: APIClient, image: str, show: Callable[[str], None]) -> None:
    """Pull `image`, showing a line a second. Raises SandboxUnavailable where the daemon reports an error or ends it."""
    repository, _, tag = image.partition("@") if "@" in image else image.rpartition(":")
    if not repository or "/" in tag:
        repository, tag = image, "latest"
    show(f"[Pulling the sandbox's image {image}, once]\n")
    layers: dict[str, tuple[int, int]] = {}
    shown = time.monotonic()
    for step in client.pull(repository, tag=tag, stream=True, decode=True):
        if "error" in step:
            raise SandboxUnavailable(str(step["error"]))
        note_layer(layers, step)
        if time.monotonic() - shown >= SHOW_S:
            shown = time.monotonic()
            show(progress(layers))
    if not has(client, image):
        raise SandboxUnavailable("the daemon broke off")
    show(f"[The image {image} is here]\n")


def note_layer(layers: dict[str, tuple[int, int]], step: Mapping[str, Any]) -> None:
    """Take what one line of a pull says of one layer: (bytes here, bytes in all)."""
    name, detail = step.get("id"), step.get("progressDetail") or {}
    if not name:
        return
    if step.get("status") == "Downloading":
        layers[name] = (int(detail.get("current") or 0), int(detail.get("total") or 0))
    elif name in layers and step.get("status") in ("Download complete", "Pull complete"):
        layers[name] = (layers[name][1], layers[name][1])


def progress(layers: Mapping[str, tuple[int, int]]) -> str:
    """A line that says how far a pull is."""
    here, whole = (sum(values) / 1e6 for values in _columns(layers.values()))
    return f"[{here:.0f} of {whole:.0f} MB]\n"


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    pairs = list(pairs)
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
