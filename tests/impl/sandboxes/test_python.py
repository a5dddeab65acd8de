"""Python and pip inside: what is installed stays in the workspace, and only there."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path

import pytest

from core import Workspace

WHEEL = "greet-1.0-py3-none-any.whl"


def write_wheel(directory: Path) -> None:
    """A wheel with one module and one command."""
    files = {
        "greet.py": "def hello():\n    print('hello from the wheel')\n",
        "greet-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n",
        "greet-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "greet-1.0.dist-info/entry_points.txt": "[console_scripts]\ngreet = greet:hello\n",
    }
    record = ["greet-1.0.dist-info/RECORD,,"]
    with zipfile.ZipFile(directory / WHEEL, "w") as wheel:
        for name, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.insert(0, f"{name},sha256={digest},{len(text)}")
            wheel.writestr(name, text)
        wheel.writestr("greet-1.0.dist-info/RECORD", "\n".join(record) + "\n")


async def test_an_installed_wheel_is_there_three_calls_later(workspace: Workspace) -> None:
    if (await workspace.run("python3 -m pip --version")).exit_code != 0:
        pytest.skip("this host has no pip to show in the sandbox")
    write_wheel(workspace.path)
    result = await workspace.run(f"pip install ./{WHEEL}")
    assert result.exit_code == 0, result.output
    await workspace.run("true")
    await workspace.run("cd /tmp")
    result = await workspace.run('cd /; python3 -c "import greet; greet.hello(); print(greet.__file__)"; greet')
    lines = result.output.splitlines()
    assert [lines[0], lines[2]] == ["hello from the wheel"] * 2
    assert list(workspace.path.glob(".local/**/greet.py")), "it lies in the workspace"


async def test_a_copied_workspace_keeps_what_was_installed_for_a_new_process(isolated: Workspace) -> None:
    site = (await isolated.run("python3 -m site --user-site")).output.strip()
    assert site.startswith("/work/.local/")


async def test_the_interpreter_of_a_command_is_not_the_applications_own_environment(workspace: Workspace) -> None:
    result = await workspace.run('python3 -c "import sys; print(sys.prefix)"')
    import sys

    assert result.output.strip() != sys.prefix


@pytest.mark.slow
async def test_an_environment_made_by_a_command_works(workspace: Workspace) -> None:
    write_wheel(workspace.path)
    made = await workspace.run("python3 -m venv made")
    if made.exit_code != 0 and "ensurepip" in made.output:
        pytest.skip("this host's Python cannot make environments with pip")
    result = await workspace.run(
        f"made/bin/pip install ./{WHEEL} && made/bin/greet && ! python3 -c 'import greet' 2>&-"
    )
    assert result.exit_code == 0, result.output
    assert "hello from the wheel" in result.output
