"""Claims of a paper as data, and the rules that give each a verdict.

A claim is a sentence and a test. At each level of load the test names comparisons. A comparison
names quantities and a contrast of them, which is positive where the sentence is right. `RULES`
explains, for readers of reports too, how comparisons make a verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import isinf, isnan

from koala.papers.paper import Claim, Comparison, Part, Rule, Test, listed
from koala.papers.results import Results
from koala.papers.runs import ANY, ARITHMETIC, Level, Quantity
from koala.sim.statistics import CONFIDENCE, Interval, student


def share(value: float) -> str:
    """Format a share as text: 10 %."""
    return f"{100 * value:g} %"


LITTLE = 0.10
"""Close to, about the same, little influence: within this share of the other."""
EXACT = 1e-9
"""Tolerance for rounding where a quantity is a number."""
MUCH = 0.25
"""Much, significantly, a large increase: by at least this share. Slightly: by less than this."""


RULES = f"""\
1. A claim is a set of comparisons, and a comparison a contrast that is positive where the claim is
   right. It is taken within each replication, in which all settings got the same job stream, and
   then averaged (paired differences with common random numbers, Student's t).
2. A comparison *holds* when its whole 95 % interval is positive, *fails* when the whole of it is
   negative, and else is *undecided*. A saturated system has no mean response time (SAT): it counts
   as infinite, so what stays finite is lower; two saturated systems are not compared.
3. A level holds when all its comparisons hold, and fails when one of them fails; one of m must fail
   at the confidence 1 − 5 %/m, or of many that are right some would fail by chance. Where the text
   says "in most cases", a level holds when more than half of its comparisons hold, and fails when
   at least half of them fail.
4. A claim *holds* when it holds at all levels; it *holds only near saturation* when it holds at
   those near saturation and not at all below; it *fails* when it fails at a level near saturation;
   else it is *undecided*. The papers speak of charts near saturation, so what happens at lower
   levels alone neither makes a claim hold nor fail.
5. A comparison of every run (*all jobs*, *none*, *never*) asks of each run by itself, since an
   interval of a mean says nothing of all: it *holds* when each of two runs or more is as the claim
   says, and one that is not refutes it. It fails then, and the claim with it, at whatever level.
6. A claim that says how much has two parts: the *direction* (is it so at all) and the *size* (as
   much as said). Each has its comparisons and a verdict of its own by rules 2 to 4; the claim holds
   when both hold, and fails when one fails.
7. Close, little: within {share(LITTLE)}. Much, significantly: by at least {share(MUCH)}.
   Slightly: by less than that. A share of successes, of which 100 % are the most, is much higher
   when the shortfalls from 100 % differ so. These shares were fixed before anything was run."""


class Verdict(StrEnum):
    """Verdict of a claim; comparisons and levels have all but NEAR."""

    HOLDS = "holds"
    NEAR = "holds only near saturation"
    UNDECIDED = "undecided"
    FAILS = "fails"

    @property
    def verb(self) -> str:
        """The word after a number: 3 hold, 2 fail."""
        return self.replace("holds", "hold").replace("fails", "fail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one comparison."""

    comparison: Comparison
    means: tuple[Interval, ...]
    difference: Interval
    """Positive as the paper says, negative against it."""
    verdict: Verdict
    refuted_by: tuple[int, ...] = ()
    """Seeds of the runs that contradict a claim about every run."""

    @property
    def is_by_saturation(self) -> bool:
        """True if saturation decided, not a difference of means."""
        return isinf(self.difference.mean)

    @property
    def is_void(self) -> bool:
        """True if both sides are saturated and cannot be compared."""
        return isnan(self.difference.mean) and self.difference.values > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFinding:
    """The result of a claim at one level."""

    level: Level
    findings: tuple[Finding, ...]
    verdicts: Mapping[Part, Verdict]
    """The verdict of each part of the claim that is tested at this level."""

    @property
    def verdict(self) -> Verdict:
        """Verdict of all parts together."""
        return over_parts(self.verdicts.values())

    def count(self, verdict: Verdict) -> int:
        """Count the comparisons with this verdict."""
        return sum(finding.verdict is verdict for finding in self.findings if not finding.is_void)

    @property
    def is_refuted(self) -> bool:
        """True if a run contradicts a claim about every run."""
        return any(finding.refuted_by for finding in self.findings)

    @property
    def is_void(self) -> bool:
        """True if all comparisons are between saturated systems."""
        return bool(self.findings) and all(finding.is_void for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimFinding:
    """The verdict of a claim and the results on which it rests."""

    claim: Claim
    levels: tuple[LevelFinding, ...]
    verdicts: Mapping[Part, Verdict]
    """The verdict of each part of the claim."""
    readings: tuple[LevelFinding, ...] = ()
    """Results under other readings of the paper; the verdict does not depend on them."""

    @property
    def verdict(self) -> Verdict:
        """Verdict of all parts together."""
        return over_parts(self.verdicts.values())


def judge(
    claim: Claim, levels: Sequence[Level], results: Results, readings: Sequence[Level] = ()
) -> ClaimFinding:
    """Judge a claim."""
    found = _judge_levels(claim, levels, results)
    return ClaimFinding(
        claim=claim,
        levels=found,
        verdicts={
            part: over_levels(found, part)
            for part in Part
            if part is Part.DIRECTION or any(part in level.verdicts for level in found)
        },
        readings=_judge_levels(claim, readings, results),
    )


def _judge_levels(
    claim: Claim, levels: Sequence[Level], results: Results
) -> tuple[LevelFinding, ...]:
    return tuple(
        _judge_level(claim, level, comparisons, results)
        for level in levels
        if (comparisons := claim.at(level))
    )


def over_parts(verdicts: Iterable[Verdict]) -> Verdict:
    """Combine the verdicts of a claim's parts (rule 6): the least favourable one."""
    return max(verdicts, key=list(Verdict).index)


def over_levels(found: Sequence[LevelFinding], part: Part = Part.DIRECTION) -> Verdict:
    """Combine the levels' verdicts of a part (rule 4): near saturation decides; lower levels say
    whether the claim holds only there. A level at which nothing could be compared does not count. A
    counterexample counts at any level (rule 5)."""
    if any(level.is_refuted for level in found):
        return Verdict.FAILS
    counted = [level for level in found if part in level.verdicts and not level.is_void]
    near = [level.verdicts[part] for level in counted if level.level.is_near]
    if Verdict.FAILS in near:
        return Verdict.FAILS
    if not near or Verdict.UNDECIDED in near:
        return Verdict.UNDECIDED
    holds = all(level.verdicts[part] is Verdict.HOLDS for level in counted)
    return Verdict.HOLDS if holds else Verdict.NEAR


def over_comparisons(verdicts: Sequence[Verdict], rule: Rule) -> Verdict:
    """Combine the verdicts of comparisons (rule 3)."""
    held, failed = verdicts.count(Verdict.HOLDS), verdicts.count(Verdict.FAILS)
    if not verdicts:
        return Verdict.UNDECIDED
    if rule is Rule.MOST:
        if 2 * held > len(verdicts):
            return Verdict.HOLDS
        return Verdict.FAILS if 2 * failed >= len(verdicts) else Verdict.UNDECIDED
    if failed:
        return Verdict.FAILS
    return Verdict.HOLDS if held == len(verdicts) else Verdict.UNDECIDED


def sign(difference: Interval, *, among: int = 1) -> Verdict:
    """Judge by the sign of the interval (rule 2). Among `among` comparisons, one that fails must do
    so with more confidence."""
    if difference.is_positive:
        return Verdict.HOLDS
    if difference.high < 0 and difference.mean + _widened(difference, among) < 0:
        return Verdict.FAILS
    return Verdict.UNDECIDED


def of_every_run(values: Sequence[float]) -> Verdict:
    """Judge a claim about every run (rule 5); a missing value (nothing of the kind happened)
    decides nothing."""
    if any(value <= 0 for value in values):
        return Verdict.FAILS
    is_enough = len(values) > 1 and all(value > 0 for value in values)
    return Verdict.HOLDS if is_enough else Verdict.UNDECIDED


def _widened(difference: Interval, among: int) -> float:
    """Return the half-width at the confidence 1 - 5 %/among."""
    if among == 1 or difference.values < 2 or not difference.ci95:
        return difference.ci95
    degrees = difference.values - 1
    strict = student(degrees, confidence=1 - (1 - CONFIDENCE) / among)
    return difference.ci95 * strict / student(degrees)


def _judge_level(
    claim: Claim, level: Level, comparisons: tuple[Comparison, ...], results: Results
) -> LevelFinding:
    sizes = Counter(one.part for one in comparisons)
    findings = tuple(
        _judge_comparison(one, sizes[one.part] if claim.rule is Rule.ALL else 1, results)
        for one in comparisons
    )
    verdicts = {
        part: over_comparisons(
            [one.verdict for one in findings if one.comparison.part is part and not one.is_void],
            claim.rule,
        )
        for part in Part
        if part in sizes
    }
    return LevelFinding(level=level, findings=findings, verdicts=verdicts)


def _judge_comparison(comparison: Comparison, among: int, results: Results) -> Finding:
    difference = results.contrast(comparison.of, comparison.contrast)
    refuted_by: tuple[int, ...] = ()
    if comparison.is_of_every_run:
        runs = results.runs(comparison.of, comparison.contrast)
        refuted_by = tuple(seed for seed, value in runs.items() if value <= 0)
        verdict = of_every_run(list(runs.values()))
    else:
        verdict = sign(difference, among=among)
    return Finding(
        comparison=comparison,
        means=tuple(results.interval(quantity) for quantity in comparison.of),
        difference=difference,
        verdict=verdict,
        refuted_by=refuted_by,
    )


# Where a sentence is tested.


def once(*comparisons: Comparison) -> Test:
    """Test once, because no load matters."""
    return lambda level: comparisons if level == ANY else ()


def exact(metric: str, name: str = "") -> Quantity:
    """Return a value of a paper's arithmetic as a quantity."""
    return Quantity(ARITHMETIC, metric, name or metric)


# What sentences are made of.


def shown(text: str, contrast: Callable[..., float], *quantities: Quantity) -> Comparison:
    """Make a comparison of a special form."""
    return Comparison(text=text, of=quantities, contrast=contrast)


def above(one: Quantity, bound: float, unit: str = "") -> Comparison:
    """Test that a quantity is higher than a number."""
    return shown(f"{one} > {bound:g} {unit}".rstrip(), lambda value: value - bound, one)


def below(one: Quantity, bound: float, unit: str = "") -> Comparison:
    """Test that a quantity is lower than a number."""
    return shown(f"{one} < {bound:g} {unit}".rstrip(), lambda value: bound - value, one)


def equal(one: Quantity, number: float, *, within: float = EXACT) -> Comparison:
    """Test that a quantity is this number, but for rounding or a tolerance."""
    return shown(f"{one} = {number:g}", lambda value: within - abs(value - number), one)


def same(one: Quantity, other: Quantity) -> Comparison:
    """Test that two quantities are equal, but for rounding."""
    return shown(f"{one} = {other}", lambda a, b: EXACT - abs(a - b), one, other)


def always(one: Quantity, number: float) -> Comparison:
    """Test that a quantity is this number in every run."""
    return replace(equal(one, number), is_of_every_run=True)


def always_same(one: Quantity, other: Quantity) -> Comparison:
    """Test that two quantities are equal in every run."""
    return replace(same(one, other), is_of_every_run=True)


def lower(one: Quantity, other: Quantity) -> Comparison:
    """Test that one is lower than the other."""
    return shown(f"{one} < {other}", lambda a, b: b - a, one, other)


def higher(one: Quantity, other: Quantity) -> Comparison:
    """Test that one is higher than the other."""
    return shown(f"{one} > {other}", lambda a, b: a - b, one, other)


def _size(comparison: Comparison) -> Comparison:
    return replace(comparison, part=Part.SIZE)


def lower_by(least: float, one: Quantity, other: Quantity) -> tuple[Comparison, ...]:
    """Test that one is lower than the other, and by at least this share of one."""
    text, factor = f"{one} < {other} by at least {share(least)}", 1 + least
    return lower(one, other), _size(shown(text, lambda a, b: b - factor * a, one, other))


def higher_by(least: float, one: Quantity, other: Quantity) -> tuple[Comparison, ...]:
    """Test that one is higher than the other, and by at least this share of the other."""
    text, factor = f"{one} > {other} by at least {share(least)}", 1 + least
    return higher(one, other), _size(shown(text, lambda a, b: a - factor * b, one, other))


def share_higher_by(least: float, one: Quantity, other: Quantity) -> tuple[Comparison, ...]:
    """Test that one share, of 1 at most, is higher than the other, and that the other's shortfall
    from 1 exceeds its own by at least this part.

    A ratio near 1 cannot be 25 % higher than another; what it lacks can be 25 % less.
    """
    text, factor = f"{one} > {other}, with a shortfall lower by at least {share(least)}", 1 + least
    size = shown(text, lambda a, b: (1 - b) - factor * (1 - a), one, other)
    return higher(one, other), _size(size)


def at_most(one: Quantity, other: Quantity, *, above: float = LITTLE) -> Comparison:
    """Test that one exceeds the other by less than this share; it may be lower."""
    factor = 1 + above
    text = f"{one} < {factor:.2f} × {other}"
    return shown(text, lambda a, b: factor * b - a, one, other)


def close(one: Quantity, other: Quantity, *, within: float = LITTLE) -> tuple[Comparison, ...]:
    """Test that the two differ by less than this share."""
    return at_most(one, other, above=within), at_most(other, one, above=within)


def slightly_lower(one: Quantity, other: Quantity) -> tuple[Comparison, ...]:
    """Test that one is lower, but not by much."""
    return lower(one, other), _size(at_most(other, one, above=MUCH))


def lowest(one: Quantity, others: Iterable[Quantity]) -> tuple[Comparison, ...]:
    """Test that one is lower than each of the others."""
    return tuple(lower(one, other) for other in others if other != one)


def highest(one: Quantity, others: Iterable[Quantity]) -> tuple[Comparison, ...]:
    """Test that one is higher than each of the others."""
    return tuple(higher(one, other) for other in others if other != one)


def highest_by(least: float, one: Quantity, others: Iterable[Quantity]) -> tuple[Comparison, ...]:
    """Test that one is higher than each of the others, and by at least this share of it."""
    return listed(higher_by(least, one, other) for other in others if other != one)


def all_lower(ones: Iterable[Quantity], others: Sequence[Quantity]) -> tuple[Comparison, ...]:
    """Test that each of these is lower than each of the others."""
    return tuple(lower(one, other) for one in ones for other in others)


def all_higher(ones: Iterable[Quantity], others: Sequence[Quantity]) -> tuple[Comparison, ...]:
    """Test that each of these is higher than each of the others."""
    return tuple(higher(one, other) for one in ones for other in others)


def all_close(
    one: Quantity, others: Iterable[Quantity], *, within: float = LITTLE
) -> tuple[Comparison, ...]:
    """Test that one is close to each of the others."""
    return tuple(found for other in others for found in close(one, other, within=within))


def _among(
    text: str, contrast: Callable[..., float], one: Quantity, others: Iterable[Quantity]
) -> Comparison:
    """Compare one with the others; the contrast takes its value, and a list of theirs."""
    rest = [other for other in others if other != one]
    return shown(text, lambda value, *values: contrast(value, values), one, *rest)


def best_of(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that one is lower than the lowest of the others."""
    text = f"{one} is the lowest of all"
    return _among(text, lambda value, rest: min(rest) - value, one, others)


def not_highest(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that one is lower than at least one of the others."""
    text = f"{one} is not the highest"
    return _among(text, lambda value, rest: max(rest) - value, one, others)


def ascending(*quantities: Quantity) -> tuple[Comparison, ...]:
    """Test that each is lower than the next."""
    return tuple(lower(one, other) for one, other in pairwise(quantities))


def _middle(value: float, rest: Sequence[float]) -> float:
    return (min(value, *rest) + max(value, *rest)) / 2


def good(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that one is closer to the best of all than to the worst."""
    text = f"{one} in the lower half from best to worst"
    return _among(text, lambda value, rest: _middle(value, rest) - value, one, others)


def bad(one: Quantity, others: Iterable[Quantity]) -> Comparison:
    """Test that one is closer to the worst of all than to the best."""
    text = f"{one} in the upper half from best to worst"
    return _among(text, lambda value, rest: value - _middle(value, rest), one, others)


def ratio_higher(
    one: tuple[Quantity, Quantity], other: tuple[Quantity, Quantity], *, by: float = 0.0
) -> Comparison:
    """Test that the first of one pair exceeds its second by more than in the other pair, by this
    share of the latter."""
    factor = 1 + by
    more = f" by {share(by)}" if by else ""
    return shown(
        f"({one[0]} / {one[1]}) - 1 > ({other[0]} / {other[1]}) - 1{more}",
        lambda a, b, c, d: (a / b - 1) - factor * (c / d - 1),
        *one,
        *other,
    )


def ratio_higher_by(
    least: float, one: tuple[Quantity, Quantity], other: tuple[Quantity, Quantity]
) -> tuple[Comparison, ...]:
    """Test that the first of one pair exceeds its second by more than in the other pair, and by at
    least this share of the latter."""
    return ratio_higher(one, other), _size(ratio_higher(one, other, by=least))
