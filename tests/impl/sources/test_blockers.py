"""Sources that are refused, with the lines that say why; and those that only look like it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from impl.sources import ImportResult, survey

Write = Callable[..., Path]
Convert = Callable[..., ImportResult]
README = {"README.md": "# Thing\n\nIt does one thing and does it well.\n"}
SKILL = {"skills/one/SKILL.md": "---\nname: one\ndescription: Does one.\n---\n\nDo it.\n"}

BLOCKED = {
    "requirements": ("desktop_control", {"requirements.txt": "requests\npyautogui>=0.9\n"}),
    "import": ("desktop_control", {"app.py": "import time\nimport pyautogui as gui\n"}),
    "pyproject": ("desktop_control", {"pyproject.toml": '[project]\nname="x"\ndependencies = ["pywinauto"]\n'}),
    "setup": ("desktop_control", {"setup.py": "setup(\n  install_requires=[\n    'uiautomation>=2',\n  ],\n)\n"}),
    "script": ("desktop_control", {"go.ahk": "Click 10, 10\n"}),
    "shell": ("desktop_control", {"go.sh": "#!/bin/sh\nxdotool key Return\n"}),
    "javascript": ("desktop_control", {"index.js": "const robot = require('robotjs');\n"}),
    "package": ("desktop_control", {"package.json": '{"dependencies": {"robotjs": "1"}}'}),
    "user32": ("desktop_control", {"a.cs": '  [DllImport("user32.dll")]\n'}),
    "library import": ("desktop_control", {"a.cs": '  [LibraryImport("user32.dll")]\n'}),
    "powershell": ("desktop_control", {"go.ps1": "[System.Windows.Forms.SendKeys]::SendWait('x')\n"}),
    "c": ("desktop_control", {"a.cpp": "#include <windows.h>\nvoid f() { SendInput(1, &i, sizeof i); }\n"}),
    "java": ("desktop_control", {"A.java": "import java.awt.Robot;\n"}),
    "go": ("desktop_control", {"main.go": 'import (\n\t"github.com/go-vgo/robotgo"\n)\n'}),
    "windows target": ("windows_only", {"a.csproj": "<TargetFramework>net8.0-windows</TargetFramework>\n"}),
    "windows classifier": (
        "windows_only",
        {"pyproject.toml": '[project]\nname="x"\nclassifiers=["Operating System :: Microsoft :: Windows"]\n'},
    ),
    "windows package": ("windows_only", {"package.json": '{"name": "x", "os": ["win32"]}'}),
    "gpu package": ("gpu", {"requirements.txt": "cupy-cuda12x\n"}),
    "gpu image": ("gpu", {"Dockerfile": "FROM nvidia/cuda:12.4.0-base\n"}),
    "gpu check": ("gpu", {"train.py": "import torch\nif not torch.cuda.is_available():\n    raise SystemExit(1)\n"}),
    "mcp python": ("mcp_server", {"server.py": "from mcp.server.fastmcp import FastMCP\n"}),
    "mcp fastmcp": (
        "mcp_server",
        {"server.py": "try:\n    from fastmcp import FastMCP\nexcept ImportError:\n    raise\n"},
    ),
    "mcp javascript": (
        "mcp_server",
        {"src/index.ts": 'import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";\n'},
    ),
    "mcp manifest": ("mcp_server", {"server.json": json.dumps({"name": "a/b", "remotes": [{"url": "https://x"}]})}),
}


@pytest.mark.parametrize("sign", BLOCKED)
def test_no_reduced_agent_is_made(write: Write, convert: Convert, sign: str) -> None:
    code, files = BLOCKED[sign]
    root = write({**README, **files})
    assert code in [blocker.code for blocker in survey(root).blockers]
    result = convert(root)
    assert result.outcome == "refused"
    path, number, _ = result.evidence[0].split(":", 2)
    assert path in files
    assert int(number) > 0


@pytest.mark.parametrize(
    "files",
    [
        {"docs/why.md": "# Why\n\nUse pyautogui or xdotool for that; it requires a GPU.\n```\nimport pyautogui\n```\n"},
        {"tests/test_x.py": "import pyautogui\n"},
        {"app.py": '"""Help.\n\nimport pyautogui\n"""\n'},
        {"app.py": "try:\n    import pyautogui\nexcept ImportError:\n    pyautogui = None\n"},
        {"requirements.txt": "pywin32; sys_platform == 'win32'\n"},
        {"package.json": '{"devDependencies": {"robotjs": "1"}}'},
        {"a.csproj": "<TargetFrameworks>net8.0;net8.0-windows</TargetFrameworks>\n"},
        {"client.py": "from mcp.client.session import ClientSession\n"},
        {"sdk.d.ts": 'import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";\n'},
        {"sdk.ts": 'import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";\n'},
        {"pyproject.toml": '[project]\nname="x"\nclassifiers=["Operating System :: Microsoft :: Windows", '
         '"Operating System :: POSIX"]\n'},
        {"train.py": 'device = "cuda" if torch.cuda.is_available() else "cpu"\n'},
    ],
)  # fmt: skip
def test_a_mention_or_an_option_is_no_blocker(write: Write, files: dict[str, str]) -> None:
    found = survey(write({**README, **files}))
    assert (found.kinds, found.blockers) == (("documentation",), ())


def test_skills_beside_blocked_code_are_converted(write: Write, convert: Convert) -> None:
    result = convert(write({**README, **SKILL, "app.py": "import pyautogui\n"}))
    assert (result.outcome, result.kind) == ("imported", "agent_skills")


def test_a_skill_that_drives_a_desktop_itself_is_refused(write: Write, convert: Convert) -> None:
    result = convert(write({**SKILL, "skills/one/scripts/go.py": "import pyautogui\n"}))
    assert (result.outcome, result.capability) == ("refused", "desktop control")


def test_a_person_may_choose_the_documentation_of_a_blocked_source(inputs: Path, convert: Convert) -> None:
    assert convert(inputs / "windows-desktop").outcome == "refused"
    result = convert(inputs / "windows-desktop", kind="documentation")
    assert result.outcome == "imported"
    assert "desktop control" in result.losses[0].change


@pytest.mark.parametrize(("folder", "code"), [("windows-desktop", "desktop_control"), ("mcp-server", "mcp_server")])
def test_the_kept_inputs_are_blocked(inputs: Path, folder: str, code: str) -> None:
    assert survey(inputs / folder).blockers[0].code == code


def test_an_empty_source_and_one_of_binaries_say_so(write: Write) -> None:
    assert survey(write({}, "empty")).blockers[0].code == "empty"
    assert survey(write({"README.md": ""}, "hollow")).blockers[0].code == "empty"
    binaries = survey(write({"a.bin": b"\0\1\2", "b.so": b"\x7fELF\0"}, "binaries"))
    assert binaries.blockers[0].code == "binaries"
    assert len(binaries.blockers[0].evidence) == 2


def test_an_openapi_document_without_operations_is_refused(write: Write, convert: Convert) -> None:
    result = convert(write({"api.yaml": "# An API\nopenapi: 3.1.0\ninfo: {}\n"}))
    assert (result.outcome, result.evidence) == ("refused", ("api.yaml:2: openapi: 3.1.0",))
    assert "no operation" in result.reason


@pytest.mark.parametrize("more", [{}, {"docs/use.md": "# Use\n\nUse it like this.\n"}])
def test_an_mcp_server_is_never_made_a_documentation_agent(
    inputs: Path, write: Write, convert: Convert, more: dict[str, str]
) -> None:
    files = {path.name: path.read_text() for path in (inputs / "mcp-server").glob("*.*")}
    result = convert(write({**files, **more}))
    assert (result.outcome, result.capability) == ("refused", "an MCP server")
    assert "--provider" in result.reason


def test_a_source_of_submodules_alone_says_how_to_bring_them(write: Write, convert: Convert) -> None:
    result = convert(write({".gitmodules": '[submodule "a"]\n\tpath = a\n'}))
    assert result.outcome == "refused"
    assert "--recurse-submodules" in result.reason


def test_what_lies_among_examples_alone_is_to_be_named_itself(write: Write, convert: Convert) -> None:
    result = convert(write({"a.py": "x = 1\n", "examples/one/SKILL.md": SKILL["skills/one/SKILL.md"]}))
    assert result.outcome == "refused"
    assert "name that folder" in result.reason
    assert result.evidence == ("examples/one/SKILL.md",)


def test_code_without_a_word_about_it_needs_a_model(write: Write, convert: Convert) -> None:
    result = convert(write({"a.py": "x = 1\n"}))
    assert result.outcome == "refused"
    assert "needs a model" in result.reason
