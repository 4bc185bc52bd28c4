"""The report of a reproduction for programs: claims.csv with every comparison, and JSON."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from io import StringIO
from math import isfinite
from typing import TYPE_CHECKING, Any

from koala.lab.papers.claim_table import by_chart, mean_text
from koala.lab.papers.paper import Part
from koala.lab.papers.results import Results, digits
from koala.lab.papers.verdicts import ClaimFinding, Finding, LevelFinding, Verdict
from koala.lab.sim.runs import Quantity

if TYPE_CHECKING:
    from koala.lab.papers.judgement import Report

COLUMNS = (
    *("claim", "section", "claim_verdict", "level", "level_verdict", "comparison", "verdict"),
    "part",
    *("difference", "ci95", "replications", "by_saturation", "means"),
)


def as_csv(found: Report) -> str:
    """Format a line for each comparison of each claim."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for one in found.claims:
        for level in (*one.levels, *one.readings):
            for finding in level.findings:
                lines.writerow(_line(one, level, finding))
    return text.getvalue()


def _line(one: ClaimFinding, level: LevelFinding, finding: Finding) -> tuple[object, ...]:
    difference = finding.difference
    return (
        *(one.claim.id, one.claim.section, one.verdict, level.level, level.verdict),
        *(str(finding.comparison), finding.verdict, finding.comparison.part),
        digits(difference.mean) if isfinite(difference.mean) else "",
        digits(difference.ci95) if isfinite(difference.ci95) else "",
        difference.values,
        "yes" if finding.is_by_saturation else "no",
        _means(finding),
    )


def _means(finding: Finding) -> str:
    """Format the means in the order of the comparison, by name where there are more than two."""
    means = [mean_text(one) for one in finding.means]
    if len(means) > 2:
        named = zip(finding.comparison.of, means, strict=True)
        means = [f"{quantity} {mean}" for quantity, mean in named]
    return "; ".join(means)


def document(found: Report) -> dict[str, Any]:
    """Return the document for `--json`."""
    return {
        "paper": found.plan.paper.name,
        "effort": found.plan.effort.name,
        "seed": found.plan.seed,
        "replications": found.plan.effort.replications,
        "interrupted": found.is_interrupted,
        "runs": {"wanted": found.wanted, "finished": found.finished},
        "verdicts": {str(verdict): found.count(verdict) for verdict in Verdict},
        "parts": {
            str(part): {str(one): found.of_part(part).count(one) for one in Verdict}
            for part in Part
        },
        "figures": [figure.number for figure in found.plan.figures],
        "claims": [_claim_document(one, found.results) for one in found.claims],
        "not_testable": [
            {"id": one.id, "section": one.section, "text": one.text, "reason": one.reason}
            for one in found.plan.paper.untestable
        ],
    }


def _claim_document(found: ClaimFinding, results: Results) -> dict[str, Any]:
    why = found.claim.why_it_fails if found.verdict is Verdict.FAILS else ""
    return {
        "id": found.claim.id,
        "section": found.claim.section,
        "text": found.claim.text,
        "reading": found.claim.reading,
        "why_it_fails": why or None,
        "figures": list(found.claim.figures),
        "verdict": str(found.verdict),
        **_parts_document(found.verdicts),
        "readings": {str(one.level): str(one.verdict) for one in found.readings},
        "levels": [
            {
                "level": str(level.level),
                "verdict": str(level.verdict),
                "charts": {
                    where: str(of) for where, of in by_chart(level, found.claim.rule).items()
                },
                **_parts_document(level.verdicts),
                "comparisons": [_finding_document(one, results) for one in level.findings],
            }
            for level in found.levels
        ],
    }


def _parts_document(verdicts: Mapping[Part, Verdict]) -> dict[str, str | None]:
    """Return the verdict of each part; None where the claim has no such part."""
    return {str(part): str(verdicts[part]) if part in verdicts else None for part in Part}


def _finding_document(finding: Finding, results: Results) -> dict[str, Any]:
    return {
        "text": str(finding.comparison),
        "part": str(finding.comparison.part),
        "verdict": str(finding.verdict),
        "difference": finding.difference.document(),
        "by_saturation": finding.is_by_saturation,
        "counterexamples": [
            {"seed": seed, "notes": list(results.notes(finding.comparison.of, seed))}
            for seed in finding.refuted_by
        ],
        "quantities": [
            {**_quantity_document(quantity, results), **mean.document()}
            for quantity, mean in zip(finding.comparison.of, finding.means, strict=True)
        ],
    }


def _quantity_document(quantity: Quantity, results: Results) -> dict[str, Any]:
    return {
        "metric": quantity.metric,
        "setting": str(quantity.setting),
        "saturated": results.is_saturated(quantity.setting),
    }
