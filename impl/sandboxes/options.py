"""What a person can set about sandboxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from impl.sandboxes.workspace import Lifetime

LOCAL = "local"
"""The image that needs no registry: this machine's own /usr, read-only, on an empty image."""
PUBLIC = "docker.io/library/python:3.12-bookworm"
"""The image where none is set: Python with pip, git, curl and compilers."""
TTL_S = 4 * 3600
IDLE_S = 600.0
QUOTA_MB = 10_000


def unheard(line: str) -> None:
    """Nobody waits for it."""


@dataclass(frozen=True, slots=True)
class Options:
    """`home` is ARTIFICER_HOME, by which a later start knows what is ours; `image` the Docker image, `local` or None
    for the public one; `allow_cidrs` what may be reached though it is not public; `ca_bundle` a PEM file that programs
    inside trust; `ttl_s` and `idle_s` see `Lifetime`; `quota` is in bytes, 0 for none; `tell` hears, line
    by line, of what takes long (a pull), beside whoever runs the command that waits for it."""

    home: Path | None = None
    image: str | None = None
    allow_cidrs: tuple[str, ...] = ()
    ca_bundle: Path | None = None
    ttl_s: float = float(TTL_S)
    idle_s: float = IDLE_S
    quota: int = QUOTA_MB * 1_000_000
    tell: Callable[[str], None] = unheard

    @property
    def lifetime(self) -> Lifetime:
        """What workspaces are told of it."""
        return Lifetime(self.ttl_s or None, self.idle_s or None, self.quota or None)


CA_INSIDE = "/run/artificer/ca.pem"
CA_VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
)


def ca_environment(options: Options) -> dict[str, str]:
    """The variables by which programs find the set bundle; none where none is set."""
    return dict.fromkeys(CA_VARIABLES, CA_INSIDE) if options.ca_bundle is not None else {}
