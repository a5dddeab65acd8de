"""Which licence covers what was chosen of a source."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from impl.sources.frontmatter import split_front_matter
from impl.sources.tree import decode, read_bytes
from impl.sources.values import Licence, LicenceStatus

_FILE = re.compile(r"^(?:(?:un)?licen[cs]e|copying)(?:[-_.].*)?$", re.IGNORECASE)
_NOT_TEXT = re.compile(r"\.(?:py|js|ts|go|rs|java|json|ya?ml|toml|html?|png|svg)$", re.IGNORECASE)
_LIMIT = 200_000

_SOURCE_AVAILABLE: tuple[tuple[str, str | None], ...] = (
    (r"business source license", "BUSL-1.1"),
    (r"elastic license 2\.0|elastic license,? version 2", "Elastic-2.0"),
    (r"server side public license", "SSPL-1.0"),
    (r"commons clause", None),
    (r"polyform noncommercial", "PolyForm-Noncommercial-1.0.0"),
    (r"polyform small business", "PolyForm-Small-Business-1.0.0"),
    (r"polyform", None),
    (r"functional source license", None),
    (r"fair source|sustainable use license|source[- ]available licen[cs]e", None),
    (r"attribution-?non-?commercial|creative commons.{0,40}noncommercial|cc[- ]by[- ]nc", None),
    (r"attribution-?no-?deriv|cc[- ]by[- ]nd", None),
    (r"prosperity public license|confluent community license|llama [\d.]* ?community license", None),
)
_KNOWN: tuple[tuple[str, str], ...] = (
    (r"gnu affero general public license", "AGPL-3.0"),
    (r"gnu (?:lesser|library) general public license.{0,80}version 3", "LGPL-3.0"),
    (r"gnu (?:lesser|library) general public license", "LGPL-2.1"),
    (r"gnu general public license.{0,80}version 3", "GPL-3.0"),
    (r"gnu general public license", "GPL-2.0"),
    (r"gnu free documentation license.{0,40}version 1\.3", "GFDL-1.3"),
    (r"gnu free documentation license.{0,40}version 1\.2", "GFDL-1.2"),
    (r"mozilla public license,? (?:version|v\.?) ?1\.1", "MPL-1.1"),
    (r"mozilla public license,? (?:version|v\.?) ?2\.0", "MPL-2.0"),
    (r"eclipse public license.{0,20}2\.0", "EPL-2.0"),
    (r"apache license,? version 2\.0|apache license version 2\.0", "Apache-2.0"),
    (r"this is free and unencumbered software released into the public domain", "Unlicense"),
    (r"cc0 1\.0|creative commons zero", "CC0-1.0"),
    (r"attribution-sharealike 4\.0|cc[- ]by[- ]sa[- ]4\.0", "CC-BY-SA-4.0"),
    (r"attribution 4\.0 international|cc[- ]by[- ]4\.0", "CC-BY-4.0"),
    (r"european union public licen[cs]e v\.? ?1\.2", "EUPL-1.2"),
    (r"artistic license 2\.0", "Artistic-2.0"),
    (r"blue oak model license", "BlueOak-1.0.0"),
    (r"do what the fuck you want to public license", "WTFPL"),
    (r"boost software license.{0,20}version 1\.0", "BSL-1.0"),
    (
        r"permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is"
        r" hereby granted\. the software",
        "0BSD",
    ),
    (
        r"permission is hereby granted, free of charge, to any person obtaining a copy"
        r"(?:(?!subject to).){0,900}furnished to do so\. the software is provided",
        "MIT-0",
    ),
    (r"permission to use, copy, modify, and/or distribute this software", "ISC"),
    (r"permission to use, copy, modify, and distribute this software for any purpose with", "ISC"),
    (r"permission is hereby granted, free of charge, to any person obtaining a copy", "MIT"),
    (r"redistribution and use in source and binary forms.*neither the name", "BSD-3-Clause"),
    (r"redistribution and use in source and binary forms", "BSD-2-Clause"),
    (r"altered source versions must be plainly marked", "Zlib"),
)
_NAMES = {
    **dict.fromkeys(("mit", "mit license", "the mit license"), "MIT"),
    **dict.fromkeys(
        ("apache 2.0", "apache2", "apache license 2.0", "apache software license", "apache license, version 2.0"),
        "Apache-2.0",
    ),
    **dict.fromkeys(("bsd", "bsd license"), "BSD-3-Clause"),
    **dict.fromkeys(("isc", "isc license"), "ISC"),
    "mozilla public license 2.0": "MPL-2.0",
    "the unlicense": "Unlicense",
}
"""What people and package indexes call licences, in lower case and without what stands in brackets."""
_RANKS: tuple[tuple[str, int], ...] = (
    ("AGPL", 5),
    ("GPL", 4),
    ("LGPL", 3),
    ("MPL", 2),
    ("EPL", 2),
    ("CC-BY-SA", 2),
)


def identify(text: str) -> tuple[str | None, LicenceStatus]:
    """The SPDX id (None where it is not a known one) and status of a licence's text or one-line name."""
    declared = re.search(r"SPDX-License-Identifier:\s*([\w.+ ()-]+)", text)
    if declared:
        return _by_name(declared[1].strip())
    plain = re.sub(r"[\s*#>=_]+", " ", text).strip().lower()
    head = plain[:4000]
    for pattern, spdx in _SOURCE_AVAILABLE:
        if re.search(pattern, head):
            return spdx, "source_available"
    # The first that stands there is the licence; those after it are of parts.
    matches = [(found.start(), known) for pattern, known in _KNOWN if (found := re.search(pattern, plain[:20_000]))]
    if matches:
        return min(matches, key=lambda match: match[0])[1], "found"
    if len(plain) < 80:
        return _by_name(text.strip())
    if re.search(r"all rights reserved|proprietary|confidential", plain):
        return None, "source_available"
    return None, "found"


