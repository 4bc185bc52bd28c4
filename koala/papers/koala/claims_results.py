"""Claims of section 5 of the KOALA paper: its results."""

from __future__ import annotations

from collections.abc import Iterable

from koala.papers.claims import LITTLE, MUCH, higher, lower, share
from koala.papers.koala.claims_shared import (
    above,
    against,
    by_priority,
    equal,
    everywhere,
    grows,
    much_more,
    of,
    shapes,
    shown,
    whole,
)
from koala.papers.koala.points import SIZES, Watched, changed
from koala.papers.koala.simulation.setting import Setting
from koala.papers.paper import Claim, Comparison


def _removed(setting: Setting) -> Iterable[Comparison]:
    yield equal(whole(setting, "processors.begin", "usable processors at the beginning"), 310)
    yield equal(whole(setting, "processors.end", "usable processors at the end"), 250)


def _driven(setting: Setting) -> Iterable[Comparison]:
    busy = whole(setting, "utilization.arrivals.busy", "busy while jobs arrive")
    local = whole(setting, "utilization.arrivals.local", "with regular users' jobs")
    yield higher(busy, local, by=LITTLE)


UTILIZATION = (
    Claim(
        id="5.1-1",
        section="5.1",
        text="A cluster with many more consecutive failures is removed: 310 processors, then 250.",
        test=everywhere(_removed),
    ),
    Claim(
        id="5.1-2",
        section="5.1",
        text="Up to 80 to 90 % of the system is used.",
        reading="the busiest bin in the time of figure 2; the highest regular load was chosen so",
        figures=(2,),
        test=everywhere(
            lambda setting: [above(whole(setting, "peak_busy", "busy at most"), 80, "%")]
        ),
    ),
    Claim(
        id="5.1-3",
        section="5.1",
        text="Co-allocation can drive the utilisation to quite high levels.",
        reading=f"KOALA's jobs add {share(LITTLE)} or more to what regular users' jobs use",
        figures=(2,),
        test=everywhere(_driven),
    ),
)


def _two_kinds(setting: Setting) -> Iterable[Comparison]:
    watched = Watched(setting=setting)
    yield above(whole(watched, "failed_before", "failed claims"), 0)
    yield above(whole(watched, "failed_running", "components lost while they ran"), 0)


def _high_fails_more(setting: Setting) -> Iterable[Comparison]:
    for size in SIZES:
        yield higher(
            of(setting, "failures_percent", f"{size}.high"),
            of(setting, "failures_percent", f"{size}.low"),
        )


def _tried_more_often(setting: Setting) -> Iterable[Comparison]:
    yield higher(
        whole(setting, "tries_an_hour.high", "placement tries an hour, high"),
        whole(setting, "tries_an_hour.low", "low"),
    )


def _more_attempts(setting: Setting) -> Iterable[Comparison]:
    for measure in ("placement_tries", "claiming_tries", "attempts"):
        yield higher(of(setting, measure, "high"), of(setting, measure, "low"))


