"""The Builder's replies: short, in plain words, saying whose turn it is and that no model thought."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from impl.providers.offline import repair
from impl.providers.offline.record import Used, brief, clip, rows, texts

WITH_MODEL = "`--provider anthropic` with `ANTHROPIC_API_KEY` set"


def ask_source() -> str:
    """No source was named."""
    return (
        "Which source should I build from? Paste a public repository URL (https://…) or a path.\n\n"
        "Offline rules, no model: I turn what stands in a source into an agent, and cannot write one from a "
        f"description. For that, choose a model: {WITH_MODEL}."
    )


def nothing_new(agent: str) -> str:
    """The session goes on without new words."""
    if not agent:
        return ask_source()
    return f"Nothing is left to do on {agent}. Name another source, or say “publish”."


def source_failed(source: str, message: str, hint: str) -> str:
    """A source could not be read; another path may heal it."""
    lines = [f"I could not read {source}: {_sentence(message)}"]
    if hint:
        lines.append(_sentence(hint))
    lines.append("Paste another public repository URL or a path, or say “again” once it is there.")
    return "\n\n".join(lines)


def refused(capability: str, reason: str, evidence: Sequence[str]) -> str:
    """No safe conversion, where the tool to say so is not offered."""
    quoted = "".join(f"\n- {brief(line, 300)}" for line in evidence[:10])
    return f"I cannot convert {capability}: {_sentence(reason)}{quoted}\n\nName another source."


def still_refused(reason: str) -> str:
    """Words after a refusal that name no other source."""
    return f"There is no safe conversion of that source: {_sentence(reason)} Name another source, a URL or a path."


def question(message: str, options: Sequence[Mapping[str, Any]]) -> str:
    """A question in words, where it cannot be put as one."""
    asked = message.strip() or "Which one?"
    listed = "".join(f"\n{n}. {o.get('label') or o.get('id')}" for n, o in enumerate(options, 1))
    return f"{asked}\n{listed}\n\nAnswer with a number or a name." if listed else asked


def needs_model_to_edit(agent: str) -> str:
    """An edit in words."""
    return (
        f"Changing {agent} in words needs a model, and I am offline rules. Choose one, {WITH_MODEL}, or edit it "
        f"yourself: `artificer checkout {agent} DIR`, then `artificer save DIR`.\n\n"
        "I can import another source, validate, repair what rules can, or publish: say which."
    )


def not_saved(used: Used) -> str:
    """The bundle was not saved."""
    error = used.error
    message = str(error.get("message") or "") or clip(used.output, 1_000)
    lines = [f"The agent was not saved: {_sentence(message)}"]
    if error.get("hint"):
        lines.append(_sentence(str(error["hint"])))
    lines += _problems(used)
    lines.append("Name another source, or tell me to try again.")
    return "\n".join(lines)


def not_valid(agent: str, used: Used, *, mended: Sequence[str] = (), tried: bool = False) -> str:
    """The gate found problems. `mended` was mended before, `tried` says that no rule helps with what is left."""
    found = _problems(used)
    if not found:
        reason = clip(str(used.error.get("message") or used.output), 1_000)
        return f"Validation of {agent or 'the agent'} did not finish: {reason}\n\nSay “validate” to try again."
    lines = ["Mended by rule:", *(f"- {change}" for change in mended), ""] if mended else []
    lines += [
        f"{agent or 'The agent'} is saved{_at(used)}, but validation found {_count(len(found), 'problem')}:",
        *found,
        "",
    ]
    if not tried and not mended and repair.needed(rows(used.data.get("problems"))):
        lines.append("Some of this can be mended by rule: say “repair”.")
    lines.append(
        "Offline rules repair nothing by guessing. Edit it yourself (`artificer checkout "
        f"{agent or 'AGENT'} DIR`, then `artificer save DIR`), or choose a model: {WITH_MODEL}. "
        "Which shall it be?"
    )
    return "\n".join(lines)


def not_published(agent: str, used: Used) -> str:
    """Validated, not published."""
    message = str(used.error.get("message") or "") or ("" if _problems(used) else clip(used.output, 600))
    lines = [f"{agent or 'The agent'} is validated, but not published{': ' + _sentence(message) if message else '.'}"]
    lines += _problems(used)
    lines.append(f"\nPublish it yourself: `artificer publish {agent or 'AGENT'}`.")
    return "\n".join(lines)


def built(
    agent: str,
    imported: Used | None,
    validated: Used | None,
    published: Used | None,
    mended: Sequence[str] = (),
    example: str = "",
) -> str:
    """What was made, what it lacks, what was mended, where it stands, what to do next; `example` is a task to try."""
    name = agent or "the agent"
    lines: list[str] = ["Mended by rule:", *(f"- {change}" for change in mended), ""] if mended else []
    if imported is not None:
        lines += _made(name, imported)
    if lines and lines[-1].startswith("- "):
        lines.append("")  # else it would be read as a part of the list's last entry
    lines.append(_state(name, validated, published))
    if validated is not None and (warned := _problems(validated)):
        lines += ["Warnings:", *warned]
    lines.append("")
    try_it = f"artificer run {name} {_quoted(example or '…')}"
    if published is None:
        lines.append(f"Next: say “publish” or `artificer publish {name}`, then `{try_it}`.")
    else:
        lines.append(f"Next: `{try_it}`, or `artificer` to see it.")
    if imported is not None:
        lines.append("Built by offline rules: no model has read or judged the source.")
    return "\n".join(lines)


def _quoted(task: str) -> str:
    """The task as one word of a shell, in double quotes where nothing in it means more there."""
    return shlex.quote(task) if set(task) & set('"$`\\!') else f'"{task}"'


def _made(name: str, imported: Used) -> list[str]:
    data = imported.data
    parts = _counts(data.get("counts"))
    kind = str(data.get("kind") or "source").replace("_", " ")
    lines = [f"Built {name} from {imported.args.get('path', 'the source')} ({kind}){': ' + parts if parts else ''}."]
    if data.get("description"):
        lines.append(brief(str(data["description"]), 400))
    lines.append(_licence(data.get("licence")))
    lines += [_sentence(brief(note, 300)) for note in texts(data.get("notes"))[:5]]
    if credentials := texts(data.get("credentials")):
        lines.append(
            f"Credentials it needs before those tools run: {', '.join(credentials[:20])} "
            f"(`artificer credentials set {name} {credentials[0]}`)."
        )
    if lost := [_loss(row) for row in _list(data.get("loss") or data.get("losses"))]:
        lines += ["Not carried over:", *(f"- {brief(row, 300)}" for row in lost[:20])]
        if len(lost) > 20:
            lines.append(f"- and {len(lost) - 20} more")
    else:
        lines.append("Not carried over: nothing.")
    return lines


def _state(name: str, validated: Used | None, published: Used | None) -> str:
    if published is not None:
        channel = published.data.get("channel") or "live"
        return f"Published: {name} `{channel}` is now {_short(published) or _short(validated)}, validated."
    return (
        f"Revision {_short(validated)} of {name} is validated; publishing it was not asked for."
        if validated
        else f"{name} is saved."
    )


def _licence(value: Any) -> str:
    licence = value if isinstance(value, dict) else {}
    where = f" ({licence['path']})" if licence.get("path") else ""
    match licence.get("status"):
        case "found":
            return f"Licence: {licence.get('spdx') or 'found'}{where}."
        case "source_available":
            return f"Licence: {licence.get('spdx') or 'source-available'}{where}: private use only, not to be exported."
        case _:
            return "Licence: none found, so private use only, not to be exported."


def _counts(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    return ", ".join(_count(n, str(what).removesuffix("s")) for what, n in value.items() if isinstance(n, int) and n)


def _count(number: int, what: str) -> str:
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{number:,} {(what if number == 1 else plural).replace('_', ' ')}"


def _loss(row: Any) -> str:
    if isinstance(row, dict) and row.get("change"):
        where = "" if row.get("path") in (None, "", ".") else f"{row['path']}: "
        return f"{where}{row['change']}{' (' + str(row['reason']) + ')' if row.get('reason') else ''}"
    if isinstance(row, dict):
        return ": ".join(str(v) for v in row.values() if v not in (None, ""))
    return str(row)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value in (None, "") else [value]


def _problems(used: Used) -> list[str]:
    found = rows(used.data.get("problems")) or rows(used.error.get("problems"))
    return [_problem(row) for row in found[:30]]


def _problem(row: Mapping[str, Any]) -> str:
    where = f" in {row['path']}" if row.get("path") else ""
    hint = f" {_sentence(str(row['hint']))}" if row.get("hint") else ""
    return f"- {row.get('code', 'problem')}{where}: {_sentence(str(row.get('message', '')))}{hint}"


def _short(used: Used | None) -> str:
    digest = str(used.data.get("digest") or "") if used else ""
    return digest.removeprefix("sha256:")[:12]


def _at(used: Used) -> str:
    return f" as {_short(used)}" if _short(used) else ""


def report(used: Used) -> str:
    """What a tool said, where no rule knows what to make of it."""
    verb = "said" if used.ok else "failed"
    message = str(used.error.get("message") or used.output).strip()
    next_step = "Tell me how to go on: name a source, or say “again”."
    return f"{used.tool} {verb}: {clip(message, 2_000) or 'nothing'}\n\n{next_step}"


def not_offered(tool: str) -> str:
    """The rule wants a tool that this session does not have."""
    return f"This session has no tool {tool}, so I cannot go on by rules. Use `artificer {tool.partition('_')[0]}`."


def stuck(tool: str) -> str:
    """The same call has failed already."""
    return f"{tool} failed with exactly this before, and I do not repeat it. Name another source, or say “again”."


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith((".", "!", "?", "…", ":")) else text + "."
