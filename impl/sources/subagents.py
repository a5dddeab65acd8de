"""Subagent definitions (Markdown with name, description, tools): the chosen one becomes an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from impl.sources.firsttask import from_descriptions
from impl.sources.frontmatter import FrontMatter
from impl.sources.grants import map_tools, parse_tools
from impl.sources.refs import distinct, slug
from impl.sources.tree import NOT_OWN, SourceTree, is_own
from impl.sources.values import Candidate, Draft, Loss, Mode, Place, Refusal, shorten

LABEL = "Subagents"
MULTIPLE = False

_KEYS = frozenset({"name", "description", "tools", "disallowedTools", "model", "color"})


def find(tree: SourceTree) -> list[Candidate]:
    """Markdown files with a name and a description in front matter, where subagents lie; copies count once."""
    found: dict[str, Candidate] = {}
    texts: set[str] = set()
    for path in sorted(tree.files):
        place = _place(path)
        if place is None:
            continue
        matter = tree.matter(path)
        text = tree.text(path) or ""
        if not _is_subagent(matter, place) or text in texts:
            continue
        texts.add(text)
        name = distinct(slug(matter.word("name")), path, found)
        found[name] = Candidate("subagents", name, path, matter.word("description"), place)
    return list(found.values())


def _is_subagent(matter: FrontMatter, place: Place) -> bool:
    if not (matter.word("name") and matter.word("description")):
        return False
    return place != "stray" or "tools" in matter.data or "model" in matter.data


def _place(path: str) -> Place | None:
    """Where a file lies: None where it cannot be a subagent the source offers."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    if not name.endswith(".md") or not is_own(path) or name.lower() in ("readme.md", "skill.md", "claude.md"):
        return None
    above = [part.lower() for part in parts[:-1]]
    if "skills" in above or any(part in NOT_OWN for part in above):
        return None
    if above and above[0].startswith("."):
        return "helper" if "agents" in above else None
    if above and (above[0] in ("agents", "subagents", "categories") or (above[0] == "plugins" and "agents" in above)):
        return "usual"
    return "stray"


def convert(tree: SourceTree, chosen: Sequence[Candidate], name: str, mode: Mode) -> Draft:
    """The agent of one subagent: its text as the persona, its tools mapped and never widened."""
    candidate = chosen[0]
    path = candidate.path
    matter = tree.matter(path)
    deviations = [f"{path}: {problem}" for problem in matter.problems]
    if matter.word("name") != candidate.id:
        deviations.append(f"{path}: its name {matter.word('name')!r} is not lower-case letters, digits and hyphens")
    if not matter.body.strip():
        deviations.append(f"{path}: it has no text after its front matter")
    if mode == "strict" and deviations:
        reason = "In strict mode a subagent is taken only where it keeps to the format."
        raise Refusal("strict import of a subagent", reason, tuple(deviations))
    losses = [Loss(path, said.removeprefix(f"{path}: "), "read leniently") for said in deviations]
    grants = map_tools(parse_tools(matter.data.get("tools")), path, parse_tools(matter.data.get("disallowedTools")))
    if "tools" not in matter.data or not grants.tools:
        losses.append(
            Loss(path, "no tools are granted", "it names none; where it comes from that means all, here the least")
        )
    losses += [*grants.losses, *_dropped(path, matter), *_left_out(tree, candidate)]
    body = matter.body.strip() or candidate.description
    return Draft(
        description=shorten(candidate.description, 1000),
        persona=body + "\n",
        run_sandbox=grants.run_sandbox,
        losses=tuple(losses),
        licensed=(path,),
        counts={"subagents": 1},
        example=from_descriptions([candidate.description]),
    )


def _dropped(path: str, matter: FrontMatter) -> list[Loss]:
    losses = []
    model = matter.word("model")
    if model:
        losses.append(
            Loss(path, f"the model {model!r} is not taken over", "it names one provider's; any model may run this")
        )
    losses += [
        Loss(path, f"its key {key!r} was dropped", "it has no counterpart here")
        for key in matter.data
        if key not in _KEYS
    ]
    return losses


def _left_out(tree: SourceTree, candidate: Candidate) -> list[Loss]:
    others = [other.id for other in find(tree) if other.path != candidate.path]
    if not others:
        return []
    return [Loss(".", f"not taken: {shorten(', '.join(others), 200)}", "one subagent becomes one agent")]
