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
from koala.lab.papers.paper import Comparison, Found, Test
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
    "3.3-1": everywhere(
        lambda level: shown(
            f"wasted > {share(MUCH)} of the total load",
            lambda wasted, total: wasted - MUCH * total,
            of(at(level, PURE), "wasted", "Wait-∞"),
            of(at(level, PURE), "total_load", "Wait-∞"),
        )
    ),
    "3.3-2": low(_policy_matters),
    "3.3-3": low(_short_alike),
    "3.3-4": low(lambda level: [one for base in both(level) for one in _long_worse(base)]),
    "3.3-5": low(_short_best),
    "3.3-6": low(_can_try_again),
    "3.3-7": low(_fewer_tries),
    "3.3-8": low(_unaffected),
    "3.3-9": high(_unaffected),
    "3.3-10": everywhere(_affected),
    "3.3-11": low(_better_over_leads),
    "3.3-12": high(_better_over_leads),
    "3.3-13": everywhere(lambda level: starmap(higher, zip(*_leads(level), strict=True))),
    "3.3-14": high(
        lambda level: [
            below(one, 50, "%") for one in by_wait(at(level, LP), "success_rate", 10.0, inf)
        ]
    ),
    "3.3-15": everywhere(_alike_over_local_loads),
    "3.3-16": everywhere(
        lambda level: [none(one) for one in by_wait(at(level, LP), "local_kill_rate", *WAITS)]
    ),
    "3.3-17": everywhere(_alone),
    "3.3-18": low(_not_properly),
    "3.3-19": low(
        lambda level: [lower_by(MUCH, *pair) for pair in _against_pure(level, "local_response")]
    ),
    "3.3-20": low(lambda level: starmap(higher, _against_pure(level, "success_rate"))),
    "3.3-21": _fewer_killed("local_kill_rate"),
    "3.3-22": _many_killed("local_kill_rate"),
    "3.3-23": _fewer_killed("killed_of_ended"),
    "3.3-24": _many_killed("killed_of_ended"),
    "3.3-25": everywhere(_unaffected_by_own),
    "3.3-26": everywhere(_better_at_own),
    "3.3-27": low(
        lambda level: lower_by(MUCH, *by_wait(at(level), "local_response", 1000.0, inf)),
    ),
    "3.3-28": low(lambda level: higher(*by_wait(at(level), "success_rate", 1000.0, inf))),
}
