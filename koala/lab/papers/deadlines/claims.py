"""Claims of the deadlines paper: how their tests, written in `sentences.toml`, are read, and the
tests that are not written there.

`test` is made at all requested loads; `low` and `high` at those local loads, of which alone the
sentence speaks; `both_high` where the global load is high, too, and `one_high` where it is not;
`once` has values that no load changes. A phrase there is a metric at the loads of the test, and

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

from koala.lab.papers.comparisons import (
    close,
    exact,
    lower,
    once,
)
from koala.lab.papers.deadlines.points import (
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
    kinds["one_high"] = not (level.is_low or level.is_both_high)
    return chain.from_iterable(row.get(kind, ()) for kind, is_meant in kinds.items() if is_meant)


def low(phrase: Phrase) -> Phrase:
    """Test at the low local load: the sentence speaks of no other."""
    return lambda level: phrase(level) if level.is_low else ()


def same_loads(reading: ReadLevel) -> tuple[Level, ...]:
    """Return the levels with the loads of a reading, at which the paper is read as usual."""
    names = {loads.name for loads in reading.levels}
    return tuple(level for level in LEVELS if level.name in names)


# Tests that are not written beside their sentences.


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


TESTS: dict[str, Phrase] = {
    "3.3-5": low(_short_best),
    "3.3-15": _alike_over_local_loads,
}
SENTENCES = read_sentences(Path(__file__).parent, TESTS, _test_of)
