"""Agent Skills: reading a `SKILL.md` and holding it to the format's rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.bundle.problems import Problem, ProblemCode
from core.bundle.strict_yaml import Document, load

SKILL_FILE = "SKILL.md"
MAX_SKILL_BYTES = 1_000_000
_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_LIMITS = {"description": 1024, "compatibility": 500}


@dataclass(frozen=True, slots=True)
class SkillFile:
    """What a `SKILL.md` says: the header's fields, and `body`, the instructions after it."""

    name: str
    description: str
    body: str
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


def parse_skill(data: bytes, directory: str, path: str = SKILL_FILE) -> tuple[SkillFile | None, list[Problem]]:
    """Read a `SKILL.md` that lies in a directory called `directory`.

    The skill is there wherever it has a name and a description, even where it breaks a rule, so that an
    import may repair it; the problems name `path`, YAML ones with their own codes, the rest `skill_invalid`.
    """
    if len(data) > MAX_SKILL_BYTES:
        message = f"{len(data):,} bytes; at most {MAX_SKILL_BYTES:,}"
        return None, [Problem(ProblemCode.FILE_TOO_LARGE, path, message, "Move parts to files beside it.")]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None, [Problem(ProblemCode.NOT_UTF8, path, "is not UTF-8", "Save it as UTF-8.")]
    lines = text.splitlines(keepends=True)
    end = next((i for i, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), None)
    if not lines or lines[0].rstrip() != "---" or end is None:
        hint = "Begin the file with ---, name and description, and --- again."
        return None, [_broken(path, "line 1: has no front matter between --- lines", hint)]
    document = load("".join(lines[1:end]).encode(), path, strings=True, first_line=2)
    if not isinstance(document.value, dict):
        if not document.problems:
            document.problems.append(_broken(path, "line 2: the front matter is not a mapping"))
        return None, document.problems
    _judge(document, directory, path)
    header = document.value
    name, description = header.get("name"), header.get("description")
    if not isinstance(name, str) or not isinstance(description, str):
        return None, document.problems
    metadata = header.get("metadata")
    skill = SkillFile(
        name=name,
        description=description,
        body="".join(lines[end + 1 :]).lstrip("\n"),
        license=_text(header.get("license")),
        compatibility=_text(header.get("compatibility")),
        allowed_tools=_text(header.get("allowed-tools")),
        metadata={k: v for k, v in metadata.items() if isinstance(v, str)} if isinstance(metadata, dict) else {},
    )
    return skill, document.problems


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _broken(path: str, message: str, hint: str = "") -> Problem:
    return Problem(ProblemCode.SKILL_INVALID, path, message, hint)


def _judge(document: Document, directory: str, path: str) -> None:
    """Add what breaks the Agent Skills rules to the document's problems."""
    from core.bundle.fields import is_skill_name

    header = document.value

    def report(key: str, message: str, hint: str = "") -> None:
        line = document.line((key,)) or 1
        document.problems.append(_broken(path, f"line {line}: {key}: {message}", hint))

    for key, value in header.items():
        if key not in _KEYS:
            report(key, "this key is not one of the format's", "Move it under metadata.")
        elif key == "metadata":
            if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
                report(key, "must map names to text")
        elif not isinstance(value, str):
            report(key, "must be text")
        elif key in _LIMITS and len(value) > _LIMITS[key]:
            report(key, f"{len(value)} characters; at most {_LIMITS[key]}")
    name, description = header.get("name"), header.get("description")
    if name is None:
        report("name", "is required")
    elif isinstance(name, str):
        if not is_skill_name(name):
            report("name", "must be 1 to 64 lower-case letters, digits and single hyphens")
        if name != directory:
            report("name", f"must equal its directory, {directory!r}", "Rename one of them.")
    if description is None or (isinstance(description, str) and not description.strip()):
        report("description", "is required")
