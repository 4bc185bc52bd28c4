"""Claims of the KOALA paper: how their tests, written in `sentences.toml`, are read.

A phrase there is a measure of a group of jobs (`placement_s.72x8.high`), any other metric, or
`high` or `low` with a measure and groups. Before it may stand `watched`, `larger` (jobs that no
site could run alone) or `with` and a change of the experiment; after it a name. `against` and a
change has the experiment, and the experiment with that change.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from koala.lab.papers.comparisons import exact, once
from koala.lab.papers.koala.points import LARGER, SHAPES, LoadLevel, Reading, Watched, changed
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.papers.paper import Found, Test, listed
from koala.lab.papers.sentences import Row, read_sentences
from koala.lab.papers.written_tests import compared
from koala.lab.sim.runs import Level, Quantity

WORDS = {
    "response_s": "response",
    "placement_s": "placement time",
    "start_delay_s": "start delay",
    "failures_percent": "failures",
    "failures_per_job": "failures a job",
    "coallocated_percent": "co-allocated",
    "attempts": "placements",
    "placement_tries": "placement tries",
    "claiming_tries": "claiming tries",
    "extra_claiming_tries": "additional claiming tries",
    "preemptions_per_job": "preempted",
    "processor_wasted_s": "processor-seconds wasted",
}
"""Measures of groups of jobs."""
_NAMES = [f"{size}x{count}" for size, count in SHAPES]
GROUPS = {
    "SHAPES": _NAMES,
    "36xN": [name for name in _NAMES if name.startswith("36")],
    "72xN": [name for name in _NAMES if name.startswith("72")],
    "OTHERS": ["36.low", "72.high", "72.low"],
}


def of(setting: Setting | Watched, metric: str, name: str = "") -> Quantity:
    """Return a metric, or a measure of a group of jobs (of all, if none is named)."""
    measure, _, group = metric.partition(".")
    if measure not in WORDS:
        return Quantity(setting, metric, name)
    told = f"{WORDS[measure]} {name or group}".rstrip()
    return Quantity(setting, f"{measure}.{group or 'all'}", told)


def quantity(at: Setting | Watched, words: Sequence[str]) -> Any:  # noqa: ANN401 - one or several
    """Read a phrase."""
    match words:
        case ["exact", metric, name]:
            return exact(metric, name)
        case ["watched", *rest]:
            assert isinstance(at, Setting)
            return quantity(Watched(at), rest)
        case ["larger", *rest]:
            return quantity(LARGER, rest)
        case ["with", change, *rest]:
            assert isinstance(at, Setting)
            return quantity(changed(at, change), rest)
        case ["high" | "low" as priority, measure, group]:
            return of(at, f"{measure}.{group}.{priority}")
        case ["against", change, metric]:
            assert isinstance(at, Setting)
            _, _, group = metric.partition(".")
            return [
                of(at, metric, f"{group} as in the paper".lstrip()),
                of(changed(at, change), metric, change),
            ]
        case _:
            metric, *named = words
            return of(at, metric, *named)


def _test_of(row: Row, _test: Test | None) -> Test:
    """Make a test at each regular load, of a claim about figures under readings, too; or once."""
    if "once" in row:
        return once(*listed(compared(row["once"], partial(quantity, LARGER), GROUPS)))
    is_charted = "figures" in row

    def test(level: Level) -> Found:
        if not isinstance(level, LoadLevel) or (isinstance(level, Reading) and not is_charted):
            return ()
        at = level.setting
        return compared(row["test"], partial(quantity, at), GROUPS)

    return test


SENTENCES = read_sentences(Path(__file__).parent, {}, _test_of)
