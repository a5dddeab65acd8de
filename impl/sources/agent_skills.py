"""Agent Skills (`NAME/SKILL.md` and what lies beside it): the chosen ones become skills of one agent."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from impl.sources.blockers import code_blockers
from impl.sources.firsttask import from_descriptions
from impl.sources.frontmatter import FrontMatter, dump_front_matter, split_front_matter
from impl.sources.grants import Grants, map_tools, parse_tools
from impl.sources.refs import distinct, slug
from impl.sources.tree import NOT_OWN, SourceTree, decode
from impl.sources.values import BundleFile, Candidate, Decision, Draft, Loss, Mode, Place, Refusal, shorten

LABEL = "Agent Skills"
MULTIPLE = True

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_DESCRIPTION = 1024
_COMPATIBILITY = 500
_OUTSIDE = re.compile(r"\]\(\s*<?(\.\./[^)>\s]+)")


def find(tree: SourceTree) -> list[Candidate]:
    """Every directory with a SKILL.md, unless it lies in another skill, in tests or in examples."""
    roots = [path for path in tree.files if PurePosixPath(path).name.lower() == "skill.md"]
    directories = sorted({str(PurePosixPath(path).parent) for path in roots}, key=lambda d: (d.count("/"), d))
    chosen: set[str] = set()
    for directory in directories:
        inside = any(str(above) in chosen for above in PurePosixPath(directory).parents if str(above) != ".")
        if not inside and _place(directory) is not None:
            chosen.add(directory)
    ids: dict[str, str] = {}
    for directory in sorted(chosen):
        ids[distinct(_name_of(tree, directory), directory, ids)] = directory
    return [_candidate(tree, directory, name, chosen) for name, directory in ids.items()]


def _candidate(tree: SourceTree, directory: str, name: str, all_of_them: Collection[str]) -> Candidate:
    matter = _front_matter(tree, directory)
    count = len(_files(tree, directory, all_of_them))
    place = _place(directory)
    assert place is not None
    return Candidate("agent_skills", name, directory, _description(matter, name), place, count)


def _place(directory: str) -> Place | None:
    """Where a skill's directory lies; None where it is no offer of the source's."""
    parts = PurePosixPath(directory).parts if directory != "." else ()
    above = [part.lower() for part in parts[:-1]]
    if any(part in NOT_OWN for part in above):
        return None
    if not parts:
        return "usual"
    if parts[-1].lower() in NOT_OWN and (not above or above[-1] != "skills"):
        return None
    if parts[0].startswith("."):
        return "helper" if "skills" in above else "stray"
    if len(parts) == 1 or above[0] == "skills":
        return "usual"
    if above[0] == "plugins" and "skills" in above:
        return "usual"
    return "stray"


def _skill_file(tree: SourceTree, directory: str) -> str:
    """Its SKILL.md, or where it has none the file that is called so but for case."""
    prefix = "" if directory == "." else directory + "/"
    if prefix + "SKILL.md" in tree.files:
        return prefix + "SKILL.md"
    return next(path for path in tree.files if path.startswith(prefix) and path[len(prefix) :].lower() == "skill.md")


def _front_matter(tree: SourceTree, directory: str) -> FrontMatter:
    return tree.matter(_skill_file(tree, directory))


def _name_of(tree: SourceTree, directory: str) -> str:
    """The skill's own name, as a valid one; its directory's where it says none."""
    own = tree.root.resolve().name if directory == "." else PurePosixPath(directory).name
    return slug(_front_matter(tree, directory).word("name") or own, "skill")


def _description(matter: FrontMatter, name: str) -> str:
    said = " ".join(matter.word("description").split())
    if said:
        return said
    for block in re.split(r"\n\s*\n", matter.body):
        text = " ".join(line for line in block.splitlines() if not line.startswith(("#", "```", "|", "<"))).strip()
        if text:
            return text
    return f"The skill {name}."


def _files(tree: SourceTree, directory: str, all_of_them: Collection[str] = ()) -> list[str]:
    """A skill's files; of a skill at the root, not those of the skills below it."""
    nested = [other + "/" for other in all_of_them if directory == "." and other != "."]
    return [file.path for file in tree.under(directory) if not any(map(file.path.startswith, nested))]


@dataclass(frozen=True, slots=True)
class _Skill:
    files: list[BundleFile]
    losses: list[Loss]
    grants: Grants
    scripts: bool


