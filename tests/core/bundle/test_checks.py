"""Each way a bundle can be broken has its own problem, and nothing of a bundle is run to find it."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from core.bundle.checks import check_bundle, check_tool, run_checks
from core.bundle.problems import ProblemCode

from .conftest import GOOD, MakeBundle

TOOL = "tools/get_forecast/tool.py"
TOOL_YAML = "tools/get_forecast/tool.yaml"


def codes(root: Path) -> list[str]:
    return [str(problem.code) for problem in check_bundle(root)]


def manifest(*changes: tuple[str, str]) -> dict[str, str]:
    text = GOOD["agent.yaml"]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return {"agent.yaml": text}


def tool(*changes: tuple[str, str]) -> dict[str, str]:
    text = GOOD[TOOL_YAML]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return {TOOL_YAML: text}


def mcp(server: str) -> dict[str, str]:
    return {"agent.yaml": f"{GOOD['agent.yaml']}mcp: [{{name: m, {server}}}]\n"}


def test_a_good_bundle_has_no_problem(make_bundle: MakeBundle) -> None:
    assert check_bundle(make_bundle()) == []


BOMB = "a: &a [x, x]\n" + "".join(f"{c}: &{c} [*{p}, *{p}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True))
SCHEMA = "input_schema:\n  type: object\n"

BROKEN: list[tuple[str, dict[str, str | bytes | None]]] = [
    # agent.yaml
    ("manifest_missing", {"agent.yaml": None}),
    ("yaml_duplicate_key", {"agent.yaml": GOOD["agent.yaml"] + "name: other\n"}),
    ("yaml_alias", {"agent.yaml": GOOD["agent.yaml"] + "metadata: {a: &a x, b: *a}\n"}),
    ("yaml_alias", {"agent.yaml": BOMB}),
    ("yaml_syntax", {"agent.yaml": "schema: [\n"}),
    ("yaml_syntax", {"agent.yaml": GOOD["agent.yaml"] + "metadata: !!python/name:os.system {}\n"}),
    ("yaml_syntax", {"agent.yaml": GOOD["agent.yaml"] + "---\na: b\n"}),
    ("yaml_too_deep", {"agent.yaml": "[" * 100 + "]" * 100}),
    ("yaml_too_deep", {"agent.yaml": "[" * 100_000}),
    ("yaml_too_large", {"agent.yaml": GOOD["agent.yaml"] + "#" * 300_000}),
    ("not_utf8", {"agent.yaml": b"name: caf\xe9\n"}),
    ("bad_value", {"agent.yaml": "- a\n"}),
    ("bad_value", {"agent.yaml": ""}),
    ("unknown_key", {"agent.yaml": GOOD["agent.yaml"] + "author: me\n"}),
    ("missing_key", manifest(("name: weather\n", ""))),
    ("bad_name", manifest(("name: weather", "name: The Weather"))),
    ("bad_name", {"agent.yaml": GOOD["agent.yaml"] + "delegates: {presets: [helper@live, ../helper]}\n"}),
    ("bad_value", manifest(("artificer/v1", "artificer/v9"))),
    ("bad_value", {"agent.yaml": GOOD["agent.yaml"] + "limits: {steps: -1}\n"}),
    ("bad_value", {"agent.yaml": GOOD["agent.yaml"] + "policy: {run_sandbox: yes}\n"}),
    ("bad_value", {"agent.yaml": GOOD["agent.yaml"] + "policy: {tools: {'*': allow}}\n"}),
    ("duplicate_name", manifest(("[get_forecast]", "[get_forecast, get_forecast]"))),
    ("persona_empty", {"persona.md": "\u200b\ufeff\u00a0\n"}),
    ("persona_empty", {"persona.md": b"\0\0"}),
    ("persona_missing", {"persona.md": None}),
    ("persona_empty", {"persona.md": " \n"}),
    ("not_utf8", {"persona.md": b"\xff\xfe\x00"}),
    ("path_outside", {"agent.yaml": GOOD["agent.yaml"] + "persona: ../persona.md\n"}),
    ("path_outside", {"agent.yaml": GOOD["agent.yaml"] + "persona: /etc/passwd\n"}),
    ("path_outside", {"agent.yaml": GOOD["agent.yaml"] + "persona: docs/../../x\n"}),
    ("path_outside", manifest(("[read-maps]", "[read-maps, ../other]"))),
    ("path_outside", manifest(("[get_forecast]", "[get_forecast, /tools/x]"))),
    # skills and corpus
    ("skill_missing", manifest(("[read-maps]", "[read-maps, other]"))),
    ("skill_invalid", {"skills/read-maps/SKILL.md": "no front matter\n"}),
    ("skill_invalid", {"skills/read-maps/SKILL.md": "---\nname: other\ndescription: x\n---\n"}),
    ("skill_invalid", {"skills/read-maps/SKILL.md": "---\nname: read-maps\n---\n"}),
    ("skill_invalid", {"skills/read-maps/SKILL.md": f"---\nname: read-maps\ndescription: {'x' * 1025}\n---\n"}),
    ("skill_invalid", {"skills/read-maps/SKILL.md": "---\nname: read-maps\ndescription: x\nversion: 1\n---\n"}),
    ("unlisted", manifest(("skills: [read-maps]\n", ""))),
    ("unlisted", manifest(("tools: [get_forecast]\n", ""))),
    ("unlisted", manifest(("corpus: true\n", ""))),
    ("corpus_empty", {"corpus/guide.md": None}),
    # credentials, hosts, MCP
    ("wildcard_host", manifest(("hosts: [api.example.com]", "hosts: [api.example.com, '*.example.com']"))),
    ("wildcard_host", tool(("hosts: [api.example.com]", "hosts: [api.example.com, '*']"))),
    ("bad_host", manifest(("hosts: [api.example.com]", "hosts: [api.example.com, 'https://example.com/']"))),
    ("bad_host", manifest(("hosts: [api.example.com]", "hosts: [api.example.com, 192.0.2.1]"))),
    ("bad_host", manifest(("hosts: [api.example.com]", "hosts: [api.example.com, '2130706433']"))),
    ("bad_host", tool(("hosts: [api.example.com]", "hosts: [api.example.com, '127.0x1']"))),
    ("bad_host", tool(("hosts: [api.example.com]", "hosts: [api.example.com, localhost]"))),
    ("bad_host", tool(("hosts: [api.example.com]", "hosts: [api.example.com, api.localhost]"))),
    ("bad_host", manifest(("hosts: [api.example.com]", "hosts: [api.example.com, printer.local]"))),
    ("bad_host", manifest(("hosts: [api.example.com]", "hosts: [api.example.com, metadata.google.internal]"))),
    ("wildcard_host", mcp("transport: http, url: 'https://*.example.com/mcp'")),
    ("bad_value", tool(("hosts: [api.example.com]", "hosts: api.example.com"))),
    ("credential_value", manifest(("  header:", "  value: hunter2\n  header:"))),
    ("credential_value", manifest(("  header:", "  default: hunter2\n  header:"))),
    ("credential_value", manifest(("Bearer {secret}", "Bearer hunter2"))),
    ("credential_value", manifest(("  header:", "  api-key: hunter2\n  header:"))),
    ("credential_value", manifest(("  header:", "  clientSecret: hunter2\n  header:"))),
    ("credential_value", manifest(("  header:", "  ACCESS_TOKEN: hunter2\n  header:"))),
    ("credential_value", manifest(("  header:", "  inject: {value: hunter2}\n  header:"))),
    ("credential_value", manifest(("  header: Authorization", "  header: 'Authorization: Bearer hunter2'"))),
    ("credential_value", {"agent.yaml": GOOD["agent.yaml"] + "apiKey: hunter2\n"}),
    ("credential_value", {"agent.yaml": GOOD["agent.yaml"] + "metadata: {api_key: hunter2}\n"}),
    ("unknown_key", manifest(("  header:", "  token_url: https://example.com/\n  header:"))),
    ("credential_value", tool(("credentials: [WEATHER_KEY]", "credentials: [{name: WEATHER_KEY, value: hunter2}]"))),
    ("credential_value", mcp("transport: http, url: 'https://m.example.com/?apiKey=hunter2'")),
    ("credential_value", mcp("transport: http, url: 'https://m.example.com/', headers: {Authorization: hunter2}")),
    ("credential_value", manifest(("- name: WEATHER_KEY\n", "- WEATHER_KEY=hunter2\n- name: WEATHER_KEY\n"))),
    ("credential_value", {"agent.yaml": GOOD["agent.yaml"].partition("credentials:")[0] + "credentials: {A: hunter2}"}),
    ("credential_injection", manifest(("  header:", "  query: key\n  header:"))),
    ("credential_injection", manifest(("  header: Authorization\n", ""))),
    ("credential_injection", manifest(("  header: Authorization\n", "  header: Host\n"))),
    ("credential_injection", manifest(("  header: Authorization\n", "  basic_user: 'me:you'\n"))),
    ("credential_undeclared", tool(("credentials: [WEATHER_KEY]", "credentials: [WEATHER_KEY, OTHER]"))),
    ("credential_hosts", tool(("hosts: [api.example.com]", "hosts: [other.example.com]"))),
    (
        "stdio_credential",
        {
            "agent.yaml": GOOD["agent.yaml"]
            + "mcp: [{name: m, transport: stdio, command: m, credential: WEATHER_KEY}]\n"
        },
    ),
    (
        "stdio_credential",
        mcp("transport: stdio, command: m, env: {A: b}"),
    ),
    ("stdio_credential", mcp("transport: stdio, command: m, args: ['--api-key=hunter2']")),
    ("stdio_credential", mcp("transport: stdio, command: m, args: [--token, hunter2]")),
    (
        "credential_undeclared",
        {
            "agent.yaml": GOOD["agent.yaml"]
            + "mcp: [{name: m, transport: http, url: 'https://m.example.com/', credential: OTHER}]\n"
        },
    ),
    (
        "credential_hosts",
        {
            "agent.yaml": GOOD["agent.yaml"]
            + "mcp: [{name: m, transport: http, url: 'https://m.example.com/', credential: WEATHER_KEY}]\n"
        },
    ),
    (
        "credential_value",
        mcp("transport: http, url: 'https://me:pw@m.example.com/'"),
    ),
    ("bad_value", mcp("transport: http, url: 'http://api.example.com/', credential: WEATHER_KEY")),
    # tools
    ("tool_missing", {TOOL_YAML: None}),
    ("bad_name", tool(("name: get_forecast", "name: other"))),
    ("missing_key", tool(("description: The forecast for a city.\n", ""))),
    ("unknown_key", tool(("hosts:", "network: true\nhosts:"))),
    ("path_outside", tool(("hosts:", "entrypoint: ../tool.py\nhosts:"))),
    ("entrypoint_missing", {TOOL: None}),
    ("entrypoint_missing", tool(("hosts:", "entrypoint: main.py\nhosts:"))),
    ("entrypoint_signature", {TOOL: "def main(ctx, input): ...\n"}),
    ("entrypoint_signature", {TOOL: "def run(input): ...\n"}),
    ("entrypoint_signature", {TOOL: "def run(input, ctx): ...\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input, more): ...\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input, *, more): ...\n"}),
    ("entrypoint_signature", {TOOL: "def run(*args): ...\n"}),
    ("entrypoint_signature", {TOOL: "class Tool:\n    def run(ctx, input): ...\n"}),
    ("entrypoint_signature", {TOOL: "run = print\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input): ...\nrun = print\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input): ...\nfrom os import system as run\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input): ...\nclass run: ...\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input): ...\ndel run\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input): ...\nfor run in (1, 2): ...\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input): ...\nwith open('x') as run: ...\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input): ...\nif True:\n    run = None\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input): ...\n(run := None)\n"}),
    ("entrypoint_signature", {TOOL: "def run(ctx, input):\n    yield 1\n"}),
    ("python_syntax", {TOOL: "def run(ctx, input:\n"}),
    ("python_syntax", {TOOL: "def run(ctx, input): ...\nreturn 1\n"}),
    ("python_syntax", {TOOL: "def run(ctx, input): ...\n\0"}),
    ("python_syntax", {TOOL: "x = " + "(" * 10_000}),
    ("python_syntax", {TOOL: "x = " + "-" * 300_000 + "1"}),
    ("python_syntax", {TOOL: "x = " + "+".join(["1"] * 100_000)}),
    ("python_syntax", {"tools/get_forecast/helper.py": "def\n"}),
    ("not_utf8", {TOOL: b"# caf\xe9\n"}),
    ("undeclared_import", {TOOL: "import requests\n" + GOOD[TOOL]}),
    ("undeclared_import", {TOOL: "def run(ctx, input):\n    from numpy.linalg import norm\n"}),
    ("undeclared_import", {TOOL: "def run(ctx, input):\n    __import__('requests')\n"}),
    ("undeclared_import", {TOOL: "import importlib\nimportlib.import_module(name='requests')\n" + GOOD[TOOL]}),
    ("undeclared_import", {TOOL: "import builtins\nbuiltins.__import__('requests')\n" + GOOD[TOOL]}),
    ("undeclared_import", {TOOL: "import cgi\n" + GOOD[TOOL]}),
    ("relative_import", {TOOL: "from .helper import shape\n" + GOOD[TOOL]}),
    ("requirement_url", tool(("['PyYAML>=6']", "[PyYAML, 'name @ file:///etc/passwd']"))),
    ("requirement_url", tool(("['PyYAML>=6']", "['PyYAML @ https://example.com/y.whl']"))),
    ("requirement_url", tool(("['PyYAML>=6']", "[PyYAML, 'git+https://example.com/y']"))),
    ("requirement_url", tool(("['PyYAML>=6']", "[PyYAML, ./local]"))),
    ("requirement_url", tool(("['PyYAML>=6']", "[PyYAML, local.whl]"))),
    ("requirement_option", tool(("['PyYAML>=6']", "[PyYAML, '-e .']"))),
    ("requirement_option", tool(("['PyYAML>=6']", "['PyYAML', '--index-url https://example.com']"))),
    ("requirement_option", tool(("['PyYAML>=6']", "['PyYAML', 'PyYAML --index-url https://example.com']"))),
    ("requirement_invalid", tool(("['PyYAML>=6']", "[PyYAML, 'PyYAML>=']"))),
    ("schema_remote_ref", tool(("'#/$defs/city'", "'https://example.com/city.json'"))),
    ("schema_remote_ref", tool(("'#/$defs/city'", "'file:///etc/passwd'"))),
    ("schema_remote_ref", tool(("'#/$defs/city'", "city.json"))),
    ("schema_dangling_ref", tool(("'#/$defs/city'", "'#/$defs/nope'"))),
    ("schema_dangling_ref", tool(("'#/$defs/city'", "'#city'"))),
    ("schema_not_object", tool(("  type: object", "  type: array"))),
    ("schema_invalid", tool(("{type: string}", "{type: text}"))),
    ("schema_invalid", tool(("{type: string}", "{type: string, pattern: '('}"))),
    ("schema_invalid", tool((SCHEMA, SCHEMA + "  $schema: http://json-schema.org/draft-04/schema#\n"))),
    ("example_invalid", tool(("{city: Oslo}", "{city: 1}"))),
    ("example_invalid", tool(("{city: Oslo}", "{}"))),
    ("check_unfinished", tool(("{type: string}", "{type: string, pattern: '^(a+)+$'}"), ("Oslo", "a" * 40 + "b"))),
    # secrets
    ("private_key", {"corpus/key.pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"}),
    ("private_key", {"corpus/key": "-----BEGIN OPENSSH PRIVATE KEY-----\n"}),
    ("private_key", {"skills/read-maps/key": "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"}),
    ("private_key", {"corpus/key": "-----BEGIN PRIVATE KEY-----\n"}),
    ("private_key", {"corpus/key": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n"}),
    ("private_key", {"corpus/key": "-----BEGIN EC PRIVATE KEY-----".encode("utf-16")}),
    ("private_key", {"corpus/key.md": "Ours:\n\n> -----BEGIN RSA PRIVATE KEY-----\n> MIIE\n"}),
    ("private_key", {"corpus/key.md": "`-----BEGIN RSA PRIVATE KEY-----" + "a1B2c3D4/5" * 8 + "`"}),
    ("private_key", {"corpus/key.json": '{"k": "-----BEGIN PRIVATE KEY-----\\nMIIE\\n"}'}),
    ("private_key", {"corpus/key.yaml": b"key: " + base64.b64encode(b"-----BEGIN EC PRIVATE KEY-----\nMIIE" * 2)}),
    ("private_key", {"corpus/key.json": '{"kty": "OKP", "crv": "Ed25519", "d": "' + "a1B2c3D4-5" * 4 + '"}'}),
    ("private_key", {"corpus/key.der": bytes.fromhex("302e020100300506032b657004220420") + b"\x07" * 32}),
    *(
        (
            "private_key",
            {"corpus/key.yaml": b"k: " + base64.b64encode(b"\n" * n + b"-----BEGIN PRIVATE KEY-----\nMIIE" * 2)},
        )
        for n in (1, 2, 3)
    ),
    ("private_key", {"corpus/key.der": bytes.fromhex("308204a40201000282010100") + b"\x07" * 99}),
    ("private_key", {"corpus/key.der": bytes.fromhex("30770201010420") + b"\x07" * 99}),
    ("private_key", {"corpus/key.p12": bytes.fromhex("30820a0002010330") + b"\x07" * 99}),
    ("private_key", {"corpus/key.jks": bytes.fromhex("feedfeed000000020000000100000001") + b"\x07" * 99}),
    ("private_key", {"corpus/key": "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ==\n"}),
    ("private_key", {"corpus/a.key": "untrusted comment: minisign encrypted secret key\nRWRTY0Iy\n"}),
    ("private_key", {"corpus/wg.conf": "[Interface]\nPrivateKey = " + "a1B2c3D4/5" * 4 + "a1B=\n"}),
    ("secret_in_file", {"corpus/.npmrc": "//registry.npmjs.org/:_authToken=0a1b2c3d-1111-2222-3333-444455556666\n"}),
    ("secret_in_file", {"corpus/a.md": "npm_" + "a1B2c3D4e5f6" * 3}),
    ("secret_in_file", {"corpus/config.json": '{"auths": {"https://r.example/": {"auth": "bWU6aHVudGVyMg=="}}}'}),
    ("secret_in_file", {"corpus/.netrc": "machine api.example.com login me\n  password hunter2\n"}),
    ("secret_in_file", {"corpus/.git-credentials": "https://me:hunter2@example.com\n"}),
    ("secret_in_file", {"corpus/.pgpass": "db.example.com:5432:*:me:hunter2\n"}),
    ("secret_in_file", {"corpus/a.md": "key: AKIA" + "Q3EGZL7WJ2XN5TKP\n"}),
    ("secret_in_file", {"corpus/a.md": "ghp_" + "a1B2c3D4e5" * 4}),
    ("secret_in_file", {"corpus/a.md": "github_pat_" + "a1B2c3D4e5" * 8}),
    ("secret_in_file", {"corpus/a.md": "sk-ant-api03-" + "a1B2c3D4e5" * 4}),
    ("secret_in_file", {"corpus/a.md": "sk-" + "a1B2c3D4e5" * 5}),
    ("secret_in_file", {"corpus/a.md": "sk-proj-" + "a1B2c3D4e5" * 5}),
    ("secret_in_file", {"corpus/a.md": "sk-proj-" + "a1B2_3D-e5" * 5}),
    ("secret_in_file", {"corpus/a.md": "aws_secret_access_key = " + "a1B2c3D4/5" * 4}),
    ("secret_in_file", {"corpus/a.md": "xoxb-" + "123456789012-abcdefGHIJ"}),
    ("secret_in_file", {"corpus/a.md": "AIza" + "a1B2c3D4e5" * 3 + "a1B2c"}),
]


@pytest.mark.parametrize(("code", "changes"), BROKEN, ids=[f"{i}-{code}" for i, (code, _) in enumerate(BROKEN)])
def test_a_broken_bundle_has_the_problem_of_its_kind(
    make_bundle: MakeBundle, code: str, changes: dict[str, str | bytes | None]
) -> None:
    assert code in codes(make_bundle(changes))


ALONE = {
    "bad_name",
    "corpus_empty",
    "duplicate_name",
    "persona_missing",
    "python_syntax",
    "undeclared_import",
    "schema_remote_ref",
    "wildcard_host",
    "private_key",
    "secret_in_file",
    "entrypoint_signature",
    "requirement_url",
    "requirement_option",
    "unlisted",
    "yaml_duplicate_key",
}


@pytest.mark.parametrize(
    ("code", "changes"), [(c, d) for c, d in BROKEN if (c in ALONE and "agent.yaml" not in d) or c in ("unlisted",)]
)
def test_one_fault_gives_one_kind_of_problem(
    make_bundle: MakeBundle, code: str, changes: dict[str, str | bytes | None]
) -> None:
    assert set(codes(make_bundle(changes))) == {code}


def test_several_faults_are_all_found_at_once(make_bundle: MakeBundle) -> None:
    root = make_bundle(
        {
            "agent.yaml": GOOD["agent.yaml"].replace("[api.example.com]", "['*.example.com']")
            + "name: twice\nmetadata: {a: &a x}\n",
            "persona.md": None,
            TOOL: "import requests\ndef run(input): ...\n",
            TOOL_YAML: GOOD[TOOL_YAML]
            .replace("'#/$defs/city'", "'https://example.com/'")
            .replace("['PyYAML>=6']", "['a @ file:///x', '-e .']"),
            "tools/get_forecast/helper.py": "def\n",
            "corpus/key.pem": "-----BEGIN RSA PRIVATE KEY-----\n",
            "corpus/KEY.pem": "sk-ant-api03-" + "a1B2c3D4e5" * 4,
        }
    )
    (root / "skills/link").symlink_to("/etc")
    assert {
        "yaml_duplicate_key",
        "yaml_alias",
        "wildcard_host",
        "persona_missing",
        "undeclared_import",
        "entrypoint_signature",
        "schema_remote_ref",
        "requirement_url",
        "requirement_option",
        "python_syntax",
        "private_key",
        "secret_in_file",
        "case_clash",
        "symlink",
    } <= set(codes(root))


def test_what_a_program_binds_and_what_a_scope_of_its_own_does_is_not_run(make_bundle: MakeBundle) -> None:
    more = "if __name__ == '__main__':\n    run = None\nnames = [run for run in (1, 2)]\nrun = print and run\n"
    assert codes(make_bundle({TOOL: GOOD[TOOL] + more})) == []


def test_an_alias_is_named_once_however_often_it_stands(make_bundle: MakeBundle) -> None:
    bomb = "".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    found = check_bundle(make_bundle({"agent.yaml": f"{GOOD['agent.yaml']}metadata:\n  a0: &a0 x\n{bomb}"}))
    assert [p.code for p in found].count(ProblemCode.YAML_ALIAS) == 9


def test_standard_tool_names_are_taken(make_bundle: MakeBundle) -> None:
    root = make_bundle(manifest(("[get_forecast]", "[ask_user]")))
    (root / "tools/get_forecast").rename(root / "tools/ask_user")
    (root / "tools/ask_user/tool.yaml").write_text(GOOD[TOOL_YAML].replace("name: get_forecast", "name: ask_user"))
    assert codes(root) == ["tool_name_clash"]


def test_symbolic_links_are_problems_and_never_followed(make_bundle: MakeBundle, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    root = make_bundle({"persona.md": None})
    (root / "persona.md").symlink_to(tmp_path / "secret")
    assert sorted(codes(root)) == ["persona_missing", "symlink"]


def test_no_code_of_the_bundle_runs(make_bundle: MakeBundle, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    trap = f"open({str(mark)!r}, 'w')\ndef run(ctx, input): ...\n"
    check_bundle(make_bundle({TOOL: trap, "tools/get_forecast/sitecustomize.py": trap}))
    assert not mark.exists()


GOOD_CODE = [
    "async def run(ctx, input): ...\n",
    "def run(ctx, input, more=1, *rest, key=2, **others): ...\n",
    "import __future__, json, asyncio.subprocess\ndef run(ctx, input): ...\n",
    "try:\n    import ujson\nexcept ImportError:\n    ujson = None\ndef run(ctx, input): ...\n",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\ndef run(ctx, input): ...\n",
    "import helper\nfrom helper import shape\ndef run(ctx, input): ...\n",
    "import functools\ndef run(ctx, input): ...\nrun = functools.cache(run)\n",
    "def run(ctx, input):\n    def rows():\n        yield 1\n    return [*rows()]\n",
]


@pytest.mark.parametrize("source", GOOD_CODE)
def test_sound_code_has_no_problem(make_bundle: MakeBundle, source: str) -> None:
    assert codes(make_bundle({TOOL: source})) == []


@pytest.mark.parametrize(
    ("module", "requirement"),
    [
        ("yaml", "PyYAML"),
        ("PIL.Image", "pillow==11"),
        ("bs4", "beautifulsoup4[lxml]>=4"),
        ("dateutil", "python_dateutil"),
        ("sklearn.svm", "scikit-learn"),
        ("google.cloud.storage", "google-cloud-storage"),
        ("ruamel.yaml", "ruamel.yaml"),
        ("my_package", "My.Package; python_version >= '3.11'"),
    ],
)
def test_an_import_is_found_in_the_requirement_that_brings_it(
    make_bundle: MakeBundle, module: str, requirement: str
) -> None:
    changes = tool(("['PyYAML>=6']", f'["{requirement}"]'))
    assert codes(make_bundle({**changes, TOOL: f"import {module}\ndef run(ctx, input): ...\n"})) == []


def test_samples_of_tokens_are_no_secrets(make_bundle: MakeBundle) -> None:
    text = "AKIAIOSFODNN7EXAMPLE sk-ant-xxxxxxxxxxxxxxxxxxxxxxxx ghp_" + "x" * 36 + " task-management-for-beginners"
    assert codes(make_bundle({"corpus/a.md": text})) == []
    registry = "//r.example/:_authToken=${NPM_TOKEN}\n//s.example/:_authToken=YOUR_TOKEN_HERE\n"
    files = {"corpus/.npmrc": registry, "corpus/.netrc": "machine a.example login me password <yours>\n"}
    assert codes(make_bundle(dict(files), "other")) == []


@pytest.mark.parametrize(
    "text",
    [
        "A key begins with `-----BEGIN PRIVATE KEY-----` and ends with `-----END PRIVATE KEY-----`.\n",
        "    -----BEGIN RSA PRIVATE KEY-----\n    ...\n    -----END RSA PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\n<your key>\n-----END PRIVATE KEY-----\n",
    ],
)
def test_a_page_may_speak_of_private_keys(make_bundle: MakeBundle, text: str) -> None:
    assert codes(make_bundle({"corpus/a.md": text})) == []
    assert codes(make_bundle({"corpus/a.pem": text}, "other")) == ["private_key"]


@pytest.mark.parametrize("target", ["'#'", "'#town'"])
def test_a_reference_may_name_its_own_schema_or_an_anchor(make_bundle: MakeBundle, target: str) -> None:
    city = "city: {type: string}\n    town: {$anchor: town, type: object}"
    changes = tool(
        ("'#/$defs/city'", target), ("city: {type: string}", city), ("examples:\n- input: {city: Oslo}\n", "")
    )
    assert codes(make_bundle(changes)) == []


def test_a_public_key_is_no_secret(make_bundle: MakeBundle) -> None:
    assert codes(make_bundle({"corpus/a.pem": "-----BEGIN PUBLIC KEY-----\n-----BEGIN CERTIFICATE-----\n"})) == []


def test_no_message_quotes_a_secret(make_bundle: MakeBundle) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    root = make_bundle({**manifest(("  header:", f"  value: {token}\n  header:")), "corpus/a.md": token})
    assert token not in str([problem.to_json() for problem in check_bundle(root)])


def test_a_schema_may_stand_in_a_file(make_bundle: MakeBundle) -> None:
    yaml = "name: get_forecast\ndescription: x\nschema: input.json\nrequirements: [PyYAML]\n"
    root = make_bundle({TOOL_YAML: yaml, "tools/get_forecast/input.json": '{"type": "object"}'})
    assert codes(root) == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "schema_missing"),
        ('{"type": "object", "type": "array"}', "schema_invalid"),
        ('{"type": "object", "maximum": NaN}', "schema_invalid"),
        ("[" * 100_000, "schema_invalid"),
        ('{"type": "object", "a": ' + "[" * 300 + "]" * 300 + "}", "schema_invalid"),
        ("true", "schema_not_object"),
    ],
)
def test_a_schema_file_is_read_strictly(make_bundle: MakeBundle, content: str | None, code: str) -> None:
    yaml = "name: get_forecast\ndescription: x\nschema: input.json\nrequirements: [PyYAML]\n"
    assert codes(make_bundle({TOOL_YAML: yaml, "tools/get_forecast/input.json": content})) == [code]


def test_a_reference_in_data_is_data(make_bundle: MakeBundle) -> None:
    changes = tool(("{type: string}", "{type: string, default: {$ref: 'https://example.com'}}"))
    assert codes(make_bundle(changes)) == []


def test_problems_come_in_the_same_order_every_time(make_bundle: MakeBundle) -> None:
    changes = {"persona.md": None, TOOL: "import a, b, c\n", "corpus/k": "-----BEGIN PRIVATE KEY-----"}
    one, two = make_bundle(changes, "one"), make_bundle(dict(reversed(changes.items())), "two")
    assert check_bundle(one) == check_bundle(two) != []


def test_the_outcomes_of_the_checks_hold_all_problems(make_bundle: MakeBundle) -> None:
    root = make_bundle({"persona.md": None, TOOL: "import a\n"})
    outcomes = run_checks(root)
    assert [p for outcome in outcomes for p in outcome.problems] == check_bundle(root)
    assert {o.name for o in outcomes if not o.passed} == {"persona", "code"}


def test_one_tool_is_checked_by_itself(make_bundle: MakeBundle) -> None:
    root = make_bundle({TOOL: "import requests\n" + GOOD[TOOL]})
    problems = check_tool(root / "tools/get_forecast")
    assert [(str(p.code), p.path) for p in problems] == [("undeclared_import", "tool.py")]


@pytest.mark.parametrize("check", [check_bundle, check_tool, run_checks])
def test_what_is_no_directory_raises(tmp_path: Path, check) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(NotADirectoryError):
            check(path)


def test_an_empty_directory_is_a_bundle_with_problems(tmp_path: Path) -> None:
    assert codes(tmp_path) == ["manifest_missing", "persona_missing"]


def test_control_characters_of_a_bundle_do_not_reach_a_terminal(make_bundle: MakeBundle) -> None:
    root = make_bundle({"agent.yaml": GOOD["agent.yaml"] + '"\\e[2J": x\n'})
    assert all(problem.message.isprintable() for problem in check_bundle(root))


def test_every_code_is_documented() -> None:
    source = Path(__import__("core.bundle.problems", fromlist=["x"]).__file__ or "").read_text()
    for code in ProblemCode:
        assert f'"{code}"\n    """' in source


def test_the_checks_leave_no_descriptor_open(make_bundle: MakeBundle) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("this system does not list descriptors")
    root = make_bundle()
    check_bundle(root)
    before = len(os.listdir("/proc/self/fd"))
    check_bundle(root)
    assert len(os.listdir("/proc/self/fd")) == before