FAILURES = (
    Claim(
        id="5.2-1",
        section="5.2",
        text="A failure may come before all components are claimed, or when the job runs.",
        test=everywhere(_two_kinds),
    ),
    Claim(
        id="5.2-2",
        section="5.2",
        text="The failure of any component makes the whole job fail.",
        reading="jobs of 8 components fail more often than a component at a good site (6 %)",
        figures=(3,),
        test=everywhere(lambda setting: [above(of(setting, "failures_percent", "72x8"), 6, "%")]),
    ),
    Claim(
        id="5.2-3",
        section="5.2",
        text="In the end all jobs are completed successfully.",
        test=everywhere(
            lambda setting: [equal(whole(setting, "finished_percent", "finished, %"), 100)]
        ),
    ),
    Claim(
        id="5.2-4",
        section="5.2",
        text="The same job may fail several times.",
        reading="the job of a run that failed most did so more than once",
        test=everywhere(
            lambda setting: [above(whole(setting, "most_failures", "failures of one job"), 1)]
        ),
    ),
    Claim(
        id="5.2-5",
        section="5.2",
        text="Much more fails than on the stable system, where it was always below 15 %.",
        reading="failures above 15 %; our failure rates were chosen so",
        figures=(3,),
        test=everywhere(lambda setting: [above(of(setting, "failures_percent"), 15, "%")]),
    ),
    Claim(
        id="5.2-6",
        section="5.2",
        text="Jobs of high priority fail more.",
        reading="each size",
        figures=(3,),
        test=everywhere(_high_fails_more),
    ),
    Claim(
        id="5.2-7",
        section="5.2",
        text="That is because more attempts are made to place, to claim and to run them.",
        reading="placement tries, claiming tries and placements a job",
        test=everywhere(_more_attempts),
    ),
    Claim(
        id="5.2-13",
        section="5.2",
        text="That is because more attempts are made to place them.",
        reading="another reading of the same sentence: in each hour in which they wait for it",
        test=everywhere(_tried_more_often),
    ),
    Claim(
        id="5.2-8",
        section="5.2",
        text="Failures increase with the number of components.",
        reading="each size; both priorities together",
        figures=(3,),
        test=everywhere(lambda setting: grows(setting, "failures_percent")),
    ),
    Claim(
        id="5.2-9",
        section="5.2",
        text="With more components it is likelier that a job is co-allocated.",
        reading="each size; both priorities together",
        figures=(4,),
        test=everywhere(lambda setting: grows(setting, "coallocated_percent")),
    ),
    Claim(
        id="5.2-10",
        section="5.2",
        text="It is then on more sites, and meets unreliable ones more often.",
        reading="of jobs of equal size and number of components, those on several sites failed "
        "more often before",
        test=everywhere(
            lambda setting: [above(whole(setting, "spread_failures", "more failures a job"), 0)]
        ),
    ),
)


def _dearer(setting: Setting) -> Iterable[Comparison]:
    for size, most in ((36, "36x4"), (72, "72x8")):
        first, *_ = shapes(setting, "placement_s", size)
        yield higher(of(setting, "placement_s", most), first, by=MUCH)


def _high_is_better(setting: Setting, measure: str) -> Iterable[Comparison]:
    return [lower(high, low) for high, low in by_priority(setting, measure)]


def _only_small_high(setting: Setting) -> Iterable[Comparison]:
    for measure in ("placement_s", "start_delay_s"):
        for other in ("36.low", "72.high", "72.low"):
            yield much_more(setting, measure, other, "36.high")


def _no_guarantee(setting: Setting) -> Iterable[Comparison]:
    few, *more = shapes(setting, "placement_s", 72)
    return [higher(one, few) for one in more[1:]]


def _small_profit(setting: Setting, measure: str) -> Comparison:
    """Compare with jobs that are placed whole."""
    return lower(*against(setting, "whole", measure, "36"))


def _small_profit_alone(setting: Setting, measure: str) -> Comparison:
    """Compare with jobs that are placed whole, all else equal: neither failures nor large jobs."""
    return lower(
        of(changed(setting, "small"), measure, "36", "3 or 4 components"),
        of(changed(setting, "small and whole"), measure, "36", "one component"),
    )


