"""Saving, validating, publishing and rolling back, with the real store."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.bundle import revisions
from core.bundle.checks import CheckOutcome
from core.bundle.revisions import (
    UnknownRef,
    checks_changed,
    materialise,
    publish,
    resolve_ref,
    rollback,
    save_revision,
    validate_revision,
)
from core.bundle.tree import digest_tree
from core.ports import ChannelEntry, StoreError, ValidationRun
from impl.store.sqlite import SqliteStore

from .conftest import MakeBundle

SAFE = {"sandbox": "bubblewrap", "unsafe": False}


class World:
    """A store, a clock that ticks and ids that count, and the verbs with the arguments nobody varies."""

    def __init__(self, store: SqliteStore, make: MakeBundle) -> None:
        self.store = store
        self.make = make
        self.ticks = itertools.count()
        self.ids = itertools.count()

    def now(self) -> str:
        return f"2026-01-01T00:00:{next(self.ticks):02}.000Z"

    def save(self, text: str = "x", **more) -> str:
        """Save the good bundle with this persona; its digest."""
        root = self.make({"persona.md": text}, f"bundle-{next(self.ids)}")
        saved = save_revision(self.store, root, by="person", message=text, now=self.now, **more)
        assert saved.revision is not None
        return saved.revision.digest

    def validate(self, digest: str, environment=SAFE, extra_checks=()) -> ValidationRun:
        return validate_revision(
            self.store,
            "weather",
            digest,
            environment=environment,
            now=self.now,
            new_id=lambda: f"v{next(self.ids)}",
            extra_checks=extra_checks,
        )

    def passed(self, text: str) -> str:
        digest = self.save(text)
        assert self.validate(digest).passed
        return digest

    def publish(self, digest: str, **more) -> ChannelEntry:
        return publish(self.store, "weather", digest, by="person", now=self.now, **more)

    def rollback(self, **more) -> ChannelEntry:
        return rollback(self.store, "weather", by="person", now=self.now, **more)

    @property
    def live(self) -> str | None:
        return self.store.channels("weather").get("live")


@pytest.fixture
def world(tmp_path: Path, make_bundle: MakeBundle) -> Iterator[World]:
    store = SqliteStore(tmp_path / "home")
    yield World(store, make_bundle)
    store.close()


# --- saving


def test_a_saved_revision_has_the_digest_of_its_directory_and_the_name_of_its_manifest(world: World) -> None:
    root = world.make()
    saved = save_revision(world.store, root, by="person", message="first", now=world.now)
    assert saved.created
    assert saved.revision is not None
    assert (saved.revision.agent, saved.revision.digest) == ("weather", digest_tree(root))
    assert world.store.latest("weather") == digest_tree(root)


def test_what_is_materialised_is_what_was_saved(world: World, tmp_path: Path) -> None:
    root = world.make()
    (root / "tools/get_forecast/tool.py").chmod(0o755)
    saved = save_revision(world.store, root, by="person", message="", now=world.now)
    assert saved.revision is not None
    materialise(world.store, saved.revision, tmp_path / "copy")
    assert digest_tree(tmp_path / "copy") == digest_tree(root)
    assert (tmp_path / "copy/tools/get_forecast/tool.py").stat().st_mode & 0o100


def test_a_revision_descends_from_the_latest(world: World) -> None:
    first, second = world.save("one"), world.save("two")
    revision = world.store.revision("weather", second)
    assert revision is not None
    assert revision.parents == (first,)


def test_the_same_tree_is_no_new_revision(world: World) -> None:
    root = world.make()
    save_revision(world.store, root, by="person", message="first", now=world.now)
    again = save_revision(world.store, root, by="builder", message="again", now=world.now)
    assert not again.created
    assert again.revision is not None
    assert (again.revision.message, again.revision.parents) == ("first", ())


def test_work_in_progress_may_be_saved(world: World) -> None:
    root = world.make({"persona.md": None, "tools/get_forecast/tool.py": "def"})
    assert save_revision(world.store, root, by="person", message="wip", now=world.now).created


@pytest.mark.parametrize("text", [None, "schema: [", "schema: artificer/v1\n", "name: Not A Name\n"])
def test_a_bundle_that_names_no_agent_is_saved_under_a_name_given(world: World, text: str | None) -> None:
    root = world.make({"agent.yaml": text})
    refused = save_revision(world.store, root, by="person", message="", now=world.now)
    assert (refused.revision, [p.code for p in refused.problems]) == (None, ["missing_key"])
    assert save_revision(world.store, root, agent="mine", by="person", message="", now=world.now).created


def test_a_tree_with_a_link_is_not_stored(world: World) -> None:
    root = world.make()
    (root / "corpus/link").symlink_to("/etc/passwd")
    refused = save_revision(world.store, root, by="person", message="", now=world.now)
    assert (refused.revision, [p.code for p in refused.problems]) == (None, ["symlink"])
    assert world.store.agents() == []


# --- validating


def test_a_good_revision_passes_and_the_run_is_recorded(world: World) -> None:
    digest = world.save()
    run = world.validate(digest)
    assert run.passed
    assert world.store.validations("weather", digest) == [run]
    assert {"identity", "manifest", "code", "secrets"} <= {str(check["name"]) for check in run.checks}


def test_a_broken_revision_fails_with_its_problems(world: World) -> None:
    run = world.validate(world.save(" "))
    assert not run.passed
    assert [problem["code"] for problem in run.problems] == ["persona_empty"]


def test_a_revision_nobody_saved_cannot_be_validated(world: World) -> None:
    world.save()
    with pytest.raises(UnknownRef):
        world.validate("sha256:" + "0" * 64)


def test_checks_in_the_sandbox_see_the_written_tree_and_count(world: World) -> None:
    digest = world.save()

    def check(path: Path) -> CheckOutcome:
        return CheckOutcome("sandbox", False, 0.0, digest_tree(path))

    run = world.validate(digest, extra_checks=[check])
    assert not run.passed
    assert run.checks[-1]["log"] == digest


def test_checks_in_the_sandbox_do_not_run_what_failed_statically(world: World) -> None:
    def check(path: Path) -> CheckOutcome:
        raise AssertionError("must not run")

    assert not world.validate(world.save(" "), extra_checks=[check]).passed


@pytest.mark.parametrize("environment", [{"sandbox": "process"}, {"sandbox": "other", "unsafe": True}])
def test_a_bundle_with_tools_never_passes_without_isolation(world: World, environment) -> None:
    run = world.validate(world.save(), environment)
    assert [problem["code"] for problem in run.problems] == ["unsafe_sandbox"]


def test_a_person_may_allow_a_run_without_isolation_and_the_run_says_so(world: World) -> None:
    run = world.validate(world.save(), {"sandbox": "process", "unsafe": True, "allow_unsafe": True})
    assert run.passed
    assert run.environment["allow_unsafe"] is True


def test_a_bundle_without_tools_passes_without_isolation(world: World) -> None:
    root = world.make({"agent.yaml": "schema: artificer/v1\nname: weather\n"})
    for path in ("tools", "skills", "corpus"):
        subprocess.run(["rm", "-r", str(root / path)], check=True)
    saved = save_revision(world.store, root, by="person", message="", now=world.now)
    assert saved.revision is not None
    assert world.validate(saved.revision.digest, {"sandbox": "process", "unsafe": True}).passed


def test_a_damaged_blob_fails_the_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = world.save()

    def damaged(sha256: str) -> bytes:
        raise StoreError("damaged", "the content is damaged")

    monkeypatch.setattr(world.store, "blob", damaged)
    run = world.validate(digest)
    assert [problem["code"] for problem in run.problems] == ["digest_mismatch"]


# --- publishing


def test_a_passed_revision_is_published_with_its_run(world: World) -> None:
    digest = world.passed("one")
    entry = world.publish(digest)
    assert entry.refused is None
    assert entry.validation_run == world.store.validations("weather", digest)[-1].id
    assert world.live == digest


def not_validated(world: World) -> str:
    return world.save("one")


def failed(world: World) -> str:
    digest = world.save(" ")
    world.validate(digest)
    return digest


def other_checks(world: World) -> str:
    digest = world.save("one")
    run = ValidationRun("old", "weather", digest, world.now(), True, "0", SAFE)
    world.store.add_validation(run)
    return digest


def unknown(world: World) -> str:
    world.save("one")
    return "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (not_validated, "not_validated"),
        (failed, "validation_failed"),
        (other_checks, "checks_changed"),
        (unknown, "unknown_revision"),
    ],
)
def test_a_refused_publication_says_why_and_is_recorded(
    world: World, prepare: Callable[[World], str], reason: str
) -> None:
    entry = world.publish(prepare(world))
    assert entry.refused == reason
    assert world.store.channel_log("weather") == [entry]
    assert world.live is None


def test_another_revisions_run_is_no_run_of_this_one(world: World) -> None:
    world.passed("one")
    assert world.publish(world.save("two")).refused == "not_validated"


def test_a_stale_head_is_refused_and_recorded(world: World) -> None:
    first, second = world.passed("one"), world.passed("two")
    world.publish(first)
    entry = world.publish(second, expected=None)
    assert entry.refused == "stale_head"
    assert world.store.channel_log("weather")[-1] == entry
    assert world.live == first


def test_channels_are_apart(world: World) -> None:
    first, second = world.passed("one"), world.passed("two")
    world.publish(first)
    world.publish(second, channel="canary")
    assert world.store.channels("weather") == {"live": first, "canary": second}


@pytest.mark.parametrize("name", ["latest", "", "A", "a/b", "1"])
def test_a_channel_needs_a_name_that_cannot_be_mistaken(world: World, name: str) -> None:
    with pytest.raises(ValueError, match="channel"):
        world.publish(world.passed("one"), channel=name)


RACER = """
import sys
from pathlib import Path
from core.bundle.revisions import publish
from impl.store.sqlite import SqliteStore
home, digest, head = sys.argv[1:]
store = SqliteStore(Path(home))
print("ready", flush=True)
sys.stdin.readline()
entry = publish(store, "weather", digest, by="person", now=lambda: "2026-01-01T00:00:00Z", expected=head)
print(entry.refused)
"""


def test_of_two_processes_that_saw_the_same_head_one_publishes(world: World) -> None:
    first, second, third = world.passed("one"), world.passed("two"), world.passed("three")
    world.publish(first)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(world.store.home), digest, first],
            cwd=Path(__file__).parents[3],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for digest in (second, third)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    said = [racer.communicate()[0].strip() for racer in racers]
    assert sorted(said) == ["None", "stale_head"]
    assert world.live == (second, third)[said.index("None")]
    assert len(world.store.channel_log("weather")) == 3


# --- rolling back


def test_rolling_back_twice_goes_back_two_publications(world: World) -> None:
    digests = [world.passed(text) for text in ("one", "two", "three")]
    for digest in digests:
        world.publish(digest)
    assert world.rollback().digest == digests[1]
    assert world.rollback().digest == digests[0]
    assert world.live == digests[0]
    with pytest.raises(UnknownRef):
        world.rollback()


def test_a_publication_after_a_rollback_goes_back_to_what_was_live_before_it(world: World) -> None:
    one, two, three = (world.passed(text) for text in ("one", "two", "three"))
    world.publish(one)
    world.publish(two)
    world.rollback()
    world.publish(three)
    assert world.rollback().digest == one


def test_refused_publications_are_no_part_of_the_history(world: World) -> None:
    one, two = world.passed("one"), world.passed("two")
    world.publish(one)
    world.publish(world.save("three"))
    world.publish(two)
    assert world.rollback().digest == one


def test_a_rollback_takes_any_revision_that_once_passed(world: World) -> None:
    one, two = world.passed("one"), world.passed("two")
    world.publish(two)
    entry = world.rollback(to=one.removeprefix("sha256:")[:10])
    assert (entry.refused, entry.action, world.live) == (None, "rollback", one)


def test_a_rollback_to_a_revision_that_never_passed_is_refused(world: World) -> None:
    world.publish(world.passed("one"))
    entry = world.rollback(to=world.save("two"))
    assert entry.refused == "never_passed"


def test_a_rollback_works_where_checks_have_changed_and_can_warn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = world.passed("one"), world.passed("two")
    world.publish(one)
    world.publish(two)
    monkeypatch.setattr(revisions, "CHECKS_VERSION", "next")
    assert checks_changed(world.store, "weather", one)
    assert world.publish(one).refused == "checks_changed"
    assert world.rollback().refused is None


def test_a_rollback_that_saw_another_head_is_refused(world: World) -> None:
    one, two = world.passed("one"), world.passed("two")
    world.publish(one)
    world.publish(two)
    assert world.rollback(expected=one).refused == "stale_head"


# --- naming


def test_a_revision_is_named_by_digest_prefix_channel_or_nothing(world: World) -> None:
    one, two = world.passed("one"), world.save("two")
    world.publish(one)
    bare = one.removeprefix("sha256:")
    for ref in (one, bare, bare[:12], "sha256:" + bare[:12], bare[:12].upper(), "live"):
        assert resolve_ref(world.store, "weather", ref) == one
    assert resolve_ref(world.store, "weather") == two
    assert resolve_ref(world.store, "weather", "latest") == two
    assert resolve_ref(world.store, "weather", None, default="live") == one


def test_what_cannot_be_resolved_says_what_there_is(world: World) -> None:
    one = world.save("one")
    with pytest.raises(UnknownRef) as no_agent:
        resolve_ref(world.store, "other")
    with pytest.raises(UnknownRef) as no_live:
        resolve_ref(world.store, "weather", "live")
    with pytest.raises(UnknownRef) as no_revision:
        resolve_ref(world.store, "weather", "zzz")
    short = one.removeprefix("sha256:")[:12]
    assert "weather" in no_agent.value.hint
    assert short in no_live.value.hint
    assert short in no_revision.value.hint


def test_a_prefix_of_two_revisions_is_ambiguous(world: World) -> None:
    begins = [world.save(str(number)).removeprefix("sha256:")[0] for number in range(17)]
    shared = next(digit for digit in begins if begins.count(digit) > 1)
    with pytest.raises(UnknownRef, match="more than one"):
        resolve_ref(world.store, "weather", shared)
