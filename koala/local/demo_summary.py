"""Summary of the demo: a line for each job, from the details of the jobs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from koala.cli.render.documents import seconds
from koala.cli.render.table import clean, column, table
from koala.views.records.jobs import JobDetails, Part


def summary_rows(names: Mapping[str, str], jobs: Sequence[JobDetails]) -> list[dict[str, Any]]:
    """Build the `--json` rows, one for each job; `names` maps job ids to examples."""
    return [_row(names[job.job], job) for job in jobs]


def summary_text(rows: Sequence[Mapping[str, Any]], *, width: int | None = None) -> str:
    """Format the table, and below it the reasons of jobs that did not finish."""
    heads = (
        column("JOB", "job"),
        column("EXAMPLE", "example"),
        column("PHASE", "phase"),
        column("SITES", lambda row: " ".join(row["sites"])),
        column(">PLACED", "placement_tries", rank=4),
        column(">CLAIMED", "claiming_tries", rank=3),
        column(">TRANSFER", lambda row: seconds(row["transfer_s"]), rank=2),
        column(">DELAY", lambda row: seconds(row["start_delay_s"]), rank=1),
        column(">SKEW MS", lambda row: _decimal(row["start_skew_ms"], 2)),
        column(">HELD P*S", lambda row: _decimal(row["held_processor_s"], 1), rank=5),
        column(">STATUS", "status"),
    )
    reasons = [
        clean(
            f"{row['job']} ({row['example']}): {row['reason'] or 'not over at the end of the demo'}"
        )
        for row in rows
        if row["phase"] != "Finished"
    ]
    return "\n".join(
        [
            table(heads, rows, width=width),
            "",
            "PLACED and CLAIMED count tries; HELD is processors x seconds before the start.",
            *reasons,
        ]
    )


def _decimal(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _row(name: str, job: JobDetails) -> dict[str, Any]:
    timeline = job.timeline
    skew_s = timeline.start_skew_s
    return {
        "job": job.job,
        "example": name,
        "phase": job.phase,
        "reason": job.reason,
        "sites": [part.site for part in job.parts if part.site is not None],
        "attempts": job.attempts,
        "placement_tries": job.placement_tries,
        "claiming_tries": job.claiming_tries,
        "transfer_s": timeline.transfer_s,
        "transfer_bytes": timeline.transfer_bytes,
        "start_delay_s": timeline.start_delay_s,
        "start_skew_ms": None if skew_s is None else round(skew_s * 1000, 3),
        "held_processor_s": round(timeline.processor_wasted_s, 3),
        "status": _status(job.parts),
    }


def _status(parts: Sequence[Part]) -> int | None:
    """Exit status of a job: the first of its programs that is not 0."""
    statuses = [s for part in parts if part.end for s in part.end.statuses]
    return next((status for status in statuses if status), 0 if statuses else None)
