"""Documentation: the index becomes the persona, the pages the corpus, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core import check_bundle, read_manifest
from impl.sources import ImportResult
from impl.sources.prose import summarise

Write = Callable[..., Path]
Convert = Callable[..., ImportResult]


def corpus(result: ImportResult) -> set[str]:
    assert result.bundle is not None, result
    assert check_bundle(result.bundle) == []
    root = result.bundle / "corpus"
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_pages_are_copied_as_they_are_and_the_licence_is_no_page(inputs: Path, convert: Convert) -> None:
    result = convert(inputs / "documentation")
    pages = {"README.md", "CHANGELOG.md", "docs/measurements.md", "docs/harbours.rst"}
    assert corpus(result) == pages
    assert result.bundle is not None
    for page in pages:
        assert (result.bundle / "corpus" / page).read_bytes() == (inputs / "documentation" / page).read_bytes()
    assert read_manifest(result.bundle).corpus


def test_the_persona_says_what_it_is_about_and_how_to_answer(inputs: Path, convert: Convert) -> None:
    result = convert(inputs / "documentation")
    assert result.bundle is not None
    persona = (result.bundle / "persona.md").read_text()
    assert "> Tidepool keeps measurements of small harbours in one file. It needs no server." in persona
    assert "search_corpus" in persona
    assert "badge" not in persona
    assert result.description == (
        "Answers questions about Tidepool: Tidepool keeps measurements of small harbours in one file."
    )


def test_a_readme_wins_over_the_index_of_the_docs(write: Write, convert: Convert) -> None:
    page = "# {}\n\nThis page is about the {} thing.\n"
    files = {"README.md": page.format("Root", "root"), "docs/index.md": page.format("Docs", "docs")}
    assert "about Root" in convert(write(files)).description
    only = {"docs/index.md": files["docs/index.md"]}
    assert "about Docs" in convert(write(only, "other")).description


@pytest.mark.parametrize("opening", ["content/_index.md", "website/docs/intro.mdx", "Home.md", "guide/index.rst"])
def test_without_a_readme_the_page_that_opens_the_tree_is_the_index(
    write: Write, convert: Convert, opening: str
) -> None:
    page = "Tides\n=====\n\nThis tells when the tide is high.\n"
    deeper = {"content/a/b/_index.md": "# Other\n\nThis is not it at all.\n", "content/b.md": "# B\n\nText.\n"}
    assert "about Tides: This tells" in convert(write({**deeper, opening: page})).description
    packages = {f"packages/{name}/README.md": f"# {name}\n\nThis is one of two.\n" for name in "ab"}
    assert "one of two" not in convert(write(packages, "packages")).description


def test_a_page_that_is_all_there_is_says_what_the_agent_is_about(write: Write, convert: Convert) -> None:
    result = convert(write({"brewing.md": "# Brewing\n\nThis guide tells how tea is brewed.\n"}))
    assert result.description == "Answers questions about Brewing: This guide tells how tea is brewed."


def test_of_a_project_with_code_only_its_documents_are_pages(write: Write, convert: Convert) -> None:
    files = {
        "README.md": "# A\n\nIt does one thing and does it well.\n",
        "SECURITY.md": "# Security\n\nWrite to us.\n",
        "requirements.txt": "requests\n",
        "AGENTS.md": "Run the linter.\n",
        "src/a/prompt.md": "Not a page.\n",
        "src/a/README.md": "# Inside\n",
        "src/a/main.py": "x = 1\n",
        "docs/examples/first.md": "# First\n",
        "tests/notes.md": "no\n",
        ".github/pull.md": "no\n",
    }
    assert corpus(convert(write(files))) == {"README.md", "SECURITY.md", "src/a/README.md", "docs/examples/first.md"}


@pytest.mark.parametrize("sign", ["text/SUMMARY.md", "text/conf.py"])
def test_the_pages_of_a_book_are_pages_whatever_their_folder_is_called(
    write: Write, convert: Convert, sign: str
) -> None:
    files = {
        "README.md": "# A\n\nIt does one thing and does it well.\n",
        "src/main.rs": "fn main() {}\n",
        sign: "# x\n",
    }
    book = {"text/index.rst": "B\n=\n", "text/one/two.md": "# Two\n"}
    assert set(book) <= corpus(convert(write({**files, **book})))


def test_of_a_collection_of_texts_all_are_pages(write: Write, convert: Convert) -> None:
    files = {
        "knots/bowline.md": "# Bowline\n\nA loop.\n",
        "knots/reef.txt": "Two loops.\n",
        "b.adoc": "= B\n\nText.\n",
        "c.org": "* C\nText.\n",
    }
    assert corpus(convert(write(files))) == set(files)


def test_text_in_other_encodings_is_converted_and_noted(write: Write, convert: Convert) -> None:
    files = {
        "README.md": b"# Gr\xf6\xdfe\n\nHow large a thing may be.\n",
        "wide.txt": "Weit genug\n".encode("utf-16"),
        "marked.md": b"\xef\xbb\xbf# Marked\n",
        "not-text.md": b"\x00\x01\x02",
    }
    result = convert(write(files))
    assert corpus(result) == {"README.md", "wide.txt", "marked.md"}
    assert result.bundle is not None
    assert (result.bundle / "corpus/wide.txt").read_text("utf-8") == "Weit genug\n"
    assert (result.bundle / "corpus/README.md").read_text("utf-8").startswith("# Größe")
    assert {loss.path for loss in result.losses} == {"README.md", "wide.txt", "not-text.md"}


def test_pictures_and_code_left_out_stand_in_the_loss_report(write: Write, convert: Convert) -> None:
    files = {"README.md": "# A\n\nIt does one thing well.\n", "docs/a.png": b"\x89PNG\0", "a.py": "x = 1\n"}
    said = [loss.change for loss in convert(write(files)).losses]
    assert said == ["1 picture(s) or PDF(s) left out", "1 file(s) of code left out"]


def test_paths_that_differ_by_case_alone_do_not_break_the_bundle(write: Write, convert: Convert) -> None:
    files = {"README.md": "# A\n\nIt does one thing well.\n", "Guide.md": "# One\n", "guide.md": "# Two\n"}
    result = convert(write(files))
    assert corpus(result) == {"README.md", "Guide.md"}
    assert result.losses[0].path == "guide.md"


@pytest.mark.parametrize(
    ("kept", "dropped"),
    [
        ("docs/A/x.md", "docs/a/y.md"),
        ("docs/café/x.md", "docs/cafe\u0301/y.md"),
        ("docs/x.md", "docs/" + "d/" * 70 + "x.md"),
    ],
)
def test_pages_that_no_bundle_can_hold_are_left_out_and_the_others_kept(
    write: Write, convert: Convert, kept: str, dropped: str
) -> None:
    result = convert(write({"README.md": "# A\n\nIt does one thing well.\n", kept: "# X\n", dropped: "# Y\n"}))
    assert len(corpus(result)) == 2
    assert [loss.change for loss in result.losses] == ["left out"]


def test_a_page_whose_name_no_bundle_may_have_is_left_out_with_a_note(write: Write, convert: Convert) -> None:
    result = convert(write({"README.md": "# A\n\nIt does one thing well.\n", "..\\b.md": "# B\n", "c\nd.md": "# C\n"}))
    assert corpus(result) == {"README.md"}
    assert [note.partition(": ")[0] for note in result.notes] == ["'..\\\\b.md'", "'c\\nd.md'"]


def test_a_page_with_a_private_key_is_left_out(write: Write, convert: Convert) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA" * 8 + "\n-----END RSA PRIVATE KEY-----\n"
    result = convert(write({"README.md": "# A\n\nIt does one thing well.\n", "docs/keys.md": f"# Keys\n\n{key}"}))
    assert corpus(result) == {"README.md"}
    assert result.losses[0].path == "docs/keys.md"
    assert result.counts == {"pages": 1}


def test_a_bundle_that_does_not_pass_the_checks_is_not_made(write: Write, convert: Convert, tmp_path: Path) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA" * 8 + "\n-----END RSA PRIVATE KEY-----\n"
    skill = f"---\nname: one\ndescription: Does one.\n---\n\n{key}"
    result = convert(write({"one/SKILL.md": skill}))
    assert (result.outcome, result.bundle) == ("refused", None)
    assert result.evidence[0].startswith("skills/one/SKILL.md: ")
    assert not list(tmp_path.glob("bundle*"))


@pytest.mark.parametrize(
    ("path", "text", "title", "first"),
    [
        (
            "a.rst",
            "======\n Name |v|\n======\n\n.. image:: x\n   :alt: y\n\n*A tool for many things*\n\nMore\n----\n\nNo.\n",
            "Name",
            "A tool for many things",
        ),
        ("a.md", "---\nx: 1\n---\n<h1 align='center'>Name</h1>\n\n> quoted\n\nA [tool](x) for `many` things.\n",
         "Name", "A tool for many things."),
        ("a.md", "Name\n====\n\n```sh\ncode with many words here\n```\n\nA __tool__ for snake_case_names here.\n",
         "Name", "A tool for snake_case_names here."),
        ("a.adoc", "= Name\n:toc:\n\nA tool for many things.\n\n== Next\n\nNot this one at all.\n",
         "Name", "A tool for many things."),
        ("a.md", "# 潮汐\n\n这个工具保存小港口的潮汐测量数据并且不需要服务器。\n", "潮汐",
         "这个工具保存小港口的潮汐测量数据并且不需要服务器。"),
        ("a.md", "<h1 align=center>\n  <b>Na</b>me <img src=x>\n</h1>\n\nA tool&nbsp;for many \\*things\\*.\n",
         "Name", "A tool for many *things*."),
        ("a.md", "# [![build][b]][c] Name ![x][b]\n\nA [many things] tool, [not] this.\n\n[many things]: x\n",
         "Name", "A many things tool, [not] this."),
        ("a.md", "<h1><img src=x alt='Name'></h1>\n\nA tool for many things.\n", "Name", "A tool for many things."),
        ("a.md", "# ![Name](x)\n\nA tool for many things.\n", "Name", "A tool for many things."),
        ("a.mdx", "---\ntitle: Name\n---\nimport X from 'y'\n\nA tool for many things.\n\n## Use\n\nNot this at all.\n",
         "Name", "A tool for many things."),
        ("a.md", "A tool for many things.\n\n## Install\n\nThis is not what it is.\n", "", "A tool for many things."),
        ("a.md", "# Name\n\n[![npm]](x) ![y]\n\nHome page | Manual | Wiki\n\nA tool for many things.\n", "Name",
         "A tool for many things."),
        ("a.md", "# Introduction\n\nA tool for many things.\n", "", "A tool for many things."),
        ("a.rst", "A tool for many things.\n\n\\$ name\\_\n=======\n", "$ name_", "A tool for many things."),
    ],
)  # fmt: skip
def test_a_page_is_summed_up_by_its_title_and_first_paragraph(path: str, text: str, title: str, first: str) -> None:
    summary = summarise(text, path)
    assert (summary.title, summary.paragraphs) == (title, (first,))
