"""Writing a converted draft as a bundle that passes the checks."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from impl.sources.tree import SourceTree
from impl.sources.values import BundleFile, Draft, Loss, Refusal

_SECRETS = ("private_key", "secret_in_file")


def write_checked(tree: SourceTree, draft: Draft, name: str, out: Path) -> Draft:
    """Write the draft to `out`, absent or empty, and check it. Texts that hold a secret are withheld.

    Returns the draft as it was written. Raises Refusal, with nothing left at `out`, where the checks find
    problems all the same; FileExistsError or OSError where it cannot be written.
    """
    from core import check_bundle

    write_bundle(tree, draft, name, out)
    problems = check_bundle(out)
    secret = {problem.path for problem in problems if problem.code in _SECRETS and _dispensable(problem.path)}
    if secret:
        draft = _without(draft, secret)
        for path in secret:
            (out / path).unlink()
        problems = check_bundle(out)
    if problems:
        shutil.rmtree(out)
        reason = "What it would become does not pass the checks of a bundle."
        raise Refusal("a sound bundle", reason, tuple(f"{p.path}: {p.message}" for p in problems[:10]))
    return draft


def _dispensable(path: str) -> bool:
    """Whether a bundle is still what it was without this file: a page, or a text a skill refers to."""
    return path.startswith("corpus/") or (path.endswith((".md", ".txt", ".rst")) and path.count("/") > 2)


def _without(draft: Draft, paths: set[str]) -> Draft:
    gone = [file for file in draft.files if file.path in paths]
    kept = tuple(file for file in draft.files if file.path not in paths)
    losses = [Loss(file.source or file.path, "left out", "it holds what looks like a secret") for file in gone]
    counts = {key: n - len(gone) if key in ("pages", "files") else n for key, n in draft.counts.items()}
    return replace(draft, files=kept, losses=(*losses, *draft.losses), counts=counts)


def write_bundle(tree: SourceTree, draft: Draft, name: str, out: Path) -> None:
    """Write a draft as a bundle directory; `out` must be absent or empty. Raises FileExistsError, OSError."""
    if out.exists() and any(out.iterdir()):
        raise FileExistsError(f"{out} is not empty")
    out.mkdir(parents=True, exist_ok=True)
    _put(out / "agent.yaml", manifest_text(draft, name).encode(), False)
    _put(out / "persona.md", draft.persona.encode(), False)
    for file in draft.files:
        _put_file(tree, file, out / file.path)


def _put_file(tree: SourceTree, file: BundleFile, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.source is None:
        _put(target, file.data, file.x)
        return
    shutil.copyfile(tree.root / file.source, target, follow_symlinks=False)
    target.chmod(0o755 if file.x else 0o644)


def _put(path: Path, data: bytes, x: bool) -> None:
    path.write_bytes(data)
    path.chmod(0o755 if x else 0o644)


def manifest_text(draft: Draft, name: str) -> str:
    """The `agent.yaml` of a draft."""
    from core import Manifest, dump_manifest

    policy: dict[str, object] = {"run_sandbox": draft.run_sandbox, "run_skill": draft.run_skill}
    if draft.tool_policy:
        policy["tools"] = dict(draft.tool_policy)
    return dump_manifest(
        Manifest.model_validate(
            {
                "schema": "artificer/v1",
                "name": name,
                "description": draft.description,
                "skills": draft.skills,
                "tools": draft.tools,
                "corpus": draft.corpus,
                "credentials": [dict(declared) for declared in draft.credentials],
                "policy": policy,
            }
        )
    )
