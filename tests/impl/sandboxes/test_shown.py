"""What of the host a workspace is shown: at its place inside, as it is now, and to read alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from impl.sandboxes import SANDBOXES
from impl.sandboxes.options import Options


@pytest.mark.parametrize("kind", [pytest.param("bubblewrap"), pytest.param("docker", marks=pytest.mark.docker)])
async def test_what_is_shown_stands_in_its_place_and_cannot_be_written(
    kind: str, options: Options, tmp_path: Path
) -> None:
    sandbox = SANDBOXES[kind](options)
    if (problem := await sandbox.probe()) is not None:
        pytest.skip(f"{kind} does not work here: {problem}")
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "a").write_text("first")
    shown = {"/run/artificer/shown": tmp_path / "shown", "/run/artificer/one": tmp_path / "shown" / "a"}
    workspace = await sandbox.open(tmp_path / "work", shown=shown)
    try:
        assert (await workspace.run("cat /run/artificer/shown/a /run/artificer/one")).output == "firstfirst"
        (tmp_path / "shown" / "b").write_text("later")
        assert (await workspace.run("cat /run/artificer/shown/b")).output == "later"
        for attempt in ("touch /run/artificer/shown/c", "echo x >/run/artificer/one", "rm /run/artificer/shown/a"):
            assert (await workspace.run(attempt)).exit_code != 0
    finally:
        await workspace.close()
    assert sorted(path.name for path in (tmp_path / "shown").iterdir()) == ["a", "b"]
    assert (tmp_path / "shown" / "a").read_text() == "first"
