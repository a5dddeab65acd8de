"""OpenAPI documents that are large, dense or wrong in places: no error of ours, and a bounded effort."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from core import check_bundle, read_manifest, read_tool
from impl.sources import ImportResult, import_source

Write = Callable[..., Path]
Convert = Callable[..., ImportResult]

KEPT = Path(__file__).parents[2] / "inputs" / "openapi" / "openapi.yaml"
DOCUMENT = yaml.safe_load(KEPT.read_text())


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value below the root."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in pairs:
        yield (*above, key)
        yield from places(child, (*above, key))


ODD = st.sampled_from(
    [
        *(
            None,
            True,
            0,
            -1,
            1.5,
            10**30,
            "",
            "x",
            "\0\n",
            "é" * 50,
            [],
            [1],
            [[]],
            ["a", {"b": 1}],
            {},
            {"a": {"b": {}}},
        ),
        *({"$ref": "#/nope"}, {"$ref": "#/paths"}, {"$ref": "#/components/schemas/Boat"}, {"$ref": 5}),
    ]
)
CHANGES = st.lists(st.tuples(st.sampled_from(list(places(DOCUMENT))), ODD), min_size=1, max_size=3)


@settings(max_examples=25, deadline=None)
@given(CHANGES)
def test_whatever_stands_in_a_document_the_outcome_is_an_agent_a_question_or_a_refusal(changes: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    for place, odd in changes:
        node: Any = document
        try:
            for key in place[:-1]:
                node = node[key]
            node[place[-1]] = copy.deepcopy(odd)
        except (KeyError, TypeError, IndexError):
            continue  # an earlier change took the place away
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "source"
        root.mkdir()
        (root / "openapi.json").write_text(json.dumps(document))
        result = import_source(root, name="x", kind="openapi", choice=["all"], out=Path(scratch) / "out")
        assert result.outcome in ("imported", "question", "refused")
        # An import that is made has passed the checks; one that does not pass them would be a fault of ours.
        assert result.capability != "a sound bundle", result.evidence


def dense(count: int) -> dict[str, Any]:
    """A document whose schemas all hold several of the others."""
    schemas = {
        f"S{n}": {
            "type": "object",
            "properties": {f"f{m}": {"$ref": f"#/components/schemas/S{(n * 7 + m) % count}"} for m in range(9)},
        }
        for n in range(count)
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    answer = {"200": {"description": "ok", **body}}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Dense"},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/a": {"post": {"operationId": "go", "requestBody": body, "responses": answer}}},
        "components": {"schemas": schemas},
    }


def test_schemas_that_all_hold_each_other_are_described_some_way_down(write: Write, convert: Convert) -> None:
    result = convert(write({"openapi.json": json.dumps(dense(400))}))
    assert result.bundle is not None
    tool = read_tool(result.bundle / "tools" / "go")
    schema = json.dumps(tool.input_schema)
    assert "not described further" in schema
    assert len(schema) < 20_000
    assert any("deep in its input is not described" in loss.change for loss in result.losses)


def test_a_large_document_is_converted_by_groups(write: Write, convert: Convert) -> None:
    paths = {
        f"/r{n}/{{id}}": {
            method: {
                "operationId": f"{method}R{n}",
                "tags": [f"t{n % 40}"],
                "description": "Says much. " * 40,
                "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "responses": {"204": {"description": "ok"}},
            }
            for method in ("get", "put")
        }
        for n in range(400)
    }
    root = write({"openapi.json": json.dumps({**dense(2), "paths": paths})})
    asked = convert(root)
    assert len(asked.options) == 42
    assert asked.unlisted
    bundle = convert(root, choice=["tag:t3"]).bundle
    assert bundle is not None
    assert check_bundle(bundle) == []
    assert len(read_manifest(bundle).tools) == 20
