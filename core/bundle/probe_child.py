"""Parses untrusted Python and validates untrusted schemas in a process of its own, which may be killed.

Run as a script, never imported by the application: `python -I probe_child.py MODE CPU_SECONDS BYTES` reads a
JSON list of jobs from stdin and prints a JSON list of answers. It executes nothing of what it reads.
"""

from __future__ import annotations

import ast
import json
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Any

JOB_SECONDS = 1.5
IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}


def limit(cpu: int, size: int) -> None:
    """Bound this process's processor time and address space, where the platform can."""
    try:
        import resource
    except ImportError:
        return
    for what, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, size, size),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        try:
            resource.setrlimit(what, (soft, hard))
        except (ValueError, OSError):
            continue


def parse_python(job: dict[str, Any]) -> dict[str, Any]:
    """`{"source"}` to `{"imports": [[dotted name, line, level]], "run": …}`, or `{"error": [line, message]}`."""
    try:
        tree = ast.parse(job["source"])
        compile(tree, "<tool>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return {"error": [error.lineno or 1, error.msg]}
    except ValueError as error:
        return {"error": [1, str(error)]}
    except (MemoryError, RecursionError):
        return {"error": [1, "an expression is nested too deeply"]}
    return {"imports": list_imports(tree), "run": find_run(tree)}


def list_imports(tree: ast.Module) -> list[list[Any]]:
    """The imports of the module that must succeed: those for type checkers and those whose failure the code
    handles are left out."""
    found: list[list[Any]] = []
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            found.extend([alias.name, node.lineno, 0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.append([node.module or "", node.lineno, node.level])
        elif isinstance(node, ast.Call):
            found.extend(dynamic_import(node))
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Try) and handles_import_error(node):
            children = [child for child in children if child not in node.body]
        elif isinstance(node, ast.If) and names_type_checking(node.test):
            children = list(node.orelse)
        stack.extend(children)
    return sorted(found, key=lambda row: (row[1], row[0]))


def dynamic_import(node: ast.Call) -> list[list[Any]]:
    """The module of `__import__("x")` and `importlib.import_module("x")`, where it is written out."""
    function = node.func
    named = isinstance(function, ast.Name) and function.id in ("__import__", "import_module")
    dotted = isinstance(function, ast.Attribute) and function.attr in ("__import__", "import_module")
    given = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "name")]
    if not (named or dotted) or not given:
        return []
    name = given[0]
    if isinstance(name, ast.Constant) and isinstance(name.value, str) and not name.value.startswith("."):
        return [[name.value, node.lineno, 0]]
    return []


def handles_import_error(node: ast.Try) -> bool:
    """Whether an except clause of the try would catch a missing module."""
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if any(kind is None or (isinstance(kind, ast.Name) and kind.id in IMPORT_ERRORS) for kind in kinds):
            return True
    return False


def names_type_checking(test: ast.expr) -> bool:
    """Whether a condition is `TYPE_CHECKING` or `typing.TYPE_CHECKING`."""
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def find_run(tree: ast.Module) -> dict[str, Any] | None:
    """What the module binds `run` to last, as `{"line", "wrong"}`, `wrong` being None where it is a function with
    the right signature; None where nothing is."""
    for node in reversed(tree.body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == "run":
            return {"line": node.lineno, "wrong": judge_signature(node.args) or judge_kind(node)}
        if binds_run(node):
            return {"line": node.lineno, "wrong": "here it becomes something else"}
    return None


def binds_run(node: ast.stmt) -> bool:
    """Whether a statement makes `run` something else than a function defined here; `run = wrapped(run)`, which is
    what a decorator does, is none, nor is what only a program does (`if __name__ == …`)."""
    if isinstance(node, ast.ClassDef):
        return node.name == "run"
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return any((alias.asname or alias.name) == "run" for alias in node.names)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return False
    if isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test)):
        return False
    inner, names = parts_of(node)
    wraps = any(isinstance(name.ctx, ast.Load) for name in names)
    return (not wraps and any(not isinstance(name.ctx, ast.Load) for name in names)) or any(map(binds_run, inner))


def parts_of(node: ast.stmt) -> tuple[list[ast.stmt], list[ast.Name]]:
    """The statements within a statement, and where its own expressions use the name `run`."""
    inner: list[ast.stmt] = []
    names: list[ast.Name] = []
    stack: list[ast.AST] = [node]
    while stack:
        for child in ast.iter_child_nodes(stack.pop()):
            if isinstance(child, ast.stmt):
                inner.append(child)
            elif isinstance(child, ast.Name) and child.id == "run":
                names.append(child)
            elif not isinstance(child, (ast.Lambda, ast.comprehension)):
                stack.append(child)
    return inner, names


def judge_kind(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """What is wrong with what calling the function gives, or None."""
    stack: list[ast.AST] = [] if node.decorator_list else [*node.body]
    while stack:
        part = stack.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return "it yields instead of returning one value"
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(part))
    return None


def judge_signature(arguments: ast.arguments) -> str | None:
    """What is wrong with the parameters of `run`, or None."""
    positional = [*arguments.posonlyargs, *arguments.args]
    names = [argument.arg for argument in positional]
    if names[:2] != ["ctx", "input"]:
        return f"its parameters begin with ({', '.join(names[:4])})"
    required = names[2 : len(names) - len(arguments.defaults)]
    required += [a.arg for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is None]
    if required:
        return f"it requires {', '.join(required[:4])} as well"
    return None


def check_schema(job: dict[str, Any]) -> dict[str, Any]:
    """`{"schema", "inputs": [[index, input]]}` to `{"schema": message | None, "inputs": [[index, message]]}`."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    schema = job["schema"]
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return {"schema": f"{error.json_path}: {error.message}"[:500], "inputs": []}
    except RecursionError:
        return {"schema": "is nested too deeply", "inputs": []}
    validator = Draft202012Validator(schema, registry=Registry())
    wrong: list[list[Any]] = []
    for index, value in job["inputs"]:
        try:
            first = next(validator.iter_errors(value), None)
        except Unresolvable as error:
            wrong.append([index, f"a reference leads nowhere: {error}"[:500]])
        except RecursionError:
            wrong.append([index, "the schema refers to itself without end"])
        else:
            if first is not None:
                wrong.append([index, f"{first.json_path}: {first.message}"[:500]])
    return {"schema": None, "inputs": wrong}


class OutOfTime(BaseException):
    """A job used up its own processor time; no handler inside it may take this for its own error."""


def timed(work: Callable[[dict[str, Any]], dict[str, Any]], job: dict[str, Any]) -> dict[str, Any] | None:
    """The job's answer, or None past its processor time. Regular expressions answer signals while they match;
    what does not is ended by the process's limit."""

    def stop(number: int, frame: object) -> None:
        raise OutOfTime

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, JOB_SECONDS)
    try:
        return work(job)
    except OutOfTime:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def main() -> None:
    """Answer the jobs on stdin."""
    mode, cpu, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jobs = json.load(sys.stdin)
    limit(cpu, size)
    warnings.simplefilter("ignore")
    work = {"python": parse_python, "schema": check_schema}[mode]
    json.dump([timed(work, job) for job in jobs], sys.stdout)


if __name__ == "__main__":
    main()
