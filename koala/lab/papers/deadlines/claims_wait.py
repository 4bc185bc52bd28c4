"""Claims about Wait-X, and about RPP against it (Deadlines 3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, starmap
from math import inf
from statistics import fmean

from koala.lab.papers.comparisons import (
    EXACT,
    LITTLE,
    MUCH,
    above,
    all_close,
    all_lower,
    below,
    close,
    higher,
    higher_by,
    lower,
    lower_by,
    share,
    shown,
)
from koala.lab.papers.deadlines.points import (
    HIGH,
    LEAD_BINS_S,
    LEADS_S,
    LOCAL_RATES,
    LONG,
    SHORT,
    WAITS,
    LoadLevel,
    Point,
    Watched,
    at,
    name_of_wait,
    point_of_rate,
)
from koala.lab.papers.deadlines.quantities import (
    LP,
    PURE,
    WAIT_10,
    both,
    by_lead,
    by_wait,
    everywhere,
    high,
    low,
    near,
    none,
    of,
    wait,
)
from koala.lab.papers.paper import Claim, Comparison, Found, Test
from koala.lab.sim.runs import Quantity

RATES = {0.1: (0.05, 0.1), 0.2: (0.2,), 0.4: (0.3, 0.4, 0.5)}
"""Requested global loads of figure 4 that are tested at each level."""


def _long_worse(base: Point) -> tuple[Comparison, ...]:
    longer, shorter = (by_wait(base, "success_rate", *waits) for waits in (LONG, SHORT))
    return all_lower(longer, shorter)


def _short_alike(level: LoadLevel) -> Iterator[Comparison]:
    for base in both(level):
        for one, other in combinations(by_wait(base, "success_rate", *SHORT), 2):
            yield from close(one, other)


def _short_best(level: LoadLevel) -> Iterator[Comparison]:
    for load in RATES[level.global_load]:
        for base in both(level):
            for comparison in _long_worse(replace(base, global_load=load)):
                yield replace(comparison, where=f"global {100 * load:g} %")


def _policy_matters(level: LoadLevel) -> Iterator[Found]:
    for wait_s in WAITS:
        kills, fails = (wait(base, "success_rate", wait_s) for base in both(level))
        yield higher_by(LITTLE, kills, fails)


def _can_try_again(level: LoadLevel) -> Iterator[Comparison]:
    once_, often = (Watched(at(level, replace(LP, wait_s=one))) for one in (0.0, 10.0))
    retried = Quantity(often, "later_try", "started jobs that failed before in a try, LP Wait-10")
    yield near(Quantity(once_, "most_tries", "most tries of a job, LP Wait-0"), 1, EXACT)
    yield above(retried, 0, "%")


def _fewer_tries(level: LoadLevel) -> Comparison:
    ten, pure = (Watched(at(level, one)) for one in (WAIT_10, PURE))
    return lower(Quantity(ten, "tries", "tries a job, Wait-10"), Quantity(pure, "tries", "Wait-∞"))


def _unaffected(level: LoadLevel) -> Found:
    *others, base = by_lead(at(level, WAIT_10), "success_rate", *LEADS_S)
    return all_close(base, others)


def _affected(level: LoadLevel) -> Found:
    shortest, *_, longest = by_lead(at(level, PURE), "success_rate", *LEADS_S)
    return lower_by(LITTLE, longest, shortest)


def _leads(level: LoadLevel) -> list[tuple[Quantity, ...]]:
    """Return the success over the leads, with Wait-10 and with Wait-∞."""
    return [by_lead(at(level, one), "success_rate", *LEADS_S) for one in (WAIT_10, PURE)]


def _better_over_leads(level: LoadLevel) -> Comparison:
    tens, pures = _leads(level)
    return shown(
        "mean success over the leads, Wait-10 > Wait-∞",
        lambda *values: fmean(values[: len(tens)]) - fmean(values[len(tens) :]),
        *tens,
        *pures,
    )


def _own_leads(level: LoadLevel, base: Point) -> list[Quantity]:
    """Return the success by a job's own lead, where all leads are mixed."""
    return [
        Quantity(
            Watched(at(level, base)),
            f"success.lead.{high_s:g}",
            f"success {name_of_wait(base.wait_s)}, own lead up to {high_s:g} s",
        )
        for _, high_s in LEAD_BINS_S
    ]


def _unaffected_by_own(level: LoadLevel) -> Found:
    *others, base = _own_leads(level, WAIT_10)
    return all_close(base, others)