def _by_name(name: str) -> tuple[str | None, LicenceStatus]:
    low = name.lower()
    if re.search(r"busl|elastic|sspl|commons|polyform|proprietary|unlicensed|-nc|-nd|all rights|see licen", low):
        return (name if re.fullmatch(r"[\w.+-]+", name) and low != "unlicensed" else None), "source_available"
    known = _NAMES.get(re.sub(r" \([^)]*\)$", "", low))
    if known is not None:
        return known, "found"
    return (name if re.fullmatch(r"[A-Za-z0-9.+-]+(?: (?:OR|AND|WITH) [A-Za-z0-9.+-]+)*", name) else None), "found"


def find_licence(root: Path, chosen: Iterable[str] = ()) -> dict[str, Any]:
    """What `licence_of` finds, as kept beside a revision: `{"spdx", "status", "path"}`."""
    return licence_of(root, chosen).to_json()


def licence_of(root: Path, chosen: Iterable[str] = ()) -> Licence:
    """The licence of the `chosen` paths (directories or files, relative to `root`; none: the whole source).

    The nearest licence file up from a chosen path counts; after that what its front matter or the root's
    package manifest says. Where several differ, the most restrictive is given and the rest noted.
    """
    found = {_nearest(root, path) for path in (list(chosen) or ["."])}
    ordered = sorted(found, key=lambda licence: (-_rank(licence), licence.path or ""))
    first = ordered[0]
    different = {(licence.spdx, licence.status) for licence in ordered}
    if len(different) < 2:
        return first
    said = ", ".join(f"{item.spdx or item.status} ({item.path or 'no file'})" for item in ordered)
    note = f"several licences: {said}; the most restrictive is recorded"
    return Licence(first.spdx, first.status, first.path, (*first.notes, note))