PLACING = (
    Claim(
        id="5.3-1",
        section="5.3",
        text="Placement times increase with the number of components.",
        reading="each size; both priorities together",
        figures=(5,),
        test=everywhere(lambda setting: grows(setting, "placement_s")),
    ),
    Claim(
        id="5.3-2",
        section="5.3",
        text="They increase considerably.",
        reading=f"the most against the fewest components, by {share(MUCH)}, each size",
        figures=(5,),
        test=everywhere(_dearer),
    ),
    Claim(
        id="5.3-3",
        section="5.3",
        text="One cause are re-placements.",
        reading="the number of placements increases with the number of components",
        test=everywhere(lambda setting: grows(setting, "attempts")),
    ),
    Claim(
        id="5.3-4",
        section="5.3",
        text="Another is a higher demand for processors.",
        reading="with equally many components, jobs of 72 have longer placement times than of 36",
        figures=(5,),
        test=everywhere(
            lambda setting: [
                higher(
                    of(setting, "placement_s", f"72x{count}"),
                    of(setting, "placement_s", f"36x{count}"),
                )
                for count in (3, 4)
            ]
        ),
    ),
    Claim(
        id="5.3-5",
        section="5.3",
        text="Jobs of small total size do not suffer from many re-placements.",
        reading=f"placements of jobs of 72 over those of 36 by {share(MUCH)}",
        test=everywhere(lambda setting: [much_more(setting, "attempts", "72", "36")]),
    ),
    Claim(
        id="5.3-6",
        section="5.3",
        text="Nor do they wait long for enough free processors.",
        reading=f"placement time of jobs of 72 over that of 36 by {share(MUCH)}",
        figures=(5,),
        test=everywhere(lambda setting: [much_more(setting, "placement_s", "72", "36")]),
    ),
    Claim(
        id="5.3-7",
        section="5.3",
        text="Yet these jobs still require co-allocation.",
        reading=f"{share(MUCH)} of the jobs of 36 or more, with 3 and with 4 components",
        figures=(4,),
        test=everywhere(
            lambda setting: [
                above(one, 100 * MUCH, "%") for one in shapes(setting, "coallocated_percent", 36)
            ]
        ),
    ),
    Claim(
        id="5.3-8",
        section="5.3",
        text="Co-allocation reduces their placement times.",
        reading="jobs of 36, against the experiment with all jobs of one component",
        figures=(5,),
        test=everywhere(lambda setting: [_small_profit(setting, "placement_s")]),
    ),
    Claim(
        id="5.3-17",
        section="5.3",
        text="Co-allocation reduces their placement times.",
        reading="the same with jobs of 36 alone on a testbed that does not fail: then nothing but "
        "the number of components differs",
        figures=(5,),
        test=everywhere(lambda setting: [_small_profit_alone(setting, "placement_s")]),
    ),
    Claim(
        id="5.3-19",
        section="5.3",
        text="And their start delays.",
        reading="jobs of 36, against the experiment with all jobs of one component",
        figures=(5,),
        test=everywhere(lambda setting: [_small_profit(setting, "start_delay_s")]),
    ),
    Claim(
        id="5.3-20",
        section="5.3",
        text="And their start delays.",
        reading="the same with jobs of 36 alone on a testbed that does not fail: then nothing but "
        "the number of components differs",
        figures=(5,),
        test=everywhere(lambda setting: [_small_profit_alone(setting, "start_delay_s")]),
    ),
    Claim(
        id="5.3-9",
        section="5.3",
        text="The start delay depends on the number of failures.",
        reading="it is longer than where only the lost site fails",
        figures=(5,),
        test=everywhere(lambda setting: [higher(*against(setting, "reliable", "start_delay_s"))]),
    ),
    Claim(
        id="5.3-10",
        section="5.3",
        text="The start delay increases with the number of components.",
        reading="each size; both priorities together",
        figures=(5,),
        test=everywhere(lambda setting: grows(setting, "start_delay_s")),
    ),
    Claim(
        id="5.3-11",
        section="5.3",
        text="Jobs of high priority have shorter start delays than those of low priority.",
        reading="for each size and number of components",
        figures=(5,),
        test=everywhere(lambda setting: _high_is_better(setting, "start_delay_s")),
    ),
    Claim(
        id="5.3-12",
        section="5.3",
        text="And shorter placement times.",
        reading="for each size and number of components",
        figures=(5,),
        test=everywhere(lambda setting: _high_is_better(setting, "placement_s")),
    ),
    Claim(
        id="5.3-13",
        section="5.3",
        text="Only small jobs of high priority have reasonable placement times and start delays.",
        reading=f"those of all others are longer by {share(MUCH)}",
        figures=(5,),
        test=everywhere(_only_small_high),
    ),
    Claim(
        id="5.3-14",
        section="5.3",
        text="Splitting into many components does not guarantee shorter placement times.",
        reading="jobs of 72 with 6 or 8 components wait longer than with 3",
        figures=(5,),
        test=everywhere(_no_guarantee),
    ),
    Claim(
        id="5.3-15",
        section="5.3",
        text="Jobs that request many processors are starved.",
        reading="among those of low priority, 72 processors wait for their placement more than "
        "twice as long as 36",
        figures=(5,),
        test=everywhere(
            lambda setting: [
                shown(
                    "placement time 72.low > 2 × placement time 36.low",
                    lambda large, small: large - 2 * small,
                    of(setting, "placement_s", "72.low"),
                    of(setting, "placement_s", "36.low"),
                )
            ]
        ),
    ),
    Claim(
        id="5.3-16",
        section="5.3",
        text="In spite of the unreliable system, high priority outperforms low priority.",
        reading="response time, each size",
        test=everywhere(
            lambda setting: [
                lower(
                    of(setting, "response_s", f"{size}.high"),
                    of(setting, "response_s", f"{size}.low"),
                )
                for size in SIZES
            ]
        ),
    ),
)
