"""The report of a reproduction: report.md with every claim, claims.csv with every comparison, JSON.

Nothing in it depends on when or how fast it was made: the same runs give the same bytes.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from math import floor, inf, isfinite, log10
from pathlib import Path
from typing import Any

from koala.papers import figures
from koala.papers.claims import (
    RULES,
    ClaimFinding,
    Finding,
    LevelFinding,
    Verdict,
    judge,
    over_levels,
    over_parts,
)
from koala.papers.paper import Panel, Part, Rule
from koala.papers.results import Results
from koala.papers.runs import Quantity
from koala.papers.sweep import Plan, Swept
from koala.runtime.atomic_file import write_whole
from koala.sim.replication import Progress
from koala.sim.statistics import Interval

COLUMNS = (
    *("claim", "section", "claim_verdict", "level", "level_verdict", "comparison", "verdict"),
    "part",
    *("difference", "ci95", "replications", "by_saturation", "means"),
)


ROWS_MAX = 30
"""A chart with more points has its numbers in its CSV alone."""


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
            judge(one, wanted.effort.levels, swept.results, wanted.paper.readings)
            for one in wanted.claims
        ),
        wanted=len(wanted.runs()),
        finished=swept.finished,
        is_interrupted=swept.is_interrupted,
    )


def write(found: Report, folder: Path) -> None:
    """Write report.md and all numbers."""
    for figure in found.plan.figures:
        figures.tabulate(figure, found.results, folder)
    write_whole(folder / "claims.csv", as_csv(found))
    write_whole(folder / "report.md", as_markdown(found))


def draw(found: Report, folder: Path, *, progress: Progress) -> None:
    """Draw all figures whose runs are complete. Each takes a second or more, so none is drawn after
    an interrupt."""
    assert not found.is_interrupted
    for number, figure in enumerate(found.plan.figures, start=1):
        figures.draw(figure, found.results, folder)
        progress(number)


def summary(found: Report) -> str:
    """Return the summary for the command line: counts, and the most important results."""
    lines = [_counts(found)]
    for verdict in (Verdict.FAILS, Verdict.NEAR):
        lines += [
            f"{verdict}: {one.claim.id} {one.claim.text}"
            for one in found.claims
            if one.verdict is verdict
        ]
    return "\n".join(lines)


# Markdown: each function yields blocks, with an empty line between two of them.


def as_markdown(found: Report) -> str:
    """Format the report, for a person."""
    parts = (
        _head(found),
        _claims(found),
        _counterexamples(found),
        _readings(found),
        _untestable(found),
        _figures(found),
        _method(found),
    )
    return "\n\n".join(block for part in parts for block in part) + "\n"


def _table(
    columns: Iterable[str], rows: Iterable[Iterable[str]], *, are_numbers: bool = False
) -> str:
    """Format a table; all its columns but the first may be numbers."""
    names = list(columns)
    rules = ["---", *["--:" if are_numbers else "---"] * (len(names) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (names, rules, *rows))


def _head(found: Report) -> Iterator[str]:
    wanted = found.plan
    yield f"# {wanted.paper.title}"
    yield (
        f"Made by `{command(wanted)}`: {found.finished} runs, {wanted.effort.replications}"
        " replications of each setting."
    )
    if found.is_interrupted:
        yield (
            f"**Interrupted** after {found.finished} of {found.wanted} runs; the rest is missing,"
            " and no figure is drawn: its numbers are in its CSV."
        )
    yield _counts(found)
    rows = []
    for section, claims in _by_section(found):
        verdicts = [one.verdict for one in claims]
        counts = [str(verdicts.count(verdict) or "") for verdict in Verdict]
        rows.append([section, str(len(verdicts)), *counts])
    yield _table(("section", "claims", *Verdict), rows, are_numbers=True)
    for verdict in (Verdict.FAILS, Verdict.NEAR):
        told = [one.claim for one in found.claims if one.verdict is verdict]
        if told:
            yield f"What {verdict}:"
            yield "\n".join(f"- {claim.id}. {claim.text}" for claim in told)


def command(wanted: Plan) -> str:
    """Return the command that makes these runs again, with all options that change results."""
    chosen = "" if wanted.figure is None else f" --figure {wanted.figure}"
    effort = wanted.effort
    return (
        f"koala reproduce {wanted.paper.name} --{effort.name}{chosen} --seed {wanted.seed}"
        f" --reps {effort.replications} --length {effort.length:g}"
    )


def _by_section(found: Report) -> Iterable[tuple[str, Iterable[ClaimFinding]]]:
    return groupby(found.claims, key=lambda one: one.claim.section)


def _counts(found: Report) -> str:
    counts = ", ".join(f"{found.count(verdict)} {verdict.verb}" for verdict in Verdict)
    left = 0 if _is_part(found.plan) else len(found.plan.paper.untestable)
    rest = f" Not testable here: {left}." if left else ""
    return f"{len(found.claims)} claims: {counts}.{rest}{_part_counts(found)}"


def _part_counts(found: Report) -> str:
    """Count the verdicts of directions and sizes apart, if some claim says how much."""
    if not found.of_part(Part.SIZE):
        return ""
    told = []
    for part in Part:
        verdicts = found.of_part(part)
        counts = ", ".join(f"{verdicts.count(one)} {one.verb}" for one in Verdict)
        told.append(f" {part.capitalize()}, of {len(verdicts)}: {counts}.")
    return "".join(told)


def _claims(found: Report) -> Iterator[str]:
    yield "## Claims"
    yield (
        "The numbers are those of the comparison that decides, the one furthest from what the "
        "claim says. `claims.csv` has them all."
    )
    for section, claims in _by_section(found):
        yield f"### Section {section}"
        yield _table(("claim", *Part, "numbers"), map(_row, claims))


def _counterexamples(found: Report) -> Iterator[str]:
    """List the runs that contradict claims about every run, and why."""
    runs: dict[tuple[str, tuple[str, ...]], dict[str, dict[str, None]]] = {}
    for one in found.claims:
        for level in one.levels:
            for finding in level.findings:
                for seed in finding.refuted_by:
                    run = f"{level.level}, seed {seed}"
                    notes = found.results.notes(finding.comparison.of, seed)
                    said = runs.setdefault((run, notes), {})
                    said.setdefault(str(finding.comparison), {})[one.claim.id] = None
    lines = []
    for (run, notes), said in runs.items():
        told = "; ".join(f"not *{text}* ({', '.join(claims)})" for text, claims in said.items())
        lines += [f"- {run}: {told}", *(f"  - {note}" for note in notes)]
    if lines:
        yield "### Counterexamples"
        yield "\n".join(lines)


def _readings(found: Report) -> Iterator[str]:
    """Tabulate the verdict of each claim under each reading; those that differ from the first
    column are bold."""
    readings = found.plan.paper.readings
    rows = []
    for one in found.claims:
        near = [level for level in one.levels if level.level.is_near]
        usual = over_parts(over_levels(near, part) for part in one.verdicts)
        by_level = {reading.level: reading for reading in one.readings}
        cells = [_read(by_level.get(reading), usual) for reading in readings]
        if one.readings:
            rows.append([f"{one.claim.id}. {_cell(one.claim.text)}", str(usual), *cells])
    if rows:
        yield "### What the verdicts depend on"
        yield (
            "The same claims under other readings of what the paper leaves open, one changed at a "
            "time. They have no say in the verdicts above; bold is what differs from them."
        )
        yield _table(("claim", "as read", *map(str, readings)), rows)


def _read(found: LevelFinding | None, usual: Verdict) -> str:
    if found is None or found.is_void:
        return ""
    return f"**{found.verdict}**" if found.verdict is not usual else str(found.verdict)


def _untestable(found: Report) -> Iterator[str]:
    told = found.plan.paper.untestable
    if told and not _is_part(found.plan):
        yield "### Not testable here"
        rows = ((one.section, f"{one.id}. {_cell(one.text)}", _cell(one.reason)) for one in told)
        yield _table(("section", "claim", "reason"), rows)


def _row(found: ClaimFinding) -> tuple[str, ...]:
    claim = found.claim
    about = f" (Fig. {ranges(claim.figures)})" if claim.figures else ""
    reading = f"<br>*Read as: {claim.reading}*" if claim.reading else ""
    verdicts = [_verdict(found.verdicts.get(part)) for part in Part]
    numbers = "<br>".join(_level(level, claim.rule) for level in found.levels) or "no run finished"
    return f"{claim.id}. {_cell(claim.text)}{about}{_cell(reading)}", *verdicts, _cell(numbers)


def _verdict(found: Verdict | None) -> str:
    """Format a verdict; bold where something is decided, empty where the claim has no such part."""
    if found is None:
        return ""
    return str(found) if found is Verdict.UNDECIDED else f"**{found}**"


def _level(found: LevelFinding, rule: Rule) -> str:
    """Format the result of a level: counts of comparisons, and the decisive one."""
    tally = ", ".join(
        f"{count} {verdict.verb}" for verdict in Verdict if (count := found.count(verdict))
    )
    rest = f" ({tally})" if len(found.findings) > 1 else ""
    most = ", most count" if rule is Rule.MOST else ""
    if found.is_void:
        return f"*{found.level}*: all saturated, nothing to compare."
    line = _comparison_line(decisive(found.findings, rule))
    return f"*{found.level}*: {found.verdict}{rest}{most}. {line}"


def decisive(findings: Sequence[Finding], rule: Rule = Rule.ALL) -> Finding:
    """Return the comparison that decides the verdict of a level: the one furthest from the claim,
    in units of its own uncertainty; under MOST, the last one that makes more than half."""
    ordered = sorted((one for one in findings if not one.is_void), key=_support)
    return ordered[0 if rule is Rule.ALL else (len(ordered) - 1) // 2]


def ranges(numbers: Sequence[int]) -> str:
    """Format numbers as ranges: 9–12, 14 for 9, 10, 11, 12 and 14."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _support(finding: Finding) -> float:
    difference = finding.difference
    if finding.refuted_by:
        return -inf
    if finding.is_by_saturation:
        return difference.mean
    if not isfinite(difference.mean):
        return 0.0
    return difference.mean / difference.ci95 if difference.ci95 else difference.mean * inf


