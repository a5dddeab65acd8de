"""An OpenAPI document becomes an agent: what is asked, the tools, their input, credentials, policy and losses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from core import check_bundle, digest_tree, read_manifest, read_tool
from impl.sources import ImportResult, survey

Write = Callable[..., Path]
Convert = Callable[..., ImportResult]

SERVER = "https://api.example.com/v1"


def api(paths: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A document of these paths."""
    return {
        "openapi": "3.0.3",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": SERVER}],
        "paths": paths,
    } | more


def get(*parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A path item whose GET has these parameters."""
    return {"get": {"operationId": "go", "parameters": list(parameters), "responses": {}, **more}}


def built(result: ImportResult) -> Path:
    """The bundle, which passes its checks."""
    assert result.outcome == "imported", (result.reason, result.evidence)
    assert result.bundle is not None
    assert check_bundle(result.bundle) == []
    return result.bundle


def losses(result: ImportResult) -> str:
    return "\n".join(f"{loss.change} {loss.reason}" for loss in result.losses)


# --- what is asked -------------------------------------------------------------------------------------


def test_groups_come_first_then_each_operation(inputs: Path, convert: Convert) -> None:
    asked = convert(inputs / "openapi", name="harbour")
    assert (asked.outcome, asked.kind, asked.asks, asked.recommended) == ("question", "openapi", "choice", "read")
    assert (asked.multiple, asked.unlisted) == (True, False)
    assert [option.id for option in asked.options[:5]] == [
        "read",
        "all-operations",
        "tag:berths",
        "tag:boats",
        "op:GET /berths",
    ]
    assert "Harbour Log has 10 operations, 5 of them read only" in asked.question
    assert "harbour" in asked.question


@pytest.mark.parametrize(
    ("choice", "tools"),
    [
        (["read"], ["get_berth", "get_berths", "get_boat", "list_boats"]),
        (["op:getBoat"], ["get_boat"]),
        (["getBoat", "add_boat"], ["add_boat", "get_boat"]),
        (["tag:berths"], ["get_berth", "get_berths"]),
        (["berths", "op:getBoat"], ["get_berth", "get_berths", "get_boat"]),
    ],
)
def test_groups_and_operations_may_be_named_together(
    inputs: Path, convert: Convert, choice: list[str], tools: list[str]
) -> None:
    assert list(read_manifest(built(convert(inputs / "openapi", choice=choice))).tools) == tools


def test_all_takes_every_operation_that_can_be_called(inputs: Path, convert: Convert) -> None:
    every = convert(inputs / "openapi", choice=["all"])
    assert every.counts == {"tools": 9, "credentials": 3}
    assert digest_tree(built(every)) == digest_tree(built(convert(inputs / "openapi", choice=["all-operations"])))


@pytest.mark.parametrize(
    ("choice", "example"),
    [(["all-operations"], "get berths"), (["op:getBoat"], ""), (["add_boat"], ""), (["list_boats"], "list boats")],
)
def test_the_first_task_is_a_call_that_reads_and_needs_nothing(
    inputs: Path, convert: Convert, choice: list[str], example: str
) -> None:
    assert convert(inputs / "openapi", choice=choice).example == example


def test_an_operation_that_is_not_there_asks_again(inputs: Path, convert: Convert) -> None:
    asked = convert(inputs / "openapi", choice=["getBoats"])
    assert asked.outcome == "question"
    assert asked.question.startswith("There is no getBoats here.")


def test_of_many_operations_only_groups_are_listed_yet_each_may_be_named(write: Write, convert: Convert) -> None:
    paths = {f"/a{n}": {"get": {"operationId": f"a{n}", "responses": {}}} for n in range(60)}
    root = write({"openapi.json": json.dumps(api(paths))})
    asked = convert(root)
    assert ([option.id for option in asked.options], asked.unlisted) == (["read"], True)
    assert "named by its id" in asked.question
    assert list(read_manifest(built(convert(root, choice=["a7", "a50"]))).tools) == ["a50", "a7"]


def test_the_only_operation_is_taken_without_a_question(write: Write, convert: Convert) -> None:
    assert convert(write({"api.json": json.dumps(api({"/a": get()}))})).counts == {"tools": 1, "credentials": 0}


def test_two_documents_are_told_apart_and_may_become_one_agent(write: Write, convert: Convert) -> None:
    root = write(
        {
            "boats/openapi.json": json.dumps(api({"/a": get(), "/b": get(operationId="other")})),
            "berths.openapi.json": json.dumps(api({"/a": get(), "/c": get(operationId="third")})),
        }
    )
    assert [option.id for option in convert(root).options][:1] == ["berths/read"]
    tools = read_manifest(built(convert(root, choice=["berths/read", "boats/read"]))).tools
    assert list(tools) == ["go", "go_2", "other", "third"]


def test_the_same_api_in_two_notations_counts_once(write: Write, convert: Convert) -> None:
    document = api({"/a": get()})
    result = convert(write({"openapi.json": json.dumps(document), "openapi.yaml": json.dumps(document, indent=1)}))
    assert result.counts["tools"] == 1


# --- which kind ----------------------------------------------------------------------------------------

ONE = json.dumps(api({"/a": get()}))
README = "# Thing\n\nIt does one thing and does it well.\n"


@pytest.mark.parametrize(
    "path", ["openapi.json", "docs/api.json", "api/v1.json", "spec/swagger.json", "sub/x-openapi.json"]
)
def test_a_document_with_a_readme_is_an_openapi_source(write: Write, path: str) -> None:
    found = survey(write({"README.md": README, path: ONE}))
    assert found.kinds == ("openapi",)


@pytest.mark.parametrize("more", [{"src/app.py": "x = 1\n"}, {"docs/use.md": "# Use\n\nUse it like this.\n"}])
def test_beside_code_or_pages_the_kind_is_asked_and_openapi_recommended(
    write: Write, convert: Convert, more: dict[str, str]
) -> None:
    asked = convert(write({"README.md": README, "openapi.json": ONE, **more}))
    assert (asked.asks, asked.recommended) == ("kind", "openapi")
    assert [option.id for option in asked.options] == ["openapi", "documentation"]
    assert "openapi.json" in asked.options[0].label


@pytest.mark.parametrize("path", ["tests/openapi.json", "examples/api.json", ".github/openapi.json"])
def test_documents_among_tests_and_examples_do_not_count(write: Write, path: str) -> None:
    assert survey(write({"README.md": README, path: ONE})).kinds == ("documentation",)


def test_other_yaml_and_json_is_no_document(write: Write) -> None:
    files = {
        "README.md": README,
        "package.json": '{"name": "openapi"}',
        "mkdocs.yml": "plugins: [swagger]\nopenapi: yes\n",
    }
    assert survey(write(files)).candidates("openapi") == ()


# --- what cannot be converted --------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, str]] = {
    "swagger 2": ("openapi.json", '{"swagger": "2.0", "paths": {}}'),
    "a later version": ("openapi.json", '{"openapi": "4.0.0", "paths": {}}'),
    "a key twice": ("openapi.yaml", "openapi: 3.0.0\ninfo: {}\ninfo: {}\n"),
    "a tag": ("openapi.yaml", "openapi: 3.0.0\ninfo: !!python/object:os.system {}\n"),
    "no yaml": ("openapi.yaml", "openapi: 3.0.0\ninfo: [\n"),
    "a bomb": (
        "openapi.yaml",
        "openapi: 3.0.0\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)),
    ),
    "deep nesting": ("openapi.json", '{"openapi": "3.0.0", "paths": ' + "[" * 150 + "]" * 150 + "}"),
    "a remote path": ("openapi.json", json.dumps(api({"/a": {"$ref": "./a.yaml"}, "/b": get()}))),
    "a circle": (
        "openapi.json",
        json.dumps(api({"/a": {"$ref": "#/paths/~1b"}, "/b": {"$ref": "#/paths/~1a"}})),
    ),
    "no number": ("openapi.json", '{"openapi": "3.0.0", "paths": NaN}'),
    "a remote schema": (
        "openapi.json",
        json.dumps(api({"/a": get({"name": "a", "in": "query", "schema": {"$ref": "https://x.example/y"}})})),
    ),
    "a relative server": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "/api/v3"}]))),
    "no server": ("openapi.json", json.dumps(api({"/a": get()}, servers=[]))),
    "plain http": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "http://api.example.com"}]))),
    "another port": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "https://api.example.com:8443"}]))),
    "an address": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "https://10.0.0.1/"}]))),
    "one label": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "https://localhost/"}]))),
    "this machine": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "https://api.localhost/"}]))),
    "its network": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "https://printer.local/"}]))),
    "a user": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "https://a:b@api.example.com"}]))),
    "an open variable": ("openapi.json", json.dumps(api({"/a": get()}, servers=[{"url": "https://{x}.example.com"}]))),
    "a path without its parameter": ("openapi.json", json.dumps(api({"/a/{id}": get()}))),
    "a required cookie": (
        "openapi.json",
        json.dumps(api({"/a": get({"name": "a", "in": "cookie", "required": True})})),
    ),
    "two credentials at once": (
        "openapi.json",
        json.dumps(
            api(
                {"/a": get(security=[{"a": [], "b": []}])},
                components={"securitySchemes": {n: {"type": "http", "scheme": "bearer"} for n in "ab"}},
            )
        ),
    ),
    "certificates": (
        "openapi.json",
        json.dumps(
            api({"/a": get(security=[{"a": []}])}, components={"securitySchemes": {"a": {"type": "mutualTLS"}}})
        ),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_converted_is_refused_with_its_line(write: Write, convert: Convert, what: str) -> None:
    path, text = REFUSED[what]
    result = convert(write({path: text}))
    assert result.outcome == "refused"
    assert result.reason
    assert result.evidence[0].startswith(f"{path}:")


def test_a_relative_server_says_what_to_write(write: Write, convert: Convert) -> None:
    result = convert(write({"openapi.json": REFUSED["a relative server"][1]}))
    assert "servers: [{url: https://HOST/PATH}]" in result.reason


def test_one_operation_that_cannot_be_called_is_a_loss_or_strictly_a_refusal(write: Write, convert: Convert) -> None:
    cookie = {"name": "a", "in": "cookie", "required": True}
    root = write({"openapi.json": json.dumps(api({"/a": get(), "/b": get(cookie, operationId="closed")}))})
    result = convert(root, choice=["all"])
    assert result.counts["tools"] == 1
    assert "closed: not made into a tool its required parameter 'a' is sent in a cookie" in losses(result)
    assert convert(root, choice=["all"], mode="strict").outcome == "refused"


# --- the tools -----------------------------------------------------------------------------------------


def tool(convert: Convert, root: Path, name: str) -> Any:
    return read_tool(built(convert(root, choice=["all"])) / "tools" / name)


def schema_of(write: Write, convert: Convert, schema: dict[str, Any], version: str = "3.0.3", **more: Any) -> Any:
    """What a parameter's schema becomes."""
    document = api({"/a": get({"name": "p", "in": "query", "schema": schema})}, openapi=version, **more)
    bundle = built(convert(write({"openapi.json": json.dumps(document)})))
    return (read_tool(bundle / "tools" / "go").input_schema or {})["properties"]["p"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"], "nullable": True}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 0}),
        ({"type": "integer", "maximum": 9, "exclusiveMaximum": False}, {"type": "integer", "maximum": 9}),
        ({"type": "integer", "maximum": 2**63 - 1}, {"type": "integer"}),
        ({"type": "string", "required": True, "xml": {}, "x-y": 1}, {"type": "string"}),
        ({"type": "any"}, {}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "string", "pattern": "^[a-z]{2,4}$"}, {"type": "string", "pattern": "^[a-z]{2,4}$"}),
        ({"type": "string", "pattern": "^(a+)+$"}, {"description": "Pattern: ^(a+)+$", "type": "string"}),
        ({"type": "string", "pattern": "^\\p{L}$"}, {"description": "Pattern: ^\\p{L}$", "type": "string"}),
        ({"type": "string", "example": "x"}, {"type": "string", "examples": ["x"]}),
    ],
)
def test_schemas_of_3_0_become_json_schema(write: Write, convert: Convert, before: Any, after: Any) -> None:
    assert schema_of(write, convert, before) == after