def _nearest(root: Path, chosen: str) -> Licence:
    directory = PurePosixPath(chosen)
    if chosen != "." and not (root / chosen).is_dir():
        directory = directory.parent
    own = _declared_by(root, chosen)
    for place in (directory, *directory.parents):
        here = [licence for path in licence_files(root, str(place)) if (licence := _read(root, path)) is not None]
        if here:
            return max(here, key=lambda licence: (_rank(licence), licence.path or ""))
        if own is not None and place == directory:
            return own
    return _by_manifest(root) or Licence(None, "missing", None)


def licence_files(root: Path, directory: str) -> list[str]:
    """The licence files directly in `directory`, as paths relative to `root`, sorted."""
    try:
        names = sorted(entry.name for entry in (root / directory).iterdir() if entry.is_file())
    except OSError:
        return []
    return [str(PurePosixPath(directory) / name) for name in names if is_licence_file(name)]


def is_licence_file(name: str) -> bool:
    """Whether a file of this name states a licence."""
    return _FILE.match(name) is not None and not _NOT_TEXT.search(name)


def _read(root: Path, path: str) -> Licence | None:
    """What a licence file says, None where nothing stands in it."""
    data = read_bytes(root / path, _LIMIT) or b""
    if not data.strip():
        return None
    decoded = decode(data)
    spdx, status = identify(decoded[0] if decoded else "")
    if spdx == "GPL-3.0" and "lesser" in PurePosixPath(path).name.lower():
        spdx = "LGPL-3.0"
    return Licence(spdx, status, path)


def _declared_by(root: Path, chosen: str) -> Licence | None:
    """What a skill's or subagent's own front matter says, where it names a licence rather than a file."""
    for path in (f"{chosen}/SKILL.md", f"{chosen}/skill.md", chosen):
        data = read_bytes(root / path, _LIMIT) if path.endswith(".md") else None
        decoded = decode(data or b"")
        word = split_front_matter(decoded[0]).word("license") if decoded else ""
        if word and len(word) < 80 and not re.search(r"licen[cs]e\.|terms in", word, re.IGNORECASE):
            return Licence(*identify(word), str(PurePosixPath(path)))
    return None


def _by_manifest(root: Path) -> Licence | None:
    name = _package_licence(root)
    if name is None:
        return None
    word, path = name
    return Licence(*identify(word), path)


def _package_licence(root: Path) -> tuple[str, str] | None:
    for path in ("pyproject.toml", "Cargo.toml", "package.json", "composer.json"):
        text = (read_bytes(root / path, _LIMIT) or b"").decode("utf-8", "replace")
        try:
            data = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
        except (ValueError, RecursionError):
            continue
        word = _declared_licence(data) if isinstance(data, dict) else None
        if word is not None:
            return word, path
    for path in ("setup.cfg", "setup.py"):
        text = (read_bytes(root / path, _LIMIT) or b"").decode("utf-8", "replace")
        if named := re.search(r"""^[ \t]*license[ \t]*=[ \t]*["']?([^"'\n,]+)""", text, re.MULTILINE):
            return named[1].strip(), path
    return None


def _declared_licence(data: dict[str, Any]) -> str | None:
    """The licence that a package's manifest names: under its key, else by its classifier."""
    tool = data.get("tool")
    for table in (
        data.get("project"),
        data.get("package"),
        tool.get("poetry") if isinstance(tool, dict) else None,
        data,
    ):
        if not isinstance(table, dict):
            continue
        value = table.get("license")
        if isinstance(value, dict):
            value = value.get("text") or value.get("type")
        if isinstance(value, str) and value.strip():
            return value.strip()
        listed = table.get("classifiers")
        for line in listed if isinstance(listed, list) else ():
            if isinstance(line, str) and line.startswith("License :: ") and line != "License :: OSI Approved":
                return line.rpartition(" :: ")[2]
    return None


def _rank(licence: Licence) -> int:
    if licence.status != "found":
        return 8 if licence.status == "missing" else 7
    if licence.spdx is None:
        return 6
    name = licence.spdx.upper()
    return next((rank for prefix, rank in _RANKS if name.startswith(prefix)), 1)
