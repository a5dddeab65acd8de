"""The ports: what the domain needs of the world, one module each, and `Host`, which holds one of each."""

from core.ports.engine import Engine, EngineError
from core.ports.host import Host, no_environment
from core.ports.sandbox import CommandResult, Sandbox, Sandboxes, SandboxUnavailable, Workspace
from core.ports.secrets import PASSPHRASE, SecretRow, Secrets, SecretsError, SecretsStatus
from core.ports.store import ChannelEntry, Revision, SearchHit, SessionInfo, Store, StoreError, TreeEntry, ValidationRun
from core.ports.transport import Transport

__all__ = [
    "PASSPHRASE",
    "ChannelEntry",
    "CommandResult",
    "Engine",
    "EngineError",
    "Host",
    "Revision",
    "Sandbox",
    "SandboxUnavailable",
    "Sandboxes",
    "SearchHit",
    "SecretRow",
    "Secrets",
    "SecretsError",
    "SecretsStatus",
    "SessionInfo",
    "Store",
    "StoreError",
    "Transport",
    "TreeEntry",
    "ValidationRun",
    "Workspace",
    "no_environment",
]
