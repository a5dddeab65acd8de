"""What a check sees of a directory: its surveyed files, read without following a link."""

from __future__ import annotations

import os
from bisect import bisect_left
from itertools import islice, takewhile
from types import TracebackType
from typing import Self

from core.bundle.problems import Problem, ProblemCode
from core.bundle.tree import BUNDLE_CAPS, open_directory, read_regular, survey_tree
from core.ports import TreeEntry


class BundleView:
    """A directory under check; a context manager. Raises NotADirectoryError where it is none."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = open_directory(path)
        self.survey = survey_tree(path, BUNDLE_CAPS)
        self.files: dict[str, TreeEntry] = {entry.path: entry for entry in self.survey.entries}
        self._paths = sorted(self.files)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._root)

    def read(self, path: str, cap: int) -> bytes | None:
        """Up to `cap` + 1 bytes of a file of the tree, so that a longer one shows; None where there is none."""
        if path not in self.files:
            return None
        try:
            return read_regular(self._root, self.survey.disk.get(path, path), cap + 1)
        except OSError:
            return None

    def text(self, path: str, cap: int) -> tuple[str | None, list[Problem]]:
        """A file's text, or the problem that stands in its way (none where the file is absent)."""
        data = self.read(path, cap)
        if data is None:
            return None, []
        if len(data) > cap:
            return None, [Problem(ProblemCode.FILE_TOO_LARGE, path, f"more than {cap:,} bytes")]
        try:
            return data.decode("utf-8-sig"), []
        except UnicodeDecodeError:
            return None, [Problem(ProblemCode.NOT_UTF8, path, "is not UTF-8", "Save it as UTF-8.")]

    def directories(self, parent: str) -> list[str]:
        """Names of the directories right under `parent` that hold a file, sorted."""
        prefix = parent + "/"
        return sorted(
            {p[len(prefix) :].split("/")[0] for p in self.files if p.startswith(prefix) and "/" in p[len(prefix) :]}
        )

    def under(self, prefix: str) -> list[str]:
        """Paths of the files that begin with `prefix`, sorted."""
        first = bisect_left(self._paths, prefix)
        return list(takewhile(lambda path: path.startswith(prefix), islice(self._paths, first, None)))
