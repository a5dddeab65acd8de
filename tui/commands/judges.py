"""Judges that are models, for commands that may ask one: their options, and what is refused before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import core
from tui.commands import output

if TYPE_CHECKING:
    from core import Bench, Host, ModelJudge, Preset, Record, Rubric, Setting, Supervisor

JudgeName = Annotated[str | None, typer.Option("--judge", help="The provider whose model judges by a rubric.")]
JudgeModel = Annotated[str | None, typer.Option("--judge-model", help="Its model, in the provider's words.")]
ForceJudge = Annotated[bool, typer.Option("--force-judge", help="Also where it is of the author's own family.")]


def read_rubric(path: Path) -> Rubric:
    """The rubric in a text file."""
    from core import Rubric

    try:
        return Rubric(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise output.Refused("not_found", f"{path} cannot be read.", "Name a text file with the rubric.") from error


def preference_line(found: Mapping[str, Any]) -> str:
    """What a judge found of a pair, in a line."""
    how = "" if found["consistent"] else "; in the other order it said otherwise, so it is a tie"
    kin = " (of the same family, forced)" if found["same_family"] else ""
    return f"{found['judge']}{kin}: {found['winner'] or found['state']}{how}. {found['why']}"


def check_judge(
    host: Host, named: tuple[str, str | None], presets: Sequence[Preset], setting: Setting, forced: bool
) -> frozenset[str]:
    """The families of models that wrote these revisions. Refused, before anything runs, where the judge's own is one of
    them or that of the model that will run them."""
    from core import Reading, SameFamily, families_of_all, refuse_kin

    reading, name = Reading(host), setting.provider or host.settings.provider
    written = {model for preset in presets for model in reading.written_by(preset.agent, preset.digest)}
    provider = host.provider(name) if isinstance(name, str) else name
    default = getattr(provider, "default_model", lambda: None)()
    runs = {(provider.full_name, setting.model or host.settings.model or default)}
    try:
        judge = _model_judge(host, core.Supervisor(host), named, None, None)
        refuse_kin(judge, families_of_all(written | runs), forced=forced)
    except SameFamily as error:
        hint = "Name another with --judge, or say --force-judge; the results will say so."
        raise output.Refused("same_family", str(error), hint) from error
    return families_of_all(written)


def refuse_unknown(host: Host, named: tuple[str, str | None]) -> None:
    """Refused where there is no such judge."""
    _model_judge(host, core.Supervisor(host), named, None, None)


def bench_of(
    host: Host,
    supervisor: Supervisor,
    named: tuple[str, str | None] | None,
    record: Record,
    sandbox: str | None,
    others: frozenset[str],
    forced: bool,
) -> Bench | None:
    """The judge of a record, None where none is named."""
    from core import Bench

    if named is None:
        return None
    return Bench(_model_judge(host, supervisor, named, record.session, sandbox), others, forced)


def _model_judge(
    host: Host, supervisor: Supervisor, named: tuple[str, str | None], parent: str | None, sandbox: str | None
) -> ModelJudge:
    from core import ModelJudge, NoJudge

    try:
        return ModelJudge(host, supervisor, *named, parent=parent, sandbox=sandbox)
    except (NoJudge, LookupError) as error:
        hint = "List providers with: artificer providers"
        raise output.Refused("not_found", f"There is no such judge: {error.args[0]}", hint) from error
