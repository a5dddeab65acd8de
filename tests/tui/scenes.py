"""What the pictures show: one scene for each screen and state, put into a store by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core import Option, Waiting, publish, validate_revision
from tests.harness.stage import Stage, question, ran, said, stopped

AGENT = "petstore-clerk"
MANIFEST = """schema: artificer/v1
name: petstore-clerk
description: Answers questions about the pet store.
persona: persona.md
"""
PERSONA = "You answer questions about the pet store, briefly.\n"
ASK = "Which operations should it have?"
REPLY = """I found one OpenAPI description with **19 operations** in three groups:

| group | operations | writes |
|---|---|---|
| pet | 8 | 5 |
| store | 4 | 2 |
| user | 7 | 6 |

Reading them needs no key. Writing would:

1. create and delete pets,
2. place orders.

```yaml
policy:
  tools: {add_pet: ask}
```
"""


def bundle(scene: Stage) -> list[str]:
    """Four revisions of an agent: passed, failed, passed and live, and one nobody has validated; oldest first."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)

        def save(number: int, minutes: float, message: str, by: str, persona: str, **more: Any) -> str:
            files = {"agent.yaml": more.pop("manifest", MANIFEST), "persona.md": persona}
            return scene.revision(
                AGENT, files, minutes=minutes, message=message, by=by, scratch=root / str(number), **more
            )

        first = save(1, 55, "first draft", "builder", PERSONA)
        broken = save(2, 52, "wildcard host", "builder", PERSONA, manifest=MANIFEST + "colour: blue\n")
        live = save(3, 50, "openapi, 8 tools", "person", PERSONA + "You name the pet.\n", parents=[first])
        newest = save(4, 5, "a shorter persona", "person", "You answer briefly.\n", parents=[live])
    for minutes, digest in ((54, first), (51, broken), (49, live)):
        validate(scene, digest, minutes)
    for minutes, digest in ((53, first), (48, live)):
        scene.clock.ago(minutes)
        publish(scene.host.store, AGENT, digest, by="person", now=scene.clock)
    scene.clock.noon()
    return [first, broken, live, newest]


def validate(scene: Stage, digest: str, minutes: float) -> None:
    """A validation run with times that are always the same."""
    from dataclasses import replace

    scene.clock.ago(minutes)
    store = scene.host.store
    environment = {"sandbox": "bubblewrap", "unsafe": False, "python": "3.x", "platform": "Linux"}
    kept: list[Any] = []

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def add_validation(self, run: Any) -> None:
            checks = tuple({**check, "duration_s": 0.1} for check in run.checks)
            kept.append(replace(run, checks=checks))

    validate_revision(
        Recorder(),  # type: ignore[arg-type]
        AGENT,
        digest,
        environment=environment,
        now=scene.clock,
        new_id=scene.host.new_id,
    )
    store.add_validation(kept[0])
    scene.clock.noon()


def building(scene: Stage, *more: tuple[str, Mapping[str, Any]], **columns: Any) -> str:
    """A Builder session that has looked at its source, and then `more`."""
    work = [
        said("Let me look at what is there."),
        *ran("ls source", "LICENSE\nopenapi.yaml", call="c1"),
        *ran("sed -n 1,40p source/openapi.yaml", "\n".join(f"line {n}: …" for n in range(1, 31)), call="c2"),
        *ran("jq .paths source/openapi.yaml", "jq: parse error at line 3", call="c3", code=2, seconds=0.4),
        ("source", {"path": "./petstore", "commit": None}),
    ]
    figures = {"input_tokens": 48_100, "output_tokens": 3_200, "cached_tokens": 43_800, "requests": 12, "usd": "0.04"}
    return scene.session("Build an agent from ./petstore", *work, *more, **{**figures, **columns})


def waiting(scene: Stage, waits: Waiting, stop: str, text: str = "", evidence: Any = None) -> str:
    """A Builder session that waits."""
    body = ("stop", stopped(stop, waiting=waits, evidence=evidence)[1])
    words = [said(text, 2)] if text else []
    return building(scene, *words, body, stop=stop, summary=waits.message, agent=AGENT)


def ended(scene: Stage, stop: str, **record: Any) -> str:
    """A Builder session that ended otherwise."""
    return building(scene, stopped(stop, **record), stop=stop, summary=stop, agent=AGENT)