def _better_at_own(level: LoadLevel) -> Iterator[Comparison]:
    return starmap(higher, zip(*(_own_leads(level, one) for one in (WAIT_10, PURE)), strict=True))


def _alike_over_local_loads(level: LoadLevel) -> Iterator[Comparison]:
    if level.global_load != 0.2:
        return
    for rate in LOCAL_RATES:
        if (rate > 0.02) == (level.local_load == HIGH):
            ten, pure = (
                of(point_of_rate(rate, replace(base, global_load=0.2)), "success_rate", name)
                for base, name in ((WAIT_10, "Wait-10"), (PURE, "Wait-∞"))
            )
            for comparison in close(ten, pure):
                yield replace(comparison, where=f"{rate:g} local jobs a second")


def _without_global(level: LoadLevel) -> Quantity:
    return of(replace(at(level, WAIT_10), global_load=0.0), "local_response", "without global")


def _alone(level: LoadLevel) -> Iterator[Comparison]:
    for influenced in by_wait(at(level, LP), "local_response", *WAITS):
        yield from close(influenced, _without_global(level))


def _against_pure(level: LoadLevel, metric: str) -> Iterator[tuple[Quantity, Quantity]]:
    """Yield the metric with each of the other Wait-X, and with Wait-∞."""
    for other in by_wait(at(level), metric, *SHORT, 1000.0):
        yield other, wait(at(level), metric, inf)


def _not_properly(level: LoadLevel) -> Comparison:
    pure, alone = wait(at(level), "local_response", inf), _without_global(level)
    return shown(f"{pure} > 10 × {alone}", lambda one, other: one - 10 * other, pure, alone)


def _fewer_killed(metric: str) -> Test:
    return low(
        lambda level: all_lower(by_wait(at(level), metric, 10.0), by_wait(at(level), metric, *LONG))
    )


def _many_killed(metric: str) -> Test:
    def test(level: LoadLevel) -> Iterator[Found]:
        ten, *longer = by_wait(at(level), metric, 10.0, *LONG)
        return (higher_by(MUCH, one, ten) for one in longer)

    return low(test)