def test_schemas_of_3_1_keep_their_types(write: Write, convert: Convert) -> None:
    schema = {"type": ["string", "null"], "const": "x", "examples": ["x"], "exclusiveMinimum": 1}
    assert schema_of(write, convert, schema, "3.1.0") == schema


def test_a_schema_that_holds_itself_becomes_a_definition(inputs: Path, convert: Convert) -> None:
    schema = tool(convert, inputs / "openapi", "add_boat").input_schema
    assert schema["properties"]["body"]["properties"]["tender"] == {"$ref": "#/$defs/Boat"}
    assert list(schema["$defs"]) == ["Boat"]
    assert schema["required"] == ["body"]
    assert schema["additionalProperties"] is False


def test_what_only_answers_have_is_no_input(inputs: Path, convert: Convert) -> None:
    body = tool(convert, inputs / "openapi", "add_boat").input_schema["properties"]["body"]
    assert "id" not in body["properties"]


def test_schemas_too_large_to_write_out_become_definitions(write: Write, convert: Convert) -> None:
    levels = {
        f"L{n}": {"type": "object", "properties": {c: {"$ref": f"#/components/schemas/L{n + 1}"} for c in "abcd"}}
        for n in range(8)
    }
    components = {"schemas": {**levels, "L8": {"type": "string"}}}
    schema = schema_of(write, convert, {"$ref": "#/components/schemas/L0"}, components=components)
    assert schema == {"$ref": "#/$defs/L0"}


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("getPetById", "get_pet_by_id"),
        ("pets.list-all", "pets_list_all"),
        ("GETUsers", "get_users"),
        ("2fa", "call_2fa"),
        ("ask_user", "ask_user_2"),
        ("读", "get_a"),
        ("x" * 90, "x" * 64),
    ],
)
def test_tool_names_come_from_operation_ids(write: Write, convert: Convert, operation: str, name: str) -> None:
    document = json.dumps(api({"/a": get(operationId=operation)}))
    assert list(read_manifest(built(convert(write({"openapi.json": document})))).tools) == [name]


