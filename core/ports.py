"""The ports: what the domain needs of the world, and `Host`, which holds one of each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeVar

from core.events import Event

if TYPE_CHECKING:
    from core.agent_cli.tools import ToolDoor
    from core.driver import Driver
    from core.effects.requests import Transport
    from core.lab.runner import Runner
    from core.provider import Provider

# --- sandbox -------------------------------------------------------------------------------------------


class SandboxUnavailable(Exception):
    """The sandbox cannot run anything (typed `sandbox_unavailable`); the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One finished command. `output` is stdout and stderr as they came, head and tail kept where
    `truncated`; `exit_code` is None where it was killed at its deadline (`timed_out`) or by a signal
    (then -signal). `duration_s` in seconds; `size` is the bytes it printed in all."""

    exit_code: int | None
    output: str
    duration_s: float
    timed_out: bool = False
    truncated: bool = False
    size: int = 0


class Workspace(Protocol):
    """The persistent `/work` of one session and the process kept in its sandbox."""

    kind: str
    path: Path
    unsafe: bool

    async def run(
        self,
        command: str,
        *,
        timeout: float = 120.0,
        on_output: Callable[[str], None] | None = None,
        cap: int = 1_000_000,
    ) -> CommandResult:
        """Run `command` with `sh -c` in `/work`, stdin at EOF. Cancelling kills its whole process tree.

        Raises SandboxUnavailable where nothing can run.
        """

    async def close(self) -> None:
        """End the process; the directory stays."""


class Sandbox(Protocol):
    """A kind of sandbox."""

    name: str
    unsafe: bool

    async def probe(self) -> str | None:
        """None where it works here, else the reason in words. Bounded to 500 ms, cached."""

    async def no_network(self) -> str | None:
        """Why workspaces that ask for the network get none here, in words; None where they get the filtered one.

        For a kind that has been probed. Takes seconds at most, once.
        """

    async def base(self) -> str:
        """What programs inside stand on (processor, C library, Python, image), in words that are the same for the same.

        For a kind that has been probed. Raises SandboxUnavailable.
        """

    async def open(self, path: Path, *, network: bool = False, shown: Mapping[str, Path] | None = None) -> Workspace:
        """A workspace on the host directory `path`, made where absent: with no network, or with the filtered one
        (public addresses and what the settings allow) where `network` and it can be had. Raises SandboxUnavailable.

        `shown` are directories and files of the host, by the absolute path at which they stand inside, read-only;
        a kind that isolates nothing leaves them where they are.
        """


class Sandboxes(Protocol):
    """The kinds of sandbox there are here."""

    async def choose(self, requested: str | None) -> tuple[Sandbox, str]:
        """The one asked for, or the best that works here, and why in words. Raises SandboxUnavailable."""


# --- store ---------------------------------------------------------------------------------------------


class StoreError(Exception):
    """The store cannot do it; `hint` is the next step. `code` is `disk_full`, `read_only`, `busy`,
    `newer_version`, `damaged`, `not_found`."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session's columns. `status` is `running`, `stopped` or `interrupted` (its owner died before a
    stop), computed at read. `usd` is a decimal string, None while unknown; times are ISO 8601 with Z."""

    id: str
    kind: str
    agent: str | None = None
    digest: str | None = None
    channel: str | None = None
    parent: str | None = None
    depth: int = 0
    status: str = "stopped"
    stop: str | None = None
    started: str = ""
    ended: str | None = None
    summary: str = ""
    provider: str = "offline"
    model: str | None = None
    sandbox: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    usd: str | None = None
    last_seq: int = 0
    title: str = ""


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a bundle: NFC POSIX `path`, hex `sha256`, `size` in bytes, `x` whether executable."""

    path: str
    sha256: str
    size: int
    x: bool

    def to_json(self) -> dict[str, Any]:
        """The row the digest is made of."""
        return {"path": self.path, "sha256": self.sha256, "size": self.size, "x": self.x}