def _comparison_line(finding: Finding) -> str:
    """Format a comparison with its means in their order, by name where there are more than two."""
    means = ", ".join(_mean(one) for one in finding.means)
    if len(finding.means) > 2:
        pairs = zip(finding.comparison.of, finding.means, strict=True)
        means = ", ".join(f"{quantity} {_mean(mean)}" for quantity, mean in pairs)
    if finding.comparison.is_of_every_run:
        seeds = ", ".join(map(str, finding.refuted_by))
        runs = finding.difference.values
        told = f"not with {'seed' if len(finding.refuted_by) == 1 else 'seeds'} {seeds}"
        return f"{finding.comparison}: {means}; {told if seeds else 'in each'} of {runs} runs"
    by = "saturation" if finding.is_by_saturation else f"difference {_mean(finding.difference)}"
    return f"{finding.comparison}: {means}; {by}"


def _mean(value: Interval) -> str:
    if value.mean == inf:
        return "SAT"
    if not isfinite(value.mean):
        return "–"
    if not isfinite(value.ci95):
        return f"{value.mean:.4g}"
    places = _places(value.ci95) if value.ci95 else _places(value.mean / 100)
    return f"{value.mean:.{places}f} ± {value.ci95:.{places}f}"


def _places(width: float) -> int:
    """Return the decimals that show two digits of a width, six at most."""
    return min(6, max(0, 1 - floor(log10(abs(width))))) if width else 0


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _figures(found: Report) -> Iterator[str]:
    yield "## Figures"
    for figure in found.plan.figures:
        stem = f"figure-{figure.number:02d}"
        if not found.is_interrupted:
            yield f"![Figure {figure.number}. {figure.title}]({stem}.svg)"
        note = f" {figure.note}" if figure.note else ""
        drawn = "" if found.is_interrupted else f"[PNG]({stem}.png), "
        links = f"{drawn}[CSV]({stem}.csv)"
        yield f"*Figure {figure.number}. {figure.title}.*{note} ({links})"
        for panel in figure.panels:
            if len(panel.x) <= ROWS_MAX:
                yield _panel(panel, found.results)