def test_parameters_of_one_name_are_told_apart(write: Write, convert: Convert) -> None:
    path = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    document = api({"/a/{id}": get(path, {"name": "id", "in": "query"}, {"name": "a[b]", "in": "query"})})
    schema = tool(convert, write({"openapi.json": json.dumps(document)}), "go").input_schema
    assert list(schema["properties"]) == ["id", "id_query", "a_b"]
    assert schema["properties"]["id"]["minLength"] == 1


def test_writes_ask_and_reads_are_allowed(inputs: Path, convert: Convert) -> None:
    manifest = read_manifest(built(convert(inputs / "openapi", choice=["all"])))
    asking = {name for name, decision in manifest.policy.tools.items() if decision == "ask"}
    assert asking == {"add_boat", "remove_boat", "rename_boat", "store_papers", "store_photo"}
    assert manifest.policy.run_sandbox == "deny"


def test_security_schemes_are_declared_for_exactly_their_host(inputs: Path, convert: Convert) -> None:
    result = convert(inputs / "openapi", choice=["all"])
    manifest = read_manifest(built(result))
    found = {c.name: (c.header, c.query, c.format, c.hosts) for c in manifest.credentials}
    hosts = ("api.harbour.example",)
    assert found == {
        "captain": ("Authorization", None, "Bearer {secret}", hosts),
        "crew": ("Authorization", None, "Basic {secret}", hosts),
        "harbour_key": (None, "key", "{secret}", hosts),
    }
    assert result.credentials == ("captain", "crew", "harbour_key")
    assert "base64 of USER:PASSWORD" in next(c.description for c in manifest.credentials if c.name == "crew")


