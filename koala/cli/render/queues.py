"""The placement queues as text. Pure."""

from __future__ import annotations

from koala.cli.render.documents import moment
from koala.cli.render.table import column, table
from koala.views.records.grid import Queues
from koala.views.units import counted


def queues_text(found: Queues, *, width: int | None = None) -> str:
    """Format `koala queues`: each queue that is not empty, with its first jobs."""
    heads = (
        column(">PLACE", "position"),
        column("JOB", "job"),
        column("NAME", lambda job: job.name or ""),
        column("OWNER", "owner"),
        column(">PROCESSORS", "processors"),
        column(">COMPONENTS", "components", rank=2),
        column(">TRIES", "placement_tries", rank=1),
        column("SUBMITTED", lambda job: moment(job.submitted_at), rank=1),
    )
    parts = []
    for queue in found.queues:
        if queue.jobs:
            jobs = counted(queue.jobs, "job")
            shown = table(heads, queue.first, width=width) if queue.first else ""
            parts.append(f"queue {queue.queue}: {jobs}\n{shown}".rstrip())
    return "\n\n".join(parts) or "no job waits in a queue"
