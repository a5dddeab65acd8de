"""From any driver to what the loop runs on: the system text and the tools, assembled the same way for all."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from core.driver import Driver, Persona, Tool
from core.policy import Inherited, capped
from core.provider import ToolSpec
from core.tools import cannot_convert, standard_tools


@dataclass(frozen=True, slots=True)
class Assembled:
    """An agent ready for the loop. `specs` are what a model sees, in a stable order."""

    persona: Persona
    system: str
    tools: tuple[Tool, ...]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return tuple(tool.spec for tool in self.tools)


class NameClash(ValueError):
    """Two tools of one agent have the same name."""


async def assemble(
    driver: Driver,
    *,
    text: str | None = None,
    builder: bool = False,
    inherited: Inherited | None = None,
    delegation: Callable[[Persona], Sequence[Tool]] = lambda persona: (),
) -> Assembled:
    """Ask the driver who the agent is and what it has, a child within what it `inherited`; `text`, where given, stands
    in place of its persona's. `delegation` gives the tools that start children. Raises NameClash."""
    persona = await driver.persona()
    persona = replace(persona, text=persona.text if text is None else text, policy=capped(persona.policy, inherited))
    tools = standard_tools(driver, persona)
    if builder:
        tools.append(cannot_convert())
    tools += await driver.plugins()
    tools += delegation(persona)
    names = [tool.spec.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise NameClash(f"These tool names are taken twice: {', '.join(twice)}. Rename the agent's own.")
    offered = tuple(t for t in tools if persona.policy.get(t.spec.name, t.default) != "deny")
    return Assembled(persona, system_text(persona, offered), offered)


def system_text(persona: Persona, tools: Sequence[Tool]) -> str:
    """The system text: the persona, then its skills, then what the tools need said."""
    names = {tool.spec.name for tool in tools}
    parts = [persona.text.strip()]
    if persona.skills:
        listed = "\n".join(f"- {skill.name}: {one_line(skill.description)}" for skill in persona.skills)
        parts.append(f"## Skills\n\nRead a skill with read_skill before you follow it.\n\n{listed}")
    if "search_corpus" in names:
        parts.append(
            "## Documentation\n\nAnswer from the documentation: search it, quote the passages you use, "
            "and say where each stands (path and line). Say so where it does not answer."
        )
    if "run_sandbox" in names:
        parts.append("## Workspace\n\nCommands run in a sandbox. They start in /work, which persists for this session.")
    return "\n\n".join(parts)


def text_digest(text: str) -> str:
    """`sha256:` and hex, of a text: what names a persona that no revision holds."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def one_line(text: str) -> str:
    """Text with its white space folded."""
    return " ".join(text.split())