def _panel(panel: Panel, results: Results) -> str:
    """Format the numbers of a chart: a line for each place on its axis, a column for each
    series."""
    rows = []
    for place, x in enumerate(panel.x):
        quantities = [of[place] for of in panel.series.values()]
        cells = [_mean(results.interval(one)) if one else "" for one in quantities]
        rows.append([x if isinstance(x, str) else f"{x:g}", *cells])
    return _table((panel.title, *panel.series), rows)


def _method(found: Report) -> Iterator[str]:
    wanted = found.plan
    yield "## What is not in the paper"
    yield wanted.paper.ours
    yield "## How a claim gets its verdict"
    yield wanted.paper.levels
    yield RULES
    yield (
        f"This report: {wanted.effort.replications} replications of length "
        f"{wanted.effort.length:g}; levels: {', '.join(map(str, wanted.effort.levels))}."
    )


def _is_part(wanted: Plan) -> bool:
    return wanted.figure is not None


# Tables and documents for programs.


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
        f"{difference.mean:.6g}" if isfinite(difference.mean) else "",
        f"{difference.ci95:.6g}" if isfinite(difference.ci95) else "",
        difference.values,
        "yes" if finding.is_by_saturation else "no",
        "; ".join(_mean(mean) for mean in finding.means),
    )


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
    return {
        "id": found.claim.id,
        "section": found.claim.section,
        "text": found.claim.text,
        "reading": found.claim.reading,
        "figures": list(found.claim.figures),
        "verdict": str(found.verdict),
        **_parts_document(found.verdicts),
        "readings": {str(one.level): str(one.verdict) for one in found.readings},
        "levels": [
            {
                "level": str(level.level),
                "verdict": str(level.verdict),
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
