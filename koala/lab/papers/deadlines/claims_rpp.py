"""Claims about the pure Repeated Placement Policy and its Lp (Deadlines 3.2)."""

from __future__ import annotations

from dataclasses import replace

from koala.lab.papers.comparisons import (
    LITTLE,
    all_higher,
    ascending,
    at_most,
    higher,
    highest,
    lower,
    share,
    slightly_lower,
)
from koala.lab.papers.deadlines.points import FRACTIONS, Beginning, LoadLevel, at
from koala.lab.papers.deadlines.quantities import (
    Phrase,
    by_fraction,
    everywhere,
    first_better,
    fuller_later,
    high,
    low,
)
from koala.lab.papers.paper import Claim, Comparison, Found
from koala.lab.sim.runs import Quantity


def _success(level: LoadLevel, *fractions: float) -> tuple[Quantity, ...]:
    return by_fraction(at(level), "success_rate", *fractions)


def _more_with_lower(metric: str) -> Phrase:
    return lambda level: ascending(*by_fraction(at(level), metric, *reversed(FRACTIONS)))


def _lower_is_worse(level: LoadLevel) -> Found:
    return all_higher(_success(level, 0.5, 0.9), _success(level, 0.1))


def _one_is_best(level: LoadLevel) -> Found:
    *others, one = _success(level, *FRACTIONS)
    return highest(one, others)


def _one_is_best_or_close(level: LoadLevel) -> Found:
    if not level.is_both_high:
        return _one_is_best(level)
    *others, one = _success(level, *FRACTIONS)
    return [at_most(other, one) for other in others]


def _earlier_is_surer(level: LoadLevel) -> Comparison:
    early, late = (Beginning(replace(at(level), fraction=one)) for one in (0.1, 1.0))
    return higher(
        Quantity(early, "success.first", "success of the first 5, Lp 0.1"),
        Quantity(late, "success.first", "Lp 1"),
    )


def _little_less(level: LoadLevel) -> Found:
    return slightly_lower(*_success(level, 1.0, 0.9)) if level.is_both_high else ()


def _because_full(level: LoadLevel) -> Comparison:
    return (lower if level.is_both_high else higher)(*_success(level, 1.0, 0.9))


RPP = {
    "3.2-1": Claim(
        "Contrary to what one expects, a lower Lp gives no higher success (low local load).",
        low(_lower_is_worse),
        figures=(2,),
        reading="0.1 against 0.5 and 0.9",
    ),
    "3.2-2": Claim(
        "With a lower Lp processors are claimed earlier.",
        everywhere(_more_with_lower("wasted")),
        reading="the lower Lp, the more is wasted",
    ),
    "3.2-3": Claim(
        "The first jobs do have a greater success rate with a low Lp.",
        low(_earlier_is_surer),
        reading="of a run from an empty grid: Lp 0.1 against Lp 1, the first five jobs",
    ),
    "3.2-4": Claim(
        "The jobs after the first ones fail more often.",
        low(lambda level: first_better(level, 0.1)),
        reading="of a run from an empty grid, Lp 0.1: the first five, and those after the 20th",
    ),
    "3.2-5": Claim(
        "The jobs after the first ones fail because they find fewer free processors.",
        low(lambda level: fuller_later(level, 0.1)),
        reading="from an empty grid on, busy and claimed processors become more than under Lp 1",
    ),
    "3.2-6": Claim(
        "The total load is higher for lower Lp, which shows that fewer processors are free.",
        low(_more_with_lower("total_load")),
        figures=(2,),
    ),
    "3.2-7": Claim(
        "Lp = 1 is best at any arrival rate (low local load).", low(_one_is_best), figures=(2,)
    ),
    "3.2-8": Claim(
        "With a high local load the results are very similar.",
        high(_lower_is_worse),
        figures=(3,),
        reading="0.5 and 0.9 have more success than 0.1, too. The success rates in figures 2 and 3 "
        "differ by 1.4 points at most",
    ),
    "3.2-9": Claim(
        "With both loads high, success falls a little when Lp comes close to 1.",
        high(_little_less),
        figures=(3,),
        reading="1 against 0.9",
    ),
    "3.2-10": Claim(
        "Success falls close to Lp = 1 because the requested load is 100 %.",
        high(_because_full),
        figures=(3,),
        reading="1 is below 0.9 there, and above it with 80 % requested",
    ),
    "3.2-11": Claim(
        "The best way to meet deadlines is to try at the deadline and hope.",
        everywhere(_one_is_best_or_close),
        figures=(2, 3),
        reading="Lp = 1 has the highest success, at both local loads; with both loads high it may "
        f"be {share(LITTLE)} below the highest, as the paper concedes",
    ),
}
