"""What a check sees of a directory."""

from __future__ import annotations

from pathlib import Path

from core.bundle.view import BundleView


def test_what_lies_under_a_directory_is_its_own_and_sorted(tmp_path: Path) -> None:
    names = [
        "tools/a/é.py",
        "tools/a/z.py",
        "tools/a/b/c.py",
        "tools/a.py",
        "tools/a-b/x.py",
        "tools/ab/x.py",
        "z/a.py",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    with BundleView(tmp_path) as view:
        assert view.under("tools/a/") == ["tools/a/b/c.py", "tools/a/z.py", "tools/a/é.py"]
        assert view.under("tools/nothing/") == []
        assert view.under("") == sorted(names)
