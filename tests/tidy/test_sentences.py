"""Documents for users have short sentences: on average at most 18 words."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean

import pytest

from tests.tidy.sources import ROOT

WORDS_MAX = 18
FOLDERS = ("docs", "docs/start", "docs/guides", "docs/concepts", "docs/operating", "docs/papers")
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "examples" / "README.md",
    *(page for folder in FOLDERS for page in sorted((ROOT / folder).glob("*.md"))),
]


def sentence_lengths(text: str) -> list[int]:
    """Count the words of each sentence, without code, tables, headings and the targets of links."""
    text = re.sub(r"```.*?```|<!--.*?-->", "", text, flags=re.DOTALL)
    lines = [line for line in text.split("\n") if not line.startswith(("|", "#", "    "))]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(lines))
    text = re.sub(r"`[^`]*`", "x", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n\n", text, flags=re.MULTILINE)
    parts = re.split(r"\n\s*\n", text)
    sentences = [one for part in parts for one in re.split(r"(?<=[.!?:])\s+", part)]
    return [count for one in sentences if (count := len(one.split())) > 1]


def test_words_of_sentences_are_counted() -> None:
    text = (
        "# A heading\n\nOne two three. Four `five six`:\n\n- seven [eight nine](ten)\n| a | b |\n"
    )
    assert sentence_lengths(text) == [3, 2, 3]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short(page: Path) -> None:
    lengths = sentence_lengths(page.read_text(encoding="utf-8"))
    assert not lengths or fmean(lengths) <= WORDS_MAX
