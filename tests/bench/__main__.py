"""Runs every benchmark here and prints one JSON object a line: `python -m tests.bench [NAME ...]`."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path


def main(names: list[str]) -> int:
    """Run `bench_NAME.py` for each name, or all; 1 where one missed its limit or failed."""
    found = sorted(path.stem for path in Path(__file__).parent.glob("bench_*.py"))
    wanted = [name for name in found if not names or name.removeprefix("bench_") in names]
    good = True
    for name in wanted:
        figures = {"bench": name.removeprefix("bench_"), **import_module(f"tests.bench.{name}").run()}
        good = good and figures.get("passed", True)
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()
    return 0 if good and wanted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
