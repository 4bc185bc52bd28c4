"""The report of a reproduction: report.md with every claim, claims.csv with every comparison, JSON.

Nothing in it depends on when or how fast it was made: the same runs give the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from koala.common.runtime.atomic_file import write_atomically
from koala.lab.papers import figures
from koala.lab.papers.judgement import Report
from koala.lab.papers.markdown import as_markdown, caption, counts
from koala.lab.papers.tables import as_csv
from koala.lab.papers.verdicts import Verdict
from koala.lab.sim.replication import Progress


def write(found: Report, folder: Path) -> None:
    """Write report.md and all numbers."""
    for figure in found.plan.figures:
        figures.tabulate(figure, found.results, folder)
    write_atomically(folder / "claims.csv", as_csv(found))
    write_atomically(folder / "report.md", as_markdown(found))


def draw(found: Report, folder: Path, *, progress: Progress) -> None:
    """Draw all figures whose runs are complete. Each takes a second or more, so none is drawn after
    an interrupt."""
    assert not found.is_interrupted
    for number, figure in enumerate(found.plan.figures, start=1):
        figures.draw(figure, found.results, folder, caption(found.plan, figure, found.results))
        progress(number)


def summary(found: Report) -> str:
    """Return the summary for the command line: counts, and the most important results."""
    lines = [counts(found)]
    for verdict in (Verdict.FAILS, Verdict.NEAR):
        lines += [
            f"{verdict}: {one.claim.id} {one.claim.text}"
            for one in found.claims
            if one.verdict is verdict
        ]
    return "\n".join(lines)
