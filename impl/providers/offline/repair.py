"""What rules can mend of a bundle that failed its checks: pure decisions over problems and the texts they name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

Problem = Mapping[str, Any]

MANIFEST: Final = "agent.yaml"
LONGEST: Final = 20_000
"""Bytes of a file that are read: a manifest is shorter, and of a SKILL.md the front matter is enough."""
DESCRIPTION: Final = 1_024

_SKILL: Final = re.compile(r"skills/([a-z0-9]+(?:-[a-z0-9]+)*)/SKILL\.md")
_LISTABLE: Final = re.compile(r"skills/[a-z0-9]+(?:-[a-z0-9]+)*|tools/[a-z][a-z0-9_]{0,63}")
_SKILL_CODES: Final = frozenset({"skill_invalid", "yaml_syntax", "yaml_duplicate_key", "yaml_alias"})
_WHERE: Final = re.compile(r"(?:line \d+: )?(?P<where>[^:]+): (?P<what>.+)", re.DOTALL)
#: Problems of a file that may hold a secret: it is not read, because what is read stands in the session's log.
_SECRETS: Final = frozenset({"credential_value", "secret_in_file", "private_key"})
_SECRET_WORD: Final = re.compile(r"secret|token|passw|key$|value", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mended:
    """`files` are new texts by path, of a SKILL.md its front matter alone (`heads` counts the lines it replaces);
    `done` says what was changed, in words."""

    files: Mapping[str, str] = field(default_factory=dict)
    heads: Mapping[str, int] = field(default_factory=dict)
    done: tuple[str, ...] = ()


def needed(problems: Sequence[Problem]) -> list[str]:
    """The files to read before anything can be mended, [] where rules can mend nothing of it."""
    closed = {str(p.get("path")) for p in problems if p.get("code") in _SECRETS}
    paths: dict[str, None] = {}
    for problem in problems:
        path = str(problem.get("path", ""))
        if _is_of_manifest(problem) and MANIFEST not in closed:
            paths[MANIFEST] = None
        elif problem.get("code") in _SKILL_CODES and _SKILL.fullmatch(path) and path not in closed:
            paths[path] = None
    return sorted(paths)


def _is_of_manifest(problem: Problem) -> bool:
    """Whether a change of agent.yaml mends it."""
    path, message = str(problem.get("path", "")), str(problem.get("message", ""))
    match problem.get("code"):
        case "unlisted":
            return path == "corpus" or _LISTABLE.fullmatch(path) is not None
        case "corpus_empty":
            return True
        case "unknown_key" | "duplicate_name" | "bad_host":
            return path == MANIFEST
        case "missing_key":
            return path == MANIFEST and _where(message) in ("name", "schema")
        case "bad_value":
            return path == MANIFEST and _where(message) == "description" and "at most" in message
        case _:
            return False


def _where(message: str) -> str:
    match = _WHERE.fullmatch(message)
    return match["where"].strip() if match else ""


# --- the commands --------------------------------------------------------------------------------------


def read_command(path: str, root: str) -> str:
    """Shows the beginning of a file, its whole size on a line before."""
    return f"wc -c < {root}/{path} && head -c {LONGEST} {root}/{path}"


def text_of(output: str, path: str) -> str | None:
    """What a read command showed of `path`; None where that is not the file as it is. A manifest must be whole."""
    first, _, text = output.partition("\n")
    if not first.strip().isdigit() or "\ufffd" in text:
        return None
    size, shown = int(first), len(text.encode())
    if shown > size or (path == MANIFEST and size > LONGEST):
        return None
    return text + "\n"  # line ends at its end do not come through; they carry nothing


def write_command(mended: Mended, root: str) -> str:
    """Writes the mended texts; of a SKILL.md the rest stays as it is."""
    parts = []
    for path, text in mended.files.items():
        mark = "END"
        while f"\n{mark}\n" in f"\n{text}":
            mark += "_"
        here = f"cat <<'{mark}'\n{text if text.endswith(chr(10)) else text + chr(10)}{mark}\n"
        target = f"{root}/{path}"
        if path in mended.heads:
            rest = f"tail -n +{mended.heads[path] + 1} {target}"
            parts.append(f"{{ {here}{rest}\n}} > .mended && cat .mended > {target} && rm .mended")
        else:
            parts.append(f"{here.replace('cat ', f'cat > {target} ', 1).rstrip()}")
    return "set -e\n" + "\n".join(parts)


# --- mending -------------------------------------------------------------------------------------------


def mend(problems: Sequence[Problem], texts: Mapping[str, str], agent: str) -> Mended:
    """The repair of what `needed` named; nothing where the texts leave nothing that can be done."""
    files: dict[str, str] = {}
    heads: dict[str, int] = {}
    done: list[str] = []
    if MANIFEST in texts:
        text, changes = _mend_manifest(problems, texts[MANIFEST], agent)
        if changes:
            files[MANIFEST] = text
            done += changes
    for path in sorted(texts):
        skill = _SKILL.fullmatch(path)
        if skill is None or path == MANIFEST:
            continue
        mended = _mend_skill(texts[path], skill[1])
        if mended is not None:
            files[path], heads[path], changes = mended
            done += [f"{path}: {change}" for change in changes]
    return Mended(files, heads, tuple(done))


def _mend_skill(text: str, name: str) -> tuple[str, int, list[str]] | None:
    """(new front matter, how many lines it replaces, what changed); None where its end was not read."""
    from impl.sources.agent_skills import mend_skill

    lines = text.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != "---":
        return None
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() in ("---", "...")), None)
    if end is None:
        return None
    new, changes = mend_skill("".join(lines), name)
    head = new[: new.index("\n---\n", 3) + len("\n---\n")] if new.startswith("---\n") else ""
    return (head, end + 1, list(changes)) if changes and head else None


def _mend_manifest(problems: Sequence[Problem], text: str, agent: str) -> tuple[str, list[str]]:
    """The text of agent.yaml with what can be mended in it mended, and what that was. Keys that are not concerned
    keep their lines, comments and all."""
    from core import parse_manifest

    _, found, document = parse_manifest(text.encode())
    if document.broken or not isinstance(document.value, dict) or any(str(p.code).startswith("yaml_") for p in found):
        return text, []
    value = json.loads(json.dumps(document.value))
    changes = [change for p in problems if _is_of_manifest(p) and (change := _change(p, value, agent))]
    lines = {loc[0]: line for loc, line in document.lines.items() if len(loc) == 1}
    new = _rewritten(text, document.value, value, {str(key): line for key, line in lines.items()})
    # Never write what is not better than what was there.
    better = len(parse_manifest(new.encode())[1]) <= len(found)
    return (new, list(dict.fromkeys(changes))) if changes and better else (text, [])


def _change(problem: Problem, value: dict[str, Any], agent: str) -> str:
    """Mend one problem in the manifest's data; what was done, "" for nothing."""
    path, message = str(problem.get("path", "")), str(problem.get("message", ""))
    match problem.get("code"):
        case "unlisted" if path == "corpus":
            value["corpus"] = True
            return "agent.yaml: corpus is on, since there are documents"
        case "unlisted":
            kind, _, name = path.partition("/")
            listed = value.get(kind)
            if listed is not None and not isinstance(listed, list):
                return ""
            value[kind] = sorted({*(listed or []), name}) if _is_sorted(listed) else [*(listed or []), name]
            return f"agent.yaml: {name} is listed under {kind}" + (_asking(value, name) if kind == "tools" else "")
        case "corpus_empty":
            value.pop("corpus", None)
            return "agent.yaml: corpus is off, since there is no document"
        case "missing_key" if _where(message) == "schema":
            value["schema"] = "artificer/v1"
            return "agent.yaml: it says its schema"
        case "missing_key" if agent:
            value["name"] = agent
            return f"agent.yaml: it says its name, {agent}"
        case "bad_value":
            return _shortened(value)
        case "duplicate_name":
            return _once(value)
        case "unknown_key":
            return _under_metadata(value, _where(message))
        case "bad_host":
            return _plain_host(value, _where(message))
        case _:
            return ""


