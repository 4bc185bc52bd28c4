"""Claims in a report: a table with verdicts, the load that decides and its numbers; notes below it.

Cells stay short. A row has one comparison; all others are in claims.csv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import floor, inf, isfinite, log10

from koala.lab.papers.paper import Claim, Part, Rule
from koala.lab.papers.results import tabled
from koala.lab.papers.verdicts import ClaimFinding, Finding, LevelFinding, Verdict, over_comparisons
from koala.lab.rows import markdown
from koala.lab.sim.statistics import Interval

COLUMNS = ("claim", *Part, "decided at", "comparison", "numbers", "other loads")
MEANS_MAX = 4
"""A comparison of more quantities has their means in claims.csv alone."""
UNKNOWN = "not found out"
NO_WIDTH = 1e-9
"""Half-width of an interval, as a share of its mean, up to which all values are the same."""


def claim_table(found: Iterable[ClaimFinding], *, are_drawn: bool) -> Iterator[str]:
    """Yield the table of some claims, and the notes on their readings and failures. Figures are
    linked if they `are_drawn`."""
    claims = list(found)
    yield markdown(COLUMNS, (_row(one, are_drawn=are_drawn) for one in claims))
    notes = (f"- {one.claim.id}. {note}" for one in claims if (note := _note(one)))
    if text := "\n".join(notes):
        yield text


def _row(found: ClaimFinding, *, are_drawn: bool) -> tuple[str, ...]:
    claim = found.claim
    about = f" ({_figures_of(claim, are_drawn=are_drawn)})" if claim.figures else ""
    verdicts = [_verdict(found.verdicts.get(part)) for part in Part]
    return f"{claim.id}. {claim.text}{about}", *verdicts, *_decision(found)


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


def _decision(found: ClaimFinding) -> tuple[str, str, str, str]:
    """Return the deciding load with its verdicts, the comparison that decides there, its numbers,
    and the verdicts of the other loads."""
    level = deciding_level(found)
    if level is None:
        told = "all saturated, nothing to compare" if found.levels else "not tested at these loads"
        return "", told, "", ""
    finding = decisive(level.findings, found.claim.rule)
    tally = _tally(one.verdict for one in level.findings if not one.is_void)
    count = f": {tally}" if len(level.findings) > 1 else ""
    most = "; more than half must hold" if found.claim.rule is Rule.MOST else ""
    others = _tally(one.verdict for one in found.levels if one is not level and not one.is_void)
    return f"*{level.level}*{count}{most}", str(finding.comparison), numbers_text(finding), others


def _tally(verdicts: Iterable[Verdict]) -> str:
    """Count verdicts: 3 hold, 1 undecided."""
    found = Counter(verdicts)
    return ", ".join(f"{found[one]} {one.verb}" for one in Verdict if found[one])


def deciding_level(found: ClaimFinding) -> LevelFinding | None:
    """Return the load that decides the verdict: one with a counterexample, else one near saturation
    with the least favourable verdict. Among several, take the one with the least support. None if
    nothing could be compared.
    """
    counted = [one for one in found.levels if not one.is_void]
    near = [one for one in counted if one.is_refuted] or [
        one for one in counted if one.level.is_near
    ]
    rule, order = found.claim.rule, list(Verdict)
    return min(
        near or counted,
        key=lambda one: (-order.index(one.verdict), _support(decisive(one.findings, rule))),
        default=None,
    )


def decisive(findings: Sequence[Finding], rule: Rule = Rule.ALL) -> Finding:
    """Return the comparison that decides the verdict of a level: the one furthest from the claim,
    in units of its own uncertainty; under MOST, the last one that makes more than half."""
    ordered = sorted((one for one in findings if not one.is_void), key=_support)
    return ordered[0 if rule is Rule.ALL else (len(ordered) - 1) // 2]


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


def numbers_text(finding: Finding) -> str:
    """Format the means of a comparison in its order, and the contrast."""
    told = []
    if len(finding.means) <= MEANS_MAX:
        told.append(", ".join(map(mean_text, finding.means)))
    if finding.comparison.is_of_every_run:
        seeds = ", ".join(map(str, finding.refuted_by))
        which = f"not with {'seed' if len(finding.refuted_by) == 1 else 'seeds'} {seeds}"
        told.append(f"{which if seeds else 'in each'} of {finding.difference.values} runs")
    elif finding.is_by_saturation:
        told.append("by saturation")
    elif len(finding.means) > 1:
        told.append(f"contrast {mean_text(tabled(finding.difference))}")
    return "; ".join(told)


def _note(found: ClaimFinding) -> str:
    """Describe how a claim is read, why it fails, and the verdict of each chart at the load that
    decides; each begins a line of one item of a list."""
    claim, level, told = found.claim, deciding_level(found), []
    if claim.reading:
        told.append(f"*Read as:* {claim.reading}.")
    if found.verdict is Verdict.FAILS:
        told.append(f"*Why it fails:* {claim.why_it_fails or UNKNOWN}.")
    charts = {} if level is None else by_chart(level, claim.rule)
    if len(charts) > 1 and len(set(charts.values())) > 1:
        words = {one: [where for where, of in charts.items() if of is one] for one in Verdict}
        parts = (f"{one} in {'; '.join(wheres)}" for one, wheres in words.items() if wheres)
        told.append(f"*Chart by chart:* {'. '.join(parts)}.")
    return "\n  ".join(told)


def by_chart(found: LevelFinding, rule: Rule) -> dict[str, Verdict]:
    """Return the verdict of each chart of a level, direction and size together."""
    charts: dict[str, list[Verdict]] = {}
    for one in found.findings:
        if one.comparison.where and not one.is_void:
            charts.setdefault(one.comparison.where, []).append(one.verdict)
    return {where: over_comparisons(of, rule) for where, of in charts.items()}


def ranges(numbers: Sequence[int]) -> str:
    """Format numbers as ranges: 9–12, 14 for 9, 10, 11, 12 and 14."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def mean_text(value: Interval) -> str:
    """Format a mean with its half-width, of which two digits are shown."""
    if value.mean == inf:
        return "SAT"
    if not isfinite(value.mean):
        return "–"
    if not isfinite(value.ci95):
        return f"{value.mean:.4g}"
    if value.ci95 <= NO_WIDTH * abs(value.mean):
        return f"{value.mean:.6g} ± 0"
    places = _places(value.ci95)
    return f"{value.mean:.{places}f} ± {value.ci95:.{places}f}"


def _places(width: float) -> int:
    """Return the decimals that show two digits of a width, six at most."""
    return min(6, max(0, 1 - floor(log10(width))))
