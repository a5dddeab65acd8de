"""What a search of a corpus finds, and that no text of a person's breaks it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import UnknownResource
from impl.corpus import CorpusIndex
from impl.passages import MAX_CODE, MAX_PASSAGE, split

GUIDE = """\
# Guide

Words of welcome.

## Installing the tool

Run the installer, then restart:

```sh
make install

make check
```

## Removing it

Use the `remove-tool` command. "Quoted" AND odd words OR so.
"""

RST = """\
.. _start:

=======
 Title
=======

Opening words.

Deep matter
===========

Run this::

    tool --deep

        nested

.. note::
    Deep water is cold.

.. a comment that nobody reads

Last of all
-----------

.. code-block:: bash

    tool last
"""


@pytest.fixture
def corpus(tmp_path: Path) -> CorpusIndex:
    (tmp_path / "guide.md").write_text(GUIDE, encoding="utf-8")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "matter.rst").write_text(RST, encoding="utf-8")
    (tmp_path / "notes.txt").write_text(
        "Überblick über die Gebühren.\n\n検索は全文検索で行います。\n", encoding="utf-8"
    )
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / ".hidden.md").write_text("# Secret installer", encoding="utf-8")
    return CorpusIndex(tmp_path)


def test_a_passage_carries_its_path_line_and_heading(corpus: CorpusIndex) -> None:
    best = corpus.search("How do I install it?")[0]
    assert (best.path, best.line, best.heading) == ("guide.md", 7, "Installing the tool")
    assert best.text.startswith("Run the installer")
    assert best.score > 0


def test_a_code_block_stays_whole_with_the_words_that_introduce_it(corpus: CorpusIndex) -> None:
    assert "make install\n\nmake check\n```" in corpus.search("installing")[0].text


def test_rst_titles_literal_blocks_and_notes_are_read_and_comments_are_not() -> None:
    title, pieces = split(RST, "rst")
    assert title == "Title"
    assert [(p.line, p.heading, p.trail) for p in pieces] == [
        (7, "Title", ()),
        (12, "Deep matter", ("Title",)),
        (26, "Last of all", ("Title", "Deep matter")),
    ]
    assert "    tool --deep\n\n        nested" in pieces[1].text
    assert "Deep water is cold." in pieces[1].text
    assert "nobody reads" not in "".join(p.text for p in pieces)


def test_markdown_front_matter_gives_the_title_and_is_no_passage() -> None:
    title, pieces = split("---\ntitle: 'My page'\nid: x\n---\nBody.\n\nSetext\n------\n\nMore.\n", "md")
    assert title == "My page"
    assert [(p.line, p.heading, p.text) for p in pieces] == [(5, "My page", "Body."), (10, "Setext", "More.")]


def test_asciidoc_and_plain_text_have_headings_too() -> None:
    assert [p.heading for p in split("= Book\n\nOne.\n\n== Part\n\n----\n== no\n----\n", "adoc")[1]] == ["Book", "Part"]
    assert split("Chapter\n=======\n\nText.", "txt")[1][0].heading == "Chapter"


def test_a_word_in_a_heading_outweighs_words_in_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Fees\n\nWhat it costs.\n\n# Other\n\nfees fees are due\n", encoding="utf-8")
    assert CorpusIndex(tmp_path).search("fees")[0].heading == "Fees"


def test_a_heading_that_is_the_question_itself_comes_first(tmp_path: Path) -> None:
    page = "# A\n\nMoor, moor and moor the boat at the mooring.\n\n## How do I moor?\n\nWith a line.\n"
    (tmp_path / "a.md").write_text(page + "\n## Mooring lines\n\nMoor with mooring lines to moor a boat.\n")
    assert CorpusIndex(tmp_path).search("how do I moor?")[0].text == "With a line."


def test_a_question_in_a_script_without_spaces_finds_its_passage(corpus: CorpusIndex) -> None:
    assert corpus.search("全文検索")[0].path == "notes.txt"
    assert corpus.search("検")[0].path == "notes.txt"


def test_accents_do_not_matter(corpus: CorpusIndex) -> None:
    assert corpus.search("gebuhren")[0].path == "notes.txt"


def test_a_word_that_stands_nowhere_finds_the_words_it_begins(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Configuration lies here.", encoding="utf-8")
    assert CorpusIndex(tmp_path).search("configur")


def test_a_question_about_something_else_finds_nothing(corpus: CorpusIndex) -> None:
    assert corpus.search("What is the capital of France?") == []
    assert corpus.search("") == []
    assert corpus.search("?!… 🙂") == []


@pytest.mark.parametrize(
    "query", ['"', "a AND", "NEAR(", "install*", "heading:x", "-", "'; drop table", "\0", "\ud800"]
)
def test_search_syntax_in_a_question_has_no_meaning(corpus: CorpusIndex, query: str) -> None:
    corpus.search(query + " install")
    corpus.search(query)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=3_000), st.sampled_from(["md", "rst", "adoc", "org", "txt", "json"]))
def test_any_text_splits_into_passages_of_bounded_size_with_their_lines(text: str, extension: str) -> None:
    lines = text.count("\n") + text.count("\r") + 1
    for piece in split(text, extension)[1]:
        assert 1 <= piece.line <= lines
        assert len(piece.text) <= MAX_CODE + MAX_PASSAGE


@pytest.mark.parametrize("extension", ["md", "adoc", "txt"])
def test_a_passage_is_the_very_lines_of_its_document(extension: str) -> None:
    text = "Run it:\n```\na\n\n\nb\n```\nThen wait.\n\n\n> Note\n\nDone.\n"
    (piece,) = split(text, extension)[1]
    assert text.startswith(piece.text)
    assert piece.text.endswith("Done.")


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    pieces = split("A sentence of words. " * 300, "txt")[1]
    assert all(len(p.text) <= MAX_PASSAGE for p in pieces)
    assert all(p.text.rstrip().endswith(".") for p in pieces)


def test_documents_are_the_text_files_by_path(corpus: CorpusIndex) -> None:
    found = [(d.path, d.title) for d in corpus.documents()]
    assert found == [("deep/matter.rst", "Title"), ("guide.md", "Guide"), ("notes.txt", "notes")]
    assert corpus.documents()[1].size == len(GUIDE)


def test_a_document_is_read_by_its_path_or_its_last_part(corpus: CorpusIndex) -> None:
    assert corpus.text("guide.md") == GUIDE
    assert corpus.text("./deep/matter.rst") == corpus.text("matter.rst") == RST


@pytest.mark.parametrize("path", ["../guide.md", "/etc/passwd", "guid.md", "", "deep/../../x", "logo.png"])
def test_a_path_that_is_no_document_names_the_nearest(corpus: CorpusIndex, path: str) -> None:
    with pytest.raises(UnknownResource, match=r"(guide\.md|deep/matter\.rst|notes\.txt)"):
        corpus.text(path)


def test_a_link_out_of_the_corpus_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "out.md").write_text("outside", encoding="utf-8")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "link.md").symlink_to(tmp_path / "out.md")
    assert CorpusIndex(tmp_path / "corpus").documents() == []


def test_a_corpus_that_is_not_there_is_empty(tmp_path: Path) -> None:
    index = CorpusIndex(tmp_path / "none")
    assert (index.documents(), index.search("x")) == ([], [])
    with pytest.raises(UnknownResource, match="empty"):
        index.text("x.md")


SQLITE_UTILS = {
    "How do I insert CSV?": "Inserting CSV or TSV data",
    "convert a column": "Converting data in columns",
    "create an index": "Creating indexes",
    "How do I rename a table?": "Renaming a table",
    "drop a view": "Dropping views",
    "How do I use a different delimiter for TSV files?": "Alternative delimiters and quote characters",
    "enable full-text search": "Configuring full-text search",
    "add a foreign key": "Adding foreign key constraints",
    "What does analyze-tables do?": "Analyzing tables",
    "load files with their content into the database": "Inserting data from files",
    "how to install extensions?": "Loading SQLite extensions",
    "query a CSV file in memory": "Running queries directly against CSV or JSON",
    "How do I upsert records?": "Upserting data",
    "export query results as CSV": "Returning CSV or TSV",
    "change the type of a column": "Transforming tables",
    "split a column into a separate table": "Extracting columns into a separate table",
    "parse dates": "sqlite-utils convert recipes",
    "list all the tables": "Listing tables",
    "pass parameters to a query": "Using named parameters",
    "How can I see the schema?": "Showing the schema",
    "How do I write a plugin?": "Building a plugin",
    "set a default value on a column": "Setting defaults and not null constraints",
}


@pytest.mark.parametrize(("question", "heading"), SQLITE_UTILS.items())
def test_the_right_section_is_among_the_best_four(question: str, heading: str) -> None:
    inputs = os.environ.get("ARTIFICER_TEST_INPUTS")
    if not inputs:
        pytest.skip("ARTIFICER_TEST_INPUTS does not name a directory of real inputs")
    docs = CorpusIndex(Path(inputs) / "docs-sqlite-utils" / "docs")
    assert heading in [p.heading for p in docs.search(question, 4)]
