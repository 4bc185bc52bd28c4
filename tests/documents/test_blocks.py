"""Every block of a document has a language, and is run unless its mark says why not."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.documents.blocks import (
    COMMANDS,
    DATA,
    Block,
    blocks,
    faults,
    missing,
    programs,
    shape,
    steps,
)
from tests.documents.pages import check
from tests.tidy.documents import documents
from tests.tidy.sources import ROOT

PAGES = documents()
LEFT_OUT_MAX = 45


def block(text: str, language: str = "sh", **marks: str) -> Block:
    return Block(place="page.md:1", language=language, text=text, marks=marks)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_descriptions_and_configurations_are_read_as_the_product_reads_them(path: Path) -> None:
    for one in blocks(path):
        if one.language in DATA and one.reason is None:
            check(one)


def test_no_more_blocks_are_left_out_than_were() -> None:
    """A mark is for what cannot run here, not for what is tedious."""
    found = [one for path in PAGES for one in blocks(path) if one.language in COMMANDS]
    left_out = [one.place for one in found if one.reason is not None]
    assert len(left_out) <= LEFT_OUT_MAX, left_out


PICTURES = sorted(ROOT.joinpath("docs", "pictures").glob("*.svg"))


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_whole_loads_nothing_and_is_shown(path: Path) -> None:
    """`make pictures` draws them from real runs."""
    text = path.read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert re.findall(r"url\(.?https?:|@import|<script|<image", text) == []
    shown = [page for page in PAGES if f"pictures/{path.name}" in page.read_text(encoding="utf-8")]
    assert shown != []


def test_marks_stand_directly_above_a_block(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- long -->\ntext\n\n<!-- file: a.toml -->\n<!-- not run: the host is not there -->\n"
        "```toml\nx = 1\n```\n\n   ```sh\n   true\n   ```\n"
    )
    first, second = blocks(page)
    assert first.place == "page.md:7"
    assert first.marks == {"file": "a.toml", "not run": "the host is not there"}
    assert (second.text, second.marks) == ("true\n", {})


@pytest.mark.parametrize(
    "wrong",
    [
        block("x", ""),
        block("x", "bash"),
        block("$ koala list\n", "text"),
        block("koala list\n", "console"),
        block("x", **{"not run": "no"}),
        block("x", runs=""),
    ],
)
def test_a_block_that_says_too_little_is_found(wrong: Block) -> None:
    assert len(list(faults(wrong))) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        block("[lrm]\nkind = 'slurm'\npartitoin = 'batch'\n", "toml"),
        block("[site]\nprocessors = 'many'\n", "toml"),
        block("components: [{executable: a, procesors: 4}]\n", "yaml"),
        block("+(count=4)", "rsl"),
    ],
)
def test_data_that_the_product_would_refuse_is_found(wrong: Block) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        check(wrong)


def test_a_session_is_split_into_commands_and_what_they_print() -> None:
    session = block("$ koala run \\\n> --sites 2 -- date\nj1  Placing\n$ true\n", "console")
    first, second = steps(session)
    assert (first.commands, first.shown) == ("koala run \\\n--sites 2 -- date", ["j1  Placing"])
    assert (second.commands, second.shown) == ("true", [])


def test_numbers_sites_and_columns_may_differ_and_words_may_not() -> None:
    assert shape("j1  Claiming   placed on vu, delft") == "j0 Claiming placed on SITE, SITE"
    printed = "j7  Claiming  placed on delft, leiden\n"
    assert missing(["j1 Claiming placed on vu, vu"], printed) == []
    assert missing(["j1 Claiming placed on ..."], printed) == []
    assert missing(["j1 Running placed on vu, vu"], printed) == ["j1 Running placed on vu, vu"]
    assert missing(["j7 Claiming placed on delft, leiden"], printed, exact=True) == []
    assert missing(["j1 Claiming placed on delft, leiden"], printed, exact=True) != []


def test_a_block_that_continues_another_is_a_part_of_its_program(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    part = "```python\n{}\n```\n"
    page.write_text(
        part.format("x = 1")
        + "\n<!-- continues -->\n"
        + part.format("y = x")
        + part.format("z = 2")
    )
    assert [one.text for one in programs(page)] == ["x = 1\n\ny = x\n", "z = 2\n"]
