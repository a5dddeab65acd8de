"""The app in a terminal: every way out of it leaves the terminal as it was, and says how it ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.harness.stage import stage
from tests.harness.terminal import ROOT, Terminal, artificer
from tests.tui import scenes
from tui.desk import LEFT

FRESH = "Artificer builds agents."
ALL_BACK = {"screen": True, "cursor": True, "mouse": True, "paste": True, "line": True}


def test_ctrl_q_leaves_and_restores_the_terminal(tmp_path: Path) -> None:
    with artificer(tmp_path / "home") as terminal:
        terminal.wait_for(FRESH)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
        assert terminal.restored == ALL_BACK


@pytest.mark.slow
def test_ctrl_c_twice_leaves_with_130(tmp_path: Path) -> None:
    with artificer(tmp_path / "home") as terminal:
        at = terminal.wait_for(FRESH)
        terminal.send("\x03")
        terminal.wait_for("Press ctrl+c again to leave", after=at)
        terminal.send("\x03")
        assert terminal.exit_code() == 130
        assert terminal.restored == ALL_BACK


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_restores_the_terminal(tmp_path: Path, number: signal.Signals) -> None:
    with artificer(tmp_path / "home") as terminal:
        terminal.wait_for(FRESH)
        terminal.signal(number)
        assert terminal.exit_code() == 128 + number
        assert terminal.restored == ALL_BACK


@pytest.mark.slow
def test_a_stopped_app_that_goes_on_draws_everything_again(tmp_path: Path) -> None:
    with artificer(tmp_path / "home") as terminal:
        terminal.wait_for(FRESH)
        at = terminal.wait_for("quits")
        terminal.signal(signal.SIGTSTP)
        at = terminal.wait_for("\x1b[?1049l", after=at)  # the terminal is the shell's
        terminal.signal(signal.SIGCONT)
        terminal.wait_for(FRESH, after=at)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
        assert terminal.restored == ALL_BACK


@pytest.mark.slow
def test_a_signal_before_the_first_paint_restores_the_terminal_and_keeps_what_was_left(tmp_path: Path) -> None:
    on = stage(tmp_path / "home")
    session = scenes.asks(on)
    on.host.store.set_value(LEFT, f"session:{session}")
    on.host.store.close()
    with artificer(tmp_path / "home") as terminal:
        terminal.wait_for("\x1b[?1049h")  # it has the terminal now, and has painted nothing
        terminal.signal(signal.SIGTERM)
        assert terminal.exit_code() == 128 + signal.SIGTERM
        assert terminal.restored == ALL_BACK
    with closing(stage(tmp_path / "home").host.store) as store:
        assert store.get_value(LEFT) == f"session:{session}"


@pytest.mark.slow
def test_a_terminal_that_goes_away_ends_the_app(tmp_path: Path) -> None:
    with artificer(tmp_path / "home") as terminal:
        terminal.wait_for(FRESH)
        terminal.hang_up()
        assert terminal.exit_code() in (128 + signal.SIGHUP, -signal.SIGHUP, 1)


CRASH = """
import sys
from pathlib import Path
from tui import app, application
def crash(self):
    raise RuntimeError("a fault in the app")
application.ArtificerApp.action_help = crash
sys.exit(app.run_app(Path(sys.argv[1])))
"""


@pytest.mark.slow
def test_a_crash_restores_the_terminal_and_shows_what_happened(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-c", CRASH, str(tmp_path / "home")]
    with Terminal(argv, env={"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}) as terminal:
        terminal.wait_for(FRESH)
        terminal.send("\x1bOP")  # F1
        assert terminal.exit_code() == 1
        assert terminal.restored == ALL_BACK
        assert b"a fault in the app" in terminal.output


@pytest.mark.slow
def test_what_is_written_to_descriptor_2_does_not_reach_the_screen(tmp_path: Path) -> None:
    noisy = CRASH.replace('raise RuntimeError("a fault in the app")', "import os; os.write(2, b'native noise')")
    argv = [sys.executable, "-P", "-c", noisy, str(tmp_path / "home")]
    with Terminal(argv, env={"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}) as terminal:
        terminal.wait_for(FRESH)
        terminal.send("\x1bOP")
        log = tmp_path / "home" / "app.log"
        end = time.monotonic() + 10
        while "native noise" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.01)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
        assert log.read_text() == "native noise"
        assert b"native noise" not in terminal.output


def test_without_a_terminal_it_says_what_to_do(tmp_path: Path) -> None:
    import subprocess

    argv = [sys.executable, "-P", "-m", "tui.cli"]
    env = {**os.environ, "ARTIFICER_HOME": str(tmp_path / "home")}
    done = subprocess.run(
        argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "artificer --help" in done.stderr


@pytest.mark.slow
def test_no_color_shows_signs_and_words_without_colour(tmp_path: Path) -> None:
    on = stage(tmp_path / "home")
    scenes.asks(on)
    on.host.store.close()
    with artificer(tmp_path / "home", NO_COLOR="1") as terminal:
        terminal.wait_for("Which operations should it have?")
        terminal.send("\x11")
        terminal.exit_code()
        colours = {code for code in (b"\x1b[38;2;255;196;115m", b"38;2;254;166;43") if code in terminal.output}
        assert not colours


@pytest.mark.slow
def test_a_paste_of_a_megabyte_is_one_chip_and_the_app_stays_alive(tmp_path: Path) -> None:
    with artificer(tmp_path / "home") as terminal:
        at = terminal.wait_for(FRESH)
        terminal.send("\x1b[200~" + "\n".join(f"line {n} " + "x" * 50 for n in range(16_000)) + "\x1b[201~")
        terminal.wait_for("[pasted 16,000 lines]", after=at)
        terminal.send("\x11")
        assert terminal.exit_code() == 0


def test_keys_typed_fast_are_taken_in_their_order(tmp_path: Path) -> None:
    with artificer(tmp_path / "home") as terminal:
        at = terminal.wait_for(FRESH)
        terminal.send("/no/such/place\rnext words")
        at = terminal.wait_for("/no/such/place", after=at)
        terminal.wait_for("next words", after=at)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
    host = stage(tmp_path / "home").host
    assert [info.title for info in host.store.sessions()] == ["/no/such/place"]


def test_a_key_right_behind_the_one_that_leads_to_a_pane_is_for_the_pane(tmp_path: Path) -> None:
    on = stage(tmp_path / "home")
    on.host.store.set_value(LEFT, f"session:{scenes.done(on)}")
    on.host.store.close()
    with artificer(tmp_path / "home") as terminal:
        at = terminal.wait_for("rite to the Builder")  # the cursor stands on its first letter
        terminal.send("\x1bOSd")  # F4, and d for the difference, in one piece as a slow line brings them
        terminal.wait_for("persona.md", after=at)
        terminal.send("\x11")
        assert terminal.exit_code() == 0
