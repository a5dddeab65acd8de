"""The Builder by rules: source, question, import, save, validate, publish where told; one move at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from core import ToolSpec
from impl.providers.offline import repair, said
from impl.providers.offline.record import Call, Item, Move, Replied, Reply, Said, Used, rows, spent, texts
from impl.providers.offline.wishes import (
    choice_in,
    name_wanted,
    sources,
    wants_again,
    wants_publish,
    wants_repair,
    wants_validation,
)

#: Errors of a source that no other path of the person's would heal: the build ends with the evidence.
_FINAL_ERRORS: Final = frozenset({"empty", "binaries_only", "blobs_missing", "refused", "no_text"})
_MAX_OPTIONS: Final = 100
_SAME_QUESTION: Final = 3
_BUNDLE: Final = "agent"
_REPAIRS: Final = 3


def decide(items: Sequence[Item], system: str, tools: Sequence[ToolSpec]) -> Move:
    """The next move of a Builder session whose history is `items`."""
    return _Build(items, system, frozenset(tool.name for tool in tools)).move()


def _imported(item: Item) -> bool:
    return isinstance(item, Used) and item.tool == "import_source" and item.data.get("outcome") == "imported"


class _Build:
    """One look at the history; it keeps nothing."""

    def __init__(self, items: Sequence[Item], system: str, tools: frozenset[str]) -> None:
        self.items = items
        self.tools = tools
        self.system = system
        end = next((i for i in range(len(items), 0, -1) if isinstance(items[i - 1], Said)), 0)
        start = next((i for i in range(end, 0, -1) if not isinstance(items[i - 1], Said)), 0)
        self.before = items[start - 1] if start else None
        self.words = "\n\n".join(i.text for i in items[start:end] if isinstance(i, Said))
        self.since_words = items[end:]
        turn = next((i for i in range(len(items), 0, -1) if isinstance(items[i - 1], Replied)), 0)
        self.turn = items[turn:]
        editing = re.search(r"[Ee]diting agent [`\"']?([\w-]+)", system)
        saved = self._last("save_agent", lambda used: used.ok)
        self.agent = str(saved.data.get("agent") or "") if saved else editing[1] if editing else ""

    def move(self) -> Move:
        """What to do now."""
        match self.items[-1] if self.items else None:
            case Used() as used:
                return self._after(used)
            case Said():
                return self._on_words()
            case _:
                return Reply(said.nothing_new(self.agent) if self.items else said.ask_source())

    def _last(self, tool: str, fits: Any = lambda used: True) -> Used | None:
        return next((i for i in reversed(self.items) if isinstance(i, Used) and i.tool == tool and fits(i)), None)

    # --- the person has spoken -------------------------------------------------------------------------

    def _on_words(self) -> Move:
        found = sources(self.words)
        if found:
            return self._import(found[0])
        if isinstance(self.before, Used) and self.before.tool != "cannot_convert":
            return self._after(self.before)
        if chosen := self._late_choice():
            return chosen
        last = self._last("import_source")
        if wants_again(self.words) and last is not None:
            return self._import(str(last.args.get("path", "")))
        if self.agent:
            return self._about_agent()
        refused = self._last("cannot_convert")
        if refused is not None:
            return Reply(said.still_refused(str(refused.args.get("reason", ""))))
        return Reply(said.ask_source())

    def _about_agent(self) -> Move:
        """Words about an agent that is there: publish, check, mend, rename; else they need a model."""
        if wants_publish(self.words) or wants_validation(self.words) or wants_repair(self.words):
            return self._call("validate_agent", {})
        name = name_wanted(self.words)
        if name and name != self.agent and self._last("save_agent"):
            return self._call("save_agent", {"path": _BUNDLE, "name": name})
        return Reply(said.needs_model_to_edit(self.agent))

    def _late_choice(self) -> Move | None:
        """The answer to a question that was put in a reply, not through a tool."""
        last = self._last("import_source")
        if last is None or last.data.get("outcome") != "question":
            return None
        multiple = bool(last.data.get("multiple"))
        chosen = choice_in(self.words, rows(last.data.get("options")), multiple=multiple)
        return self._import_choice(last, chosen) if chosen else None

    # --- a tool has answered ---------------------------------------------------------------------------

    def _after(self, used: Used) -> Move:
        if used.undone or (used.unanswered and used.tool == "ask_user"):
            return self._once_more(used)
        match used.tool:
            case "import_source":
                return self._imported(used)
            case "ask_user":
                return self._answered(used)
            case "save_agent":
                return self._saved(used)
            case "validate_agent":
                return self._validated(used)
            case "publish_agent":
                return self._published(used)
            case "run_sandbox" if self._broken() is not None:
                return self._repair()
            case "cannot_convert":
                return Reply(said.still_refused(str(used.args.get("reason", ""))))
            case _:
                return Reply(said.report(used))

    def _once_more(self, used: Used) -> Move:
        """A stop or other words overtook the call. All that these rules call may be done twice, not a third time."""
        same = [
            i for i in self.items if isinstance(i, Used) and i.tool == used.tool and dict(i.args) == dict(used.args)
        ]
        if len([i for i in same if i.undone or i.unanswered]) > 1:
            return Reply(said.report(used))
        if used.tool == "ask_user" and self.before is used and (chosen := self._late_choice()):
            return chosen
        return self._call(used.tool, used.args)

    def _import(self, source: str) -> Move:
        return self._call("import_source", {"path": source}, say=f"I look at {source}.")

    def _imported(self, used: Used) -> Move:
        if not used.ok:
            return self._import_failed(used)
        match used.data.get("outcome"):
            case "question":
                return self._question(used)
            case "imported":
                return self._save(used)
            case "refused":
                return self._refuse(
                    str(used.data.get("capability") or "the source"),
                    str(used.data.get("reason") or "It has no safe conversion."),
                    texts(used.data.get("evidence")),
                )
            case _:
                return Reply(said.report(used))

    def _import_failed(self, used: Used) -> Move:
        source = str(used.args.get("path", ""))
        error = used.error
        message = str(error.get("message") or used.output)
        if error.get("code") in _FINAL_ERRORS:
            evidence = [f"{error.get('code')}: {message}", *texts(error.get("evidence")), *texts(error.get("hint"))]
            return self._refuse(f"reading {source}", message, evidence)
        for other in self._candidates():
            if not spent(self.turn, "import_source", {"path": other}) and other != source:
                return self._import(other)
        first = next(i for i in self.turn if isinstance(i, Used) and i.tool == "import_source" and not i.ok)
        source, message = str(first.args.get("path", "")), str(first.error.get("message") or first.output)
        return Reply(said.source_failed(source, message, str(first.error.get("hint") or "")))

    def _candidates(self) -> list[str]:
        words = [i.text for i in self.turn if isinstance(i, Said)]
        return [source for text in reversed(words) for source in sources(text)]

    def _refuse(self, capability: str, reason: str, evidence: list[str]) -> Move:
        if "cannot_convert" not in self.tools:
            return Reply(said.refused(capability, reason, evidence))
        args = {"capability": capability, "reason": reason, "evidence": evidence or [reason]}
        return self._call("cannot_convert", args)

    # --- questions -------------------------------------------------------------------------------------

    def _question(self, used: Used) -> Move:
        """Ask the person, unless they have already said it, or the same question keeps coming back."""
        options = rows(used.data.get("options"))
        question = str(used.data.get("question") or used.data.get("message") or "")
        asked = [
            i
            for i in self.turn
            if isinstance(i, Used) and i.tool == "import_source" and i.data.get("options") == used.data.get("options")
        ]
        unlisted = used.data.get("unlisted") is True
        if len(asked) >= _SAME_QUESTION or "ask_user" not in self.tools:
            return Reply(said.question(question, options))
        multiple = bool(used.data.get("multiple"))
        if len(asked) == 1:
            for text in reversed([i.text for i in self.turn if isinstance(i, Said)]):
                if chosen := choice_in(text, options, multiple=multiple):
                    return self._import_choice(used, chosen, say=f"You said which: {', '.join(chosen)}.")
        return self._ask(question, options, used.data.get("recommended"), multiple, unlisted=unlisted)

    def _ask(
        self,
        message: str,
        options: list[Mapping[str, Any]],
        recommended: Any,
        multiple: bool,
        *,
        unlisted: bool = False,
    ) -> Move:
        """Ask with at most `_MAX_OPTIONS`; words are an answer too where there are more, or `unlisted` ones."""
        every = [o for o in options if str(o.get("id") or "")]
        named = [{"id": str(o["id"]), "label": str(o.get("label") or o["id"])} for o in every[:_MAX_OPTIONS]]
        cut = len(every) > len(named)
        more = f" These are the first {len(named)}; any other is chosen by its name." if cut else ""
        args = {
            "message": (message or "Which one?") + more,
            "options": named,
            "recommended": recommended if isinstance(recommended, str) else None,
            "multiple": multiple,
            "free_text": cut or unlisted or not named,
        }
        return self._call("ask_user", args)

    def _answered(self, used: Used) -> Move:
        about = next(
            (i for i in reversed(self.items) if isinstance(i, Used) and i.tool in ("import_source", "save_agent")), None
        )
        if about is None or not used.ok:
            return Reply(said.report(used))
        chosen = texts(used.data.get("choice"))
        text = str(used.data.get("text") or ("" if used.data else used.output))
        options = rows(used.args.get("options"))
        if not chosen and used.args.get("free_text"):
            chosen = [part.strip() for part in text.split(",") if part.strip()]
        chosen = chosen or choice_in(text, options, multiple=bool(used.args.get("multiple")))
        if len(chosen) > 1 and len(chosen) == len(options) < len(rows(about.data.get("options"))):
            chosen = ["all"]  # all of those that were listed means the others too
        if not chosen:
            return Reply(said.question(str(used.args.get("message") or ""), options))
        return self._import_choice(about, chosen) if about.tool == "import_source" else self._save_as(about, chosen[0])

    def _import_choice(self, asked: Used, chosen: list[str], say: str = "") -> Move:
        path, kind = asked.args.get("path"), asked.data.get("kind") or asked.args.get("kind")
        # A question that belongs to no kind yet asks for the kind itself.
        if asked.data.get("asks", "choice" if kind else "kind") == "kind":
            return self._call("import_source", {"path": path, "kind": chosen[0]}, say=say)
        args = {"path": path, "kind": kind if isinstance(kind, str) else None, "choice": chosen}
        return self._call("import_source", args, say=say)

    # --- saving, validating, publishing ----------------------------------------------------------------

    def _save(self, imported: Used) -> Move:
        bundle = imported.data.get("bundle")
        wanted = next((n for n in map(name_wanted, self._wishes()) if n), None)
        path = bundle if isinstance(bundle, str) and bundle and not bundle.startswith("/") else _BUNDLE
        return self._call("save_agent", {"path": path, "name": wanted})

    def _saved(self, used: Used) -> Move:
        if used.ok:
            return self._call("validate_agent", {})
        error = used.error
        suggested = str(error.get("suggested") or "")
        taken = [i for i in self.turn if isinstance(i, Used) and i.error.get("code") == "name_taken"]
        if error.get("code") != "name_taken" or len(taken) > _SAME_QUESTION or "ask_user" not in self.tools:
            return Reply(said.not_saved(used))
        existing = str(error.get("existing") or used.args.get("name") or "the agent of that name")
        options: list[Mapping[str, Any]] = [
            {"id": "new", "label": f"A new agent, {suggested}" if suggested else "A new agent under another name"},
            {"id": "existing", "label": f"One more revision of {existing}"},
        ]
        message = str(error.get("message") or f"There is already an agent {existing}.")
        return self._ask(f"{message} What should this become?", options, "new", multiple=False)

    def _save_as(self, taken: Used, choice: str) -> Move:
        path = taken.args.get("path") or _BUNDLE
        if choice == "existing":
            args = {"path": path, "name": taken.args.get("name"), "onto_existing": True}
            return self._call("save_agent", args)
        return self._call("save_agent", {"path": path, "name": taken.error.get("suggested")})

    def _validated(self, used: Used) -> Move:
        if not used.ok or not used.data.get("passed"):
            return self._repair() if self._broken() is not None else Reply(said.not_valid(self.agent, used))
        if self._publishing():
            return self._call("publish_agent", {})
        return Reply(self._summary())

    # --- repairing -------------------------------------------------------------------------------------

    def _broken(self) -> Used | None:
        """The latest validation, where it failed with problems that may be mended now: the person asked for it, or
        what was built of a source in this turn fails."""
        last = self._last("validate_agent")
        if last is None or last not in self.since_words or not rows(last.data.get("problems")):
            return None
        asked = wants_repair(self.words) or any(_imported(item) for item in self.turn)
        return last if asked and not last.data.get("passed") else None

    def _repair(self) -> Move:
        """The next step of mending: read what is concerned, write it mended, save; once for the same problems."""
        broken = self._broken()
        assert broken is not None
        problems = rows(broken.data.get("problems"))
        wanted = repair.needed(problems)
        earlier = [
            i for i in self.since_words if isinstance(i, Used) and i.tool == "validate_agent" and i is not broken
        ]
        tried = any(rows(i.data.get("problems")) == problems for i in earlier) or len(earlier) >= _REPAIRS
        if not wanted or tried or "run_sandbox" not in self.tools:
            return Reply(said.not_valid(self.agent, broken, mended=self._mended(), tried=tried and bool(wanted)))
        for path, read in self._reads(broken).items():
            if read is None:
                command = {"command": repair.read_command(path, _BUNDLE)}
                return self._call("run_sandbox", command, say=f"I look at {path}, where rules may mend something.")
        mended = self._mend(broken)
        written = self._written(broken, mended)
        if mended.files and written is None:
            command = {"command": repair.write_command(mended, _BUNDLE)}
            return self._call("run_sandbox", command, say="I mend: " + "; ".join(mended.done) + ".")
        if written is None or not written.ok:
            return Reply(said.not_valid(self.agent, broken, mended=self._mended(), tried=True))
        return self._call("save_agent", {"path": _BUNDLE})

    def _reads(self, broken: Used) -> dict[str, Used | None]:
        """The commands that showed the files to mend after this validation; None for one that is yet to come."""
        paths = repair.needed(rows(broken.data.get("problems")))
        return {path: self._ran_since(broken, repair.read_command(path, _BUNDLE)) for path in paths}

    def _mend(self, broken: Used) -> repair.Mended:
        """What can be mended of what was read after this validation."""
        shown = {
            path: repair.text_of(r.output, path) for path, r in self._reads(broken).items() if r is not None and r.ok
        }
        texts = {path: text for path, text in shown.items() if text is not None}
        return repair.mend(rows(broken.data.get("problems")), texts, self.agent)

    def _written(self, broken: Used, mended: repair.Mended) -> Used | None:
        return self._ran_since(broken, repair.write_command(mended, _BUNDLE)) if mended.files else None

    def _ran_since(self, start: Used, command: str) -> Used | None:
        """The last run of exactly this command after `start`."""
        for item in reversed(self.since_words):
            if item is start:
                return None
            if isinstance(item, Used) and item.tool == "run_sandbox" and item.args.get("command") == command:
                return item
        return None

    def _mended(self) -> list[str]:
        """What was mended since the person spoke, in words."""
        done: list[str] = []
        for item in self.since_words:
            if isinstance(item, Used) and item.tool == "validate_agent" and not item.data.get("passed"):
                mended = self._mend(item)
                written = self._written(item, mended)
                done += mended.done if written is not None and written.ok else ()
        return list(dict.fromkeys(done))

    # --- publishing ------------------------------------------------------------------------------------

    def _publishing(self) -> bool:
        """Whether the person wants it published: by flag, or the last of their words that speak of it."""
        if "Publishing was requested by the person" in self.system:
            return True
        spoken = next((text for text in self._wishes() if "publish" in text.casefold()), "")
        return wants_publish(spoken)

    def _wishes(self) -> list[str]:
        """What the person has said since the last thing that was finished, newest first."""
        words: list[str] = []
        replied = False
        for item in reversed(self.items):
            if isinstance(item, Said):
                words.append(item.text)
            elif isinstance(item, Replied):
                replied = True
            elif replied and item.tool == "validate_agent" and item.data.get("passed"):
                break
        return words

    def _published(self, used: Used) -> Move:
        if used.ok and used.data.get("published", True):
            return Reply(self._summary(published=used))
        return Reply(said.not_published(self.agent, used))

    def _summary(self, published: Used | None = None) -> str:
        in_turn = [i for i in self.turn if isinstance(i, Used)]
        imported = next((i for i in reversed(in_turn) if i.data.get("outcome") == "imported"), None)
        validated = self._last("validate_agent")
        source = next((i for i in reversed(self.items) if _imported(i)), None)
        example = str(source.data.get("example") or "") if isinstance(source, Used) else ""
        return said.built(self.agent, imported, validated, published, self._mended(), example)

    def _call(self, tool: str, args: Mapping[str, Any], say: str = "") -> Move:
        """Call a tool that is offered, unless exactly this has failed since the person last spoke; what is about the
        current revision may be called again once there is another."""
        given = {key: value for key, value in args.items() if value is not None}
        if tool not in self.tools:
            return Reply(said.not_offered(tool))
        items = self.since_words
        if tool in ("validate_agent", "publish_agent"):
            saves = [n for n, i in enumerate(items, 1) if isinstance(i, Used) and i.tool == "save_agent" and i.ok]
            items = items[saves[-1] if saves else 0 :]
        if spent(items, tool, given):
            return Reply(said.stuck(tool))
        return Call(tool, given, say)
