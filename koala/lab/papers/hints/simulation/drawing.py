"""Plot of one setting: the distribution of response times, and link utilisation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from koala.lab.papers.hints.simulation.counting import KINDS, LABELS, Summary
from koala.lab.papers.hints.simulation.run import RunRecord
from koala.lab.sim.drawing import save


def draw(found: Summary, runs: Sequence[RunRecord], path: Path) -> None:
    """Draw the share of the jobs that ended within a time, and the utilisation of each link, to a
    picture file."""
    drawing = Drawing(figsize=(7, 7), layout="constrained")
    times, links = drawing.subplots(2, 1)
    for kind, is_of in KINDS.items():
        jobs = [job for run in runs for job in run.jobs if job.site is not None and is_of(job)]
        if jobs:
            times.ecdf([job.response_s for job in jobs], label=LABELS[kind])
    times.set_xlabel("response time, s")
    times.set_ylabel("share of the jobs")
    times.legend(fontsize="small")
    rows = {name: one for name, one in found.metrics.items() if name.startswith("links.")}
    names = [name.removeprefix("links.") for name in rows]
    bars = [one.ci95 if one.values > 1 else 0.0 for one in rows.values()]
    links.bar(names, [one.mean for one in rows.values()], yerr=bars)
    links.set_ylabel("share of the link that was used")
    links.set_ylim(0, 1)
    save(drawing, path)
