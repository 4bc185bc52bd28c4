"""Claims of the paper on malleable applications: how their tests, written in `sentences.toml`, are
read. A phrase there is a metric and a policy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from koala.lab.papers.malleable.points import MALLEABLE, POLICIES, ReadLevel, of
from koala.lab.papers.paper import Found, Test
from koala.lab.papers.sentences import Row, read_sentences
from koala.lab.papers.written_tests import compared
from koala.lab.sim.runs import Level, Quantity

NAMES = {name.replace(" ", "-"): name for name in POLICIES}
GROUPS = {"MALLEABLE": tuple(name.replace(" ", "-") for name in MALLEABLE)}


def _quantity(level: ReadLevel, words: Sequence[str]) -> Quantity:
    metric, policy = words
    return of(NAMES[policy], metric, level.rate, level.reading)


def _test_of(row: Row, _test: Test | None) -> Test:
    def test(level: Level) -> Found:
        assert isinstance(level, ReadLevel), level
        return compared(row["test"], partial(_quantity, level), GROUPS)

    return test


SENTENCES = read_sentences(Path(__file__).parent, {}, _test_of)
