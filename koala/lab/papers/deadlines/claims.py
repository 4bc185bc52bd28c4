"""Claims of the deadlines paper: how their tests, written in `sentences.toml`, are read, and the
tests that are not written there.

`test` is made at all requested loads; `low` and `high` at those local loads, of which alone the
sentence speaks; `both_high` where the global load is high, too; `once` has values that no load
changes. A phrase there is a metric at the loads of the test, and

    GP, LP, WAIT_10, PURE     before it: the policy, or GP with Wait-10 or Wait-∞
    watched, beginning        before it: of jobs one by one, or of runs from an empty grid
    wait=10 lp=0.7 lead=60    Wait-X, Lp, time from submission to required start in seconds
    global=0.2                another requested global load
    own=60                    no metric: success of jobs with a lead up to so many seconds
    "name"                    its name, where none of these is one

`requested local` and `requested global` are the loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from statistics import fmean

from koala.lab.papers.comparisons import (
    MUCH,
    at_most,
    close,
    exact,
    higher,
    highest,
    lower,
    once,
    share,
    shown,
)
from koala.lab.papers.deadlines.points import (
    FRACTIONS,
    HIGH,
    LEADS_S,
    LEVELS,
    LOCAL_RATES,
    LONG,
    SHORT,
    WAITS,
    Beginning,
    LoadLevel,
    Point,
    ReadLevel,
    Watched,
    at,
    name_of_wait,
    point_of_rate,
)
from koala.lab.papers.paper import Comparison, Found, Test, listed
from koala.lab.papers.sentences import Row, read_sentences
from koala.lab.papers.written_tests import compared
from koala.lab.sim.runs import Level, Quantity

WORDS = {
    "success_rate": "success",
    "fail_rate": "failed",
    "local_kill_rate": "killed",
    "killed_of_ended": "killed of those that ended",
    "total_load": "total load",
    "global_load": "global load",
    "local_load": "local load",
    "wasted": "wasted",
    "local_response": "local response",
    "measured_response": "local response",
}
WAIT_10, PURE = Point(wait_s=10.0), Point(wait_s=inf)
BASES = {"GP": Point(policy="GP"), "LP": Point(policy="LP"), "WAIT_10": WAIT_10, "PURE": PURE}
ALL_WAITS = [f"{wait_s:g}" for wait_s in WAITS]
ALL_LEADS = [f"{lead_s:g}" for lead_s in LEADS_S]
GROUPS = {"WAITS": ALL_WAITS, "LEADS": ALL_LEADS}


def of(point: Point, metric: str, name: str) -> Quantity:
    """Return a metric at a point; `name` says how the point differs from others."""
    return Quantity(point, metric, f"{WORDS[metric]} {name}")


def quantity(level: LoadLevel, words: Sequence[str]) -> Quantity | float:
    """Read a phrase."""
    specs = {key: float(value) for key, sign, value in (w.partition("=") for w in words) if sign}
    first, *rest = plain = [word for word in words if "=" not in word]
    if first == "exact":
        return exact(*rest)
    if first == "requested":
        return 100 * (level.local_load if rest == ["local"] else level.global_load)
    point = at(level, BASES.get(first))
    if first in BASES:
        plain = rest
    point = replace(
        point,
        wait_s=specs.get("wait", point.wait_s),
        fraction=specs.get("lp", point.fraction),
        lead_s=specs.get("lead", point.lead_s),
        global_load=specs.get("global", point.global_load),
    )
    match plain:
        case ["watched", metric, name]:
            return Quantity(Watched(point), metric, name)
        case ["beginning", metric, name]:
            return Quantity(Beginning(point), metric, name)
        case []:
            own = f"success {name_of_wait(point.wait_s)}, own lead up to {specs['own']:g} s"
            return Quantity(Watched(point), f"success.lead.{specs['own']:g}", own)
        case _:
            metric, *named = plain
            return of(point, metric, *(named or [_name(point, specs)]))


def _name(point: Point, specs: dict[str, float]) -> str:
    """Name what a phrase says of a point."""
    if "wait" in specs:
        return f"{point.policy} {name_of_wait(point.wait_s)}"
    if "lp" in specs:
        return f"Lp {point.fraction:g}"
    return f"{name_of_wait(point.wait_s)}, lead {point.lead_s:g} s"


Phrase = Callable[[LoadLevel], Found]
"""Makes the comparisons at a requested load."""


def _test_of(row: Row, phrase: Phrase | None) -> Test:
    if "once" in row:
        loads = LEVELS[1]
        assert isinstance(loads, LoadLevel)
        return once(*listed(compared(row["once"], partial(quantity, loads), GROUPS)))

    def test(level: Level) -> Found:
        if isinstance(level, ReadLevel):
            return [
                replace(one, where=f"{loads}, {one.where}" if one.where else str(loads))
                for loads in level.levels
                for one in listed(test(loads))
            ]
        if not isinstance(level, LoadLevel):
            return ()
        if phrase is not None:
            return phrase(level)
        return compared(_lines(row, level), partial(quantity, level), GROUPS)

    return test


def _lines(row: Row, level: LoadLevel) -> Iterator[str]:
    kinds = {"test": True, "low": level.is_low, "high": not level.is_low}
    kinds["both_high"] = level.is_both_high
    return chain.from_iterable(row.get(kind, ()) for kind, is_meant in kinds.items() if is_meant)


def low(phrase: Phrase) -> Phrase:
    """Test at the low local load: the sentence speaks of no other."""
    return lambda level: phrase(level) if level.is_low else ()


def high(phrase: Phrase) -> Phrase:
    """Test at the high local load: the sentence speaks of no other."""
    return lambda level: () if level.is_low else phrase(level)


def same_loads(reading: ReadLevel) -> tuple[Level, ...]:
    """Return the levels with the loads of a reading, at which the paper is read as usual."""
    names = {loads.name for loads in reading.levels}
    return tuple(level for level in LEVELS if level.name in names)


# Tests that are not written beside their sentences.


def _accounted(level: LoadLevel) -> Comparison:
    metrics = ("total_load", "wasted", "local_load", "global_load")
    return shown(
        "total load less wasted = local and global load",
        lambda total, wasted, local, glob: 1e-6 - abs(total - wasted - local - glob),
        *(of(at(level, PURE), metric, "Wait-∞") for metric in metrics),
    )


def _success(level: LoadLevel, *fractions: float) -> list[Quantity]:
    points = [replace(at(level), fraction=part) for part in fractions]
    return [of(point, "success_rate", f"Lp {point.fraction:g}") for point in points]


def _because_full(level: LoadLevel) -> Comparison:
    return (lower if level.is_both_high else higher)(*_success(level, 1.0, 0.9))


def _one_is_best_or_close(level: LoadLevel) -> Found:
    *others, one = _success(level, *FRACTIONS)
    if level.is_both_high:
        return [at_most(other, one) for other in others]
    return highest(one, others)


def _beginnings(level: LoadLevel, fraction: float) -> tuple[Beginning, Beginning]:
    """Return runs from an empty grid with this Lp, and with Lp 1, where nothing waits."""
    early, late = (Beginning(replace(at(level), fraction=one)) for one in (fraction, 1.0))
    return early, late


def _fuller_later(level: LoadLevel) -> Comparison:
    """Test that the grid fills up by more than under Lp 1."""
    early, late = _beginnings(level, 0.1)
    return shown(
        "load rises from the first 20 minutes to later by more under Lp 0.1 than Lp 1",
        lambda first, later, other_first, other_later: later - first - (other_later - other_first),
        Quantity(early, "load.first", "first, Lp 0.1"),
        Quantity(early, "load.later", "later, Lp 0.1"),
        Quantity(late, "load.first", "first, Lp 1"),
        Quantity(late, "load.later", "later, Lp 1"),
    )


def _scarcer_later(level: LoadLevel) -> Comparison:
    """Test that ever more processors are missing at a deadline, even after local jobs are
    killed."""
    early, late = _beginnings(level, 0.7)
    return shown(
        "held or used by global jobs, later: more under Lp 0.7 than under Lp 1",
        lambda later, other: later - other,
        Quantity(early, "taken.later", "Lp 0.7"),
        Quantity(late, "taken.later", "Lp 1"),
    )


def _much_wasted(level: LoadLevel) -> Comparison:
    return shown(
        f"wasted > {share(MUCH)} of the total load",
        lambda wasted, total: wasted - MUCH * total,
        of(at(level, PURE), "wasted", "Wait-∞"),
        of(at(level, PURE), "total_load", "Wait-∞"),
    )


def _short_best(level: LoadLevel) -> Iterator[Comparison]:
    """Compare the waits at the requested global loads of figure 4 that belong to each level."""
    for load in {0.1: (0.05, 0.1), 0.2: (0.2,), 0.4: (0.3, 0.4, 0.5)}[level.global_load]:
        for policy in ("GP", "LP"):
            longer, shorter = (
                [
                    quantity(level, (policy, "success_rate", f"wait={x}", f"global={load}"))
                    for x in waits
                ]
                for waits in (LONG, SHORT)
            )
            for one in longer:
                for other in shorter:
                    assert isinstance(one, Quantity)
                    assert isinstance(other, Quantity)
                    yield replace(lower(one, other), where=f"global {100 * load:g} %")


def _better_over_leads(level: LoadLevel) -> Comparison:
    tens, pures = (
        [
            of(replace(at(level, base), lead_s=x), "success_rate", f"{name}, lead {x:g} s")
            for x in LEADS_S
        ]
        for base, name in ((WAIT_10, "Wait-10"), (PURE, "Wait-∞"))
    )
    return shown(
        "mean success over the leads, Wait-10 > Wait-∞",
        lambda *values: fmean(values[: len(tens)]) - fmean(values[len(tens) :]),
        *tens,
        *pures,
    )


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


def _not_properly(level: LoadLevel) -> Comparison:
    alone = of(replace(at(level, WAIT_10), global_load=0.0), "local_response", "without global")
    pure = quantity(level, ("local_response", "wait=inf"))
    assert isinstance(pure, Quantity)
    return shown(f"{pure} > 10 × {alone}", lambda one, other: one - 10 * other, pure, alone)


TESTS: dict[str, Phrase] = {
    "3.1-7": _accounted,
    "3.2-5": low(_fuller_later),
    "3.2-10": high(_because_full),
    "3.2-11": _one_is_best_or_close,
    "3.3-1": _much_wasted,
    "3.3-5": low(_short_best),
    "3.3-11": low(_better_over_leads),
    "3.3-12": high(_better_over_leads),
    "3.3-15": _alike_over_local_loads,
    "3.3-18": low(_not_properly),
    "4-6": _scarcer_later,
}
SENTENCES = read_sentences(Path(__file__).parent, TESTS, _test_of)
