"""Summary of the demo: a line for each job, from the details of the jobs. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from koala.cli.render.documents import milliseconds, seconds
from koala.cli.render.table import FILE, Screen, clean, column, table
from koala.views.records.jobs import JobDetails


def summary_text(jobs: Sequence[JobDetails], screen: Screen = FILE) -> str:
    """Format the table, and below it the reasons of jobs that did not finish."""
    heads = (
        column("JOB", "job"),
        column("EXAMPLE", "name"),
        column("PHASE", "phase"),
        column("SITES", "sites"),
        column(">PLACED", "placement_tries", rank=4),
        column(">CLAIMED", "claiming_tries", rank=3),
        column(">TRANSFER", lambda job: seconds(job.timeline.transfer_s), rank=2),
        column(">DELAY", lambda job: seconds(job.timeline.start_delay_s), rank=1),
        column(">SKEW", lambda job: milliseconds(job.timeline.start_skew_s)),
        column(">HELD P*S", lambda job: f"{job.timeline.processor_wasted_s:.1f}", rank=5),
    )
    reasons = [
        clean(f"{job.job} ({job.name}): {job.reason or 'not over at the end of the demo'}")
        for job in jobs
        if job.phase != "Finished"
    ]
    legend = "PLACED and CLAIMED count tries; HELD is processors x seconds before the start."
    return "\n".join([table(heads, jobs, screen), "", legend, *reasons])