def _asking(value: dict[str, Any], tool: str) -> str:
    """Let a tool that nobody has listed ask before each call, unless the policy names it already."""
    policy = value.setdefault("policy", {})
    tools = policy.setdefault("tools", {}) if isinstance(policy, dict) else None
    if not isinstance(tools, dict) or tool in tools:
        return ""
    tools[tool] = "ask"
    return " and asks before each call"


def _is_sorted(listed: Any) -> bool:
    return bool(listed) and all(isinstance(name, str) for name in listed) and list(listed) == sorted(listed)


def _shortened(value: dict[str, Any]) -> str:
    from impl.sources.values import shorten

    said = value.get("description")
    if not isinstance(said, str) or len(said) <= DESCRIPTION:
        return ""
    value["description"] = shorten(said, DESCRIPTION)
    return f"agent.yaml: its description of {len(said):,} characters was cut to {DESCRIPTION:,}"


def _once(value: dict[str, Any]) -> str:
    twice = []
    for kind in ("skills", "tools"):
        names = value.get(kind)
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            twice += [name for name in dict.fromkeys(names) if names.count(name) > 1]
            value[kind] = list(dict.fromkeys(names))
    return f"agent.yaml: {', '.join(twice)} is listed once" if twice else ""


def _under_metadata(value: dict[str, Any], where: str) -> str:
    """Move a key that the format has not; not one that sounds like a secret's, which a person should see."""
    holder, key = _holder(value, where)
    if holder is None or _SECRET_WORD.search(key) or not isinstance(value.get("metadata", {}), dict):
        return ""
    moved = holder.pop(key)
    text = moved if isinstance(moved, str) else json.dumps(moved, ensure_ascii=False)
    value["metadata"] = {**value.get("metadata", {}), where: text}
    return f"agent.yaml: the unknown key {where} went under metadata"


