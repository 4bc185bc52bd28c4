"""The guide has each option of each batch system, with what becomes of it."""

from __future__ import annotations

from collections import Counter

from koala.job_descriptions.scripts.options import Fate
from tests.job_descriptions.scripts.page import KINDS, PAGE, table, written


def test_the_guide_has_the_tables_as_they_are() -> None:
    """After a change: `python -m tests.job_descriptions.scripts.page` rewrites them."""
    page = PAGE.read_text(encoding="utf-8")
    assert all(table(kind) in page for kind in KINDS)
    assert page == written(page)


def test_each_option_has_one_row_and_each_refusal_says_what_to_do() -> None:
    for kind in KINDS:
        names = Counter(name for option in kind.options for name in option.names)
        assert [name for name, count in names.items() if count > 1] == []
        mute = [one.name for one in kind.options if one.fate is Fate.REFUSED and not one.note]
        assert mute == []