def asks(scene: Stage) -> str:
    """A question with numbered options."""
    bundle(scene)
    options = ("read only: pets, store, users (8)", "read and write, writes ask first (19)", "choose by tag")
    return waiting(scene, question(ASK, *options, recommended=1), "awaiting_user", "I found three groups.")


def with_files(scene: Stage) -> str:
    """A question in a session whose workspace holds something."""
    name = asks(scene)
    root = scene.host.workspace_path(name)
    for path, text in (("source/openapi.yaml", "openapi: 3.0.4\n"), ("source/LICENSE", "MIT\n"), ("notes.md", "# n\n")):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "elsewhere").symlink_to("/etc")
    return name


def asks_for_several(scene: Stage) -> str:
    """A question that takes several options and no text."""
    waits = question("Which groups?", "pet", "store", "user", recommended=1, multiple=True, free_text=False)
    return waiting(scene, waits, "awaiting_user")


def asks_in_words(scene: Stage) -> str:
    """A plain reply, which is a question too."""
    words = "Which repository should I read? Paste its URL or a path."
    return building(scene, said(words, 2), stopped("awaiting_user", output=words), stop="awaiting_user", summary=words)


def wants_approval(scene: Stage) -> str:
    """A command that needs a yes."""
    options = tuple(
        Option(name, label)
        for name, label in (
            ("once", "once"),
            ("session", "for this session"),
            ("always", "always for this agent"),
            ("deny", "deny"),
        )
    )
    command = "pip download --no-deps -r source/requirements.txt\nls -la dist | head"
    detail = {"tool": "run_sandbox", "args": {"command": command}}
    waits = Waiting("approval", "c9", "Run run_sandbox?", options, "once", free_text=False, detail=detail)
    return waiting(scene, waits, "needs_approval")


def wants_key(scene: Stage) -> str:
    """A credential without a value."""
    waits = Waiting(
        "credentials",
        "c9",
        "rates-bot needs a key to ask for exchange rates.",
        names=("RATES_API_KEY",),
        detail={"agent": "rates-bot", "hosts": ["api.rates.example"]},
    )
    return waiting(scene, waits, "needs_credentials")


RATES = """schema: artificer/v1
name: rates-bot
persona: persona.md
credentials:
  - {name: RATES_API_KEY, hosts: [api.rates.example], header: X-Key}
"""


def runs_on_rates(scene: Stage) -> str:
    """A run of an agent that declares a credential, done; a key stands in the composer."""
    files = {"agent.yaml": RATES, "persona.md": "You know the rates.\n"}
    with tempfile.TemporaryDirectory() as scratch:
        digest = scene.revision("rates-bot", files, minutes=30, scratch=Path(scratch))
    ends = (said("One euro is 1.09 dollars.", 2), stopped("completed"))
    name = scene.session("What is a euro?", *ends, kind="run", agent="rates-bot", digest=digest, stop="completed")
    written = "use sk-ant-" + "api03-Ab12Cd34Ef56Gh78Ij90 now"
    scene.host.store.set_value(f"composer:{name}", {"text": written, "pastes": {}})
    return name


def stuck(scene: Stage) -> str:
    """A doom loop."""
    failure = "ModuleNotFoundError: No module named 'yaml'"
    waits = Waiting("doom_loop", "same_failure", f"The same thing 4 times, nothing new: {failure}")
    evidence = {
        "count": 4,
        "failure": failure,
        "first": 5,
        "last": 9,
        "progress_would_be": "another error, a changed file, or another result",
    }
    return waiting(scene, waits, "doom_loop", evidence=evidence)


def spent(scene: Stage) -> str:
    """A budget that is spent."""
    options = (Option("extend", "extend N: allow N more"), Option("end", "end here"))
    message = "The limit of 20 steps is spent (20). Extend it by a number, or end here."
    return waiting(scene, Waiting("budget", "steps", message, options, "end"), "budget")


def cannot_convert(scene: Stage) -> str:
    """No safe conversion."""
    evidence = {
        "capability": "browse any web page the user names",
        "reason": "an agent reaches only the hosts its manifest names",
        "evidence": "README.md: “opens any URL you give it”",
    }
    return ended(scene, "cannot_convert", detail="browse", evidence=evidence)


def refused(scene: Stage) -> str:
    """A refusal."""
    return ended(scene, "refused", detail="refusal", output="I can't help with that.")


