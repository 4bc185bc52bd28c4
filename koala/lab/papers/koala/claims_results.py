"""Claims of section 5 of the KOALA paper: its results."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap

from koala.lab.papers.comparisons import (
    LITTLE,
    MUCH,
    above,
    all_higher,
    always,
    higher,
    higher_by,
    lower,
    shown,
)
from koala.lab.papers.koala.claims_shared import (
    Phrase,
    Phrases,
    against,
    all_finish,
    by_priority,
    grows,
    much_more,
    of,
    shapes,
)
from koala.lab.papers.koala.points import SHAPES, SIZES, Watched, changed
from koala.lab.papers.koala.simulation.setting import Setting
from koala.lab.papers.paper import Comparison, Found
from koala.lab.sim.runs import Quantity


def _removed(at: Setting) -> Iterable[Comparison]:
    yield always(Quantity(at, "processors.begin", "usable processors at the beginning"), 310)
    yield always(Quantity(at, "processors.end", "usable processors at the end"), 250)


def _driven(at: Setting) -> Found:
    busy = Quantity(at, "utilization.arrivals.busy", "busy while jobs arrive")
    local = Quantity(at, "utilization.arrivals.local", "with regular users' jobs")
    return higher_by(LITTLE, busy, local)


UTILIZATION: Phrases = {
    "5.1-1": _removed,
    "5.1-2": lambda at: above(Quantity(at, "peak_busy", "busy at most"), 80, "%"),
    "5.1-3": _driven,
}


def _two_kinds(at: Setting) -> Iterable[Comparison]:
    yield above(Quantity(Watched(at), "failed_before", "failed claims"), 0)
    yield above(Quantity(Watched(at), "failed_running", "components lost while they ran"), 0)


def _more_attempts(at: Setting) -> Iterable[Comparison]:
    for measure in ("placement_tries", "claiming_tries", "attempts"):
        yield higher(of(at, measure, "high"), of(at, measure, "low"))


FAILURES: Phrases = {
    "5.2-1": _two_kinds,
    "5.2-2": lambda at: above(of(at, "failures_percent", "72x8"), 6, "%"),
    "5.2-3": all_finish,
    "5.2-4": lambda at: above(Quantity(at, "most_failures", "failures of one job"), 1),
    "5.2-5": lambda at: above(of(at, "failures_percent"), 15, "%"),
    "5.2-6": lambda at: starmap(higher, by_priority(at, "failures_percent", SIZES)),
    "5.2-7": _more_attempts,
    "5.2-13": lambda at: higher(
        Quantity(at, "tries_an_hour.high", "placement tries an hour, high"),
        Quantity(at, "tries_an_hour.low", "low"),
    ),
    "5.2-8": grows("failures_percent"),
    "5.2-9": grows("coallocated_percent"),
    "5.2-10": lambda at: above(Quantity(at, "spread_failures", "more failures a job"), 0),
}


def _dearer(at: Setting) -> Iterable[Found]:
    for size in SIZES:
        fewest, *_, most = shapes(at, "placement_s", size)
        yield higher_by(MUCH, most, fewest)


def _only_small_high(at: Setting) -> Iterable[Found]:
    for measure in ("placement_s", "start_delay_s"):
        for other in ("36.low", "72.high", "72.low"):
            yield much_more(at, measure, other, "36.high")


def _high_is_better(measure: str, groups: Iterable[object]) -> Phrase:
    return lambda at: starmap(lower, by_priority(at, measure, groups))


def _small_profit(measure: str) -> Phrase:
    """Compare with jobs that are placed whole."""
    return lambda at: lower(*against(at, "whole", measure, "36"))


def _small_profit_alone(measure: str) -> Phrase:
    """Compare with jobs that are placed whole, all else equal: neither failures nor large jobs."""
    return lambda at: lower(
        of(changed(at, "small"), measure, "36", "3 or 4 components"),
        of(changed(at, "small and whole"), measure, "36", "one component"),
    )


BY_SHAPE = [f"{size}x{count}" for size, count in SHAPES]

PLACING: Phrases = {
    "5.3-1": grows("placement_s"),
    "5.3-2": _dearer,
    "5.3-3": grows("attempts"),
    "5.3-4": lambda at: [
        higher(
            of(at, "placement_s", f"72x{count}"),
            of(at, "placement_s", f"36x{count}"),
        )
        for count in (3, 4)
    ],
    "5.3-5": lambda at: much_more(at, "attempts", "72", "36"),
    "5.3-6": lambda at: much_more(at, "placement_s", "72", "36"),
    "5.3-7": lambda at: [
        above(one, 100 * MUCH, "%") for one in shapes(at, "coallocated_percent", 36)
    ],
    "5.3-8": _small_profit("placement_s"),
    "5.3-17": _small_profit_alone("placement_s"),
    "5.3-19": _small_profit("start_delay_s"),
    "5.3-20": _small_profit_alone("start_delay_s"),
    "5.3-9": lambda at: higher(*against(at, "reliable", "start_delay_s")),
    "5.3-10": grows("start_delay_s"),
    "5.3-11": _high_is_better("start_delay_s", BY_SHAPE),
    "5.3-12": _high_is_better("placement_s", BY_SHAPE),
    "5.3-13": _only_small_high,
    "5.3-14": lambda at: all_higher(
        shapes(at, "placement_s", 72)[2:], shapes(at, "placement_s", 72)[:1]
    ),
    "5.3-15": lambda at: shown(
        "placement time 72.low > 2 × placement time 36.low",
        lambda large, small: large - 2 * small,
        of(at, "placement_s", "72.low"),
        of(at, "placement_s", "36.low"),
    ),
    "5.3-16": _high_is_better("response_s", SIZES),
}
