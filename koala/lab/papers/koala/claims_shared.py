"""Names of measured quantities and load levels that the claims of the KOALA paper share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from koala.lab.papers import comparisons
from koala.lab.papers.comparisons import MUCH, always, ascending, higher_by
from koala.lab.papers.koala.points import SHAPES, SIZES, LoadLevel, Reading, Watched, changed
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.papers.paper import Comparison, Found, Test
from koala.lab.papers.sentences import Row
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
    "sites": "sites",
}


Phrase = Callable[[Setting], Found]
"""Makes the comparisons at a regular load."""


@dataclass(frozen=True, slots=True)
class Once:
    """Comparisons of a claim to which no load matters."""

    comparisons: tuple[Comparison, ...]


def once(*comparisons: Comparison) -> Once:
    """Compare once."""
    return Once(comparisons)


Phrases = dict[str, Phrase | Once]
"""Comparisons of claims by their ids."""


def at_loads(row: Row, phrase: Phrase | Once) -> Test:
    """Make a test at each regular load, of a claim about figures under readings, too; or once."""
    if isinstance(phrase, Once):
        return comparisons.once(*phrase.comparisons)
    is_charted = "figures" in row

    def test(level: Level) -> Found:
        if isinstance(level, Reading) and not is_charted:
            return ()
        return phrase(level.setting) if isinstance(level, LoadLevel) else ()

    return test


def of(setting: Setting, measure: str, group: str = "all", name: str = "") -> Quantity:
    """Return a measure of a group of jobs (`all`, `72`, `72x8`, `72.high`, `72x8.low`)."""
    said = name or ("" if group == "all" else group)
    return Quantity(setting, f"{measure}.{group}", f"{WORDS[measure]} {said}".rstrip())


def against(setting: Setting, change: str, measure: str, group: str = "all") -> list[Quantity]:
    """Return a measure of the experiment, and of the experiment with one thing changed."""
    said = "" if group == "all" else f"{group} "
    return [
        of(setting, measure, group, f"{said}as in the paper"),
        of(changed(setting, change), measure, group, change),
    ]


def shapes(setting: Setting, measure: str, size: int) -> list[Quantity]:
    """Return a measure of the jobs of a size by number of components, the fewest first."""
    return [of(setting, measure, f"{size}x{count}") for one, count in SHAPES if one == size]


def grows(measure: str) -> Phrase:
    """Test growth with the number of components, for each size."""
    return lambda at: [one for size in SIZES for one in ascending(*shapes(at, measure, size))]


def by_priority(
    setting: Setting, measure: str, groups: Iterable[object]
) -> list[tuple[Quantity, Quantity]]:
    """Return a measure under high and under low priority, for each of the groups."""
    return [
        (of(setting, measure, f"{group}.high"), of(setting, measure, f"{group}.low"))
        for group in groups
    ]


def much_more(setting: Setting, measure: str, one: str, other: str) -> Found:
    """Test that a group has much more of it than another."""
    return higher_by(MUCH, of(setting, measure, one), of(setting, measure, other))


def all_finish(setting: Setting | Watched) -> Comparison:
    """Test that all jobs finish, in every run."""
    return always(Quantity(setting, "finished_percent", "finished, %"), 100)