def convert(tree: SourceTree, chosen: Sequence[Candidate], name: str, mode: Mode) -> Draft:
    """One agent with the chosen skills. Strict mode refuses what deviates from the format; lenient mode mends
    it, and every change stands in the losses."""
    every = [candidate.path for candidate in find(tree)]
    skills = [_convert_one(tree, candidate, every, chosen) for candidate in chosen]
    losses = [loss for skill in skills for loss in skill.losses]
    if mode == "strict" and any(loss.reason == _DEVIATES for loss in losses):
        deviations = [f"{loss.path}: {loss.change}" for loss in losses if loss.reason == _DEVIATES]
        reason = "In strict mode a skill is taken only where it keeps to the format."
        raise Refusal("strict import of Agent Skills", reason, tuple(deviations))
    run_sandbox, more = _sandbox_policy(skills, chosen)
    scripts = any(skill.scripts for skill in skills)
    names = tuple(candidate.id for candidate in chosen)
    return Draft(
        description=_agent_description(chosen),
        persona=_persona(name),
        files=tuple(file for skill in skills for file in skill.files),
        skills=names,
        run_sandbox=run_sandbox,
        run_skill=run_sandbox if scripts else "deny",
        losses=(*losses, *more, *_left_out(tree, chosen)),
        licensed=tuple(candidate.path for candidate in chosen),
        counts={"skills": len(names), "files": sum(len(skill.files) for skill in skills)},
        example=from_descriptions(candidate.description for candidate in chosen),
    )


_DEVIATES = "the Agent Skills format asks for it"


def _convert_one(tree: SourceTree, candidate: Candidate, every: list[str], chosen: Sequence[Candidate]) -> _Skill:
    skill_file = _skill_file(tree, candidate.path)
    paths = _files(tree, candidate.path, every)
    blockers = code_blockers(tree, paths)
    if blockers:
        first = blockers[0]
        raise Refusal(first.capability, f"The skill {candidate.id}: {first.reason}", first.evidence)
    losses: list[Loss] = []
    text = _mended(tree, skill_file, candidate, losses)
    prefix = "" if candidate.path == "." else candidate.path + "/"
    files = []
    for path in paths:
        file = tree.files[path]
        target = f"skills/{candidate.id}/{'SKILL.md' if path == skill_file else path.removeprefix(prefix)}"
        if path == skill_file and text is not None:
            files.append(BundleFile(target, data=text.encode(), x=file.x))
        else:
            files.append(BundleFile(target, source=path, x=file.x))
    matter = _front_matter(tree, candidate.path)
    grants = map_tools(parse_tools(matter.data.get("allowed-tools")), skill_file)
    losses += grants.losses
    losses += [
        Loss(skill_file, f"its link to {link} leads nowhere", "it points outside the skill's directory")
        for link in sorted(set(_OUTSIDE.findall(matter.body)))
        if not _leads_to_another(link, chosen)
    ]
    scripts = any(path.startswith(prefix + "scripts/") or tree.files[path].x for path in paths)
    return _Skill(files, losses, grants, scripts)


def _leads_to_another(link: str, chosen: Sequence[Candidate]) -> bool:
    """Whether a link out of a skill leads into one that will lie beside it under the same name."""
    parts = PurePosixPath(link).parts
    return any(parts[1:2] == (other.id,) and PurePosixPath(other.path).name == other.id for other in chosen)


def _mended(tree: SourceTree, path: str, candidate: Candidate, losses: list[Loss]) -> str | None:
    """The text of a SKILL.md that deviates, mended; None where it is taken byte for byte. Adds to `losses`."""
    matter = tree.matter(path)
    changes = list(matter.problems)
    if not matter.present and not changes:
        changes.append("it has no front matter; one was written")
    if PurePosixPath(path).name != "SKILL.md":
        changes.append(f"{PurePosixPath(path).name} was renamed to SKILL.md")
    decoded = decode(tree.bytes(path))
    if decoded is None or decoded[1] != "utf-8":
        changes.append("its text was not UTF-8 and was converted")
    own = tree.root.resolve().name if candidate.path == "." else PurePosixPath(candidate.path).name
    if candidate.path != "." and own != candidate.id:
        changes.append(f"its directory {own} was renamed to {candidate.id}")
    data = _mended_data(matter, candidate, changes)
    losses += [Loss(path, change, _DEVIATES) for change in changes]
    same = all(change.startswith("its directory") or change.endswith("renamed to SKILL.md") for change in changes)
    return None if same else dump_front_matter(data, matter.body)


