"""A running agent by rules: calls what a task spells out, quotes documents and skills, else says it needs a model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core import ToolSpec
from impl.providers.offline import skills
from impl.providers.offline.record import Call, Item, Move, Reply, Said, Used, brief, clip, rows, spent
from impl.providers.offline.spelled import spelled, usage
from impl.words import STOP_WORDS, content_words, coverage, unspaced, weight, words

#: Tools every agent may have; all others are its own and are called only where a task spells them out.
_STANDARD: Final = frozenset(
    {"ask_user", "read_skill", "run_skill", "search_corpus", "list_corpus", "get_corpus", "run_sandbox"}
)
_SEARCHED: Final = 8
_QUOTED: Final = 4
#: The weighted share of the question's words that the best passage must hold, and the others of the best's.
_FLOOR: Final = 0.5
_BESIDE_BEST: Final = 0.7
_OUTPUT: Final = 12_000
_PASSAGE: Final = 1_600
_DOCUMENT: Final = 4_000
_RULES: Final = "Offline rules, no model"
_FILE: Final = re.compile(
    r"(?<![\w./-])[\w./-]*\w\.(?:md|mdx|markdown|rst|txt|adoc|asciidoc|org)\b(?![\w/])", re.IGNORECASE
)
_LIST: Final = re.compile(
    r"\b(?:which|what|list|show)\b.{0,30}\b(?:documents?|docs|pages|files)\b(?:.{0,30}\b(?:are there|have|know)\b)?"
    r"\W*$|\blist (?:the |all )?(?:documents|pages)\b",
    re.IGNORECASE,
)
_FOLLOW_UP: Final = re.compile(r"\s*(?:and|what about|how about|or)\b", re.IGNORECASE)


def decide(items: Sequence[Item], system: str, tools: Sequence[ToolSpec]) -> Move:
    """The next move of a running agent whose history is `items`."""
    return _Run(items, system, tools).move()


class _Run:
    """One look at the history; it keeps nothing."""

    def __init__(self, items: Sequence[Item], system: str, tools: Sequence[ToolSpec]) -> None:
        self.system = system
        self.offered = {tool.name: tool for tool in tools}
        self.own = [tool for tool in tools if tool.name not in _STANDARD]
        self.skills = skills.listed(system) if "read_skill" in self.offered else []
        spoken = [i for i, item in enumerate(items) if isinstance(item, Said)]
        said = [item.text for item in items if isinstance(item, Said)]
        self.task = said[-1] if said else ""
        self.earlier = said[-2] if len(said) > 1 else ""
        self.items = items
        self.used = [i for i in items[spoken[-1] + 1 if spoken else 0 :] if isinstance(i, Used)]

    def move(self) -> Move:
        """What to do now."""
        if not self.task.strip():
            return Reply(self._needs_model())
        return self._after(self.used[-1]) if self.used else self._begin()

    def _begin(self) -> Move:
        call = spelled(self.task, self.own)
        if call is not None:
            if not call.missing and not call.wrong:
                return self._call(call.tool.name, call.args)
            if not self._can("search_corpus"):
                return Reply(_incomplete(call.tool, call.missing, call.wrong))
        named = _FILE.search(self.task)
        if named and self._can("get_corpus") and not self._asks_more_than(named.group()):
            return self._call("get_corpus", {"path": named.group()})
        return self._search_or_skill()

    def _asks_more_than(self, path: str) -> bool:
        """Whether the task says more than `show PATH`: then the document is searched, not shown."""
        return any(weight(w) == 1 for w in words(self.task.replace(path, " ")) if w not in STOP_WORDS)

    def _search_or_skill(self) -> Move:
        skill = skills.choose(self.task, self.skills)
        if self._can("search_corpus") and not (skill and skill.name.casefold() in self.task.casefold()):
            if self._can("list_corpus") and (_LIST.search(self.task) or self._says_nothing()):
                return self._call("list_corpus", {})
            return self._call("search_corpus", {"query": self._query(), "limit": _SEARCHED})
        return self._skill()

    def _skill(self) -> Move:
        """Read the skill that fits; without one, say what there is."""
        skill = skills.choose(self.task, self.skills)
        if skill is None:
            return Reply(self._needs_model())
        before = next(
            (
                i
                for i in reversed(self.items)
                if isinstance(i, Used) and i.tool == "read_skill" and i.ok and i.args.get("name") == skill.name
            ),
            None,
        )
        return Reply(self._from_skill(before)) if before else self._call("read_skill", {"name": skill.name})

    def _after(self, used: Used) -> Move:
        if used.undone and sum(u.undone for u in self.used) < 2 and used.tool in _STANDARD:
            return Call(used.tool, used.args)
        match used.tool:
            case "search_corpus" if used.ok:
                return self._found(used)
            case "get_corpus" if used.ok:
                return Reply(_document(used))
            case "get_corpus" if self._can("search_corpus"):
                return self._call("search_corpus", {"query": self._query(), "limit": _SEARCHED})
            case "list_corpus" if used.ok:
                return Reply(self._documents(used))
            case "read_skill" if used.ok:
                return Reply(self._from_skill(used))
            case _:
                return Reply(_result(used))

    # --- documents -------------------------------------------------------------------------------------

    def _query(self) -> str:
        asked = self.task
        if self.earlier and _FOLLOW_UP.match(asked):
            asked = f"{self.earlier}\n{asked}"
        return clip(asked.strip(), 1_000)

    def _says_nothing(self) -> bool:
        """Whether the task has no word to search for, as in `what is this?`."""
        return not unspaced(self.task) and all(w in STOP_WORDS for w in words(self._query()))

    def _found(self, used: Used) -> Move:
        fitting = _fitting(self._query(), rows(used.data.get("passages")))
        if fitting:
            return Reply(_passages(fitting, content_words(self._query())))
        if self.skills and skills.choose(self.task, self.skills):
            return self._skill()
        if self._can("list_corpus") and not spent(self.items, "list_corpus", {}):
            return self._call("list_corpus", {})
        return Reply(f"Nothing in the documents answers this. {_RULES}: I only quote what stands there.")

    def _documents(self, used: Used) -> str:
        documents = rows(used.data.get("documents"))
        listing = [f"- `{d.get('path')}`{_titled(d)}" for d in documents[:40]]
        if len(documents) > 40:
            listing.append(f"- and {len(documents) - 40} more")
        searched = any(u.tool == "search_corpus" for u in self.used)
        head = "Nothing in the documents answers this." if searched else "These are the documents I answer from."
        if not documents:
            return f"{head} There are none." if searched else "I have no documents."
        if searched:
            head += " There are:"
        tail = f"{_RULES}: I find and quote passages, so ask in words that would stand in them."
        return "\n".join([head, "", *listing, "", tail])

    # --- skills ----------------------------------------------------------------------------------------

    def _from_skill(self, used: Used) -> str:
        name = str(used.args.get("name", "the skill"))
        read = skills.parts(used.output)
        lines = [f"The skill `{name}` is for this. It says:", "", _block(skills.quote(read.text, self.task)), ""]
        pointed = skills.fitting_files(read, self.task)
        shown = next((f for f in pointed if f in read.contents), None)
        if shown:
            quoted = _block(skills.quote(read.contents[shown], self.task))
            lines += [f"And its `{shown}`:", "", quoted, ""]
        rest = [f for f in pointed if f != shown]
        if rest:
            lines.append(f"For this task see{' also' if shown else ''} {', '.join(f'`{f}`' for f in rest)}.")
        others = [f for f in read.files if f not in pointed]
        if others:
            more = f" and {len(others) - 12} more" if len(others) > 12 else ""
            lines.append(
                f"{'Its other' if pointed else 'Its'} files: {', '.join(f'`{f}`' for f in others[:12])}{more}."
            )
        lines.append(f"{_RULES}: I quote the steps; carrying them out and writing the text needs one. {_with_model()}")
        return "\n".join(lines)

    # --- the rest --------------------------------------------------------------------------------------

    def _needs_model(self) -> str:
        lines = [f"This task needs a model, and I am offline rules. {_with_model()}"]
        if self.skills:
            lines += ["", "No skill of mine fits it by its words. I can quote the steps of:"]
            lines += [f"- `{s.name}`: {brief(s.description, 160)}" for s in self.skills[:20]]
        if self.own:
            lines += ["", "Without a model I call a tool where you spell it out:"]
            lines += [f"- `{usage(tool)}`" for tool in self.own[:20]]
        return "\n".join(lines)

    def _can(self, tool: str) -> bool:
        return tool in self.offered

    def _call(self, tool: str, args: Mapping[str, Any]) -> Move:
        if spent(self.used, tool, args):
            return Reply(f"`{tool}` failed with exactly this before; I do not repeat it. {_RULES}.")
        return Call(tool, args)


def _fitting(query: str, passages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The passages that hold enough of the question, in the order they were found."""
    asked = content_words(query)
    shares = [coverage(asked, f"{p.get('path')} {p.get('heading')}\n{p.get('text')}") for p in passages]
    if not asked:  # no word at all that can be compared: trust the search, which knows other scripts
        return list(passages[:_QUOTED])
    best = max(shares, default=0.0)
    if best < _FLOOR:
        return []
    return [p for p, share in zip(passages, shares, strict=True) if share >= max(_FLOOR, _BESIDE_BEST * best)][:_QUOTED]


