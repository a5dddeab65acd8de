"""The disk quota of a workspace: a warning first, then no more commands."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from core import SandboxUnavailable
from impl.sandboxes import quota
from impl.sandboxes.options import Options
from impl.sandboxes.quota import Quota, amount, size_of
from tests.impl.sandboxes.conftest import Open

LIMIT = 10_000_000


@pytest.fixture
def limited(options: Options) -> Options:
    """Options with a quota of 10 MB."""
    return replace(options, quota=LIMIT)


FILL = "head -c {} /dev/urandom > fill; sync; echo done"


async def test_below_four_fifths_nothing_is_said(kind: str, opened: Open, limited: Options) -> None:
    workspace = await opened(kind, given=limited)
    assert (await workspace.run(FILL.format("7M"))).output == "done\n"


async def test_from_four_fifths_on_a_line_warns(kind: str, opened: Open, limited: Options) -> None:
    workspace = await opened(kind, given=limited)
    shown: list[str] = []
    result = await workspace.run(FILL.format(9_000_000), on_output=shown.append)
    assert re.fullmatch(r"done\n\[The workspace takes 9\.. MB of its quota of 10 MB\.\]\n", result.output)
    assert "".join(shown) == result.output


async def test_beyond_it_commands_are_refused_until_files_are_deleted(
    kind: str, opened: Open, limited: Options
) -> None:
    workspace = await opened(kind, given=limited)
    result = await workspace.run(FILL.format("12M"))
    assert "No other command runs before files were deleted" in result.output
    with pytest.raises(SandboxUnavailable, match="over its quota of 10 MB"):
        await workspace.run("true")
    (workspace.path / "fill").unlink()
    assert (await workspace.run("echo again")).output == "again\n"


async def test_a_command_that_goes_beyond_it_is_ended(
    opened: Open, limited: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "WATCH_S", 0.02)
    workspace = await opened("bubblewrap", given=limited)
    result = await workspace.run(FILL.format("12M") + "; sleep 300")
    assert (result.exit_code, result.timed_out) == (-9, False)
    assert "The command was ended" in result.output


async def test_a_warm_command_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Path] = []

    async def count(path: Path) -> int:
        measured.append(path)
        return 0

    monkeypatch.setattr(quota, "size_of", count)
    monkeypatch.setattr(quota, "_used", lambda path: 0)
    watched = Quota(tmp_path, LIMIT)
    for _ in range(5):
        await watched.admit()
        assert await watched.after() == ""
    assert len(measured) == 1


async def test_links_and_files_of_others_do_not_stop_a_measurement(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 200_000)
    (tmp_path / "again").hardlink_to(tmp_path / "file")
    (tmp_path / "out").symlink_to("/usr")
    assert 200_000 <= await size_of(tmp_path) < 300_000
    assert await size_of(tmp_path / "none") == 0


def test_amounts_read_as_people_write_them() -> None:
    assert [amount(n) for n in (12, 9_000_000, 12_345_678, 2_500_000_000)] == ["12 bytes", "9.0 MB", "12 MB", "2.5 GB"]
