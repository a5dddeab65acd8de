"""What the offline Builder mends of a bundle that failed its checks, and what it leaves to a person."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core import check_bundle, read_manifest
from impl.providers.offline import OfflineProvider, repair
from impl.providers.offline.wishes import wants_repair
from tests.harness.conversation import Conversation, tool

TOOLS = [
    tool(name) for name in ("import_source", "ask_user", "save_agent", "validate_agent", "publish_agent", "run_sandbox")
]
EDITING = "You are the Builder.\n\nEditing agent helper. Its latest revision is in /work/agent."
DIGEST = "sha256:" + "ab" * 32
GOOD = "# Mine.\nschema: artificer/v1\nname: helper  # its name\ndescription: Helps.\n"
SKILL = "---\nname: one\ndescription: Does one.\n---\n\nDo it.\n"


class World:
    """A bundle on disk that the provider mends through its tools, as the platform would run them."""

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        self.root = root
        self.bundle = root / "agent"
        for path, text in {"agent.yaml": GOOD, "persona.md": "You help.\n", **files}.items():
            (self.bundle / path).parent.mkdir(parents=True, exist_ok=True)
            (self.bundle / path).write_text(text)
        self.calls: list[str] = []

    async def drive(self, words: str, system: str = EDITING) -> str:
        """Say it, answer every call, and give the reply."""
        talk = await Conversation(OfflineProvider(), TOOLS, system).say(words)
        while talk.call is not None:
            name, args = talk.call
            self.calls.append(name)
            assert len(self.calls) < 30, self.calls
            output, ok = self.answer(name, args)
            await talk.result(output, ok=ok)
        return talk.reply

    def answer(self, name: str, args: Mapping[str, Any]) -> tuple[Any, bool]:
        """What the tool gives."""
        match name:
            case "validate_agent":
                problems = [problem.to_json() for problem in check_bundle(self.bundle)]
                return {"digest": DIGEST, "passed": not problems, "problems": problems}, not problems
            case "run_sandbox":
                done = subprocess.run(["sh", "-c", args["command"]], cwd=self.root, capture_output=True, text=True)
                return done.stdout.rstrip("\n") or "[no output]", done.returncode == 0
            case "save_agent":
                return {"agent": "helper", "digest": DIGEST, "created": True}, True
            case _:
                raise AssertionError(name)

    def manifest(self) -> str:
        """agent.yaml as it lies there."""
        return (self.bundle / "agent.yaml").read_text()


TOOL_FILES = {
    "tools/look_up/tool.yaml": "name: look_up\ndescription: Looks up.\ninput_schema: {type: object}\n",
    "tools/look_up/tool.py": "def run(ctx, input):\n    return 1\n",
}
MENDED: dict[str, tuple[dict[str, str], str]] = {
    "an unlisted skill": ({"skills/one/SKILL.md": SKILL}, "one is listed under skills"),
    "an unlisted tool": (TOOL_FILES, "look_up is listed under tools and asks before each call"),
    "an unlisted corpus": ({"corpus/a.md": "# A\n"}, "corpus is on"),
    "an empty corpus": ({"agent.yaml": GOOD + "corpus: true\n"}, "corpus is off"),
    "an unknown key": ({"agent.yaml": GOOD + "homepage: https://example.org\n"}, "homepage went under metadata"),
    "an unknown key inside": ({"agent.yaml": GOOD + "policy:\n  colour: red\n"}, "policy.colour went under metadata"),
    "a long description": (
        {"agent.yaml": GOOD.replace("Helps.", "Helps. " * 300)},
        "characters was cut to 1,024",
    ),
    "a name twice": (
        {"agent.yaml": GOOD + "skills: [one, one]\n", "skills/one/SKILL.md": SKILL},
        "one is listed once",
    ),
    "no schema": ({"agent.yaml": GOOD.replace("schema: artificer/v1\n", "")}, "it says its schema"),
    "no name": ({"agent.yaml": "schema: artificer/v1\n"}, "it says its name, helper"),
    "an address for a host": (
        {"agent.yaml": GOOD + "credentials:\n- name: k\n  header: X-Key\n  hosts: [HTTPS://API.example.com/v1]\n"},
        "is written api.example.com",
    ),
    "a skill's long description": (
        {
            "agent.yaml": GOOD + "skills: [one]\n",
            "skills/one/SKILL.md": SKILL.replace("Does one.", "Does one. " * 200),
        },
        "its description of 1999 characters was cut to 1024",
    ),
    "a skill's unknown key": (
        {"agent.yaml": GOOD + "skills: [one]\n", "skills/one/SKILL.md": SKILL.replace("name:", "version: 1.2\nname:")},
        "its key 'version' went under metadata",
    ),
    "a skill of another name": (
        {"agent.yaml": GOOD + "skills: [one]\n", "skills/one/SKILL.md": SKILL.replace("name: one", "name: two")},
        "its name 'two' became 'one'",
    ),
    "a skill whose description has a colon": (
        {"agent.yaml": GOOD + "skills: [one]\n", "skills/one/SKILL.md": SKILL.replace("Does one.", "Does: one.")},
        "is not valid YAML",
    ),
}


@pytest.mark.parametrize("what", MENDED)
async def test_it_mends_saves_and_validates(tmp_path: Path, what: str) -> None:
    files, words = MENDED[what]
    world = World(tmp_path, files)
    assert check_bundle(world.bundle) != []
    reply = await world.drive("repair it")
    assert check_bundle(world.bundle) == []
    assert words in reply
    assert world.calls[0] == world.calls[-1] == "validate_agent"
    assert world.calls.count("save_agent") == 1


async def test_several_problems_of_several_files_are_mended_at_once(tmp_path: Path) -> None:
    files = {
        name: text
        for what in ("an unlisted skill", "an unlisted tool", "an unlisted corpus")
        for name, text in MENDED[what][0].items()
    }
    world = World(
        tmp_path,
        {**files, "skills/one/SKILL.md": SKILL.replace("name: one", "name: two"), "agent.yaml": GOOD + "colour: red\n"},
    )
    await world.drive("validate and repair")
    manifest = read_manifest(world.bundle)
    assert (manifest.skills, manifest.tools, manifest.corpus) == (("one",), ("look_up",), True)
    assert dict(manifest.metadata) == {"colour": "red"}
    assert manifest.policy.tools == {"look_up": "ask"}
    assert world.calls.count("save_agent") == 1


async def test_lines_that_are_not_concerned_keep_their_comments(tmp_path: Path) -> None:
    world = World(tmp_path, {"skills/one/SKILL.md": SKILL, "agent.yaml": GOOD + "# Why so few.\nlimits: {steps: 9}\n"})
    await world.drive("fix the problems")
    assert world.manifest() == GOOD + "# Why so few.\nlimits: {steps: 9}\nskills:\n- one\n"


async def test_the_text_of_a_mended_skill_stays_as_it_was(tmp_path: Path) -> None:
    body = "".join(f"Line {n} with 'quotes' and $HOME and `ticks`\n" for n in range(2_000))
    skill = SKILL.replace("name: one", "name: two") + body
    world = World(tmp_path, {"agent.yaml": GOOD + "skills: [one]\n", "skills/one/SKILL.md": skill})
    await world.drive("repair")
    mended = (world.bundle / "skills/one/SKILL.md").read_text()
    assert mended.split("---\n", 2)[2] == skill.split("---\n", 2)[2]


@pytest.mark.parametrize(
    "files",
    [
        {"agent.yaml": GOOD + "skills: [gone]\n"},
        {"agent.yaml": GOOD + "name: again\n"},
        {"persona.md": ""},
        {"agent.yaml": GOOD + "api_token: abc\n"},
        {"skills/Bad_Name/SKILL.md": SKILL},
    ],
)
async def test_what_rules_cannot_mend_is_said_with_its_hint_and_asked_about(
    tmp_path: Path, files: dict[str, str]
) -> None:
    world = World(tmp_path, files)
    before = world.manifest()
    (problem, *_) = check_bundle(world.bundle)
    reply = await world.drive("repair it")
    assert f"- {problem.code} in {problem.path}: " in reply
    assert problem.hint in reply
    assert reply.endswith("?")
    assert world.manifest() == before
    assert "save_agent" not in world.calls


async def test_what_is_left_after_mending_is_reported_and_not_tried_again(tmp_path: Path) -> None:
    world = World(tmp_path, {"agent.yaml": GOOD + "colour: red\nskills: [gone]\n"})
    reply = await world.drive("repair it")
    assert "colour went under metadata" in reply
    assert "skill_missing in skills/gone/SKILL.md" in reply
    assert world.calls == ["validate_agent", "run_sandbox", "run_sandbox", "save_agent", "validate_agent"]


async def test_a_file_that_may_hold_a_secret_is_never_read(tmp_path: Path) -> None:
    credential = "credentials:\n- name: k\n  header: X-Key\n  hosts: [api.example.com]\n  value: hunter2hunter2\n"
    world = World(tmp_path, {"agent.yaml": GOOD + credential + "colour: red\n"})
    reply = await world.drive("repair it")
    assert "credential_value in agent.yaml" in reply
    assert world.calls == ["validate_agent"]


async def test_asked_to_validate_it_changes_nothing_and_offers_to_repair(tmp_path: Path) -> None:
    world = World(tmp_path, {"skills/one/SKILL.md": SKILL})
    reply = await world.drive("validate")
    assert world.calls == ["validate_agent"]
    assert "say “repair”" in reply
    assert world.manifest() == GOOD


async def test_a_sandbox_that_does_not_run_leaves_the_problems_to_the_person(tmp_path: Path) -> None:
    talk = await Conversation(OfflineProvider(), TOOLS, EDITING).say("repair it")
    problem = {"code": "unlisted", "path": "skills/one", "message": "agent.yaml does not list it", "hint": "Add it."}
    await talk.result({"digest": DIGEST, "passed": False, "problems": [problem]}, ok=False)
    assert talk.call is not None
    await talk.result("No sandbox works here.", ok=False)
    assert talk.call is None
    assert "unlisted in skills/one" in talk.reply
    assert "artificer checkout helper DIR" in talk.reply


async def test_a_file_that_was_cut_on_its_way_is_not_written_back() -> None:
    assert repair.text_of("30000\nschema: artificer/v1\n", "agent.yaml") is None
    assert repair.text_of("12\nmore than there is", "agent.yaml") is None
    assert repair.text_of("cat: no such file", "agent.yaml") is None
    assert repair.text_of("7\nname: a", "agent.yaml") == "name: a\n"


@pytest.mark.parametrize(
    "words",
    [
        "repair",
        "Repair it.",
        "please fix the problems",
        "can you mend what you can?",
        "validate and repair it",
        "fix errors",
    ],
)
def test_words_that_ask_for_a_repair(words: str) -> None:
    assert wants_repair(words)


@pytest.mark.parametrize(
    "words",
    ["fix the tone", "an agent that repairs bicycles", "repair my car", "do not repair it", "validate", "prefix it"],
)
def test_words_that_ask_for_something_else(words: str) -> None:
    assert not wants_repair(words)
