"""The report of a reproduction for people, as Markdown.

Each function yields blocks; an empty line comes between two of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from math import floor, inf, isfinite, log10
from typing import TYPE_CHECKING

from koala.papers.paper import Claim, Figure, Panel, Part, Rule
from koala.papers.results import Results
from koala.papers.runs import Level
from koala.papers.sweep import Plan
from koala.papers.verdicts import (
    RULES,
    ClaimFinding,
    Finding,
    LevelFinding,
    Verdict,
    over_comparisons,
    over_levels,
    over_parts,
)
from koala.sim.statistics import Interval

if TYPE_CHECKING:
    from koala.papers.report import Report

ROWS_MAX = 30
"""A chart with more points has its numbers in its CSV alone."""


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
    yield counts(found)
    rows = []
    for section, claims in _by_section(found):
        verdicts = [one.verdict for one in claims]
        found_of = [str(verdicts.count(verdict) or "") for verdict in Verdict]
        rows.append([section, str(len(verdicts)), *found_of])
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


def counts(found: Report) -> str:
    """Count the claims by their verdicts."""
    numbers = ", ".join(f"{found.count(verdict)} {verdict.verb}" for verdict in Verdict)
    left = 0 if _is_part(found.plan) else len(found.plan.paper.untestable)
    rest = f" Not testable here: {left}." if left else ""
    return f"{len(found.claims)} claims: {numbers}.{rest}{_part_counts(found)}"


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
        yield _table(("claim", *Part, "numbers"), (_row(one, found) for one in claims))


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
    readings, paper = found.plan.readings, found.plan.paper
    rows = []
    for one in found.claims:
        near = [level.level for level in one.levels if level.level.is_near]
        by_level = {reading.level: reading for reading in one.readings}
        cells = [
            _read(by_level.get(reading), _as_read(one, paper.readings_at.get(reading, near)))
            for reading in readings
        ]
        if one.readings:
            usual = str(_as_read(one, near))
            rows.append([f"{one.claim.id}. {_cell(one.claim.text)}", usual, *cells])
    if rows:
        yield "### What the verdicts depend on"
        yield (
            "The same claims under other readings of what the paper leaves open, one changed at a "
            "time. They have no say in the verdicts above; bold is what differs from the verdict "
            "as read, at the same levels."
        )
        yield _table(("claim", "as read", *map(str, readings)), rows)


def _as_read(found: ClaimFinding, levels: Collection[Level]) -> Verdict:
    """Return the verdict as the paper is read, of these levels alone."""
    chosen = [level for level in found.levels if level.level in levels]
    return over_parts(over_levels(chosen, part) for part in found.verdicts)


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


UNKNOWN = "not found out"


def _row(found: ClaimFinding, whole: Report) -> tuple[str, ...]:
    claim = found.claim
    about = f" ({_figures_of(claim, are_drawn=not whole.is_interrupted)})" if claim.figures else ""
    reading = f"<br>*Read as: {claim.reading}*" if claim.reading else ""
    why = ""
    if found.verdict is Verdict.FAILS:
        why = f"<br>*Why it fails: {whole.plan.paper.reasons.get(claim.id, UNKNOWN)}*"
    verdicts = [_verdict(found.verdicts.get(part)) for part in Part]
    told = [line for level in found.levels for line in _level(level, claim.rule)]
    numbers = "<br>".join(told) or "no run finished"
    text = f"{claim.id}. {_cell(claim.text)}{about}{_cell(reading)}{_cell(why)}"
    return text, *verdicts, _cell(numbers)


def _figures_of(claim: Claim, *, are_drawn: bool) -> str:
    """Name the figures of a claim, with links to their charts: Fig. 5, 6."""
    if not are_drawn:
        return f"Fig. {ranges(claim.figures)}"
    numbers = sorted(claim.figures)
    return "Fig. " + ", ".join(f"[{one}](figure-{one:02d}.svg)" for one in numbers)


def _verdict(found: Verdict | None) -> str:
    """Format a verdict; bold where something is decided, empty where the claim has no such part."""
    if found is None:
        return ""
    return str(found) if found is Verdict.UNDECIDED else f"**{found}**"


def _level(found: LevelFinding, rule: Rule) -> Iterator[str]:
    """Yield the result of a level: counts of comparisons, the decisive one, and the verdict of each
    chart."""
    if found.is_void:
        yield f"*{found.level}*: all saturated, nothing to compare."
        return
    tally = ", ".join(
        f"{count} {verdict.verb}" for verdict in Verdict if (count := found.count(verdict))
    )
    rest = f" ({tally})" if len(found.findings) > 1 else ""
    most = ", most count" if rule is Rule.MOST else ""
    line = _comparison_line(decisive(found.findings, rule))
    yield f"*{found.level}*: {found.verdict}{rest}{most}. {line}"
    charts = by_chart(found, rule)
    if len(charts) > 1:
        words = {one: [where for where, of in charts.items() if of is one] for one in Verdict}
        told = (f"{one} in {'; '.join(wheres)}" for one, wheres in words.items() if wheres)
        yield f"Chart by chart: {'. '.join(told)}."


def by_chart(found: LevelFinding, rule: Rule) -> dict[str, Verdict]:
    """Return the verdict of each chart of a level, direction and size together."""
    charts: dict[str, list[Verdict]] = {}
    for one in found.findings:
        if one.comparison.where and not one.is_void:
            charts.setdefault(one.comparison.where, []).append(one.verdict)
    return {where: over_comparisons(of, rule) for where, of in charts.items()}


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
    if difference.ci95:
        return difference.mean / difference.ci95
    return difference.mean * inf if difference.mean else 0.0


def _comparison_line(finding: Finding) -> str:
    """Format a comparison with its means in their order, by name where there are more than two."""
    means = ", ".join(mean_text(one) for one in finding.means)
    if len(finding.means) > 2:
        pairs = zip(finding.comparison.of, finding.means, strict=True)
        means = ", ".join(f"{quantity} {mean_text(mean)}" for quantity, mean in pairs)
    if finding.comparison.is_of_every_run:
        seeds = ", ".join(map(str, finding.refuted_by))
        runs = finding.difference.values
        told = f"not with {'seed' if len(finding.refuted_by) == 1 else 'seeds'} {seeds}"
        return f"{finding.comparison}: {means}; {told if seeds else 'in each'} of {runs} runs"
    by = "saturation" if finding.is_by_saturation else f"difference {mean_text(finding.difference)}"
    return f"{finding.comparison}: {means}; {by}"


def mean_text(value: Interval) -> str:
    """Format a mean with its half-width, of which two digits are shown."""
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
        told = caption(found.plan, figure)
        yield f"*Figure {figure.number}. {figure.title}.*{note} {told} ({links})"
        for panel in figure.panels:
            if len(panel.x) <= ROWS_MAX:
                yield _panel(panel, found.results)


def _panel(panel: Panel, results: Results) -> str:
    """Format the numbers of a chart: a line for each place on its axis, a column for each
    series."""
    rows = []
    for place, x in enumerate(panel.x):
        drawn = [of[place] for of in panel.series.values()]
        cells = [mean_text(results.drawn(one)) if one else "" for one in drawn]
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


def caption(wanted: Plan, figure: Figure) -> str:
    """Say what the marks of a figure mean, and which runs are in it."""
    effort = wanted.effort
    last = wanted.seed + effort.replications - 1
    marks = any(panel.marks for panel in figure.panels)
    return (
        f"Means over {effort.replications} replications of length {effort.length:g}, seeds"
        f" {wanted.seed} to {last}; error bars are 95 % confidence intervals (Student's t)."
        + (" SAT: saturated, so there is no mean." if wanted.paper.diverging else "")
        + (" Broken lines and bands are numbers that the paper prints." if marks else "")
    )
