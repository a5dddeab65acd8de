"""What the generated tools ask for: run on a recording context, held to the effect policy and to their examples."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from core import EffectPolicy, EffectRequest, read_manifest, read_tool
from core.effects.requests import Allowed, Binding
from impl.sources import ImportResult, import_source

INPUTS = Path(__file__).parents[2] / "inputs"
Write = Callable[..., Path]
Convert = Callable[..., ImportResult]


class Response:
    """An answer as a tool sees it."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.body = body
        self.text = body.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body read as JSON."""
        return json.loads(self.body)


class Recording:
    """A context whose `http` keeps the one request and gives a prepared answer."""

    def __init__(self, status: int = 200, body: str = "") -> None:
        self.http = self
        self.asked: EffectRequest | None = None
        self.answer = Response(status, body.encode())

    def request(
        self, method: str, url: str, headers: Any = (), body: bytes = b"", credential: str | None = None
    ) -> Response:
        """Keep it."""
        self.asked = EffectRequest(method, url, [tuple(header) for header in headers], body, credential)
        return self.answer


def run(
    bundle: Path, name: str, given: Mapping[str, Any], context: Recording | None = None
) -> tuple[EffectRequest, Any]:
    """Run a tool's code; (its request, its output). The bundle's own policy must let the request pass."""
    context = context or Recording()
    code = compile((bundle / "tools" / name / "tool.py").read_text(), "tool.py", "exec")
    module: dict[str, Any] = {}
    exec(code, module)
    output = module["run"](context, dict(given))
    assert context.asked is not None
    tool = read_tool(bundle / "tools" / name)
    bindings = {
        c.name: Binding(c.hosts, c.header, c.query, c.basic_user, c.format)
        for c in read_manifest(bundle).credentials
        if c.name in tool.credentials
    }
    verdict = EffectPolicy(tool.hosts, bindings).check(context.asked)
    assert isinstance(verdict, Allowed), verdict
    return context.asked, output


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The agent of the kept document, with all its tools."""
    bundle = tmp_path_factory.mktemp("harbour") / "bundle"
    assert import_source(INPUTS / "openapi", name="harbour", choice=["all"], out=bundle).outcome == "imported"
    return bundle


def test_every_example_is_what_the_tool_does(harbour: Path) -> None:
    names = read_manifest(harbour).tools
    shown = {name: example for name in names for example in read_tool(harbour / "tools" / name).examples}
    assert set(shown) == {"add_boat", "get_berth", "get_berths", "get_boat", "list_boats", "remove_boat", "rename_boat"}
    for name, example in shown.items():
        (effect,) = example.effects
        given = effect["response"]
        asked, output = run(harbour, name, example.input, Recording(given["status"], given["body"]))
        wanted = effect["request"]
        assert (asked.method, asked.url, asked.credential) == (
            wanted["method"],
            wanted["url"],
            wanted.get("credential"),
        )
        assert dict(asked.headers) == wanted.get("headers", {})
        assert asked.body.decode() == wanted.get("body", "")
        assert output == example.output


@pytest.mark.parametrize(
    ("given", "query"),
    [
        ({}, ""),
        ({"kind": ["sail", "motor"]}, "?kind=sail&kind=motor"),
        ({"kind": []}, ""),
        ({"within": [1, 2.0, 2.5]}, "?within=1,2,2.5"),
        ({"sort": ["a b", "c|d"]}, "?sort=a%20b%7Cc%7Cd"),
        ({"filter": {"flag": "ö&=", "length": 3}}, "?filter[flag]=%C3%B6%26%3D&filter[length]=3"),
        ({"limit": 5, "kind": None}, "?limit=5"),
    ],
)
def test_query_parameters_are_written_in_their_style(harbour: Path, given: dict[str, Any], query: str) -> None:
    asked, _ = run(harbour, "list_boats", given)
    assert asked.url == f"https://api.harbour.example/v2/boats{query}"
    assert asked.credential is None


