"""What a tool declares to need: installed once, in a sandbox, before it runs; absent, it is said and not mended."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from impl.sandboxes import SANDBOXES
from impl.sandboxes.bubblewrap import BubblewrapSandbox
from impl.tools.environments import EnvironmentFailed, Environments, _keep, environment_key
from tests.harness.wheels import make_wheel
from tests.impl.tools.conftest import Open

NEEDS = ("tide-tables==1.2",)
BODY = "import tide_tables\nreturn [tide_tables.HIGH, tide_tables.__file__.startswith('/run/artificer/environments/')]"


@pytest.fixture
async def environments(tmp_path: Path) -> Environments:
    """Those of a home, installing from a directory of wheels."""
    sandbox = BubblewrapSandbox()
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"bubblewrap: {problem}")
    make_wheel(tmp_path / "wheels", "tide_tables", "1.2", {"tide_tables/__init__.py": "HIGH = 4\n"})
    options = ("--no-index", "--find-links", "/run/artificer/wheels")
    return Environments(
        tmp_path / "home", sandbox, await sandbox.base(), options, {"/run/artificer/wheels": tmp_path / "wheels"}
    )


async def test_what_is_installed_can_be_imported_and_only_read(environments: Environments, opened: Open) -> None:
    await environments.install(NEEDS)
    bench = await opened("bubblewrap", environments={environments.key(NEEDS): environments.place(NEEDS)})
    ran = await bench.run(BODY, environment=environments.key(NEEDS))
    assert ran.value == [4, True]
    ran = await bench.run(
        f"{BODY.splitlines()[0]}\nopen(tide_tables.__file__, 'w')", environment=environments.key(NEEDS)
    )
    assert ran.error == "tool_error"


async def test_it_is_installed_once(environments: Environments, tmp_path: Path) -> None:
    await environments.install(NEEDS)
    for wheel in (tmp_path / "wheels").iterdir():
        wheel.unlink()
    await environments.install(NEEDS)
    assert [path.name for path in (tmp_path / "home" / "environments").iterdir()] == [environments.key(NEEDS)]


async def test_what_is_not_there_is_a_failure_with_the_installers_words(
    environments: Environments, tmp_path: Path
) -> None:
    with pytest.raises(EnvironmentFailed, match="No matching distribution"):
        await environments.install(("tide-tables==9",))
    assert not any(path.name.startswith(".") for path in (tmp_path / "home" / "environments").iterdir())


async def test_nothing_is_installed_while_a_tool_runs(environments: Environments, opened: Open) -> None:
    bench = await opened("bubblewrap", environments={environments.key(NEEDS): environments.place(NEEDS)})
    ran = await bench.run(BODY, environment=environments.key(NEEDS))
    assert ran.error == "environment_missing"


def test_a_directory_that_is_a_link_is_not_taken(tmp_path: Path) -> None:
    # What an installer, which runs foreign code, might leave: a way to show the host's files to a tool.
    (tmp_path / "made").symlink_to("/etc")
    with pytest.raises(EnvironmentFailed, match="no directory of packages"):
        _keep(tmp_path / "made", tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_the_name_of_a_set_depends_on_what_is_in_it_the_kind_of_sandbox_and_its_base() -> None:
    base = "Linux x86_64, glibc 2.36, /usr/bin/python3.11"
    key = environment_key("bubblewrap", base, ["a", "b >= 1"])
    assert key == environment_key("bubblewrap", base, ["b  >=  1", "a"])
    others = [
        environment_key("docker", base, ["a", "b >= 1"]),
        environment_key("bubblewrap", base.replace("2.36", "2.41"), ["a", "b >= 1"]),
        environment_key("bubblewrap", base, ["a"]),
    ]
    assert len({key, *others}) == 4


async def test_packages_lie_under_the_python_and_processor_they_are_for(environments: Environments) -> None:
    await environments.install(NEEDS)
    (made,) = environments.place(NEEDS).iterdir()
    assert re.fullmatch(rf"[a-z]+-\d+-{os.uname().machine}", made.name)


@pytest.mark.parametrize("kind", ["bubblewrap", "process"])
async def test_a_base_names_processor_and_interpreter(kind: str) -> None:
    sandbox = SANDBOXES[kind]()
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"{kind}: {problem}")
    base = await sandbox.base()
    assert os.uname().machine in base
    assert "/python" in base
    assert await SANDBOXES[kind]().base() == base