@dataclass(frozen=True, slots=True)
class Revision:
    """A stored bundle tree and what stands beside it. `by` is `builder`, `person`, `author` or `import`.
    `source` is `{"url"|"path", "commit", "kind"}` or None; `licence` is `{"spdx","status","path"}` or None."""

    agent: str
    digest: str
    parents: tuple[str, ...]
    at: str
    by: str
    message: str
    files: tuple[TreeEntry, ...] = ()
    source: Mapping[str, Any] | None = None
    licence: Mapping[str, Any] | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class ValidationRun:
    """One execution of the gate. `problems` are `{"code","path","message","hint"}`; `checks` are
    `{"name","passed","duration_s","log"}`; `environment` says sandbox, Python, platform, unsafe."""

    id: str
    agent: str
    digest: str
    at: str
    passed: bool
    checks_version: str
    environment: Mapping[str, Any]
    checks: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ChannelEntry:
    """One line of a channel's history. `refused` is the reason where the publication did not happen."""

    agent: str
    channel: str
    digest: str
    validation_run: str | None
    at: str
    by: str
    refused: str | None = None
    action: str = "publish"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A place in a session where the searched text stands."""

    session: str
    seq: int
    at: str
    kind: str
    snippet: str


class Store(Protocol):
    """Durable state. Every method is synchronous, short and safe among several processes."""

    # sessions and events
    def create_session(self, info: SessionInfo, events: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Event]:
        """Add a session owned by this process, with its first events, in one transaction."""

    def append(
        self,
        session: str,
        events: Sequence[tuple[str, Mapping[str, Any]]],
        columns: Mapping[str, Any] | None = None,
    ) -> list[Event]:
        """Append (kind, data) pairs in one transaction, setting the session's columns with them.
        A `message` of the assistant's clears the draft in the same transaction. Once it returns, they
        survive kill -9."""

    def append_all(
        self, batches: Sequence[tuple[str, Sequence[tuple[str, Mapping[str, Any]]], Mapping[str, Any] | None]]
    ) -> list[list[Event]]:
        """Several appends (session, events, columns), in their order and in one transaction: all or none."""

    def events(
        self, session: str, *, after: int = 0, limit: int | None = None, kinds: Iterable[str] | None = None
    ) -> Iterator[Event]:
        """Events with seq > after, oldest first; bodies decoded lazily."""

    def tail(self, session: str, count: int) -> list[Event]:
        """The last `count` events, oldest first."""

    def session(self, session: str) -> SessionInfo | None:
        """One session by its whole id."""

    def sessions(
        self, *, limit: int | None = None, kinds: Iterable[str] | None = None, parent: str | None = None
    ) -> list[SessionInfo]:
        """All (or the newest `limit`), oldest first; of some kinds, or of one parent, where that is said."""

    def match_session(self, prefix: str) -> list[str]:
        """Ids that begin with `prefix`."""

    def set_draft(self, session: str, message: str, text: str, thinking: str = "") -> None:
        """Keep the text streamed so far of message id `message`; replaces the one before."""

    def draft(self, session: str) -> tuple[str, str, str] | None:
        """(message id, text, thinking) of an unfinished message, or None."""

    def clear_draft(self, session: str) -> None:
        """Forget the draft."""

    def claim(self, session: str) -> bool:
        """Make this process the owner, if nobody alive is. False where another process drives it."""

    def release(self, session: str) -> None:
        """Give ownership up."""

    def owner_socket(self, session: str) -> Path | None:
        """The Unix socket of the living process that drives it, or None."""

    def own_socket(self) -> Path:
        """Where this process listens for interrupt and answer of sessions it owns."""

    def data_version(self) -> int:
        """Changes whenever any process (this one included) has written."""

    def search(self, text: str, limit: int = 50) -> list[SearchHit]:
        """Where the words stand in messages, tool outputs and stops; newest first."""

    # blobs
    def put_blob(self, data: bytes) -> str:
        """Store bytes once; returns their hex SHA-256. Durable before it returns."""

    def blob(self, sha256: str) -> bytes:
        """Bytes by hash. Raises StoreError `not_found` or `damaged`."""

    # bundles
    def agents(self) -> list[str]:
        """Names of agents with a revision, sorted."""

    def add_revision(self, revision: Revision) -> bool:
        """Record it; the blobs of its files must be there. False where (agent, digest) already was."""

    def revision(self, agent: str, digest: str) -> Revision | None:
        """One revision with its files."""

    def revisions(self, agent: str) -> list[Revision]:
        """All revisions of an agent, oldest first, with their files."""

    def latest(self, agent: str) -> str | None:
        """The digest saved last (saving an existing tree again makes it the latest)."""

    def add_validation(self, run: ValidationRun) -> None:
        """Record a run."""

    def validations(self, agent: str, digest: str | None = None) -> list[ValidationRun]:
        """Runs, oldest first."""

    def channels(self, agent: str) -> dict[str, str]:
        """Channel name to the digest it names now."""

    def channel_log(self, agent: str) -> list[ChannelEntry]:
        """The history of all the agent's channels, oldest first, refused entries included."""

    def move_channel(self, entry: ChannelEntry, expected: str | None) -> ChannelEntry:
        """Append `entry` if the channel's head is `expected` (None: no head yet); else append it with
        `refused="stale_head"`. One transaction; returns the entry as recorded."""

    # small durable values (grants, window state)
    def get_value(self, key: str) -> Any:
        """A JSON value, or None."""

    def set_value(self, key: str, value: Any) -> None:
        """Set a JSON value; None deletes."""

    def close(self) -> None:
        """Close it; releases what this process owns."""


# --- secrets, transport, engine: the rest --------------------------------------------------------------


class SecretsError(Exception):
    """A value cannot be kept or taken; no field ever holds one. `hint` is the next step.

    `code` is `too_short`, `too_long`, `not_a_line` or `not_declared` (the caller's turn); `passphrase_needed` or
    `wrong_passphrase` (the person's); `keyring` (the system keyring is locked, gone or failed); `damaged` or
    `unwritable` (the encrypted file).
    """

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class SecretRow:
    """What is known of a stored value, without the value. `where` is `keyring` or `file`; `at` is ISO 8601 with Z."""

    agent: str
    name: str
    binding: str
    hosts: tuple[str, ...]
    injection: str
    at: str
    where: str