def _passages(passages: Sequence[Mapping[str, Any]], asked: Sequence[str]) -> str:
    count = "This passage fits" if len(passages) == 1 else f"These {len(passages)} passages fit best"
    lines = [f"{count} ({_RULES}: quoted as they stand, nothing added)."]
    for passage in passages:
        heading = str(passage.get("heading") or "")
        where = f"`{passage.get('path')}:{passage.get('line')}`{' · ' + heading if heading else ''}"
        lines += ["", _block(clip(str(passage.get("text", "")), _PASSAGE)), "", where]
    everything = "\n".join(f"{p.get('path')} {p.get('heading')} {p.get('text')}" for p in passages)
    absent = [word for word in asked if coverage([word], everything) == 0]
    if absent:
        lines += ["", f"None of them has: {', '.join(absent[:8])}."]
    return "\n".join(lines)


def _document(used: Used) -> str:
    path = used.args.get("path", "")
    note = "" if len(used.output) <= _DOCUMENT else f" begins (it has {len(used.output):,} characters)"
    return f"`{path}`{note}:\n\n{_block(clip(used.output, _DOCUMENT))}\n\n{_RULES}: quoted as it stands."


def _result(used: Used) -> str:
    if not used.ok:
        message = str(used.error.get("message") or used.output).strip() or "no reason given"
        return f"`{used.tool}` failed: {clip(message, _OUTPUT)}\n\n{_RULES}: I do not try it another way."
    output = used.output.strip("\n")
    if not output.strip():
        return f"`{used.tool}` gave no output. {_RULES}."
    shown = _fenced(clip(output, _OUTPUT), json_text=bool(used.data))
    return f"`{used.tool}` gave:\n\n{shown}\n\n{_RULES}: shown as it came."


def _incomplete(tool: ToolSpec, missing: Sequence[str], wrong: Sequence[str]) -> str:
    parts = [f"missing: {', '.join(missing)}"] if missing else []
    if wrong:
        parts.append(f"not of its type: {', '.join(wrong)}")
    return (
        f"I would call `{tool.name}`, but not all of its arguments are clear ({'; '.join(parts)}). Spell it out: "
        f"`{usage(tool)}`, or `{tool.name} {json.dumps(dict.fromkeys(missing or wrong, '…'), ensure_ascii=False)}`.\n\n"
        f"{_RULES}: I guess nothing. {_with_model()}"
    )


def _with_model() -> str:
    return 'Run it with one: `artificer run AGENT "…" --provider anthropic` with `ANTHROPIC_API_KEY` set.'


def _titled(document: Mapping[str, Any]) -> str:
    return f" · {document['title']}" if document.get("title") else ""


def _block(text: str) -> str:
    """A Markdown block quote."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _fenced(text: str, *, json_text: bool) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{'json' if json_text else ''}\n{text}\n{fence}"
