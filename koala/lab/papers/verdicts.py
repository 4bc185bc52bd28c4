"""Judge claims: verdicts of comparisons, of levels of load, and of claims.

`RULES` explains how comparisons make a verdict, for readers of reports too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isinf, isnan

from koala.lab.papers.comparisons import LITTLE, MUCH, share
from koala.lab.papers.paper import Claim, Comparison, Part, Rule
from koala.lab.papers.results import Results
from koala.lab.sim.runs import Level
from koala.lab.sim.statistics import CONFIDENCE, Interval, student

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
4. A claim *holds* when it holds at all levels. It *holds only near saturation* when it holds at
   those near saturation, but fails or is undecided at a lower level. It *fails* when it fails at a
   level near saturation; else it is *undecided*. The papers speak of charts near saturation, so
   what happens at lower levels alone neither makes a claim hold nor fail.
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
    difference = results.compared(comparison)
    refuted_by: tuple[int, ...] = ()
    if comparison.is_of_every_run:
        runs = results.contrasts(comparison)
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
