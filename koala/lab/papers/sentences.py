"""Read the sentences of a paper from its `sentences.toml`: claims, and what cannot be tested."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from koala.lab.papers.paper import Claim, Rule, Test, Untestable

FILE = "sentences.toml"
Row = Mapping[str, Any]
"""A sentence as the file has it."""


class Sentences(NamedTuple):
    """All sentences of a paper, in the order of the file, and texts of its report."""

    claims: tuple[Claim, ...]
    untestable: tuple[Untestable, ...]
    texts: Mapping[str, Any]  # fields of `Paper`


def _as_it_is(row: Row, test: Any) -> Any:  # noqa: ANN401
    assert test is not None, f"no test: {row['text']}"
    return test


def read_sentences(
    folder: Path,
    tests: Mapping[str, Any],
    test_of: Callable[[Row, Any], Test] = _as_it_is,
) -> Sentences:
    """Read the sentences of a paper. A claim's test is what `tests` has by its id, if it has
    something there; `test_of` makes it of that and of the row."""
    rows: dict[str, Row] = tomllib.loads((folder / FILE).read_text(encoding="utf-8"))
    texts = rows.pop("paper")
    found: list[Claim] = []
    untestable = []
    for number, row in rows.items():
        if "untested" in row:
            untestable.append(Untestable(row["text"], row["untested"], id=number))
        else:
            found.append(_claim(number, row, test_of(row, tests.get(number))))
    assert {one.id for one in found} >= tests.keys(), "a test without a sentence"
    return Sentences(tuple(found), tuple(untestable), texts)


def _claim(number: str, row: Row, test: Test) -> Claim:
    return Claim(
        row["text"],
        test,
        id=number,
        figures=tuple(row.get("figures", ())),
        rule=Rule(row.get("rule", Rule.ALL)),
        reading=row.get("reading", ""),
        why_it_fails=row.get("fails", ""),
    )
