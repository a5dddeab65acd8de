"""An agent CLI as a judge: asked like any model, with no tools of anybody's."""

from __future__ import annotations

from collections.abc import Callable

from core import Rubric, Supervisor
from core.lab.modeljudge import ModelJudge
from impl.compose import driver
from tests.harness.clis import CliStage, StandIn

Make = Callable[..., tuple[CliStage, StandIn]]


async def test_an_agent_cli_judges_and_is_asked_again_in_its_own_session(claude: Make) -> None:
    verdict = '{"verdict": "pass", "why": "It is."}'
    stage, stand_in = claude(f"init(); text('Hm.' if turn == 1 else {verdict!r}); result(usd=0.01, total=0.01 * turn)")
    stage.host.driver = driver
    judge = ModelJudge(stage.host, Supervisor(stage.host), "claude_code")
    opinion = await judge.grade(Rubric("It is short."), "Say hi.", "Hi.")
    assert (opinion.word, opinion.attempts, opinion.usd) == ("pass", 2, "0.02")
    assert judge.families == {"anthropic"}
    assert [start["argv"][start["argv"].index("--tools") + 1] for start in stand_in.started] == ["", ""]
