"""Writes the Python of a tool that calls one operation: standard library alone, short enough to be read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from impl.sources.apioperation import Body, Parameter, Plan
from impl.sources.values import shorten

_PATH_SAFE = "/-._~!$&'()*+,;=:@%"


def tool_code(plan: Plan) -> str:
    """The source of `tool.py`."""
    run = "\n".join(_run(plan))
    everything = "\n\n\n".join([run, *_helpers(run)])
    modules = [name for name in ("base64", "hashlib", "json") if f"{name}." in everything]
    imports = [f"import {name}" for name in modules]
    if "quote(" in everything:
        imports.append("from urllib.parse import quote")
    head = f'"""{_docstring(plan)}"""\n'
    return "\n".join([head, *imports, "", "", everything, ""]) if imports else "\n".join([head, "", everything, ""])


def _helpers(run: str) -> list[str]:
    """The helpers that `run` calls, and those that these call, in their order."""
    used: set[str] = set()
    texts = [run]
    while texts:
        text = texts.pop()
        more = {name for name in _HELPERS if name not in used and re.search(rf"(?<![\w.]){name}\(", text)}
        used |= more
        texts += [_HELPERS[name] for name in sorted(more)]
    return [text for name, text in _HELPERS.items() if name in used]


def _docstring(plan: Plan) -> str:
    text = f"{plan.method} {plan.operation.path}: {plan.operation.summary}"
    return shorten(re.sub(r'[\\"]', "'", text), 110)


def path_pieces(plan: Plan) -> list[tuple[str, Parameter | None]]:
    """The path in order: literal text, percent-encoded, and parameters (with their names)."""
    known = {p.name: p for p in plan.parameters if p.where == "path"}
    pieces: list[tuple[str, Parameter | None]] = []
    for index, part in enumerate(re.split(r"\{([^{}]*)\}", plan.operation.path)):
        if index % 2:
            pieces.append((part, known[part]))
        elif part:
            pieces.append((quote(part, safe=_PATH_SAFE), None))
    return pieces


def _run(plan: Plan) -> Iterator[str]:
    """The lines of `run`."""
    yield "def run(ctx, input):"
    yield f"    url = {_url(plan)}"
    queries = [p for p in plan.parameters if p.where == "query"]
    if queries:
        yield "    query = []"
        for parameter in queries:
            yield from _query(parameter)
        yield "    if query:"
        yield '        url += "?" + "&".join(query)'
    yield from _headers(plan)
    if plan.body is not None:
        yield from _body(plan.body)
    arguments = [_q(plan.method), "url", "headers=headers"]
    arguments += ["body=body"] if plan.body is not None else []
    arguments += [f"credential={_q(plan.scheme.name)}"] if plan.scheme is not None else []
    yield f"    response = ctx.http.request({', '.join(arguments)})"
    yield "    return answer(response)"


def _url(plan: Plan) -> str:
    parts: list[str] = []
    literal = plan.base
    for text, parameter in path_pieces(plan):
        if parameter is None:
            literal += text
            continue
        parts += [_q(literal), f"segment({_text(parameter)})"] if literal else [f"segment({_text(parameter)})"]
        literal = ""
    parts += [_q(literal)] if literal else []
    return " + ".join(parts)


def _value(parameter: Parameter) -> str:
    return f"input[{_q(parameter.key)}]"


def _text(parameter: Parameter) -> str:
    """The value of a path or header parameter as one text."""
    return f"{'plain' if parameter.style == 'one' else 'joined'}({_value(parameter)})"


def _q(text: str) -> str:
    """A text as a literal in double quotes; JSON's escapes are Python's."""
    return json.dumps(text, ensure_ascii=False)


def _query(parameter: Parameter) -> Iterator[str]:
    """Lines that add a query parameter where it is given."""
    value = _value(parameter)
    name = quote(parameter.name, safe="")
    yield f"    if input.get({_q(parameter.key)}) is not None:"
    match parameter.style:
        case "one":
            yield f"        query.append({_q(name + '=')} + encoded({value}))"
        case "repeat":
            yield f"        for item in listed({value}):"
            yield f"            query.append({_q(name + '=')} + encoded(item))"
        case "deep":
            yield f"        for key, item in {value}.items():"
            yield f"            query.append({_q(name + '[')} + encoded(key) + {_q(']=')} + encoded(item))"
        case "spread":
            yield f"        for key, item in {value}.items():"
            yield f"            query.append(encoded(key) + {_q('=')} + encoded(item))"
        case "json":
            yield f"        query.append({_q(name + '=')} + encoded(json.dumps({value})))"
        case "comma" | "space" | "pipe":
            mark = {"comma": ",", "space": "%20", "pipe": "%7C"}[parameter.style]
            yield f"        query.append({_q(name + '=')} + {_q(mark)}.join(encoded(item) for item in listed({value})))"


def _headers(plan: Plan) -> Iterator[str]:
    accept = f'[("Accept", {_q(plan.accept)})]' if plan.accept else "[]"
    yield f"    headers = {accept}"
    for parameter in plan.parameters:
        if parameter.where != "header":
            continue
        value = f"json.dumps({_value(parameter)})" if parameter.style == "json" else _text(parameter)
        yield f"    if input.get({_q(parameter.key)}) is not None:"
        yield f"        headers.append(({_q(parameter.name)}, {value}))"


def _body(body: Body) -> Iterator[str]:
    value = f"input[{_q(body.key)}]"
    indent = "    "
    if not body.required:
        yield '    body = b""'
        yield f"    if {_q(body.key)} in input:"
        indent = "        "
    match body.kind:
        case "json":
            yield f"{indent}body = json.dumps({value}).encode()"
        case "form":
            yield f"{indent}body = form({value})"
        case "text":
            yield f"{indent}body = {value}.encode()"
        case "bytes":
            yield f"{indent}body = base64.b64decode({value}, validate=True)"
        case "multipart":
            yield f"{indent}mark, body = multipart({value}, [{', '.join(map(_q, body.binary))}])"
            yield f"{indent}headers.append(({_q('Content-Type')}, {_q('multipart/form-data; boundary=')} + mark))"
            return
    yield f"{indent}headers.append(({_q('Content-Type')}, {_q(body.media)}))"


# In the order they stand in a file; each is there only where it is used.
_HELPERS: Final = {
    "segment": '''\
def segment(text):
    """A text as a part of the path: percent-encoded, and never one that leads elsewhere."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} cannot stand in a path")
    return quote(text, safe="")''',
    "joined": '''\