def provider_error(scene: Stage) -> str:
    """A provider that does not take the key."""
    evidence = {"message": "The API key is not valid.", "hint": "Set ANTHROPIC_API_KEY to a key that is."}
    return ended(scene, "provider_error", detail="auth", evidence=evidence)


def platform_error(scene: Stage) -> str:
    """No sandbox."""
    evidence = {"message": "The sandbox `docker` does not work here: no daemon answers."}
    return ended(scene, "platform_error", detail="sandbox_unavailable", evidence=evidence)


def done(scene: Stage) -> str:
    """Built, validated, published."""
    first, _, live, _ = bundle(scene)
    events = [
        said(REPLY, 2),
        ("revision", {"agent": AGENT, "digest": first, "parents": [], "message": "first draft", "by": "builder"}),
        ("validation", {"id": "n1", "digest": first, "passed": True, "problems": []}),
        ("published", {"agent": AGENT, "channel": "live", "digest": first, "refused": None}),
        said("petstore-clerk is ready.", 3),
        stopped("completed", output="petstore-clerk is ready."),
    ]
    return building(scene, *events, stop="completed", summary="petstore-clerk is ready.", agent=AGENT, digest=live)


def cancelled(scene: Stage) -> str:
    """Stopped by the person."""
    return ended(scene, "cancelled")


def interrupted(scene: Stage) -> str:
    """Its process died in the middle of a reply."""
    name = building(scene, agent=AGENT)
    scene.host.store.release(name)
    return name


def followed(scene: Stage) -> str:
    """Driven by another process, and in the middle of a reply."""
    name = building(scene, agent=AGENT)
    scene.host.store.set_draft(name, "m2", "I am reading the **third** file; it says\n\n- one thing\n- and ano")
    return name


def odd(scene: Stage) -> str:
    """Damage, unknown kinds, words in other scripts, and text that would like to be obeyed."""
    return building(
        scene,
        ("hologram", {"of": "a kind this version does not know"}),
        said("日本語の返事です。 [bold]no markup[/bold] and \x1b[31mno escape\x1b[0m.", 2),
        *ran("printf '\\033[2J'", "\x1b[2Jgone?\u202ereversed", call="c8"),
        ("message", {"role": "user", "text": "[red]not red[/red] \x07 émoji 🙂 العربية"}),
        stopped("awaiting_user", waiting=question("Weiter? [b]nein[/b]", "ja", "nein")),
        stop="awaiting_user",
        summary="Weiter?",
        agent=AGENT,
    )


def long_session(scene: Stage, count: int = 400) -> str:
    """A session of many turns."""
    events: list[tuple[str, Mapping[str, Any]]] = []
    for number in range(2, count // 2):
        events += [("message", {"role": "user", "text": f"Question {number}"}), said(f"Answer **{number}**.", number)]
    return building(scene, *events, stopped("awaiting_user", output="?"), stop="awaiting_user", agent=AGENT)


def fleet(scene: Stage) -> None:
    """Sessions of every kind, and two agents."""
    bundle(scene)
    scene.session(
        "Build a rates bot",
        stopped("needs_credentials"),
        minutes=9,
        agent="rates-bot",
        stop="needs_credentials",
        summary="needs RATES_API_KEY for api.rates.example",
        input_tokens=8000,
        requests=3,
        usd="0.01",
    )
    asks(scene)
    scene.session(
        "Document the helper",
        stopped("doom_loop"),
        minutes=14,
        agent="doc-helper",
        stop="doom_loop",
        summary="The same failure 4 times: No module named 'yaml'",
        input_tokens=112_000,
        requests=40,
        usd=None,
    )
    parent = scene.session(
        "Read the invoices",
        minutes=1,
        kind="run",
        agent="invoice-clerk",
        summary="reading page 4 of 11",
        input_tokens=20_000,
        requests=6,
        usd="0.02",
    )
    scene.session(
        'search the corpus for "late fee"',
        minutes=0.2,
        kind="run",
        agent="researcher",
        parent=parent,
        depth=1,
        input_tokens=2_000,
        requests=1,
    )
    scene.session(
        "Build petstore-clerk",
        stopped("completed"),
        minutes=60,
        agent=AGENT,
        stop="completed",
        summary="published, and ready",
        input_tokens=64_000,
        requests=20,
        usd="0.06",
    )
    scene.session(
        "An old one", stopped("completed"), minutes=60 * 30, agent="old-timer", stop="completed", summary="long ago"
    )