def test_the_first_way_to_sign_in_that_one_credential_can_go_is_taken(inputs: Path, convert: Convert) -> None:
    bundle = built(convert(inputs / "openapi", choice=["all"]))
    used = {name: read_tool(bundle / "tools" / name).credentials for name in read_manifest(bundle).tools}
    assert used["remove_boat"] == ("captain",)
    assert used["list_boats"] == ()
    assert used["get_boat"] == ("harbour_key",)


def test_a_parameter_that_is_a_credential_is_not_asked_of_the_model(write: Write, convert: Convert) -> None:
    document = api(
        {"/a": get({"name": "api_key", "in": "header", "schema": {"type": "string"}}, security=[{"sso": []}])},
        components={
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "API-Key"},
                "sso": {"type": "oauth2", "flows": {"implicit": {"scopes": {"read:all": ""}}}},
            }
        },
    )
    result = convert(write({"openapi.json": json.dumps(document)}))
    bundle = built(result)
    assert (read_tool(bundle / "tools" / "go").input_schema or {})["properties"] == {}
    assert "'api_key' is a credential" in losses(result)
    assert "read:all" in read_manifest(bundle).credentials[0].description


def test_losses_say_what_the_tools_lack(inputs: Path, convert: Convert) -> None:
    said = losses(convert(inputs / "openapi", choice=["all"]))
    for part in (
        "signIn: not made into a tool none of its ways to sign in can be used: seal is sent in a cookie",
        "its address is https://api.harbour.example/v2/, with the document's own value for zone",
        "listBoats: its parameter 'session' is sent in a cookie",
        "addBoat: its body is sent as application/json alone, not as application/xml",
        "removeBoat: it is deprecated",
    ):
        assert part in said


