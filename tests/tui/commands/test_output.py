"""What commands print and how they fail: usage errors, unknown names, readers that leave, pipes."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.harness.commands import argv, artificer, environment, expecting
from tests.harness.home import INPUTS
from tui.commands.output import Refused, fail, meanwhile


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("run", "agent"),
        ("run", "agent", " "),
        ("build", "--nonsense"),
        ("answer", "session"),
        ("save",),
    ],
)
def test_a_mistake_in_the_command_line_exits_2_with_where_to_look(home: Path, words: tuple[str, ...]) -> None:
    error = expecting(2, *words).error
    assert error["code"] == "usage"
    assert "--help" in error["hint"]


def test_a_mistake_in_a_command_of_a_group_is_sent_to_that_command_s_help(home: Path) -> None:
    assert expecting(2, "credentials", "remove", "agent").error["hint"] == "See: artificer credentials remove --help"


def test_help_names_every_command(home: Path) -> None:
    words = artificer("--help", json=False).out
    for command in (
        *("build", "run", "resume", "answer", "interrupt", "agents", "revisions", "show", "diff", "log", "checkout"),
        *("save", "validate", "validations", "publish", "rollback", "sessions", "transcript", "search", "costs"),
        *("providers", "doctor", "gc"),
    ):
        assert f"  {command} " in words


@pytest.mark.parametrize("group", [(), ("credentials",)])
def test_what_a_command_does_is_said_whole_in_the_list_of_commands(
    home: Path, monkeypatch: pytest.MonkeyPatch, group: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = artificer(*group, "--help", json=False).out
    assert [line for line in words.splitlines() if line.endswith("...") and "Usage" not in line] == []


def test_the_version_is_printed(home: Path) -> None:
    ran = artificer("--version", json=False)
    assert (ran.code, ran.out.strip().count(".")) == (0, 2)


@pytest.mark.parametrize(
    ("words", "next_step"),
    [
        (("build", ".", "--provider", "nonsense"), "artificer providers"),
        (("build", ".", "--sandbox", "nonsense"), "artificer doctor"),
        (("build", "/nowhere/at/all"), "folder"),
        (("build", "/"), "folder"),
        (("build", "git@example.org:owner/name.git"), "https://example.org/owner/name"),
        (("build", "https://user:token@example.org/owner/name"), "https://example.org/owner/name"),
        (("build", "example.com/owner/name"), "https://example.com/owner/name"),
        (("answer", "nosuch", "x"), "artificer sessions"),
        (("interrupt", "nosuch"), "artificer sessions"),
        (("save", "/nowhere/at/all"), "artificer checkout"),
        (("validate", "./nowhere"), "agent or a directory"),
    ],
)
def test_an_error_names_the_next_step_and_starts_nothing(home: Path, words: tuple[str, ...], next_step: str) -> None:
    error = expecting(1, *words).error
    assert next_step in error["hint"]
    assert expecting(0, "sessions").value == []


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("nothing is there", "Nothing is there."),
        ("ab1 is the beginning of two", "ab1 is the beginning of two."),
        ("ssh:// addresses are not cloned.", "ssh:// addresses are not cloned."),
    ],
)
def test_an_error_is_a_sentence_and_leaves_ids_and_addresses_as_they_are(
    capsys: pytest.CaptureFixture[str], message: str, shown: str
) -> None:
    fail(Refused("not_found", message), json=False)
    assert capsys.readouterr().err == f"{shown}\n"


def test_an_unknown_provider_is_met_by_the_names_there_are(home: Path) -> None:
    message = expecting(1, "build", ".", "--provider", "ofline").error["message"]
    assert "Did you mean offline" in message


def test_without_json_an_error_is_words_on_stderr(home: Path) -> None:
    ran = artificer("run", "nobody", "x", json=False)
    assert (ran.code, ran.out) == (1, "")
    assert "There is no agent nobody" in ran.err


def test_words_for_people_stay_off_stdout_with_json(home: Path) -> None:
    ran = artificer("build", INPUTS / "subagents", "--answer", "2", "--answer", "x")
    assert ran.lines
    assert "not needed" in ran.err


def test_a_reader_that_leaves_is_no_error(docs: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        argv("show", docs), stdout=write, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_error(docs: str, closed: str) -> None:
    command = f"exec {shlex.join(argv('run', docs, 'what does a harbour have?', '--json'))} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, env=environment(), timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert expecting(0, "sessions").value[-1]["stop"] == "completed"


def test_a_full_disk_behind_stdout_does_not_end_the_session_and_is_said(docs: str) -> None:
    command = argv("run", docs, "what does a harbour have?", "--json")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Not all of the output could be written")
    assert expecting(0, "sessions").value[-1]["stop"] == "completed"


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_and_not_to_a_pipe(home: Path) -> None:
    ours, theirs = pty.openpty()
    command = argv("build", INPUTS / "documentation")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=environment(), timeout=60, check=False)
    os.close(theirs)
    seen = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.returncode == 0
    assert "import_source" in seen
    piped = subprocess.run(command, capture_output=True, env=environment(), timeout=60, check=False)
    assert piped.stderr == b""


@pytest.mark.slow
def test_a_terminal_that_knows_only_ascii_gets_escapes_and_programs_still_get_json(docs: str) -> None:
    import json

    env = environment(PYTHONIOENCODING="ascii", LC_ALL="C")
    command = argv("build", INPUTS / "documentation")
    plain = subprocess.run(command, capture_output=True, env=env, timeout=60, check=False)
    assert plain.returncode == 0
    lines = subprocess.run([*command, "--json"], capture_output=True, env=env, timeout=60, check=False).stdout
    assert [json.loads(line) for line in lines.splitlines()][-1]["stop"] == "completed"


def test_what_a_terminal_would_obey_is_written_out(home: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "clerk"
    bundle.mkdir()
    described = '"red \\e[31m \\x9b2J"'
    (bundle / "agent.yaml").write_text(f"schema: artificer/v1\nname: clerk\ndescription: {described}\n")
    (bundle / "persona.md").write_text("You are red: \x1b[31m\x9b2J\n")
    (bundle / "a\x1b]0;title\x07.md").write_text("x")
    refused = artificer("save", bundle, json=False)
    assert "a\\x1b]0;title\\x07.md" in refused.err
    assert refused.err.replace("\n", "").isprintable()
    (bundle / "a\x1b]0;title\x07.md").unlink()
    expecting(0, "save", bundle)
    first = expecting(0, "revisions", "clerk").value[0]["digest"]
    (bundle / "persona.md").write_text("You are green: \x1b[32m\n")
    second = expecting(0, "save", bundle).value["digest"]
    for words in (("show", "clerk"), ("diff", "clerk", first, second)):
        out = artificer(*words, json=False).out
        assert "\\x1b" in out or "\\e" in out
        assert out.replace("\n", "").isprintable()


def test_a_question_says_once_what_it_recommends(home: Path) -> None:
    ran = artificer("build", INPUTS / "skills", json=False)
    assert (ran.out + ran.err).count("(recommended") == 1


def test_what_only_programs_call_is_not_among_peoples_commands() -> None:
    shown = artificer("--help", json=False).out
    assert " mcp " not in shown
    assert "running session's tools" in artificer("mcp", "--help", json=False).out


def test_of_a_pull_a_pipe_is_told_that_it_began_and_not_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    for line in ("[Pulling the sandbox's image a:1, once]\n", "[4 of 10 MB]\n", "[The image a:1 is here]\n"):
        meanwhile(line)
    assert capsys.readouterr().err == "[Pulling the sandbox's image a:1, once]\n"


@pytest.mark.parametrize(
    ("words", "code", "said"), [(("build", "."), 1, "The directory you are in is gone."), (("agents",), 0, "")]
)
def test_in_a_directory_that_is_gone_what_needs_it_says_so_and_all_else_works(
    home: Path, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {shlex.quote(str(gone))} && rmdir ../gone && exec {shlex.join(argv(*words))}"
    ran = subprocess.run(
        ["sh", "-c", script], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == code
    assert said in ran.stderr


def test_help_speaks_of_no_types_of_the_language_it_is_written_in(home: Path) -> None:
    for command in ("build", "run", "eval", "compare", "experiment"):
        assert "list[" not in artificer(command, "--help", json=False).out
