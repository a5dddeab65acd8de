"""A repository elsewhere as a source of a model's: it clones in its own sandbox, or is given a clone and told why."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core import register_provider
from tests.harness.commands import Ran, expecting
from tests.harness.githost import GitHost
from tests.harness.home import INPUTS
from tests.harness.public import public_network
from tests.harness.repositories import commit_all, git
from tests.harness.scripted import ScriptedProvider, call
from tests.harness.tls import Authority

HOST, PUBLIC = "93.184.216.5", "93.184.216.6"
FILTERED = pytest.param("bubblewrap", marks=pytest.mark.slow)
DOCKER = pytest.param("docker", marks=pytest.mark.docker)
MANIFEST = "schema: artificer/v1\\nname: %s\\ndescription: Knows tides.\\n"


@pytest.fixture
def model(home: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedProvider:
    """A scripted model that commands think with."""
    provider = ScriptedProvider()
    register_provider("scripted", lambda: provider)
    monkeypatch.setenv("ARTIFICER_PROVIDER", "scripted")
    monkeypatch.setattr("impl.providers._instances", {})
    return provider


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """(a directory of bare repositories with one, `notes`, and its newest commit)."""
    work, root = tmp_path / "notes", tmp_path / "repositories"
    shutil.copytree(INPUTS / "documentation", work)
    commit = commit_all(work)
    root.mkdir()
    git(root, "clone", "--quiet", "--bare", str(work), "notes")
    return root, commit


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority that signs the host's certificate."""
    made = Authority()
    made.write(tmp_path / "authority.pem")
    return made


