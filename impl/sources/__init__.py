"""Sources: bringing a folder or repository in and converting it by rules; nothing of it is ever run."""

from __future__ import annotations

from impl.sources.clones import Clone, read_clone
from impl.sources.fetch import SCRATCH, Caps, Fetched, fetch_source
from impl.sources.importer import import_source
from impl.sources.licence import find_licence
from impl.sources.refs import addresses, cloned_from, named_source, same_source, source_name
from impl.sources.survey import survey
from impl.sources.values import (
    Blocker,
    Candidate,
    ImportResult,
    Licence,
    Loss,
    Option,
    SourceError,
    Survey,
)

__all__ = [
    "SCRATCH",
    "Blocker",
    "Candidate",
    "Caps",
    "Clone",
    "Fetched",
    "ImportResult",
    "Licence",
    "Loss",
    "Option",
    "SourceError",
    "Survey",
    "addresses",
    "cloned_from",
    "fetch_source",
    "find_licence",
    "import_source",
    "named_source",
    "read_clone",
    "same_source",
    "source_name",
    "survey",
]
