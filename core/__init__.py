"""The domain of Artificer: its public names, loaded on first use, so that importing it costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.agent_cli.events import (
        CliCall,
        CliCharge,
        CliDelta,
        CliEnd,
        CliEvent,
        CliExit,
        CliFigures,
        CliNotice,
        CliParser,
        CliPermission,
        CliResult,
        CliSession,
        CliText,
        CliTotal,
        CliTurn,
        Invocation,
    )
    from core.agent_cli.process import CliProcess, CliRun, Deadlines
    from core.agent_cli.provider import ASK_S, OUR_SERVER, CliProvider, Route, ask_cli, merge_environment
    from core.answers import Answer, NoAnswer, choose, read_answer
    from core.bridge import Assembled, NameClash, assemble
    from core.builder.state import BuildState
    from core.builder.tools import BuilderWorld, platform_tools
    from core.bundle.checks import CHECKS_VERSION, CheckOutcome, check_bundle, check_tool, run_checks
    from core.bundle.diff import BundleDiff, FieldChange, diff_revisions
    from core.bundle.manifest import (
        Example,
        Manifest,
        ManifestError,
        McpServer,
        ToolManifest,
        dump_manifest,
        dump_tool,
        parse_manifest,
        parse_tool,
        read_manifest,
        read_tool,
    )
    from core.bundle.problems import Problem, ProblemCode
    from core.bundle.revisions import (
        Refusal,
        UnknownRef,
        checks_changed,
        materialise,
        publish,
        published_before,
        resolve_ref,
        rollback,
        save_revision,
        validate_revision,
    )
    from core.bundle.schemas import judge_schema
    from core.bundle.secret_scan import scan_for_secrets
    from core.bundle.strict_yaml import dump_yaml
    from core.bundle.tree import UnsafeTree, digest_tree, open_directory, read_regular, scan_tree, write_tree
    from core.costs import COST_KEYS, CostKey, costs_by
    from core.doors import build_launch, cancel_abandoned, run_launch
    from core.driver import (
        CorpusDocument,
        Decision,
        Driver,
        Limits,
        Passage,
        Persona,
        Skill,
        SkillInfo,
        Tool,
        ToolContext,
        ToolOutput,
        UnknownResource,
    )
    from core.effects.addresses import (
        CLOSED_V4,
        CLOSED_V6,
        ISATAP,
        ISATAP_MASK,
        OPEN_V6,
        is_public_address,
        is_public_name,
    )
    from core.effects.broker import Broker, NeedsCredential
    from core.effects.credentials import (
        SHORTEST_SECRET,
        Declaration,
        Declared,
        binding_id,
        check_value,
        credential_rows,
        declared,
        declared_by,
        find_declaration,
        has_values,
        ref_for,
        set_credential,
        waiting_for,
    )
    from core.effects.keyspotting import Spotted, mask, screen, spot
    from core.effects.ledger import Ledger, ReplayBook, recorded_example
    from core.effects.policy import EffectPolicy
    from core.effects.redaction import Redactor, redact
    from core.effects.redirects import MAX_REDIRECTS, REDIRECTS, follow_redirect
    from core.effects.requests import (
        Allowed,
        Binding,
        DenialReason,
        Denied,
        EffectRequest,
        EffectResponse,
    )
    from core.events import Event, encode
    from core.forking import CannotFork, fork_session
    from core.lab.comparison import compare, preferred
    from core.lab.evaluator import Bench, Judged, evaluate, judged_by, totals
    from core.lab.experiment import Attempts, Experiment, load_experiment, run_experiment
    from core.lab.families import families_of, families_of_all
    from core.lab.handover import BadStart, Start, lay_out
    from core.lab.judging import Opinion, Preference, Rubric, SameFamily, refuse_kin
    from core.lab.labels import (
        LABEL_WORDS,
        PAIR_WORDS,
        Label,
        UnknownCase,
        add_label,
        add_pair_label,
        agreement,
        judges_agreement,
        labels_now,
        pairs_agreement,
    )
    from core.lab.lineage import tree_of
    from core.lab.modeljudge import JudgeDriver, ModelJudge, NoJudge
    from core.lab.records import Reading, Record, built_path, built_tree
    from core.lab.runner import (
        BUILDER,
        Build,
        Job,
        Lost,
        NotAPreset,
        Preset,
        Ran,
        Runner,
        Setting,
        builder_preset,
        resolve_preset,
    )
    from core.lab.suite import BadSuite, CannedTool, Case, Suite, load_suite
    from core.launch import Busy, LaunchInput, Mailbox, NoSuchSession, Outcome, launch_agent, outside
    from core.policy import limits_from, limits_to_json
    from core.ports import (
        PASSPHRASE,
        ChannelEntry,
        CommandResult,
        Engine,
        EngineError,
        Host,
        Revision,
        Sandbox,
        SandboxUnavailable,
        SearchHit,
        SecretRow,
        Secrets,
        SecretsError,
        SecretsStatus,
        SessionInfo,
        Store,
        StoreError,
        Transport,
        TreeEntry,
        ValidationRun,
        Workspace,
    )
    from core.progress import ProgressGuard, Step, Verdict
    from core.provider import (
        Block,
        Finish,
        Message,
        ModelProvider,
        ModelRequest,
        Opaque,
        Provider,
        ProviderError,
        ProviderStatus,
        StreamItem,
        Text,
        TextDelta,
        Thinking,
        ThinkingDelta,
        ToolCall,
        ToolCallDelta,
        ToolResult,
        ToolSpec,
        TurnEnd,
        Usage,
        register_provider,
        registered_providers,
    )
    from core.session import Bus
    from core.stops import Option, Stop, Waiting
    from core.supervisor import Supervisor
    from core.tools import run_command

_HOMES = {
    "core.lab.suite": "BadSuite CannedTool Case Suite load_suite",
    "core.lab.runner": "BUILDER Build Job Lost NotAPreset Preset Ran Runner Setting builder_preset resolve_preset",
    "core.lab.records": "Reading Record built_path built_tree",
    "core.lab.lineage": "tree_of",
    "core.lab.families": "families_of families_of_all",
    "core.lab.judging": "Opinion Preference Rubric SameFamily refuse_kin",
    "core.lab.labels": (
        "Label UnknownCase LABEL_WORDS PAIR_WORDS add_label add_pair_label agreement judges_agreement labels_now "
        "pairs_agreement"
    ),
    "core.lab.modeljudge": "JudgeDriver ModelJudge NoJudge",
    "core.lab.handover": "BadStart Start lay_out",
    "core.lab.experiment": "Attempts Experiment load_experiment run_experiment",
    "core.lab.evaluator": "Bench Judged evaluate judged_by totals",
    "core.lab.comparison": "compare preferred",
    "core.bundle.schemas": "judge_schema",
    "core.answers": "Answer NoAnswer choose read_answer",
    "core.bridge": "Assembled NameClash assemble",
    "core.builder.state": "BuildState",
    "core.builder.tools": "BuilderWorld platform_tools",
    "core.bundle.checks": "CHECKS_VERSION CheckOutcome check_bundle check_tool run_checks",
    "core.bundle.diff": "BundleDiff FieldChange diff_revisions",
    "core.bundle.manifest": (
        "Example Manifest ManifestError McpServer ToolManifest dump_manifest dump_tool parse_manifest "
        "parse_tool read_manifest read_tool"
    ),
    "core.bundle.problems": "Problem ProblemCode",
    "core.bundle.revisions": (
        "Refusal UnknownRef checks_changed materialise publish published_before resolve_ref rollback save_revision "
        "validate_revision"
    ),
    "core.bundle.secret_scan": "scan_for_secrets",
    "core.bundle.strict_yaml": "dump_yaml",
    "core.bundle.tree": "UnsafeTree digest_tree open_directory read_regular scan_tree write_tree",
    "core.agent_cli.events": (
        "CliCall CliCharge CliDelta CliEnd CliEvent CliExit CliFigures CliNotice CliParser CliPermission CliResult "
        "CliSession CliText CliTotal CliTurn Invocation"
    ),
    "core.agent_cli.process": "CliProcess CliRun Deadlines",
    "core.agent_cli.provider": "ASK_S CliProvider OUR_SERVER Route ask_cli merge_environment",
    "core.doors": "build_launch cancel_abandoned run_launch",
    "core.driver": (
        "CorpusDocument Decision Driver Limits Passage Persona Skill SkillInfo Tool ToolContext ToolOutput "
        "UnknownResource"
    ),
    "core.effects.addresses": "CLOSED_V4 CLOSED_V6 ISATAP ISATAP_MASK OPEN_V6 is_public_address is_public_name",
    "core.effects.broker": "Broker NeedsCredential",
    "core.effects.credentials": (
        "SHORTEST_SECRET Declaration Declared binding_id check_value credential_rows declared declared_by "
        "find_declaration has_values ref_for set_credential waiting_for"
    ),
    "core.effects.keyspotting": "Spotted mask screen spot",
    "core.effects.ledger": "Ledger ReplayBook recorded_example",
    "core.effects.policy": "EffectPolicy",
    "core.effects.redaction": "Redactor redact",
    "core.effects.redirects": "MAX_REDIRECTS REDIRECTS follow_redirect",
    "core.effects.requests": "Allowed Binding DenialReason Denied EffectRequest EffectResponse",
    "core.costs": "COST_KEYS CostKey costs_by",
    "core.events": "Event encode",
    "core.forking": "CannotFork fork_session",
    "core.launch": "Busy LaunchInput Mailbox NoSuchSession Outcome launch_agent outside",
    "core.policy": "limits_from limits_to_json",
    "core.ports": (
        "ChannelEntry CommandResult Engine EngineError Host Revision Sandbox SandboxUnavailable SearchHit SecretRow "
        "PASSPHRASE Secrets SecretsError SecretsStatus SessionInfo Store StoreError Transport TreeEntry ValidationRun "
        "Workspace"
    ),
    "core.progress": "ProgressGuard Step Verdict",
    "core.provider": (
        "Block Finish Message ModelProvider ModelRequest Opaque Provider ProviderError ProviderStatus "
        "StreamItem Text TextDelta Thinking ThinkingDelta ToolCall ToolCallDelta ToolResult ToolSpec TurnEnd Usage "
        "register_provider registered_providers"
    ),
    "core.session": "Bus",
    "core.stops": "Option Stop Waiting",
    "core.supervisor": "Supervisor",
    "core.tools": "run_command",
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"module 'core' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
