"""The report of a reproduction for people, as Markdown.

Each function yields blocks; an empty line comes between two of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from koala.lab.papers.claim_table import claim_table, mean_text
from koala.lab.papers.figures import DENSE
from koala.lab.papers.paper import Figure, Panel, Part
from koala.lab.papers.results import Results, tabled
from koala.lab.papers.sweep import Plan
from koala.lab.papers.verdicts import (
    RULES,
    ClaimFinding,
    LevelFinding,
    Verdict,
    over_levels,
    over_parts,
)
from koala.lab.rows import markdown
from koala.lab.sim.runs import Level

if TYPE_CHECKING:
    from koala.lab.papers.judgement import Report

ROWS_MAX = 30
"""A chart with more points has its numbers in its CSV alone."""
TABLES = """\
A row tells the load that decides its claim, how many comparisons of that load hold, and the one
that decides, which is furthest from what the claim says. Its numbers are the means on both sides,
in order, and the contrast: the paired difference, positive where the claim is right. The last
column counts the verdicts of the other loads. `claims.csv` has all comparisons at all loads."""


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


def _head(found: Report) -> Iterator[str]:
    wanted = found.plan
    yield f"# {wanted.paper.title}"
    yield (
        f"Made by `{command(wanted)}`: {found.finished} runs, {runs_of(wanted)} of each setting."
    )
    if found.is_interrupted:
        yield (
            f"**Interrupted** after {found.finished} of {found.wanted} runs; the rest is missing,"
            " and no figure is drawn: its numbers are in its CSV."
        )
    yield _tested(found)
    rows = [
        _count_row(section, [one.verdict for one in claims])
        for section, claims in _by_section(found)
    ]
    rows.append(_count_row("**all**", [one.verdict for one in found.claims]))
    if found.of_part(Part.SIZE):
        rows += [_count_row(f"*{part}*", found.of_part(part)) for part in Part]
    yield markdown(("section", "claims", *Verdict), rows, are_numbers=True)
    for verdict in (Verdict.FAILS, Verdict.NEAR):
        told = [one.claim for one in found.claims if one.verdict is verdict]
        if told:
            yield f"What {verdict}:"
            yield "\n".join(f"- {claim.id}. {claim.text}" for claim in told)


def _count_row(name: str, verdicts: Sequence[Verdict]) -> list[str]:
    """Make a row of the table that counts verdicts; nothing stands for none."""
    counted = [str(verdicts.count(verdict) or "") for verdict in Verdict]
    return [name, str(len(verdicts)), *counted]


def runs_of(wanted: Plan) -> str:
    """Describe number, length and unit of the runs of a setting: 20 runs of 150,000 jobs."""
    effort = wanted.effort
    return f"{effort.replications} runs of {effort.length:,.12g} {wanted.paper.length_unit}"


def command(wanted: Plan) -> str:
    """Return the command that makes these runs again, with all options that change results."""
    chosen = "" if wanted.figure is None else f" --figure {wanted.figure}"
    effort = wanted.effort
    return (
        f"koala reproduce {wanted.paper.name} --{effort.name}{chosen} --seed {wanted.seed}"
        f" --reps {effort.replications} --length {effort.length:.15g}"
    )


def _by_section(found: Report) -> Iterable[tuple[str, Iterable[ClaimFinding]]]:
    return groupby(found.claims, key=lambda one: one.claim.section)


def counts(found: Report) -> str:
    """Count the claims by their verdicts."""
    numbers = ", ".join(f"{found.count(verdict)} {verdict.verb}" for verdict in Verdict)
    return f"{len(found.claims)} claims: {numbers}.{_left_out(found)}{_part_counts(found)}"


def _tested(found: Report) -> str:
    """Tell how many claims are tested, and what the rows below sections count."""
    parts = (
        " A claim that says how much has two verdicts, of its *direction* and of its *size*."
        if found.of_part(Part.SIZE)
        else ""
    )
    return f"{len(found.claims)} claims.{_left_out(found)}{parts}"


def _left_out(found: Report) -> str:
    left = 0 if _is_part(found.plan) else len(found.plan.paper.untestable)
    return f" Not testable here: {left}." if left else ""


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
    yield TABLES
    yield found.plan.paper.measures
    for section, claims in _by_section(found):
        yield f"### Section {section}"
        yield from claim_table(claims, are_drawn=not found.is_interrupted)


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
        lines += [f"- {run}: {told}", *(line for note in notes for line in _indented(note))]
    if lines:
        yield "### Counterexamples"
        yield "\n".join(lines)


def _indented(note: str) -> Iterator[str]:
    """List the first statement of a note, and the others below it."""
    first, *others = note.split("; ")
    yield f"  - {first}"
    yield from (f"    - {other}" for other in others)


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
            rows.append([f"{one.claim.id}. {one.claim.text}", usual, *cells])
    if rows:
        yield "### What the verdicts depend on"
        yield (
            "The same claims under other readings of what the paper leaves open, one changed at a "
            "time. They have no say in the verdicts above; bold is what differs from the verdict "
            "as read, at the same levels."
        )
        yield markdown(("claim", "as read", *map(str, readings)), rows)


def _as_read(found: ClaimFinding, levels: Collection[Level]) -> Verdict:
    """Return the verdict as the paper is read, of these levels alone."""
    chosen = [level for level in found.levels if level.level in levels]
    return over_parts(over_levels(chosen, part) for part in found.verdicts)


def _read(found: LevelFinding | None, usual: Verdict) -> str:
    if found is None or found.is_void:
        return ""
    return f"**{found.verdict}**" if found.verdict is not usual else str(found.verdict)


def _untestable(found: Report) -> Iterator[str]:
    told = sorted(found.plan.paper.untestable, key=lambda one: one.place)
    if told and not _is_part(found.plan):
        yield "### Not testable here"
        rows = ((one.section, f"{one.id}. {one.text}", one.reason) for one in told)
        yield markdown(("section", "claim", "reason"), rows)


def _figures(found: Report) -> Iterator[str]:
    yield "## Figures"
    for figure in found.plan.figures:
        stem = f"figure-{figure.number:02d}"
        if not found.is_interrupted:
            yield f"![Figure {figure.number}. {figure.title}]({stem}.svg)"
        note = f" {figure.note}" if figure.note else ""
        drawn = "" if found.is_interrupted else f"[PNG]({stem}.png), "
        links = f"{drawn}[CSV]({stem}.csv)"
        told = caption(found.plan, figure, found.results)
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
        cells = [mean_text(tabled(results.drawn(one))) if one else "" for one in drawn]
        rows.append([x if isinstance(x, str) else f"{x:.4g}", *cells])
    return markdown((_chart_head(panel), *panel.series), rows)


def _chart_head(panel: Panel) -> str:
    """Name a chart with the unit of its numbers and what its places are."""
    unit = f" ({panel.y_label})" if panel.y_label and panel.y_label != panel.title else ""
    return f"{panel.title}{unit}" + (f", by {panel.x_label}" if panel.x_label else "")


def _method(found: Report) -> Iterator[str]:
    wanted = found.plan
    yield "## What is not in the paper"
    yield wanted.paper.ours
    yield "## How a claim gets its verdict"
    yield wanted.paper.levels
    yield RULES
    levels = "; ".join(map(str, wanted.effort.levels))
    yield f"This report has {runs_of(wanted)} of each setting. Its levels: {levels}."


def _is_part(wanted: Plan) -> bool:
    return wanted.figure is not None


def caption(wanted: Plan, figure: Figure, results: Results) -> str:
    """Say what the marks of a figure mean, and which runs are in it."""
    effort = wanted.effort
    last = wanted.seed + effort.replications - 1
    marks = any(panel.marks for panel in figure.panels)
    diverges = any(
        results.is_drawn_saturated(one) for panel in figure.panels for _, _, one in panel.points
    )
    bars = "shaded bands" if any(len(one.x) > DENSE for one in figure.panels) else "error bars"
    return (
        f"Means over {runs_of(wanted)}, seeds {wanted.seed} to {last}; {bars} are 95 %"
        " confidence intervals (Student's t)."
        + (" SAT: saturated, so there is no mean." if diverges else "")
        + (" Broken lines and bands are numbers that the paper prints." if marks else "")
    )
