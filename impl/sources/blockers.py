"""What makes a safe conversion impossible: desktop control, Windows, a GPU, an MCP server, nothing to read."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from impl.sources.dependencies import Dependency, dependencies
from impl.sources.tree import SourceTree, is_hidden, is_own, words
from impl.sources.values import Blocker, BlockerCode

_EVIDENCE = 10
_SCANNED = 2_000

_DESKTOP_PACKAGES = re.compile(
    r"^(?:pyautogui|pywinauto|pywin32|pypiwin32|uiautomation|pynput|pydirectinput|pygetwindow|autopy|pyautoit|ahk"
    r"|pydirectinput-rgx|pyuserinput|pywinctl|keyboard|mouse|github\.com/go-vgo/robotgo"
    r"|robotjs|@jitsi/robotjs|@hurdlegg/robotjs|@nut-tree/[\w.-]+|@nut-tree-fork/[\w.-]+|iohook|uiohook-napi"
    r"|enigo|rdev|flaui[\w.]*|inputsimulator[\w.]*|h\.inputsimulator)$",
    re.IGNORECASE,
)
_DESKTOP_MODULES = words("pyautogui pywinauto win32gui uiautomation pynput pydirectinput pygetwindow autopy autoit ahk")
_GPU_PACKAGES = re.compile(
    r"^(?:cupy(?:-cuda[\w-]*)?|nvidia-(?:cu|cublas|cudnn)[\w-]*|tensorrt[\w-]*|pycuda|flash-attn|tensorflow-gpu"
    r"|onnxruntime-gpu|faiss-gpu[\w-]*|cudf[\w-]*|cuml[\w-]*)$",
    re.IGNORECASE,
)
_MCP_MODULES = ("mcp.server", "fastmcp")
_JS_IMPORT = re.compile(r"""(?:\bfrom\s+|\brequire\(\s*|\bimport\(?\s*)["']([^"']+)["']""")
_JS_TYPES = re.compile(r"\s*(?:import|export)\s+type\b")
_OTHER_MCP = re.compile(
    r'^\s*(?:import\s+)?"(?:github\.com/mark3labs/mcp-go/server|github\.com/modelcontextprotocol/go-sdk/mcp)"'
    r"|^\s*import\s+io\.modelcontextprotocol\.server|^\s*using\s+ModelContextProtocol\.Server"
)
_USER32 = re.compile(r"""(?:Dll|Library)Import\(\s*@?["']user32(?:\.dll)?["']|\bwindll\.user32\b""", re.IGNORECASE)
_INPUT = re.compile(
    r"\bForms\.(?:SendKeys|Cursor)\b|\.SendKeys\b|\b(?:SendInput|keybd_event|mouse_event)\s*\("
    r"|^\s*import\s+java\.awt\.Robot\b|^\s*(?:import\s+)?\"github\.com/go-vgo/robotgo\""
)
_XDOTOOL = re.compile(
    r"(?:run|call|popen|check_output|check_call|system|exec|spawn)\w*\(\s*\[?\s*f?"
    r"""["'](?:sudo )?(?:xdotool|ydotool)\b""",
    re.IGNORECASE,
)
_SHELL_XDOTOOL = re.compile(r"^[^#]*\b(?:xdotool|ydotool)\b")
_COMPILED: tuple[tuple[re.Pattern[str], BlockerCode], ...] = (
    (_USER32, "desktop_control"),
    (_INPUT, "desktop_control"),
    (_OTHER_MCP, "mcp_server"),
)
_NO_CUDA = re.compile(r"^\s*assert\s+torch\.cuda\.is_available\(\)")
_CUDA_ELSE = re.compile(r"^\s*if\s+not\s+torch\.cuda\.is_available\(\)\s*:")
_GIVES_UP = re.compile(r"^\s*(?:raise\b|sys\.exit|exit\(|quit\(|return 1|throw\b)|:\s*(?:raise\b|sys\.exit)")

_REASONS: dict[BlockerCode, tuple[str, str]] = {
    "desktop_control": (
        "desktop control",
        "It drives a desktop's mouse, keyboard or windows, which a sandbox does not have.",
    ),
    "windows_only": ("Windows", "It runs on Windows alone; sandboxes here are Linux."),
    "gpu": ("a GPU", "It needs a GPU, which a sandbox does not have."),
    "mcp_server": (
        "an MCP server",
        "It is an MCP server; rules alone cannot decide how to run it. Choose a model (`--provider`): it can declare "
        "the server under `mcp` in agent.yaml, by its url or as a pinned command.",
    ),
}


def code_blockers(tree: SourceTree, paths: Iterable[str]) -> tuple[Blocker, ...]:
    """What the code and dependency files among `paths` say against a conversion, gravest first."""
    evidence: dict[BlockerCode, list[str]] = {}
    scanned = list(paths)[:_SCANNED]
    for path in scanned:
        for code, line in _signs(tree, path):
            evidence.setdefault(code, []).append(line)
    evidence.setdefault("gpu", []).extend(_mostly_cuda(scanned))
    return tuple(
        Blocker(code, *_REASONS[code], evidence=tuple(dict.fromkeys(evidence[code]))[:_EVIDENCE])
        for code in _REASONS
        if evidence.get(code)
    )


def own_paths(tree: SourceTree, except_under: Iterable[str] = ()) -> list[str]:
    """The paths whose code is the project's own: no tests, examples, hidden directories, nor those given."""
    prefixes = tuple("" if directory == "." else directory + "/" for directory in except_under)
    return [p for p in tree.files if is_own(p) and not is_hidden(p) and not (prefixes and p.startswith(prefixes))]


def _signs(tree: SourceTree, path: str) -> Iterator[tuple[BlockerCode, str]]:
    pure = PurePosixPath(path)
    suffix = pure.suffix.lower()
    if suffix in (".ahk", ".au3"):
        yield "desktop_control", f"{path}:1: {'AutoHotkey' if suffix == '.ahk' else 'AutoIt'} script"
        return
    for dependency in dependencies(tree, path):
        yield from _dependency_signs(dependency)
    match suffix:
        case ".py" | ".pyw":
            yield from _python_signs(path, tree.text(path) or "")
        case ".js" | ".mjs" | ".cjs" | ".ts" | ".mts" | ".cts" | ".tsx" | ".jsx":
            yield from _script_signs(path, tree.text(path) or "")
        case ".csproj" | ".vbproj" | ".fsproj":
            yield from _dotnet_signs(path, tree.text(path) or "")
        case ".json":
            yield from _json_signs(tree, path)
        case ".cs" | ".vb" | ".fs" | ".go" | ".java" | ".kt" | ".ps1" | ".psm1" | ".vbs" | ".c" | ".cc" | ".cpp":
            yield from _matching(path, tree.text(path) or "", _COMPILED)
        case ".sh" | ".bash":
            yield from _matching(path, tree.text(path) or "", ((_SHELL_XDOTOOL, "desktop_control"),))
        case ".toml" | ".cfg":
            yield from _classifier_signs(path, tree.text(path) or "")
    if pure.name.lower().startswith("dockerfile"):
        yield from _docker_signs(path, tree.text(path) or "")


def _matching(
    path: str, text: str, patterns: tuple[tuple[re.Pattern[str], BlockerCode], ...]
) -> Iterator[tuple[BlockerCode, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, code in patterns:
            if pattern.search(line):
                yield code, at(path, number, line)


def at(path: str, number: int, line: str) -> str:
    """Evidence in the form `path:line: text`, at most 160 characters of text."""
    return f"{path}:{number}: {' '.join(line.split())[:160]}"


def _dependency_signs(dependency: Dependency) -> Iterator[tuple[BlockerCode, str]]:
    if dependency.optional:
        return
    if _DESKTOP_PACKAGES.match(dependency.name):
        yield "desktop_control", dependency.evidence
    elif _GPU_PACKAGES.match(dependency.name) or "+cu1" in dependency.spec:
        yield "gpu", dependency.evidence


def _python_signs(path: str, text: str) -> Iterator[tuple[BlockerCode, str]]:
    lines = text.splitlines()
    if any(name in text for name in (*_DESKTOP_MODULES, *_MCP_MODULES, "mcp import server")):
        for number, module, guarded in sorted(_imports(text)):
            root = module.partition(".")[0]
            if root.lower() in _DESKTOP_MODULES and not guarded:
                yield "desktop_control", at(path, number, lines[number - 1])
            elif any(module == name or module.startswith(name + ".") for name in _MCP_MODULES):
                yield "mcp_server", at(path, number, lines[number - 1])
    yield from _matching(path, text, ((_USER32, "desktop_control"), (_XDOTOOL, "desktop_control"), (_NO_CUDA, "gpu")))
    for number, line in enumerate(lines, 1):
        if _CUDA_ELSE.match(line) and any(_GIVES_UP.search(after) for after in lines[number - 1 : number + 3]):
            yield "gpu", at(path, number, line)


def _imports(text: str) -> Iterator[tuple[int, str, bool]]:
    """(line, module, guarded) of each import; guarded ones may fail: they stand in a `try` or an `if`."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        for number, line in enumerate(text.splitlines(), 1):
            match = re.match(r"\s*(?:from\s+([\w.]+)\s+import\b|import\s+([\w.]+))", line)
            if match:
                yield number, match[1] or match[2], False
        return
    pending: list[tuple[ast.AST, bool]] = [(module, False)]
    while pending:
        node, guarded = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, guarded) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}", guarded) for alias in node.names)
        inner = guarded or isinstance(node, ast.Try | ast.If)
        pending.extend(
            (child, inner) for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)
        )


def _script_signs(path: str, text: str) -> Iterator[tuple[BlockerCode, str]]:
    if path.endswith((".d.ts", ".d.mts", ".d.cts")):
        return  # declarations run nothing
    for number, line in enumerate(text.splitlines(), 1):
        for module in () if _JS_TYPES.match(line) else _JS_IMPORT.findall(line):
            if _DESKTOP_PACKAGES.match(module):
                yield "desktop_control", at(path, number, line)
            elif module.startswith("@modelcontextprotocol/sdk/server") or module in ("fastmcp", "mcp-framework"):
                yield "mcp_server", at(path, number, line)
        if _XDOTOOL.search(line):
            yield "desktop_control", at(path, number, line)


def _dotnet_signs(path: str, text: str) -> Iterator[tuple[BlockerCode, str]]:
    targets = re.findall(r"<TargetFrameworks?>([^<]+)<", text)
    names = [name.strip() for target in targets for name in target.split(";") if name.strip()]
    if names and all(re.match(r"net\d[\d.]*-windows", name) or re.match(r"net4\d", name) for name in names):
        yield from _matching(path, text, ((re.compile(r"<TargetFrameworks?>"), "windows_only"),))
    uses = re.compile(r"<(?:UseWindowsForms|UseWPF)>\s*true\s*<", re.IGNORECASE)
    yield from _matching(path, text, ((uses, "windows_only"),))


def _json_signs(tree: SourceTree, path: str) -> Iterator[tuple[BlockerCode, str]]:
    name = PurePosixPath(path).name.lower()
    if name not in ("server.json", "package.json"):
        return
    text = tree.text(path) or ""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(data, dict):
        return
    if name == "package.json":
        systems = data.get("os")
        if isinstance(systems, list) and systems and all(system == "win32" for system in systems):
            yield from _matching(path, text, ((re.compile(r'"os"\s*:'), "windows_only"),))
        return
    for key in ("packages", "remotes"):
        entries = data.get(key)
        if isinstance(entries, list) and any(isinstance(entry, dict) for entry in entries) and "name" in data:
            yield from _matching(path, text, ((re.compile(rf'"{key}"\s*:'), "mcp_server"),))


def _classifier_signs(path: str, text: str) -> Iterator[tuple[BlockerCode, str]]:
    systems = re.findall(r"Operating System :: ([^\"'\n]+)", text)
    if systems and all(system.strip().startswith("Microsoft") for system in systems):
        yield from _matching(path, text, ((re.compile(r"Operating System :: Microsoft"), "windows_only"),))
    if "Environment :: GPU" in text and "nvidia" in text.lower():
        yield from _matching(path, text, ((re.compile(r"Environment :: GPU"), "gpu"),))


def _docker_signs(path: str, text: str) -> Iterator[tuple[BlockerCode, str]]:
    patterns: tuple[tuple[re.Pattern[str], BlockerCode], ...] = (
        (re.compile(r"^\s*FROM\s+(?:\S+/)?nvidia/cuda", re.IGNORECASE), "gpu"),
        (_SHELL_XDOTOOL, "desktop_control"),
    )
    yield from _matching(path, text, patterns)


def _mostly_cuda(paths: list[str]) -> list[str]:
    suffixes = [PurePosixPath(path).suffix.lower() for path in paths]
    cuda = [path for path, suffix in zip(paths, suffixes, strict=True) if suffix in (".cu", ".cuh")]
    others = sum(
        suffix in (".py", ".c", ".cc", ".cpp", ".h", ".hpp", ".rs", ".go", ".js", ".ts") for suffix in suffixes
    )
    return [f"{path}:1: CUDA source" for path in cuda] if cuda and len(cuda) >= others else []