def test_parameters_with_content_are_json_and_headers_go_as_headers(harbour: Path) -> None:
    given = {"name": "a/b", "format": "txt", "where": {"side": "east"}, "X-Reason": "visit"}
    asked, _ = run(harbour, "get_berth", given)
    assert asked.url == "https://api.harbour.example/v2/berths/a%2Fb.txt?where=%7B%22side%22%3A%20%22east%22%7D"
    assert asked.headers == [("Accept", "text/plain"), ("X-Reason", "visit")]


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_path_parameter_never_leads_elsewhere(harbour: Path, value: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in a path"):
        run(harbour, "get_berth", {"name": value, "format": "txt"})


def test_a_path_parameter_cannot_change_the_address(harbour: Path) -> None:
    asked, _ = run(harbour, "get_berth", {"name": "../../x?a#b@c", "format": "txt"})
    assert asked.url == "https://api.harbour.example/v2/berths/..%2F..%2Fx%3Fa%23b%40c.txt"


def test_a_json_body_is_sent_as_json(harbour: Path) -> None:
    asked, _ = run(harbour, "add_boat", {"body": {"name": "Möwe"}})
    assert json.loads(asked.body) == {"name": "Möwe"}
    assert ("Content-Type", "application/json") in asked.headers


def test_a_body_that_is_not_given_is_not_sent(harbour: Path) -> None:
    asked, _ = run(harbour, "rename_boat", {"boatId": 7})
    assert (asked.body, asked.headers) == (b"", [])


def test_a_form_repeats_the_name_of_a_list(harbour: Path) -> None:
    asked, _ = run(harbour, "rename_boat", {"boatId": 7, "body": {"name": "A & B", "marks": ["x", "y"]}})
    assert asked.body == b"name=A%20%26%20B&marks=x&marks=y"


def test_bytes_come_as_base64_and_go_as_bytes(harbour: Path) -> None:
    asked, _ = run(harbour, "store_photo", {"boatId": 7, "body": base64.b64encode(b"\x89PNG\0").decode()})
    assert asked.body == b"\x89PNG\0"
    assert ("Content-Type", "image/png") in asked.headers


def test_parts_of_a_form_with_files_are_decoded(harbour: Path) -> None:
    from email.parser import BytesParser

    given = {"boatId": 7, "body": {"scan": base64.b64encode(b"\0\1").decode(), "note": "ö"}}
    asked, _ = run(harbour, "store_papers", given)
    again, _ = run(harbour, "store_papers", given)
    assert asked == again
    head = f"Content-Type: {dict(asked.headers)['Content-Type']}\r\n\r\n".encode()
    parts: Any = BytesParser().parsebytes(head + asked.body).get_payload()
    assert [part.get_payload(decode=True) for part in parts] == [b"\0\1", "ö".encode()]
    assert [part.get_param("name", header="content-disposition") for part in parts] == ["scan", "note"]


@pytest.mark.parametrize(("body", "seen"), [("", ""), ("plain", "plain"), ('{"a": [1]}', {"a": [1]}), ("null", None)])
def test_the_answer_is_json_where_it_is_some_else_text(harbour: Path, body: str, seen: Any) -> None:
    _, output = run(harbour, "get_boat", {"boatId": 7}, Recording(404, body))
    assert output == {"status": 404, "body": seen}


def test_words_of_the_document_never_become_code(write: Write, convert: Convert) -> None:
    nasty = '"""\nimport os\n\'\\{}\u2028"'
    document = {
        "openapi": "3.1.0",
        "info": {"title": nasty, "description": nasty},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {
            "/a'\"/{x'\"y}": {
                "post": {
                    "operationId": nasty,
                    "summary": nasty,
                    "tags": [nasty],
                    "parameters": [
                        {"name": "x'\"y", "in": "path", "required": True, "schema": {"type": "string"}},
                        {"name": nasty, "in": "query", "schema": {"type": "string"}},
                    ],
                    "responses": {},
                }
            }
        },
    }
    bundle = convert(write({"openapi.json": json.dumps(document)})).bundle
    assert bundle is not None
    (name,) = read_manifest(bundle).tools
    code = (bundle / "tools" / name / "tool.py").read_text()
    assert [line for line in code.splitlines() if line.startswith("import")] == []
    asked, _ = run(bundle, name, {"x_y": "1", "import_os": "2"})
    assert asked.url.startswith("https://api.example.com/a'%22/1?")
