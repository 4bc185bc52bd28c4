"""Judge all claims of a plan: the contents of a report, before it is text."""

from __future__ import annotations

from dataclasses import dataclass

from koala.lab.papers.paper import Part
from koala.lab.papers.results import Results
from koala.lab.papers.sweep import Plan, Swept
from koala.lab.papers.verdicts import ClaimFinding, Verdict, judge


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


def report(swept: Swept) -> Report:
    """Judge all claims of the plan."""
    wanted = swept.plan
    return Report(
        plan=wanted,
        results=swept.results,
        claims=tuple(
            judge(one, wanted.effort.levels, swept.results, wanted.readings)
            for one in sorted(wanted.claims, key=lambda claim: claim.place)
        ),
        wanted=len(wanted.runs()),
        finished=swept.finished,
        is_interrupted=swept.is_interrupted,
    )
