"""What a source holds: its candidates by kind, which kinds come into question, and what stands against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from impl.sources.blockers import code_blockers, own_paths
from impl.sources.documentation import PAGE_SUFFIXES, is_code, page_paths
from impl.sources.formats import DOCUMENTATION, FORMATS, OPENAPI, load_format
from impl.sources.tree import NOT_OWN, SourceTree, directories, is_hidden, is_own, words
from impl.sources.values import Blocker, Candidate, Survey

_MANIFESTS = words(
    "pyproject.toml setup.py setup.cfg package.json cargo.toml go.mod pom.xml build.gradle build.gradle.kts gemfile"
    " composer.json cmakelists.txt mix.exs package.swift"
)
_TOOLING = frozenset({"scripts", "script", "tools", "hack", "ci", "bin", "build", "install"})
_SUBMODULES = (
    "It holds nothing but submodules, which are not fetched. Clone it with them (`git clone --recurse-submodules`) and "
    "give the folder."
)
_MODEL = "Rules alone cannot convert this. It needs a model: choose a provider."

Found = Mapping[str, tuple[Candidate, ...]]


def survey(path: Path) -> Survey:
    """Survey the directory `path`. Nothing is run or changed. Raises OSError where it cannot be read."""
    return survey_tree(SourceTree(path))


def survey_tree(tree: SourceTree) -> Survey:
    """Survey a listed tree."""
    found = {kind: tuple(load_format(kind).find(tree)) for kind in FORMATS}
    kinds, recommended, notes = _contenders(tree, found)
    blockers = _blockers(tree, found, kinds)
    if blockers:
        kinds = tuple(kind for kind in kinds if kind != DOCUMENTATION)
        recommended = recommended if recommended in kinds else next(iter(kinds), None)
        if kinds == (OPENAPI,):
            notes = [*notes, *(f"{blocker.capability}: not converted. {blocker.reason}" for blocker in blockers)]
    return Survey(found, kinds, recommended, () if kinds else blockers, (*tree.notes, *notes))


def _contenders(tree: SourceTree, found: Found) -> tuple[tuple[str, ...], str | None, list[str]]:
    """(kinds in question, the recommended one, notes), by where their candidates lie."""
    documented = bool(found[DOCUMENTATION]) and not _is_one_agent(tree, found)
    others = [kind for kind in FORMATS if kind != DOCUMENTATION and found[kind]]
    code = _own_code(tree, found)
    usual = [
        kind
        for kind in others
        if any(c.place == "usual" for c in found[kind]) or (not code and _is_made_of(tree, found[kind]))
    ]
    helpers = [kind for kind in others if any(c.place == "helper" for c in found[kind])]
    project = documented and (bool(code) or _has_own_docs(tree))
    if usual:
        if documented and ((_is_package(tree) and code) or (usual == [OPENAPI] and _says_more(tree, code))):
            return (*usual, DOCUMENTATION), usual[0], []
        return tuple(usual), usual[0], []
    if helpers:
        return ((DOCUMENTATION,), DOCUMENTATION, _passed_over(found, helpers)) if project else _only(helpers)
    if others and not documented:
        return _only(others)
    if others and not code:
        return (*others, DOCUMENTATION), DOCUMENTATION, []
    if documented:
        return (DOCUMENTATION,), DOCUMENTATION, _passed_over(found, others)
    return (), None, []


def _is_made_of(tree: SourceTree, candidates: Sequence[Candidate]) -> bool:
    """Whether a source is a collection of these, wherever they lie: several, and most of what can be read in it."""
    if len(candidates) < 3 or candidates[0].kind == OPENAPI:
        return False
    places = {candidate.path for candidate in candidates}
    texts = [path for path in tree.files if PurePosixPath(path).suffix.lower() in PAGE_SUFFIXES and not is_hidden(path)]
    within = [path for path in texts if path in places or any(str(p) in places for p in PurePosixPath(path).parents)]
    return 2 * len(within) > len(texts)


def _is_one_agent(tree: SourceTree, found: Found) -> bool:
    """Whether the only page there is a subagent's file, as where a person named that file."""
    pages = page_paths(tree)
    return len(pages) == 1 and pages == [candidate.path for candidate in found["subagents"]]


def _only(kinds: Sequence[str]) -> tuple[tuple[str, ...], str | None, list[str]]:
    return tuple(kinds), kinds[0], []


def _says_more(tree: SourceTree, code: Sequence[str]) -> bool:
    """Whether a source with an API's document is more than that document and a word about it."""
    return bool(code) or len(page_paths(tree)) > 1


def _passed_over(found: Found, kinds: Sequence[str]) -> list[str]:
    notes = []
    for kind in kinds:
        names = dict.fromkeys(c.path if kind == OPENAPI else c.id for c in found[kind])
        notes.append(f"{load_format(kind).LABEL} ({', '.join(names)}): a helper of this project, not its offer")
    return notes


def _own_code(tree: SourceTree, found: Found) -> list[str]:
    """The project's code outside its skills and its own tooling."""
    skills = [c.path for kind in FORMATS if kind != DOCUMENTATION for c in found[kind]]
    return [
        path
        for path in own_paths(tree, [directory for directory in skills if not directory.endswith(".md")])
        if is_code(path) and not any(part.lower() in _TOOLING for part in directories(path))
    ]


def _has_own_docs(tree: SourceTree) -> bool:
    return sum(len(PurePosixPath(page).parts) > 1 for page in page_paths(tree)) > 0


def _is_package(tree: SourceTree) -> bool:
    return any(path.lower() in _MANIFESTS or path.lower().endswith((".sln", ".csproj")) for path in tree.files)


def _blockers(tree: SourceTree, found: Found, kinds: Sequence[str]) -> tuple[Blocker, ...]:
    if not any(file.size for file in tree.files.values()):
        said = "It holds no files that count." if not tree.files else "Its files are all empty."
        return (Blocker("empty", "an empty source", f"{said} Name another source."),)
    if not any(tree.text(path) for path in tree.files):
        evidence = tuple(f"{file.path}: {file.size:,} bytes, not text" for file in list(tree.files.values())[:10])
        return (Blocker("binaries", "binary files", "It holds only binary files; nothing can be read.", evidence),)
    skills = [c.path for c in found["agent_skills"]]
    blockers = code_blockers(tree, own_paths(tree, skills))
    if blockers or kinds:
        return blockers
    return (_undecided(tree),)


def _undecided(tree: SourceTree) -> Blocker:
    """Nothing speaks against it, but no rule converts it either."""
    if all(path.startswith(".git") for path in tree.files) and ".gitmodules" in tree.files:
        return Blocker("empty", "a source without files of its own", _SUBMODULES, (".gitmodules",))
    evidence = tuple(f"{path}: {file.size:,} bytes" for path, file in list(tree.files.items())[:10])
    what = "a source without skills, subagents, documentation or an OpenAPI document"
    aside = next((p for p in tree.files if PurePosixPath(p).name.lower() == "skill.md" and not is_own(p)), None)
    if aside is not None:
        folder = next(part for part in directories(aside) if part.lower() in NOT_OWN)
        return Blocker("unknown", what, f"What lies under {folder} does not count: name that folder itself.", (aside,))
    return Blocker("unknown", what, _MODEL, evidence)
