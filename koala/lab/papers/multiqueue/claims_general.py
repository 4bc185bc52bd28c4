"""Claims about policies in general (Multiple queues 1, 3), and about starvation and ageing
(2.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from koala.lab.papers.comparisons import MUCH, at_most, best_of, higher, higher_by, lower
from koala.lab.papers.multiqueue.charts import (
    ALIKE,
    BOTH,
    EIGHTY,
    FIGURES_9_TO_14,
    HALF_FOUR,
    NEAR,
    NINETY,
    SIX,
    across,
    claim,
    each,
    first_and_last_alike,
    maximum,
    rounded,
    unmoved_by_reversal,
)
from koala.lab.papers.multiqueue.points import Case, Point
from koala.lab.papers.paper import Claim, Comparison, Rule, Test
from koala.lab.sim.runs import Level, Quantity

OVERLOAD = 1.10
"""Overload, as a multiple of a policy's maximum, that shows which jobs it starves."""
AGEING = 10.0
"""Time that a head waits until it is moved forward, in mean service times."""
SHORT = 0.5


def overloaded(policy: str, case: Case, *, ageing: float | None = None) -> Point:
    """Return a policy at a load above its capacity."""
    utilization = rounded(OVERLOAD * maximum(case, policy))
    return Point(policy=policy, case=case, utilization=utilization, ageing=ageing)


def delay(point: Point, kind: str) -> Quantity:
    """Return the delay measured in a run of this length, finite even where no mean exists."""
    words = [point.policy, kind]
    if point.length != 1:
        words.append(f"in {point.length:g} of the run")
    if point.ageing is not None:
        words.append("with ageing")
    return Quantity(point, f"delay.{kind}", " ".join(words))


def starves(policy: str, case: Case, starved: str, served: str) -> Test:
    """Test that in a run of twice the length the starved jobs wait much longer, the served ones do
    not."""
    whole = overloaded(policy, case)
    half = replace(whole, length=SHORT)

    def test(level: Level) -> Iterator[Comparison]:
        if level == NEAR:
            for one in (
                *higher_by(MUCH, delay(whole, starved), delay(half, starved)),
                at_most(delay(whole, served), delay(half, served), above=MUCH),
            ):
                yield replace(one, where=f"{case} at {whole.utilization:.3f}")

    return test


def ageing_helps(*starving: tuple[str, Case, str]) -> Test:
    """Test that the starved jobs wait much less with ageing."""

    def test(level: Level) -> Iterator[Comparison]:
        if level == NEAR:
            for policy, case, starved in starving:
                plain, aged = (overloaded(policy, case, ageing=a) for a in (None, AGEING))
                for one in higher_by(MUCH, delay(plain, starved), delay(aged, starved)):
                    yield replace(one, where=f"{case} at {plain.utilization:.3f}")

    return test


EXTREMES = {
    "2.5-1": claim(
        "LQ, which seems to favour the local schedulers, does not.",
        each(FIGURES_9_TO_14, lambda at: higher(at.local("LQ"), at.local("EQ-GF"))),
        reading="local jobs respond slower with LQ than with EQ-GF",
    ),
    "2.5-2": claim(
        "With local and global schedulers, the order of the local queues does not matter.",
        each(FIGURES_9_TO_14, lambda at: first_and_last_alike(at, BOTH)),
        reading=ALIKE,
    ),
    "2.5-3": Claim(
        "In the extreme, GP delays the single-component jobs indefinitely.",
        starves("GP", HALF_FOUR, "local", "global"),
        reading="10 % beyond its maximum, their delay grows with the run by at least 25 % from "
        "half to whole; that of global jobs does not",
    ),
    "2.5-4": Claim(
        "In the extreme, LP delays the multi-component jobs indefinitely.",
        starves("LP-LF", EIGHTY, "global", "local"),
        reading="10 % beyond its maximum, their delay grows with the run by at least 25 % from "
        "half to whole; that of local jobs does not",
    ),
    "2.5-5": Claim(
        "An ageing mechanism prevents indefinite delays.",
        ageing_helps(("GP", HALF_FOUR, "local"), ("LP-LF", EIGHTY, "global")),
        reading="there, the delayed jobs wait less with ageing after 10 mean service times, by at "
        "least 25 %",
    ),
    "2.5-6": claim(
        "With local and global schedulers, the order of the local queues does not matter.",
        each(FIGURES_9_TO_14, lambda at: unmoved_by_reversal(at, BOTH)),
        reading="another test of the same sentence: with the order reversed and all else equal, "
        "local jobs respond the same, under each policy that has both queues",
    ),
}

INTRODUCTION = {
    "1-1": claim(
        "With local and global queues, priority to the local ones in a restricted way is "
        "often best.",
        each(FIGURES_9_TO_14, lambda at: best_of(at.total("LP-GF"), at.totals(BOTH))),
        rule=Rule.MOST,
        reading="the total of LP-GF is the lowest of LP-GF, EQ-GF, GP and LQ",
    ),
}

GENERAL = {
    "3-1": claim(
        "The percentages of jobs with different numbers of components influence the performance.",
        across(
            (HALF_FOUR, NINETY),
            lambda half, ninety: (
                higher_by(MUCH, ninety.total(policy), half.total(policy))
                if policy == "LS-DO"
                else higher_by(MUCH, half.total(policy), ninety.total(policy))
                for policy in SIX
            ),
        ),
        figures=(),
        reading="at the same utilisation, every policy's totals in (50,0,0,50) and (90,0,0,10) "
        "differ by at least 25 %: that of LS is lower in the former, as 3.2.1 says",
    ),
    "3-2": claim(
        "Performance differs between global and local queues and depends on the policy.",
        each(
            FIGURES_9_TO_14,
            lambda at: (
                lower(at.common("GP"), at.local("GP")),
                lower(at.local("LP-GF"), at.common("LP-GF")),
            ),
        ),
        reading="GP serves the global queue better, LP the local ones",
    ),
}
