"""Read a paper from its `sentences.toml`: its name, its efforts and texts of its report, and the
sentences, which are claims or cannot be tested."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from koala.lab.papers.paper import Claim, Paper, Rule, Test, Untestable
from koala.lab.sim.runs import Effort, Level

FILE = "sentences.toml"
Row = Mapping[str, Any]
"""A sentence as the file has it."""


class Sentences(NamedTuple):
    """All sentences of a paper, in the order of the file, and what the file says of the paper."""

    claims: tuple[Claim, ...]
    untestable: tuple[Untestable, ...]
    texts: Mapping[str, Any]  # fields of `Paper`

    def paper(
        self,
        *,
        tested_at: Sequence[Level] | Mapping[str, Sequence[Level]],
        **more: Any,  # noqa: ANN401 - further fields of `Paper`
    ) -> Paper:
        """Make the paper. Each effort tests claims at these levels, or at those of its name."""
        efforts = {}
        for name, (replications, length) in self.texts["efforts"].items():
            levels = tested_at[name] if isinstance(tested_at, Mapping) else tested_at
            efforts[name] = Effort(
                name=name, replications=replications, length=length, levels=tuple(levels)
            )
        known = {"claims": self.claims, "untestable": self.untestable}
        return Paper(**{**self.texts, **known, "efforts": efforts, **more})


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
