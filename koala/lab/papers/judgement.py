"""Judge all claims of a plan: the contents of a report, before it is text."""

from __future__ import annotations

from dataclasses import dataclass

from koala.lab.papers.paper import Part
from koala.lab.papers.results import Results
from koala.lab.papers.sweep import Plan
from koala.lab.papers.verdicts import ClaimFinding, Verdict, judge
from koala.lab.sim.campaign.execution import Campaign
from koala.lab.sim.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Contents of the report, before it is text."""

    plan: Plan
    results: Results
    claims: tuple[ClaimFinding, ...]
    wanted: int
    finished: int
    is_interrupted: bool

    def count(self, verdict: Verdict) -> int:
        """Count the claims with this verdict."""
        return sum(found.verdict is verdict for found in self.claims)

    def of_part(self, part: Part) -> tuple[Verdict, ...]:
        """List the verdicts of a part, for the claims that have it."""
        return tuple(found.verdicts[part] for found in self.claims if part in found.verdicts)


def report(wanted: Plan, made: Campaign[Run]) -> Report:
    """Judge all claims of the plan by its finished runs."""
    results = Results(
        ((run, one.outcome) for run, one in made.finished),
        diverging=wanted.paper.diverging,
        saturation=wanted.paper.saturation,
    )
    count = len(made.finished)
    return judged(wanted, results, finished=count, is_interrupted=made.is_interrupted)


def judged(wanted: Plan, results: Results, *, finished: int, is_interrupted: bool) -> Report:
    """Judge all claims of the plan by these results, of so many runs."""
    return Report(
        plan=wanted,
        results=results,
        claims=tuple(
            judge(one, wanted.effort.levels, results, wanted.readings)
            for one in sorted(wanted.claims, key=lambda claim: claim.place)
        ),
        wanted=len(wanted.runs()),
        finished=finished,
        is_interrupted=is_interrupted,
    )
