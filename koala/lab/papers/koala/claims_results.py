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
    share,
    shown,
)
from koala.lab.papers.koala.claims_shared import (
    Phrase,
    against,
    all_finish,
    by_priority,
    claim,
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


UTILIZATION = {
    "5.1-1": claim(
        "A cluster with many more consecutive failures is removed: 310 processors, then 250.",
        _removed,
    ),
    "5.1-2": claim(
        "Up to 80 to 90 % of the system is used.",
        lambda at: above(Quantity(at, "peak_busy", "busy at most"), 80, "%"),
        figures=(2,),
        reading="the busiest bin in the time of figure 2; the highest regular load was chosen so",
    ),
    "5.1-3": claim(
        "Co-allocation can drive the utilisation to quite high levels.",
        _driven,
        figures=(2,),
        reading=f"KOALA's jobs add {share(LITTLE)} or more to what regular users' jobs use",
    ),
}


def _two_kinds(at: Setting) -> Iterable[Comparison]:
    yield above(Quantity(Watched(at), "failed_before", "failed claims"), 0)
    yield above(Quantity(Watched(at), "failed_running", "components lost while they ran"), 0)


def _more_attempts(at: Setting) -> Iterable[Comparison]:
    for measure in ("placement_tries", "claiming_tries", "attempts"):
        yield higher(of(at, measure, "high"), of(at, measure, "low"))


FAILURES = {
    "5.2-1": claim(
        "A failure may come before all components are claimed, or when the job runs.",
        _two_kinds,
    ),
    "5.2-2": claim(
        "The failure of any component makes the whole job fail.",
        lambda at: above(of(at, "failures_percent", "72x8"), 6, "%"),
        figures=(3,),
        reading="jobs of 8 components fail more often than a component at a good site (6 %)",
    ),
    "5.2-3": claim(
        "In the end all jobs are completed successfully.",
        all_finish,
    ),
    "5.2-4": claim(
        "The same job may fail several times.",
        lambda at: above(Quantity(at, "most_failures", "failures of one job"), 1),
        reading="the job of a run that failed most did so more than once",
    ),
    "5.2-5": claim(
        "Much more fails than on the stable system, where it was always below 15 %.",
        lambda at: above(of(at, "failures_percent"), 15, "%"),
        figures=(3,),
        reading="failures above 15 %; our failure rates were chosen so",
    ),
    "5.2-6": claim(
        "Jobs of high priority fail more.",
        lambda at: starmap(higher, by_priority(at, "failures_percent", SIZES)),
        figures=(3,),
        reading="each size",
    ),
    "5.2-7": claim(
        "Jobs of high priority fail more because more attempts are made to place, claim and run "
        "them.",
        _more_attempts,
        reading="placement tries, claiming tries and placements a job",
    ),
    "5.2-13": claim(
        "Jobs of high priority fail more because more attempts are made to place them.",
        lambda at: higher(
            Quantity(at, "tries_an_hour.high", "placement tries an hour, high"),
            Quantity(at, "tries_an_hour.low", "low"),
        ),
        reading="another reading of the same sentence: in each hour in which they wait for it",
    ),
    "5.2-8": claim(
        "Failures increase with the number of components.",
        grows("failures_percent"),
        figures=(3,),
        reading="each size; both priorities together",
    ),
    "5.2-9": claim(
        "With more components it is likelier that a job is co-allocated.",
        grows("coallocated_percent"),
        figures=(4,),
        reading="each size; both priorities together",
    ),
    "5.2-10": claim(
        "A co-allocated job is on more sites, and meets unreliable ones more often.",
        lambda at: above(Quantity(at, "spread_failures", "more failures a job"), 0),
        reading="of jobs of equal size and number of components, those on several sites failed "
        "more often before",
    ),
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
ALONE = """the same with jobs of 36 alone on a testbed that does not fail: then nothing but the \
number of components differs"""

PLACING = {
    "5.3-1": claim(
        "Placement times increase with the number of components.",
        grows("placement_s"),
        figures=(5,),
        reading="each size; both priorities together",
    ),
    "5.3-2": claim(
        "Placement times increase considerably with the number of components.",
        _dearer,
        figures=(5,),
        reading=f"the most against the fewest components, by {share(MUCH)}, each size",
    ),
    "5.3-3": claim(
        "One cause of longer placement times are re-placements.",
        grows("attempts"),
        reading="the number of placements increases with the number of components",
    ),
    "5.3-4": claim(
        "Another cause is a higher demand for processors.",
        lambda at: [
            higher(
                of(at, "placement_s", f"72x{count}"),
                of(at, "placement_s", f"36x{count}"),
            )
            for count in (3, 4)
        ],
        figures=(5,),
        reading="with equally many components, jobs of 72 have longer placement times than of 36",
    ),
    "5.3-5": claim(
        "Jobs of small total size do not suffer from many re-placements.",
        lambda at: much_more(at, "attempts", "72", "36"),
        reading=f"placements of jobs of 72 over those of 36 by {share(MUCH)}",
    ),
    "5.3-6": claim(
        "Jobs of small total size do not wait long for enough free processors.",
        lambda at: much_more(at, "placement_s", "72", "36"),
        figures=(5,),
        reading=f"placement time of jobs of 72 over that of 36 by {share(MUCH)}",
    ),
    "5.3-7": claim(
        "Jobs of small total size still require co-allocation.",
        lambda at: [above(one, 100 * MUCH, "%") for one in shapes(at, "coallocated_percent", 36)],
        figures=(4,),
        reading=f"{share(MUCH)} of the jobs of 36 or more, with 3 and with 4 components",
    ),
    "5.3-8": claim(
        "Co-allocation reduces the placement times of small jobs.",
        _small_profit("placement_s"),
        figures=(5,),
        reading="jobs of 36, against the experiment with all jobs of one component",
    ),
    "5.3-17": claim(
        "Co-allocation reduces the placement times of small jobs.",
        _small_profit_alone("placement_s"),
        figures=(5,),
        reading=ALONE,
    ),
    "5.3-19": claim(
        "Co-allocation reduces the start delays of small jobs.",
        _small_profit("start_delay_s"),
        figures=(5,),
        reading="jobs of 36, against the experiment with all jobs of one component",
    ),
    "5.3-20": claim(
        "Co-allocation reduces the start delays of small jobs.",
        _small_profit_alone("start_delay_s"),
        figures=(5,),
        reading=ALONE,
    ),
    "5.3-9": claim(
        "The start delay depends on the number of failures.",
        lambda at: higher(*against(at, "reliable", "start_delay_s")),
        figures=(5,),
        reading="it is longer than where only the lost site fails",
    ),
    "5.3-10": claim(
        "The start delay increases with the number of components.",
        grows("start_delay_s"),
        figures=(5,),
        reading="each size; both priorities together",
    ),
    "5.3-11": claim(
        "Jobs of high priority have shorter start delays than those of low priority.",
        _high_is_better("start_delay_s", BY_SHAPE),
        figures=(5,),
        reading="for each size and number of components",
    ),
    "5.3-12": claim(
        "Jobs of high priority have shorter placement times than those of low priority.",
        _high_is_better("placement_s", BY_SHAPE),
        figures=(5,),
        reading="for each size and number of components",
    ),
    "5.3-13": claim(
        "Only small jobs of high priority have reasonable placement times and start delays.",
        _only_small_high,
        figures=(5,),
        reading=f"those of all others are longer by {share(MUCH)}",
    ),
    "5.3-14": claim(
        "Splitting into many components does not guarantee shorter placement times.",
        lambda at: all_higher(shapes(at, "placement_s", 72)[2:], shapes(at, "placement_s", 72)[:1]),
        figures=(5,),
        reading="jobs of 72 with 6 or 8 components wait longer than with 3",
    ),
    "5.3-15": claim(
        "Jobs that request many processors are starved.",
        lambda at: shown(
            "placement time 72.low > 2 × placement time 36.low",
            lambda large, small: large - 2 * small,
            of(at, "placement_s", "72.low"),
            of(at, "placement_s", "36.low"),
        ),
        figures=(5,),
        reading="among those of low priority, 72 processors wait for their placement more than "
        "twice as long as 36",
    ),
    "5.3-16": claim(
        "In spite of the unreliable system, high priority outperforms low priority.",
        _high_is_better("response_s", SIZES),
        reading="response time, each size",
    ),
}
