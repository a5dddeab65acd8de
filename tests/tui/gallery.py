"""Builds `tests/snapshots/index.html`, which shows every stored picture to a person: `python -m tests.tui.gallery`."""

from __future__ import annotations

import html
import os
import re
from collections import defaultdict
from pathlib import Path
from urllib.parse import quote

PICTURES = Path(__file__).parent / "__snapshots__"
INDEX = Path(__file__).parents[1] / "snapshots" / "index.html"
NAME = re.compile(r"(?:test_screen|test_(?P<own>\w+))\[(?:(?P<scene>.+)-)?(?P<look>\d+x\d+-\w+)\]$")

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Artificer: every screen and state</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem; background: #8882; }}
  nav a {{ display: inline-block; margin: 0 1rem .3rem 0; }}
  section {{ margin: 3rem 0; }}
  figure {{ display: inline-block; margin: 0 1rem 1rem 0; vertical-align: top; }}
  figcaption {{ font-size: 80%; opacity: .7; }}
  img {{ max-width: min(100%, 46rem); }}
</style>
<h1>Every screen and state</h1>
<p>{count} pictures of {scenes} scenes, at 80×24 and 120×40, dark and light. They are what the tests compare with;
<code>pytest tests/tui/test_pictures.py -m "slow or not slow" --snapshot-update</code> makes them anew.</p>
<nav>{links}</nav>
{sections}
</html>
"""


def index() -> str:
    """The page for the pictures that are stored now."""
    scenes: dict[str, list[tuple[str, Path]]] = defaultdict(list)
    for path in sorted(PICTURES.rglob("*.svg")):
        found = NAME.match(path.stem)
        if found:
            scene = found["scene"] or (found["own"] or path.stem).replace("_", "-")
            scenes[scene].append((found["look"], path))
    sections = []
    for scene, pictures in sorted(scenes.items()):
        figures = "".join(figure(scene, look, path) for look, path in pictures)
        sections.append(f'<section id="{scene}"><h2>{html.escape(scene)}</h2>\n{figures}</section>')
    links = "".join(f'<a href="#{scene}">{html.escape(scene)}</a>' for scene in sorted(scenes))
    count = sum(len(pictures) for pictures in scenes.values())
    return PAGE.format(count=count, scenes=len(scenes), links=links, sections="\n".join(sections))


def figure(scene: str, look: str, path: Path) -> str:
    """One picture with its caption."""
    source = quote(os.path.relpath(path, INDEX.parent))
    image = f'<img loading="lazy" src="{source}" alt="{html.escape(scene)} {look}">'
    return f"<figure>{image}<figcaption>{look}</figcaption></figure>"


def main() -> None:
    """Write the page."""
    INDEX.parent.mkdir(exist_ok=True)
    INDEX.write_text(index(), "utf-8")


if __name__ == "__main__":
    main()
