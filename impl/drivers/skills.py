"""A directory of skills: read, listed, and their scripts run in the session's workspace."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core import Skill, SkillInfo, ToolContext, ToolOutput, UnknownResource, run_command

SKILLS_IN_WORKSPACE = ".artificer/skills"


class SkillShelf:
    """The skills `names` under the directory `root`, each a directory with a `SKILL.md`."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self._root = root
        self._names = tuple(names)

    def infos(self) -> tuple[SkillInfo, ...]:
        """All of them, as a persona lists them."""
        return tuple(self._info(name) for name in self._names)

    def _info(self, name: str) -> SkillInfo:
        front, _ = front_matter((self._root / name / "SKILL.md").read_text("utf-8"))
        description = front.get("description")
        return SkillInfo(name, description if isinstance(description, str) else "", tuple(self._scripts(name)))

    def _scripts(self, name: str) -> list[str]:
        base = self._root / name
        return sorted(
            path.relative_to(base).as_posix()
            for path in base.rglob("*")
            if path.is_file() and (path.relative_to(base).parts[0] == "scripts" or os.access(path, os.X_OK))
        )

    def skill(self, name: str) -> Skill:
        """A skill by name: its instructions and the files it brings. Raises UnknownResource."""
        self._known(name)
        base = self._root / name
        _, text = front_matter((base / "SKILL.md").read_text("utf-8"))
        names = sorted(p.relative_to(base).as_posix() for p in base.rglob("*") if p.is_file() and p.name != "SKILL.md")
        texts = [text.strip()]
        for part in names:
            if part.endswith((".md", ".txt")) and not part.upper().startswith("LICENSE"):
                content = (base / part).read_text("utf-8", "replace")
                texts.append(f"--- {part} ---\n{content.strip()}")
        return Skill(self._info(name), "\n\n".join(texts), tuple(names))

    async def run(self, name: str, script: str, args: Sequence[str], context: ToolContext) -> ToolOutput:
        """Run one of a skill's scripts in the workspace, where the skill is copied first. Raises UnknownResource."""
        self._known(name)
        scripts = self._scripts(name)
        if script not in scripts:
            raise UnknownResource(f"{name} has no script {script!r}. It has: {', '.join(scripts) or 'none'}.")
        workspace = await context.workspace()
        target = workspace.path / SKILLS_IN_WORKSPACE / name
        if not target.exists():
            await asyncio.to_thread(shutil.copytree, self._root / name, target)
        path = f"{SKILLS_IN_WORKSPACE}/{name}/{script}"
        runner = {".py": "python3 ", ".sh": "sh ", ".js": "node "}.get(Path(script).suffix, "./")
        return await run_command(context, f"{runner}{shlex.join([path, *args])}", 600.0)

    def _known(self, name: str) -> None:
        if name not in self._names:
            raise UnknownResource(f"There is no skill {name!r}. The skills are: {', '.join(self._names)}.")


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The YAML front matter of a Markdown file, every value in it as text, and the text after it; empty where it has
    none."""
    text = text.removeprefix("\ufeff")
    if not text.startswith("---"):
        return {}, text
    head, found, rest = text[3:].partition("\n---")
    if not found:
        return {}, text
    import yaml

    try:
        data = yaml.load(head, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    except (yaml.YAMLError, RecursionError):
        return {}, text
    return (data if isinstance(data, dict) else {}), rest.partition("\n")[2]
