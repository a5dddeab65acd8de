"""An agent CLI as a provider: public verbs that validate and settle what always holds, private hooks that differ.

A subclass sets the capability attributes and overrides hooks (`_invoke`, `_parser`, …), never a verb. The process,
its lines, its death and its deadlines are the base's (`core.agent_cli.process`); what its events become is the drive's
(`core.agent_cli.drive`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, Literal

from core.agent_cli.events import CliCharge, CliFigures, CliParser, CliTotal, CliTurn, Invocation
from core.agent_cli.process import CliProcess, CliRun, Deadlines, reaped
from core.ports import PASSPHRASE
from core.provider import Provider, ProviderError, ProviderStatus, Usage

LONGEST_ARGUMENT: int = 100_000
"""Bytes a prompt may have as an argument; Linux takes 131,072. A longer one goes in by standard input."""
OUR_SERVER = "artificer"
"""The name under which the CLI knows our MCP server."""
ASK_S: float = 0.75
"""Seconds a CLI may take to answer a short question: a list of all providers is there within two."""

_WITHHELD: Final[Mapping[str, str | None]] = MappingProxyType({PASSPHRASE: None})
"""Of what this process was started with, what no CLI inherits."""


@dataclass(frozen=True, slots=True)
class Route:
    """A way to reach a model. In `env` None means unset; `scrub` matches further inherited variables to unset, but
    for those that `keep` matches."""

    title: str = ""
    env: Mapping[str, str | None] = field(default_factory=dict)
    scrub: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def scrubs(self, name: str) -> bool:
        """Whether it unsets an inherited variable of that name."""
        return _matches(self.scrub, name) and not _matches(self.keep, name)

    def environment(self, ambient: Iterable[str]) -> dict[str, str | None]:
        """What this route sets and unsets of an inherited environment."""
        unset: dict[str, str | None] = {name: None for name in ambient if self.scrubs(name)}
        return {**unset, **self.env}


def _matches(patterns: Iterable[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def merge_environment(*layers: Mapping[str, str | None]) -> dict[str, str]:
    """One environment out of several: later layers win, and None unsets what earlier ones set."""
    merged: dict[str, str | None] = {}
    for layer in layers:
        merged.update(layer)
    return {name: value for name, value in merged.items() if value is not None}


class CliProvider(Provider):
    """An agent CLI that drives itself in a subprocess. One instance serves every session of a process."""

    # --- capabilities ------------------------------------------------------------------------------

    #: The executable's name.
    executable: ClassVar[str]
    #: The command that installs it.
    install: ClassVar[str] = ""
    #: Whether a session can be forked into a new one.
    forks: ClassVar[bool] = False
    #: Who gives a fresh session its id.
    session_ids: ClassVar[Literal["ours", "theirs"]] = "theirs"
    #: What its figures count: this `call`, each `step` (to be summed), or the whole `session` so far (a baseline is
    #: subtracted; a fork inherits its parent's).
    figures: ClassVar[Literal["call", "step", "session"]] = "call"
    #: Whether it names no price, so that tokens are priced by `rates`.
    needs_prices: ClassVar[bool] = False
    #: Whether it takes a budget and stops at it by itself.
    enforces_budget: ClassVar[bool] = False
    #: Whether a line says that the turn has ended: once a `turn`, or `never`, so that only its exit says so.
    result_frame: ClassVar[Literal["turn", "never"]] = "turn"
    #: Whether its own tools are `off`, or cannot be, so that a run is unsafe and needs a yes.
    native_tools: ClassVar[Literal["off", "on"]] = "off"
    #: Whether a line says that a tool is called before the call comes over MCP, so that what was said before it is
    #: stored before it.
    announces_calls: ClassVar[bool] = False
    #: The efforts it takes, least first; empty where it takes none.
    efforts: ClassVar[tuple[str, ...]] = ()
    #: Ways to reach a model by name; the first is the default.
    routes: ClassVar[Mapping[str, Route]] = MappingProxyType({"native": Route()})
    #: How long what may take.
    deadlines: ClassVar[Deadlines] = Deadlines()
    #: Arguments that take the prompt's place where it is read from standard input; None where it cannot be.
    stdin_arguments: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, route: str | None = None) -> None:
        if route is not None and route not in self.routes:
            raise LookupError(f"{self.name} has no route {route!r}. There are: {', '.join(self.routes)}.")
        self.route = route or next(iter(self.routes))
        self.overlay: Mapping[str, str | None] = {}
        """Variables of the person's settings, for every session; None unsets one."""

    @property
    def full_name(self) -> str:
        """`name`, and the route where it is not the default."""
        return self.name if self.route == next(iter(self.routes)) else f"{self.name}:{self.route}"

    # --- verbs -------------------------------------------------------------------------------------

    def invoke(self, turn: CliTurn) -> Invocation:
        """What to start for one turn. Raises ProviderError for what this CLI cannot do or be told."""
        turn = self._checked(turn)
        argv, env = self._invoke(turn)
        prompt, stdin = self._prompt(turn.prompt)
        route = self.routes[self.route].environment(turn.ambient)
        return Invocation((*argv, *prompt), {**route, **env}, turn.cwd, turn.native, stdin)

    def ambient(self) -> dict[str, str]:
        """What this process was started with, and the person's settings over it; never what opens the credentials."""
        return merge_environment(os.environ, _WITHHELD, self.overlay)

    def environment(self, turn: CliTurn, overlay: Mapping[str, str | None], invocation: Invocation) -> dict[str, str]:
        """The child's environment: ambient, then `overlay` (the person's settings), then the provider's own. A route
        unsets what was inherited, not what the person set for this CLI."""
        route = self.routes[self.route]
        meant = {name for name in overlay if name not in route.env and route.scrubs(name)}
        own = {name: value for name, value in invocation.env.items() if value is not None or name not in meant}
        return merge_environment(turn.ambient, _WITHHELD, overlay, own)

    async def spawn(self, invocation: Invocation, env: Mapping[str, str]) -> CliRun:
        """Start it, in a process group of its own. Raises ProviderError `not_installed` or `capability`."""
        invocation.cwd.mkdir(parents=True, exist_ok=True)
        return await self._spawn(replace(invocation, argv=(self.path(env), *invocation.argv[1:])), env)

    def parser(self, turn: CliTurn) -> CliParser:
        """A new reader of one invocation's lines."""
        return self._parser(turn)

    async def ready(self) -> None:
        """Raises ProviderError where `preflight` says that it cannot answer, with the command that mends it. What may
        be an odd version is left to say so itself."""
        status = await self.preflight()
        if status.state not in ("ready", "wrong version"):
            detail = "not_installed" if status.state == "not installed" else "auth"
            hint = f"Mend it: {status.fix}" if status.fix else ""
            raise ProviderError(detail, status.message or f"{self.name}: {status.state}.", hint=hint)

    async def preflight(self) -> ProviderStatus:
        """Whether it is installed and has what its route needs. No network request."""
        env = self.ambient()
        if shutil.which(self.executable, path=env.get("PATH")) is None:
            return ProviderStatus("not installed", f"{self.executable} is not on PATH.", self.install)
        return await self._preflight(env)

    def seed(self, turn: CliTurn, parent: Path | None) -> None:
        """Materialise the CLI's config directory for a session, private to this user. `parent` is the data
        directory whose configuration it inherits (the person's own, or that of the session it descends from):
        files that configuration names by relative path travel along. Repeatable."""
        for directory in (turn.directory, turn.cwd, turn.config, turn.scratch):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._seed(turn, parent)

    def record_session(self, turn: CliTurn, native: str, model: str | None, total: CliTotal) -> dict[str, object]:
        """The body of the `provider_session` event: enough to resume, fork and price the next turn."""
        if not native.strip():
            raise ValueError("a session needs an id")
        return {
            "provider": self.name,
            "route": self.route,
            "native": native,
            "model": model,
            "mode": turn.mode,
            "directory": str(turn.directory),
            "total": total.to_json(),
            **self._record_session(turn, native),
        }

    def record_cost(
        self, turn: CliTurn, figures: Sequence[CliFigures], baseline: CliTotal, model: str | None
    ) -> CliCharge | None:
        """What a turn cost, from all its figures; None where it said nothing. Never negative."""
        figures = [one for one in figures if not one.interim] or [one for one in figures if one.interim][-1:]
        if not figures and turn.native is not None:
            late = self._late_figures(turn, turn.native)
            figures = [late] if late is not None else []
        if not figures:
            return None
        last = figures[-1]
        if self.figures == "step":
            counted = CliTotal()
            for one in figures:
                counted = counted.plus(one.usage, one.usd)
            total = baseline.plus(_usage(counted), counted.usd)
        elif self.figures == "call":
            counted = CliTotal().plus(last.usage, last.usd)
            total = baseline.plus(last.usage, last.usd)
        else:
            seen = CliTotal().plus(last.usage, last.usd)
            counted = _less(seen, baseline)
            total = replace(seen, requests=baseline.requests + seen.requests)
        usage, named = _usage(counted), last.model or model
        usd = self.rates(turn, named, usage) if self.needs_prices else counted.usd
        return CliCharge(usage, usd, total, named)

    def configured_model(self, turn: CliTurn) -> str | None:
        """The model it uses where none is named, from its configuration; None where only it knows."""
        return self._configured_model(turn)

    def rates(self, turn: CliTurn, model: str | None, usage: Usage) -> Decimal | None:
        """What these tokens cost in US dollars, None where unknown. Unknown stays unknown."""
        return self._rates(turn, model, usage) if model else None

    def transcript(self, turn: CliTurn, native: str) -> Path | None:
        """Where the CLI keeps this session's transcript: where it says it does, else any file of its config
        directories that has the id in its name; None where there is none."""
        found = self._transcript(turn, native)
        if found is not None and found.is_file():
            return found
        for root in self._data_directories(turn):
            newest = max(_named(root, native), key=_mtime, default=None)
            if newest is not None:
                return newest
        return None

    def path(self, env: Mapping[str, str]) -> str:
        """The executable's path in this environment. Raises ProviderError `not_installed`."""
        found = shutil.which(self.executable, path=env.get("PATH"))
        if found is None:
            hint = f"Install it: {self.install}" if self.install else "Install it."
            raise ProviderError("not_installed", f"{self.executable} is not on PATH.", hint=hint)
        return found

    # --- hooks -------------------------------------------------------------------------------------

    @abstractmethod
    def _invoke(self, turn: CliTurn) -> tuple[list[str], dict[str, str | None]]:
        """The argument vector, executable first and prompt left out, and the environment keys of the provider."""

    @abstractmethod
    def _parser(self, turn: CliTurn) -> CliParser:
        """A reader of one invocation's lines; routes may have their own."""

    async def _preflight(self, env: Mapping[str, str]) -> ProviderStatus:
        """Whether the installed CLI could answer on this route, without the network."""
        return ProviderStatus("ready")

    def _worded(self, prompt: str) -> str:
        """The prompt so that the CLI takes all of it as words: nothing in it may be a command or a file to it."""
        return prompt

    def _prompt_arguments(self, prompt: str) -> list[str]:
        """How the prompt is said. It may begin with a dash."""
        return ["--", prompt]

    async def _spawn(self, invocation: Invocation, env: Mapping[str, str]) -> CliRun:
        """Start it: only a provider that is spoken to over its pipes does this in its own way."""
        return await CliProcess.start(invocation, env, self.deadlines)

    def _seed(self, turn: CliTurn, parent: Path | None) -> None:
        """Write what the CLI reads into `turn.config`."""

    def _record_session(self, turn: CliTurn, native: str) -> Mapping[str, object]:
        """More to remember of a session."""
        return {}

    def _configured_model(self, turn: CliTurn) -> str | None:
        return None

    def _rates(self, turn: CliTurn, model: str, usage: Usage) -> Decimal | None:
        return None

    def _late_figures(self, turn: CliTurn, native: str) -> CliFigures | None:
        """What a turn used that ended without saying so, from what it left on disk."""
        return None

    def _transcript(self, turn: CliTurn, native: str) -> Path | None:
        return None

    def _data_directories(self, turn: CliTurn) -> Sequence[Path]:
        """Where the CLI keeps what it has written, for the fallback of `transcript`."""
        return [turn.config]

    # --- checks ------------------------------------------------------------------------------------

    def _checked(self, turn: CliTurn) -> CliTurn:
        """The turn as it can be asked; a fresh session of a provider whose ids are ours gets one."""
        if not turn.prompt.strip():
            raise ProviderError("bad_request", "A prompt is needed.")
        if turn.mode == "fork" and not self.forks:
            hint = "Start a new session instead."
            raise ProviderError("capability", f"{self.name} cannot fork a session.", hint=hint)
        if turn.mode != "fresh" and not turn.native:
            raise ProviderError("bad_request", f"To {turn.mode} a session of {self.name} takes its id.")
        if turn.effort is not None and turn.effort not in self.efforts:
            known = f"It takes: {', '.join(self.efforts)}." if self.efforts else "It takes none."
            raise ProviderError("bad_request", f"{self.name} has no effort {turn.effort!r}.", hint=known)
        if turn.budget is not None and turn.budget <= 0:
            raise ProviderError("bad_request", f"A budget of {turn.budget} dollars allows nothing.")
        if turn.mode == "fresh" and self.session_ids == "ours" and turn.native is None:
            turn = replace(turn, native=str(uuid.uuid4()))
        return turn

    def _prompt(self, prompt: str) -> tuple[list[str], bytes | None]:
        # No argument can hold a NUL, which the output of a command that is told again may.
        data = self._worded(prompt).replace("\0", "\ufffd").encode("utf-8", "replace")
        if len(data) <= LONGEST_ARGUMENT:
            return self._prompt_arguments(data.decode()), None
        if self.stdin_arguments is None:
            size = f"{len(data):,} bytes"
            raise ProviderError("capability", f"This prompt of {size} is longer than {self.name} can be given.")
        return list(self.stdin_arguments), data