WAIT = {
    "3.3-1": Claim(
        "Pure RPP wastes much processor time.",
        everywhere(
            lambda level: shown(
                f"wasted > {share(MUCH)} of the total load",
                lambda wasted, total: wasted - MUCH * total,
                of(at(level, PURE), "wasted", "Wait-∞"),
                of(at(level, PURE), "total_load", "Wait-∞"),
            )
        ),
        reading=f"with Lp = 0.7, {share(MUCH)} of what is busy or claimed, or more",
    ),
    "3.3-2": Claim(
        "Whether GP or LP is used may change the results.",
        low(_policy_matters),
        figures=(4,),
        reading=f"more success under GP by {share(LITTLE)} or more, for each Wait-X",
    ),
    "3.3-3": Claim(
        "Ignoring jobs until 100 s or less before the deadline gives about equal results.",
        low(_short_alike),
        figures=(4,),
        reading="success of Wait-0, -10 and -100, each pair, under GP and LP",
    ),
    "3.3-4": Claim(
        "Wait-∞ and Wait-1000 give less good results than these.",
        low(lambda level: [one for base in both(level) for one in _long_worse(base)]),
        figures=(4,),
        reading="success, under GP and LP",
    ),
    "3.3-5": Claim(
        "Wait-0, -10 and -100 are the most suitable at any arrival rate.",
        low(_short_best),
        figures=(4,),
        reading="as before, at each rate of figure 4",
    ),
    "3.3-6": Claim(
        "Wait-10 can place a job again when a try failed, Wait-0 cannot.",
        low(_can_try_again),
        reading="one try a job with Wait-0; with Wait-10 some start in a later one (LP)",
    ),
    "3.3-7": Claim(
        "Wait-10 has less overhead than applying RPP over a long time.",
        low(_fewer_tries),
        reading="fewer tries a job than Wait-∞",
    ),
    "3.3-8": Claim(
        "The lead does not affect Wait-10 (low local load).",
        low(_unaffected),
        figures=(5,),
        reading="success with each lead against that with 3600 s",
    ),
    "3.3-9": Claim(
        "The lead does not affect Wait-10 (high local load).", high(_unaffected), figures=(6,)
    ),
    "3.3-10": Claim(
        "Pure RPP is affected by the lead.",
        everywhere(_affected),
        figures=(5, 6),
        reading=f"the contrast implied: success at 3600 s below that at 60 s by {share(LITTLE)}",
    ),
    "3.3-11": Claim(
        "Wait-10 is better than pure RPP for any global load (low local load).",
        low(_better_over_leads),
        figures=(5,),
        reading="success, mean over the leads",
    ),
    "3.3-12": Claim(
        "Wait-10 is better than pure RPP for any global load (high local load).",
        high(_better_over_leads),
        figures=(6,),
        reading="success, mean over the leads",
    ),
    "3.3-13": Claim(
        "Wait-10 is better than pure RPP, whatever the lead.",
        everywhere(lambda level: starmap(higher, zip(*_leads(level), strict=True))),
        figures=(5, 6),
        reading="a stricter reading of the same sentence: success at each lead of figures 5 and 6",
    ),
    "3.3-14": Claim(
        "With high local loads the global jobs may not be able to run under LP.",
        high(
            lambda level: [
                below(one, 50, "%") for one in by_wait(at(level, LP), "success_rate", 10.0, inf)
            ]
        ),
        reading="fewer than half of them start",
    ),
    "3.3-15": Claim(
        "Over the local load, Wait-10 and pure RPP have rather the same success.",
        everywhere(_alike_over_local_loads),
        figures=(7,),
        reading="global 20 %, each rate of figure 7; up to 0.02 told at the low local load",
    ),
    "3.3-16": Claim(
        "LP does not influence local jobs: none is killed.",
        everywhere(
            lambda level: [none(one) for one in by_wait(at(level, LP), "local_kill_rate", *WAITS)]
        ),
    ),
    "3.3-17": Claim(
        "LP does not influence local jobs: they respond as without global jobs.",
        everywhere(_alone),
        reading="another reading of the same sentence",
    ),
    "3.3-18": Claim(
        "Pure RPP does not let the local jobs run properly.",
        low(_not_properly),
        figures=(8,),
        reading="their response time is over ten times that without global jobs",
    ),
    "3.3-19": Claim(
        "The other Wait-X are much nicer to local jobs than pure RPP.",
        low(
            lambda level: [lower_by(MUCH, *pair) for pair in _against_pure(level, "local_response")]
        ),
        figures=(8,),
    ),
    "3.3-20": Claim(
        "The other Wait-X also have better results for the global jobs than pure RPP.",
        low(lambda level: starmap(higher, _against_pure(level, "success_rate"))),
        reading="success under GP, each of the others against Wait-∞",
    ),
    "3.3-21": Claim(
        "The share of killed local jobs speaks for Wait-10, too.",
        _fewer_killed("local_kill_rate"),
        figures=(9,),
        reading="of the local jobs submitted, fewer than with Wait-1000 and Wait-∞",
    ),
    "3.3-22": Claim(
        "With X of 1000 or ∞ a considerable amount of local jobs is killed.",
        _many_killed("local_kill_rate"),
        figures=(9,),
        reading=f"of the local jobs submitted, more than with Wait-10 by {share(MUCH)}",
    ),
    "3.3-23": Claim(
        "The share of killed local jobs speaks for Wait-10, too.",
        _fewer_killed("killed_of_ended"),
        reading="another reading of the same sentence: of the local jobs that ended, as those in "
        "queues that grow without end neither run nor are killed",
    ),
    "3.3-24": Claim(
        "With X of 1000 or ∞ a considerable amount of local jobs is killed.",
        _many_killed("killed_of_ended"),
        reading="another reading of the same sentence: of the local jobs that ended, more than "
        f"with Wait-10 by {share(MUCH)}",
    ),
    "3.3-25": Claim(
        "The lead does not affect Wait-10.",
        everywhere(_unaffected_by_own),
        figures=(5, 6),
        reading="another reading of the same sentence: in traffic of mixed leads, success of the "
        "jobs of each class of leads against that of more than 1800 s",
    ),
    "3.3-26": Claim(
        "Wait-10 is better than pure RPP for any lead of a job.",
        everywhere(_better_at_own),
        figures=(5, 6),
        reading="another reading of the same sentence: in traffic of mixed leads, success of the "
        "jobs of each class of leads",
    ),
    "3.3-27": Claim(
        "Wait-1000, too, is much nicer to local jobs than pure RPP.",
        low(
            lambda level: lower_by(MUCH, *by_wait(at(level), "local_response", 1000.0, inf)),
        ),
        figures=(8,),
        reading="the least favourable of the others: their response time",
    ),
    "3.3-28": Claim(
        "Wait-1000, too, has better results for the global jobs than pure RPP.",
        low(lambda level: higher(*by_wait(at(level), "success_rate", 1000.0, inf))),
        figures=(4,),
        reading="success under GP",
    ),
}