def test_secrets_given_as_parameters_are_warned_of(write: Write, convert: Convert) -> None:
    document = api({"/a": get({"name": "password", "in": "query", "schema": {"type": "string"}})})
    assert "password passes through the conversation" in losses(convert(write({"openapi.json": json.dumps(document)})))


def test_examples_that_hold_a_secret_are_left_out(write: Write, convert: Convert) -> None:
    shown = {"name": "q", "in": "query", "schema": {"type": "string"}, "example": "ghp_" + "a1B2" * 9}
    root = write({"openapi.json": json.dumps(api({"/a": get(shown)}))})
    assert tool(convert, root, "go").examples == ()


def test_the_persona_lists_the_tools_by_tag_and_quotes_the_document(inputs: Path, convert: Convert) -> None:
    persona = (built(convert(inputs / "openapi", choice=["all"], name="pilot")) / "persona.md").read_text()
    assert persona.startswith("You are pilot. You work with Harbour Log (api.harbour.example)")
    assert "> Keeps the log of a small harbour" in persona
    assert "second paragraph" not in persona
    assert persona.index("berths:") < persona.index("`get_berth`") < persona.index("boats:")
    assert "- `remove_boat`: Remove a boat (writes, deprecated)" in persona


def shuffled(value: Any) -> Any:
    """The same data with every mapping's keys the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


def test_order_and_notation_of_the_document_change_nothing(inputs: Path, write: Write, convert: Convert) -> None:
    import yaml

    text = (inputs / "openapi" / "openapi.yaml").read_text()
    data = yaml.safe_load(text)
    variants: Sequence[str] = (text, yaml.safe_dump(shuffled(data), sort_keys=False), json.dumps(data))
    digests = set()
    for number, variant in enumerate(variants):
        root = write({"openapi.yaml": variant}, f"variant{number}")
        digests.add(digest_tree(built(convert(root, choice=["all"]))))
    assert len(digests) == 1