async def ask_cli(argv: Sequence[str], env: Mapping[str, str], timeout: float = ASK_S) -> tuple[int, str]:
    """Run a short question to a CLI (`--version`, `auth status`): its exit code and stdout; code -1 where it gave
    no answer in `timeout` seconds or cannot be started. What it started ends with it."""
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return -1, ""
    try:
        async with asyncio.timeout(timeout):
            out, _ = await process.communicate()
    except TimeoutError:
        return -1, ""
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await reaped(process)
    return process.returncode or 0, out.decode("utf-8", "replace")


def _usage(total: CliTotal) -> Usage:
    return Usage(
        total.input_tokens, total.output_tokens, total.cached_tokens, total.cache_write_tokens, max(1, total.requests)
    )


def _less(total: CliTotal, baseline: CliTotal) -> CliTotal:
    """What was added since the baseline. A session that was reset counts from zero."""
    reset = total.input_tokens < baseline.input_tokens or total.output_tokens < baseline.output_tokens
    if reset:
        return total
    minus: Callable[[int, int], int] = lambda a, b: max(0, a - b)  # noqa: E731
    usd = None if total.usd is None or baseline.usd is None else max(Decimal(0), total.usd - baseline.usd)
    return CliTotal(
        minus(total.input_tokens, baseline.input_tokens),
        minus(total.output_tokens, baseline.output_tokens),
        minus(total.cached_tokens, baseline.cached_tokens),
        minus(total.cache_write_tokens, baseline.cache_write_tokens),
        total.requests,
        usd,
    )


def _named(root: Path, native: str) -> list[Path]:
    if not re.fullmatch(r"[\w.-]+", native):
        return []
    return [path for path in root.rglob(f"*{native}*") if path.is_file()]


def _mtime(path: Path) -> float:
    return path.stat().st_mtime
