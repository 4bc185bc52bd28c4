"""Plot of one setting: the distribution of response times, and that of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure as Drawing

from koala.lab.papers.malleable.simulation.run import Measured, groups, size_of
from koala.lab.sim.drawing import save

LABELS = {"ft": "FT", "gadget": "GADGET-2", "rigid": "rigid jobs"}


def draw(runs: Sequence[Measured], path: Path) -> None:
    """Draw the share of the jobs that ended within a time, and of those with at most so many
    processors in the mean, to a picture file."""
    drawing = Drawing(figsize=(7, 7), layout="constrained")
    times, sizes = drawing.subplots(2, 1)
    for group, label in LABELS.items():
        jobs = [job for run in runs for job in groups(run.jobs)[group]]
        if jobs:
            times.ecdf([job.response_s or 0.0 for job in jobs], label=label)
            sizes.ecdf([size_of(job) for job in jobs], label=label)
    times.set_xlabel("response time, s")
    sizes.set_xlabel("mean processors while it ran")
    for axes in (times, sizes):
        axes.set_ylabel("share of the jobs")
        axes.legend(fontsize="small")
    save(drawing, path)