@dataclass(frozen=True, slots=True)
class SecretsStatus:
    """Where values would be kept here and now, in words: `refused` where none can be kept or taken; `fix` is the one
    command that mends it, or makes it do without a person, empty where there is nothing to mend."""

    where: Literal["keyring", "file", "refused"]
    message: str
    fix: str = ""


PASSPHRASE: Final = "ARTIFICER_PASSPHRASE"
"""The variable that holds the passphrase of the encrypted file; no program that is started gets to see it."""


class Secrets(Protocol):
    """Where credential values are kept: usable, never shown again. Values go in; only the effect host takes them
    out. A value belongs to exactly (agent, name, binding); see `core.effects.credentials.binding_id`.

    `has` and `list` are quick and ask nobody. `put`, `take` and `unlock` may wait for the system keyring, which
    may wait for a person: call them in a thread. All but `list` and `has` raise SecretsError.
    """

    def has(self, agent: str, name: str, binding: str) -> bool:
        """Whether a value is stored for exactly this agent, name and binding."""

    def put(
        self, agent: str, name: str, binding: str, value: str, *, hosts: Sequence[str] = (), injection: str = ""
    ) -> None:
        """Keep a value, in place of one with the same binding. `hosts` and `injection` are shown by `list`."""

    def take(self, agent: str, name: str, binding: str) -> str | None:
        """The value itself, None where there is none. For the effect host alone, outside every sandbox: what it
        returns goes into one request and into the redactor, and nowhere else."""

    def remove(self, agent: str, name: str) -> bool:
        """Forget the values of this name, whatever they are bound to. False where there were none."""

    def list(self) -> Sequence[SecretRow]:
        """What is stored, by agent and name."""

    def passphrase(self, agent: str | None = None) -> Literal["none", "needed", "new"]:
        """What `put` of any value (or, with `agent`, `take` of that agent's) would want first: nothing, the
        passphrase of the encrypted file, or a new one that a new file is encrypted with."""

    def unlock(self, passphrase: str) -> None:
        """Take the passphrase of the encrypted file, or the one to make it with."""

    def status(self) -> SecretsStatus:
        """Where values are kept here. Asks nobody, takes seconds at most, and raises nothing but StoreError."""


C = TypeVar("C")
R = TypeVar("R")


class EngineError(Exception):
    """Cells cannot run where they were to; `hint` is the next step. `code` is `not_installed`, `bad_address`,
    `unreachable`, `no_workers`, `unfit` (a worker without Artificer, or with another one) or `gone`."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


class Engine(Protocol):
    """Where the cells of an experiment or evaluation run."""

    def opened(self, host: Host, here: Runner) -> AbstractAsyncContextManager[Runner]:
        """What runs a cell's job there, for as long as the context lasts: `here`, or one that has other machines do
        what `here` would. Either way the job's session is in `host`'s store, and this process alone writes there.
        Raises EngineError."""

    def run(self, cells: Iterable[C], work: Callable[[C], Awaitable[R]]) -> AsyncGenerator[tuple[C, R], None]:
        """Do `work` for every cell, several at once; each comes with its result when it has one. Closing it cancels
        what runs, and waits until that is settled; so does `work` that raises, which is raised here."""


def no_environment(driver: Driver, suite: Mapping[str, Any]) -> Driver:
    """Stands for a host without suites. Raises LookupError."""
    raise LookupError("This host has no suites.")


@dataclass(slots=True)
class Host:
    """One of each port, plus the clock and ids: what the composition root hands to the domain.

    `checks(host, sandbox)` are the checks of the gate that run parts of a bundle in that sandbox. `doors` are the
    tools of sessions whose provider drives itself, by session; `offer` makes them reachable for other processes and
    gives the command, and its environment, that brings a session's to an MCP client. `environment` puts an agent into
    the environment of a suite (`{"path", "digest"}`).
    """

    home: Path
    store: Store
    sandboxes: Sandboxes
    provider: Callable[[str], Provider]
    driver: Callable[[Host, SessionInfo], Driver]
    settings: Any
    now: Callable[[], str]
    new_id: Callable[[], str]
    secrets: Secrets | None = None
    transport: Transport | None = None
    checks: Callable[[Host, str | None], Sequence[Callable[[Path], Any]]] = lambda host, sandbox: ()
    doors: dict[str, ToolDoor] = field(default_factory=dict)
    offer: Callable[[Host, str], Awaitable[tuple[Sequence[str], Mapping[str, str]]]] | None = None
    environment: Callable[[Driver, Mapping[str, Any]], Driver] = no_environment

    def workspace_path(self, session: str) -> Path:
        """The host directory of a session's `/work`."""
        return self.home / "workspaces" / session / "work"
