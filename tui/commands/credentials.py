"""Commands on credentials: set, list, remove. A value comes from a hidden prompt or stdin, and is never shown again."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

import core
from tui.commands import output
from tui.commands.choices import Json
from tui.commands.hosting import build_host

if TYPE_CHECKING:
    from core import Declared, Host, LaunchInput, Secrets

LONGEST_INPUT = 65_536
"""Characters of stdin that are read at most."""

credentials = typer.Typer(help="Set, list and remove the values of agents' credentials.")

AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="Its name.")]
CredentialName = Annotated[str, typer.Argument(metavar="NAME", help="The credential's, as the agent declares it.")]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    # A value given as an argument must not be echoed by a usage error, so surplus words are ours to refuse.
    credentials.command("set", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(set_value)
    credentials.command("list")(list_values)
    credentials.command("remove")(remove_values)
    app.add_typer(credentials, name="credentials", no_args_is_help=True)


def set_value(
    context: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT[@DIGEST|@CHANNEL]", help="Whose declaration it is for.")],
    name: CredentialName,
    as_json: Json = False,
) -> int:
    """Set a credential's value. It comes from a hidden prompt, or from stdin where that is no terminal."""
    if context.args:
        message = "A value is never an argument: it would stand in the shell's history and in the list of processes."
        hint = "Replace that key at its issuer, run this without it, and give the new value at the prompt or on stdin."
        return output.said_no("usage", message, hint, as_json=as_json, exit_code=2)
    host = build_host()
    agent, _, ref = agent.partition("@")
    with _refusing():
        found = core.find_declaration(host.store, agent, name, ref or None)
        secrets = _secrets(host)
        unlock(secrets)
        value = _value(found)
        found = core.set_credential(host.store, secrets, agent, name, value, ref or None)
        row = _row(found, secrets)
    if as_json:
        output.line(row)
        return 0
    kept = "in the system keyring" if row["where"] == "keyring" else f"encrypted, in {host.home / 'secrets.enc'}"
    output.text(f"{agent}: {name} is set, kept {kept}.")
    output.text(f"It is sent only to {', '.join(row['hosts'])}, as {row['injection']}.")
    if (other := _live_differs(host, found)) is not None:
        output.say(f"The live revision binds {name} differently. For it: artificer credentials set {agent}@live {name}")
        output.say(f"  (there: {', '.join(other.declaration.hosts)}, as {other.declaration.injection})")
    return 0


def list_values(as_json: Json = False) -> int:
    """List what is declared and what is set; values are never shown."""
    host = build_host()
    with _refusing():
        rows = core.credential_rows(host.store, _secrets(host))
    empty = "No agent declares a credential, and no value is set."
    output.rows(rows, as_json=as_json, table=_line, empty=empty)
    return 0


def remove_values(agent: AgentName, name: CredentialName, as_json: Json = False) -> int:
    """Forget a credential's values, whatever they are bound to."""
    host = build_host()
    with _refusing():
        removed = _secrets(host).remove(agent, name)
    if not removed:
        hint = "See what is set: artificer credentials list"
        raise output.Refused("not_found", f"There is no value for {name!r} of {agent}.", hint)
    if as_json:
        output.line({"agent": agent, "name": name, "removed": True})
    else:
        output.text(f"{agent}: the value of {name} is removed.")
    return 0


def unlock_for(host: Host, launch: LaunchInput) -> None:
    """Before a run that may need them: ask for the passphrase of the agent's values, where a terminal is there and
    they are in the encrypted file. Without the right one the run goes on, and stops where it needs a value."""
    known = host.store.session(launch.session) if launch.session else None
    agent, kind = (known.agent, known.kind) if known is not None else (launch.agent, launch.kind)
    if agent is None or kind == "builder" or host.secrets is None or not _terminal():
        return
    try:
        unlock(host.secrets, agent)
    except core.SecretsError as error:
        output.say(f"{error.message} {error.hint}")


def unlock(secrets: Secrets, agent: str | None = None) -> None:
    """Ask for the passphrase where one is wanted and a person is there. Raises SecretsError."""
    match secrets.passphrase(agent):
        case "none":
            return
        case "needed" if _terminal():
            secrets.unlock(_ask("Passphrase of the encrypted file (hidden): "))
        case "new" if _terminal():
            output.say("There is no system keyring here. Values are kept in a file encrypted with a passphrase.")
            passphrase = _ask("New passphrase, at least 8 characters (hidden): ")
            if _ask("Again: ") != passphrase:
                raise core.SecretsError("wrong_passphrase", "The two differ. Nothing was stored.", "Try again.")
            secrets.unlock(passphrase)
        case _:
            return  # what needs it will say so, with its next step


# --- small parts ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """What the keeping of values refuses, as the command's refusal."""
    try:
        yield
    except core.SecretsError as error:
        raise output.Refused(error.code, error.message, error.hint) from None


def _secrets(host: Host) -> Secrets:
    if host.secrets is None:
        raise output.Refused("unavailable", "This host keeps no credentials.")
    return host.secrets


def _terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt, stream=sys.stderr)


def _value(found: Declared) -> str:
    """The value, as it was typed or as stdin has it less one newline at its end."""
    declaration = found.declaration
    if _terminal():
        output.say(f"Sent only to {', '.join(declaration.hosts)}, as {declaration.injection}.")
        return _ask(f"Value of {declaration.name} for {found.agent} (hidden): ")
    try:
        text = sys.stdin.read(LONGEST_INPUT)
    except UnicodeDecodeError:
        raise core.SecretsError("not_a_line", "The value on stdin is not text.", "Nothing was stored.") from None
    return text.removesuffix("\n").removesuffix("\r")


def _row(found: Declared, secrets: Secrets) -> dict[str, Any]:
    declaration = found.declaration
    binding = declaration.binding_id(found.agent)
    kept = next(r for r in secrets.list() if (r.agent, r.name, r.binding) == (found.agent, declaration.name, binding))
    return {
        "agent": found.agent,
        "name": declaration.name,
        "hosts": list(declaration.hosts),
        "injection": declaration.injection,
        "set": True,
        "at": kept.at,
        "where": kept.where,
        "revision": found.digest,
    }


def _live_differs(host: Host, found: Declared) -> Declared | None:
    """What the live revision declares under this name, where a value set now is not for it."""
    try:
        live = core.find_declaration(host.store, found.agent, found.declaration.name, "live")
    except (core.SecretsError, core.UnknownRef):
        return None
    same = live.declaration.binding_id(live.agent) == found.declaration.binding_id(found.agent)
    return None if same or found.reads == "live" else live


def _line(row: Any) -> str:
    state = f"set {row['at'][:16]}" if row["set"] else "not set"
    stale = "" if row["declared_by"] else "  (no longer declared so)"
    return f"{row['agent']:<24} {row['name']:<24} {state:<22} {', '.join(row['hosts'])}  {row['injection']}{stale}"