def _holder(value: dict[str, Any], where: str) -> tuple[dict[str, Any] | None, str]:
    """The mapping in which `a.0.b` stands, and its last key; None where that is not certain."""
    if where in value:
        return value, where
    node: Any = value
    *above, key = where.split(".")
    for part in above:
        if isinstance(node, dict) and part in node:
            node = node[part]
        elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
            node = node[int(part)]
        else:
            return None, key
    return (node, key) if isinstance(node, dict) and key in node else (None, key)


def _plain_host(value: dict[str, Any], where: str) -> str:
    """A host written as an address: only https on its usual port says nothing more than the host."""
    node: Any = value
    *above, last = where.split(".")
    for part in above:
        node = node.get(part) if isinstance(node, dict) else _item(node, part)
    said = _item(node, last)
    if not isinstance(said, str):
        return ""
    try:
        parts = urlsplit(said if "://" in said else f"https://{said}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme != "https" or port not in (None, 443) or "@" in parts.netloc or not host or "*" in host:
        return ""
    node[int(last)] = host
    return f"agent.yaml: the host {said} is written {host}"


def _item(node: Any, index: str) -> Any:
    return node[int(index)] if isinstance(node, list) and index.isdigit() and int(index) < len(node) else None


def _rewritten(text: str, before: Mapping[str, Any], after: Mapping[str, Any], lines: Mapping[str, int]) -> str:
    """The text with the blocks of the keys that changed written anew, and new keys at its end."""
    from core import dump_yaml

    starts = sorted(set(lines.values()))
    if len(starts) < len(before):
        return dump_yaml(after)  # keys share a line, so no block can be told apart
    source = text.splitlines(keepends=True)
    parts = source[: starts[0] - 1] if starts else []
    if "schema" not in before and "schema" in after:
        parts.append(dump_yaml({"schema": after["schema"]}))
    for start, end in zip(starts, [*starts[1:], len(source) + 1], strict=True):
        key = next(key for key, line in lines.items() if line == start)
        block = source[start - 1 : end - 1]
        if key in after and after[key] == before[key]:
            parts += block
        else:
            parts += [dump_yaml({key: after[key]})] if key in after else []
            parts += _trailing(block)
    if parts and not parts[-1].endswith("\n"):
        parts.append("\n")
    parts += [dump_yaml({key: value}) for key, value in after.items() if key not in before and key != "schema"]
    return "".join(parts)


def _trailing(block: Sequence[str]) -> list[str]:
    """The blank and comment lines a block ends with: they belong to what follows."""
    kept: list[str] = []
    for line in reversed(block):
        if line.strip() and not line.startswith("#"):
            break
        kept.insert(0, line)
    return kept