def mend_skill(text: str, name: str) -> tuple[str, tuple[str, ...]]:
    """The text of the SKILL.md in `skills/NAME` as the format wants it, and what was changed in it, in words.

    Keys the format has not go under metadata. A text that keeps to the format comes back as it is.
    """
    matter = split_front_matter(text)
    changes = list(matter.problems)
    if not matter.present and not changes:
        changes.append("it has no front matter; one was written")
    data = {key: value for key, value in matter.data.items() if key in _KEYS}
    others = {key: value for key, value in matter.data.items() if key not in _KEYS}
    if others:
        changes += [f"its key {key!r} went under metadata" for key in others]
        kept = data.get("metadata")
        texts = {
            key: value if isinstance(value, str) else json.dumps(value, default=str) for key, value in others.items()
        }
        data["metadata"] = {**(kept if isinstance(kept, dict) else {}), **texts}
    candidate = Candidate("agent_skills", name, f"skills/{name}", _description(matter, name))
    data = _mended_data(replace(matter, data=data), candidate, changes)
    return (dump_front_matter(data, matter.body), tuple(changes)) if changes else (text, ())


def _mended_data(matter: FrontMatter, candidate: Candidate, changes: list[str]) -> dict[str, Any]:
    said = matter.word("name")
    if said != candidate.id:
        changes.append(f"its name {said!r} became {candidate.id!r}" if said else f"it got the name {candidate.id!r}")
    data: dict[str, Any] = {"name": candidate.id}
    description = matter.word("description")
    if not description or not isinstance(matter.data.get("description"), str):
        changes.append("its description was taken from its text")
        description = candidate.description
    if len(description) > _DESCRIPTION:
        changes.append(f"its description of {len(description)} characters was cut to {_DESCRIPTION}")
        description = shorten(description, _DESCRIPTION)
    data["description"] = description
    for key, value in matter.data.items():
        if key in ("name", "description"):
            continue
        if key not in _KEYS:
            changes.append(f"its key {key!r} was dropped")
            continue
        kept = _mended_value(key, value, changes)
        if kept:
            data[key] = kept
    return data


def _mended_value(key: str, value: Any, changes: list[str]) -> Any:
    if key == "metadata":
        if isinstance(value, dict) and all(isinstance(x, str) for pair in value.items() for x in pair):
            return value
        changes.append("its metadata was made texts")
        pairs = value.items() if isinstance(value, dict) else ()
        return {str(k): v if isinstance(v, str) else " ".join(str(v).split()) for k, v in pairs}
    if key == "allowed-tools" and isinstance(value, list):
        changes.append("its allowed-tools were made one text")
        return " ".join(parse_tools(value))
    if value is None:
        changes.append(f"its empty key {key!r} was dropped")
        return None
    if not isinstance(value, str):
        changes.append(f"its {key} was made a text")
        value = " ".join(str(value).split())
    if key == "compatibility" and len(value) > _COMPATIBILITY:
        changes.append(f"its compatibility was cut to {_COMPATIBILITY} characters")
        return shorten(value, _COMPATIBILITY)
    return value


def _sandbox_policy(skills: list[_Skill], chosen: Sequence[Candidate]) -> tuple[Decision, list[Loss]]:
    """The agent's shell: `allow` only where every chosen skill grants it, since it cannot be given to one."""
    policies = [skill.grants.run_sandbox for skill in skills]
    if all(policy == "allow" for policy in policies):
        return "allow", []
    if any(policy == "allow" for policy in policies):
        granting = ", ".join(c.id for c, policy in zip(chosen, policies, strict=True) if policy == "allow")
        change = "run_sandbox is asked about"
        return "ask", [Loss("agent.yaml", change, f"of the chosen skills only {granting} may use a shell unasked")]
    if "ask" in policies or any(skill.scripts for skill in skills):
        return "ask", []
    return "deny", []


def _left_out(tree: SourceTree, chosen: Sequence[Candidate]) -> list[Loss]:
    names = {candidate.path for candidate in chosen}
    others = [candidate.id for candidate in find(tree) if candidate.path not in names]
    if not others:
        return []
    return [Loss(".", f"not taken: {shorten(', '.join(others), 200)}", "they were not chosen")]


def _agent_description(chosen: Sequence[Candidate]) -> str:
    if len(chosen) == 1:
        return shorten(chosen[0].description, 1000)
    return shorten(f"Works with the skills {', '.join(candidate.id for candidate in chosen)}.", 1000)


def _persona(name: str) -> str:
    return (
        f"You are {name}, an agent that does its work with the skills it was given.\n"
        "\n"
        "Before you begin a task, look whether a skill covers it, read that skill with `read_skill` and follow\n"
        "it; read the files it names as you need them. Where several fit, read each. Where none fits, say so\n"
        "and do what you can without one.\n"
        "\n"
        "When something a skill needs is not there (a tool, a file, a permission), say what is missing instead\n"
        "of pretending it was done.\n"
    )