@pytest.fixture
def elsewhere(
    repository: tuple[Path, str], authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GitHost]:
    """A git host at a public address, which sandboxes trust; this machine's own git does not."""
    monkeypatch.setenv("ARTIFICER_CA_BUNDLE", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("ARTIFICER_SANDBOX_IMAGE", "local")
    with (
        public_network(HOST, PUBLIC) as public,
        GitHost(authority, repository[0], address=PUBLIC, within=public.within) as host,
    ):
        yield host


@pytest.fixture
def beside(
    repository: tuple[Path, str], authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GitHost]:
    """A git host on loopback, which this machine's own git trusts; no sandbox reaches it."""
    monkeypatch.setenv("GIT_SSL_CAINFO", str(tmp_path / "authority.pem"))
    with GitHost(authority, repository[0]) as host:
        yield host


def with_a_network(ran: Ran) -> None:
    """Skip where the sandbox of a run turned out to have none."""
    for text in told(ran):
        if "no network (" in text:
            pytest.skip(f"no filtered network here: {text}")


def told(ran: Ran) -> list[str]:
    """What the model was told of its source."""
    return [event["data"]["text"] for event in ran.events if event["kind"] == "nudge"]


def sources(ran: Ran) -> list[dict[str, Any]]:
    """The bodies of the `source` events."""
    return [event["data"] for event in ran.events if event["kind"] == "source"]


def shell(command: str) -> Any:
    return [call("run_sandbox", command=command)]


def writing(name: str = "tide-clerk") -> list[Any]:
    """The turns that write, save and validate an agent."""
    files = f"mkdir -p agent; printf '{MANIFEST % name}' > agent/agent.yaml; echo 'You know tides.' > agent/persona.md"
    return [shell(files), [call("save_agent", path="agent")], [call("validate_agent")], "Done."]


# --- in the sandbox ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [FILTERED, DOCKER])
def test_a_model_clones_a_repository_in_its_own_sandbox_and_the_revision_says_where_it_is_from(
    kind: str, model: ScriptedProvider, elsewhere: GitHost, repository: tuple[Path, str]
) -> None:
    url = elsewhere.url("notes")
    model.script = [shell(f"git clone --depth 1 {url} /work/source && ls -A source"), *writing()]
    ran = expecting(0, "build", url, "--sandbox", kind)
    with_a_network(ran)
    (nudge,) = told(ran)
    assert f"git clone --depth 1 {url} /work/source" in nudge
    first = "\n".join(message.text for message in model.requests[0].messages)
    assert nudge in first
    output = next(event["data"]["output"] for event in ran.events if event["kind"] == "tool_result")
    assert {".git", "README.md", "docs"} <= set(output.split()), output
    (source,) = sources(ran)
    assert (source["url"], source["commit"]) == (url, repository[1])
    assert elsewhere.asked().count("GET /notes/info/refs?service=git-upload-pack") == 1
    shown = expecting(0, "show", "tide-clerk").value
    assert shown["source"] == {"url": url, "commit": repository[1]}
    assert shown["licence"] == {"spdx": "MIT", "status": "found", "path": "LICENSE"}


@pytest.mark.parametrize("kind", [FILTERED])
def test_a_repository_named_while_talking_is_the_revisions_source_once_it_is_cloned(
    kind: str, model: ScriptedProvider, elsewhere: GitHost, repository: tuple[Path, str]
) -> None:
    url = elsewhere.url("notes")
    model.script = ["Which repository?", shell(f"git clone -q --depth 1 {url} source"), *writing()]
    asked = expecting(10, "build", "-m", "An agent that knows tides", "--sandbox", kind).result
    ran = expecting(0, "answer", asked["session"], f"Take {url}, please.")
    assert told(ran) == []
    if not sources(ran):
        pytest.skip("no filtered network here")
    assert expecting(0, "show", "tide-clerk").value["source"] == {"url": url, "commit": repository[1]}


@pytest.mark.parametrize("kind", [FILTERED])
@pytest.mark.parametrize(
    "left",
    [
        "true",
        "git init -q source",
        "git init -q source; git -C source remote add origin https://example.org/other",
        "git init -q elsewhere; ln -s elsewhere source",
        "ln -s HOST source",  # a repository of this machine, with a licence
    ],
)
def test_what_was_not_cloned_has_no_commit_and_the_address_is_the_one_that_was_asked_for(
    kind: str, left: str, model: ScriptedProvider, elsewhere: GitHost, tmp_path: Path
) -> None:
    url = elsewhere.url("notes")
    model.script = [shell(left.replace("HOST", str(tmp_path / "notes"))), *writing()]
    ran = expecting(0, "build", url, "--sandbox", kind)
    with_a_network(ran)
    shown = expecting(0, "show", "tide-clerk").value
    assert (shown["source"], shown["licence"]["status"]) == ({"url": url}, "missing")


# --- where the sandbox has no network ------------------------------------------------------------------


def given_a_clone(ran: Ran, url: str, commit: str) -> str:
    """That this machine cloned the source, once; what the model was told."""
    (source,) = sources(ran)
    assert (source["url"], source["commit"]) == (url, commit)
    (nudge,) = told(ran)
    assert f"The source {url} was copied to /work/source by this machine" in nudge
    return nudge


def test_without_a_network_in_the_sandbox_this_machine_clones_and_says_why(
    model: ScriptedProvider, beside: GitHost, repository: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("impl.sandboxes.pasta.find", lambda: "pasta is not installed: `apt install passt`.")
    url = beside.url("notes")
    model.script = [shell("ls -A source"), *writing()]
    ran = expecting(0, "build", url, "--sandbox", "bubblewrap")
    assert "no network (pasta is not installed" in given_a_clone(ran, url, repository[1])
    output = next(event["data"]["output"] for event in ran.events if event["kind"] == "tool_result")
    assert "README.md" in output
    assert ".git\n" not in output
    assert expecting(0, "show", "tide-clerk").value["source"] == {"url": url, "commit": repository[1]}


def test_in_the_unsafe_kind_this_machine_clones_too(
    model: ScriptedProvider, beside: GitHost, repository: tuple[Path, str]
) -> None:
    url = beside.url("notes")
    model.script = ["What should it do?"]
    ran = expecting(10, "build", url, "--sandbox", "process")
    assert "no network (it isolates nothing" in given_a_clone(ran, url, repository[1])


# --- folders -------------------------------------------------------------------------------------------


def test_a_folder_named_while_talking_is_copied_for_a_model_too(model: ScriptedProvider) -> None:
    model.script = ["Which folder?", shell("head -1 source/README.md"), *writing()]
    asked = expecting(10, "build", "-m", "An agent that knows tides").result
    ran = expecting(0, "answer", asked["session"], str(INPUTS / "documentation"))
    assert "copied to /work/source" in told(ran)[0]
    assert expecting(0, "show", "tide-clerk").value["source"] == {"path": str(INPUTS / "documentation")}


def test_a_folder_that_is_only_mentioned_is_not_copied(model: ScriptedProvider) -> None:
    model.script = ["What should it do there?"]
    ran = expecting(10, "build", "-m", f"An agent that writes its notes to {INPUTS} every day")
    assert (told(ran), sources(ran)) == ([], [])


def test_what_a_killed_clone_had_begun_is_gone_once_the_source_is_there(
    model: ScriptedProvider, beside: GitHost, home: Path, repository: tuple[Path, str]
) -> None:
    repository[0].rename(repository[0].with_name("away"))
    model.script = ["It is not there.", "What should it do?"]
    asked = expecting(10, "build", beside.url("notes"), "--sandbox", "process").result
    left = home / "workspaces" / asked["session"] / "work" / ".clone-killed"
    (left / "git").mkdir(parents=True)
    repository[0].with_name("away").rename(repository[0])
    expecting(10, "answer", asked["session"], beside.url("notes"))
    assert [path.name for path in left.parent.iterdir()] == ["source"]
