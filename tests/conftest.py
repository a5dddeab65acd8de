"""What holds for every test: no test finds a daemon, a key or a home that it did not ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")

NO_DAEMON = "unix:///nonexistent/docker.sock"
#: Variables that tell a lane of tests where its inputs and programs are.
LANES = ("ARTIFICER_TEST_", "ARTIFICER_LIVE_", "ARTIFICER_CLI_")
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """How many processes run the tests: several for the whole default lane, this one alone for all else.

    The other lanes count containers, processes and time, and a file or two is done before a worker has started.
    """
    whole = Path(__file__).parent
    named = [Path(config.invocation_params.dir, argument.split("::")[0]).resolve() for argument in config.args]
    if "not slow" not in config.option.markexpr or any(path not in (whole, whole.parent) for path in named):
        return 0
    return min(4, 2 * (os.cpu_count() or 1))  # they wait for processes and frames half of their time


@pytest.fixture(autouse=True)
def apart(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Keys and settings of the machine are out of sight, and Docker too but for tests of its lane."""
    for name in (*KEYS, *(name for name in os.environ if name.startswith("ARTIFICER_"))):
        if not name.startswith(LANES):
            monkeypatch.delenv(name, raising=False)
    if request.node.get_closest_marker("docker") is None:
        monkeypatch.setenv("DOCKER_HOST", NO_DAEMON)
    home: Path = tmp_path_factory.getbasetemp() / "nobody"
    monkeypatch.setenv("ARTIFICER_HOME", str(home / "artificer"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
