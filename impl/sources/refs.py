"""References to sources: a path or a URL, what an agent made of it is called, and when two are the same."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Container
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import unquote, urlsplit

from impl.sources.values import SourceError

NAME_LIMIT = 64
_GENERIC = frozenset({"agents", "skills", "plugins", "categories", ".claude", ".agents"})
_SCP = re.compile(r"^(?:[\w.-]+@)?([\w.-]+\.[\w.-]+):(?!//)(?!\d+/)(.+)$")
_OPENING = re.compile(r"build (?:me )?an agent from[ \t]+([^\n]+)(?:\n|$)", re.IGNORECASE)
_ADDRESS = re.compile(r"https://[^\s<>\"'`]+", re.IGNORECASE)
_ANY_ADDRESS = re.compile(r"(?:https?|file|git|ssh)://\S+|git@[\w.-]+:\S+", re.IGNORECASE)
_WEB_PAGE = re.compile(r"^(/[^/]+/[^/]+)/(?:-/)?(?:tree|blob|src|raw|commit|releases|issues|pull|wiki)(?:/|$)")


@dataclass(frozen=True, slots=True)
class Reference:
    """A source a person named: `path` is set for a local one, `url` for one that git clones."""

    kind: Literal["path", "git"]
    path: Path | None = None
    url: str | None = None


def parse_reference(ref: str) -> Reference:
    """Tell what `ref` names. Raises SourceError `unsupported_url` (with the address to use instead) or
    `not_found`; a path is made absolute and need not exist."""
    text = ref.strip()
    if not text:
        raise SourceError("not_found", "No source was named.", "Paste a public repository URL or a path.")
    scheme, separator, _ = text.partition("://")
    if separator and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return _url(text, scheme.lower())
    path = _whole(Path(text).expanduser())
    scp = _SCP.match(text)
    if not path.exists() and scp:
        host, rest = scp[1], scp[2].strip("/")
        raise _unsupported("SSH addresses are not cloned, because they need a key.", f"https://{host}/{rest}")
    if not path.exists() and re.match(r"^(?:www\.)?[\w-]+\.(?:com|org|net|io|dev|sh)/", text):
        raise _unsupported("This looks like a web address without its scheme.", f"https://{text}")
    return Reference("path", path=path.resolve())


def _url(text: str, scheme: str) -> Reference:
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise SourceError(
            "unsupported_url", f"This is not a valid address: {error}.", "Check it and try again."
        ) from error
    if scheme == "file":
        if host not in ("", "localhost"):
            raise SourceError("unsupported_url", "A file:// address must be of this machine.", "Give the path.")
        return Reference("git", url=f"file://{parts.path.rstrip('/') or '/'}")
    clean = f"https://{host}{port}{parts.path}"
    if scheme == "ssh" or scheme.startswith("git"):
        raise _unsupported(f"{scheme}:// addresses are not cloned.", clean if host else "https://HOST/OWNER/NAME")
    if scheme != "https":
        raise _unsupported(
            f"Addresses that begin with {scheme}:// are not fetched.", clean if host else "https://HOST/OWNER/NAME"
        )
    if parts.username is not None or parts.password is not None:
        raise _unsupported("The address holds a user name or a token, which would be recorded.", clean)
    if not host or not parts.path.strip("/"):
        raise SourceError("unsupported_url", "The address names no repository.", "Use https://HOST/OWNER/NAME.")
    page = _WEB_PAGE.match(parts.path)
    if page:
        raise _unsupported("The address is of a page in a repository.", f"https://{host}{port}{page[1]}")
    return Reference("git", url=clean.rstrip("/"))


def _unsupported(message: str, instead: str) -> SourceError:
    return SourceError("unsupported_url", message, f"Use {instead}, or clone it yourself and give the folder.")


def cloned_from(ref: str) -> str | None:
    """The address of a repository elsewhere that `ref` names; None where it names anything else."""
    try:
        url = parse_reference(ref).url
    except SourceError:
        return None
    return url if url is not None and url.startswith("https://") else None


def named_source(text: str) -> str | None:
    """The source that a person's words are, or that they begin with (`Build an agent from SOURCE`): an address or a
    path. A path within a sentence is none: not everything that is mentioned is to be copied."""
    opening = _OPENING.match(text.strip())
    word = (opening[1] if opening else text).strip().strip("\"'`")
    if "\n" in word or len(word) > 500:
        return None
    if _ANY_ADDRESS.fullmatch(word) or word in (".", ".."):
        return word
    if word.startswith(("./", "../", "/", "~/")):
        return word if " " not in word or Path(word).expanduser().exists() else None
    return word if opening and "/" in word and " " not in word else None


def addresses(text: str) -> list[str]:
    """The addresses in a person's words that git could clone."""
    found = (cloned_from(match.group().rstrip(".,;:!?)]}")) for match in _ADDRESS.finditer(text))
    return [url for url in found if url is not None]


def source_name(ref: str) -> str:
    """The name of an agent made from `ref`: its last path part, lowercase, letters, digits and hyphens, at
    most 64 characters, never empty. `.` and `..` are the directories they name."""
    text = ref.strip()
    if "://" in text:
        path = unquote(text.partition("://")[2].partition("?")[0].partition("#")[0])
        if not text.lower().startswith("file://"):
            path = path.partition("/")[2] or path
        last = path.rstrip("/").rpartition("/")[2]
    elif _SCP.match(text) and not Path(text).exists():
        last = text.rstrip("/").rpartition("/")[2].rpartition(":")[2]
    else:
        resolved = _whole(Path(text).expanduser()).resolve()
        last = resolved.stem if resolved.is_file() else resolved.name
    return slug(last.removesuffix(".git") or last)


def _whole(path: Path) -> Path:
    """The directory of a SKILL.md, since a skill is its whole directory; any other path as it is."""
    return path.absolute().parent if path.name.lower() == "skill.md" and path.is_file() else path


def slug(text: str, fallback: str = "agent") -> str:
    """`text` as a name: accents dropped, everything but a-z, 0-9 and single inner hyphens replaced by a
    hyphen. Where nothing is left, `fallback` with a short hash of the text, so that two stay apart."""
    folded = unicodedata.normalize("NFKD", text)
    plain = "".join(char for char in folded if not unicodedata.combining(char)).lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:NAME_LIMIT].strip("-")
    if name or not text.strip("/. "):
        return name or fallback
    return f"{fallback}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"


def distinct(name: str, path: str, taken: Container[str]) -> str:
    """`name`, or where it is taken the name with that of a directory above `path`, or with a number."""
    above = [part for part in reversed(PurePosixPath(path).parts[:-1]) if part not in _GENERIC]
    numbered = (f"{name[: NAME_LIMIT - 5]}-{number}" for number in range(2, 10_000))
    return next(
        each for each in chain([name], (slug(f"{part}-{name}") for part in above), numbered) if each not in taken
    )


def same_source(a: str, b: str) -> bool:
    """Whether two references (paths, `file://` or `https://` addresses) name the same source; `.git`, a
    trailing slash and the case of the host do not matter."""
    return _normal(a) == _normal(b)


def _normal(ref: str) -> str:
    text = ref.strip()
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() == "file":
        text = unquote("/" + rest.removeprefix("localhost").lstrip("/"))
    elif separator:
        host, _, path = rest.partition("/")
        host = host.rpartition("@")[2].lower().removesuffix(":443")
        return f"{host}/{path.partition('#')[0].rstrip('/').removesuffix('.git').rstrip('/')}"
    resolved = str(_whole(Path(text).expanduser()).resolve()).rstrip("/")
    return resolved.removesuffix("/.git").removesuffix(".git") or "/"
