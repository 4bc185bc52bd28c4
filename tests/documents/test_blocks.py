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