def joined(value):
    """A list as words with commas between, an object as its keys and values."""
    if isinstance(value, dict):
        value = [part for pair in value.items() for part in pair]
    return ",".join(plain(item) for item in value) if isinstance(value, list) else plain(value)''',
    "listed": '''\
def listed(value):
    """The items of a list, the keys and values of an object, or the value alone."""
    if isinstance(value, dict):
        return [part for pair in value.items() for part in pair]
    return value if isinstance(value, list) else [value]''',
    "encoded": '''\
def encoded(value):
    """A value as it stands in a query."""
    return quote(plain(value), safe="")''',
    "form": '''\
def form(fields):
    """A form's fields as its body; lists repeat their name, objects are JSON."""
    pairs = [(name, item) for name, value in fields.items() for item in (value if isinstance(value, list) else [value])]
    texts = [(name, json.dumps(item) if isinstance(item, dict) else plain(item)) for name, item in pairs]
    return "&".join(quote(name, safe="") + "=" + quote(text, safe="") for name, text in texts).encode()''',
    "multipart": '''\
def multipart(fields, binary):
    """(boundary, body) of a form whose `binary` fields are given in base64; equal fields give equal bytes."""
    mark = hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:32]
    parts = []
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            label = "".join(c for c in name if c not in '"\\\\\\r\\n')
            head = f'--{mark}\\r\\nContent-Disposition: form-data; name="{label}"'
            if name in binary:
                head += f'; filename="{label}"\\r\\nContent-Type: application/octet-stream'
                data = base64.b64decode(item, validate=True)
            elif isinstance(item, (dict, list)):
                head += "\\r\\nContent-Type: application/json"
                data = json.dumps(item).encode()
            else:
                data = plain(item).encode()
            parts.append(head.encode() + b"\\r\\n\\r\\n" + data + b"\\r\\n")
    return mark, b"".join(parts) + f"--{mark}--\\r\\n".encode()''',
    "plain": '''\
def plain(value):
    """A value as text: true, false, whole numbers without a point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)''',
    "answer": '''\
def answer(response):
    """The status, and the body: JSON where it is some, else text."""
    try:
        body = response.json()
    except ValueError:
        body = response.text
    return {"status": response.status, "body": body}''',
}
