"""Restoring of an emulated site's jobs when its agent comes back.

After a reboot everything that had not ended is lost. A job found between the order to start it and
its start is ended and reported as lost, never run twice. A gated job keeps its place in the queue.
"""

from __future__ import annotations

from koala_agent.lrm.emulated.emulated_jobs import Job, JobList
from koala_agent.lrm.emulated.job_runs import JobRuns
from koala_agent.lrm.emulated.queue_places import QueuePlaces
from koala_agent.lrm.job_table import JobRow, JobTable, Over, Waiting
from koala_agent.lrm.local_manager import EndCause


def restore(table: JobTable[JobRow], jobs: JobList, places: QueuePlaces, runs: JobRuns) -> None:
    """Restore the jobs of an earlier run from the state directory."""
    was_booted = not table.is_of_this_boot
    for record in table.load():
        job = Job(record.placeholder, record.state, record.gpus)
        jobs.add(job)
        if isinstance(job.state, Over):
            continue
        if why := "the machine was restarted" if was_booted else places.restore(job):
            runs.finish(job, Over(EndCause.LOST, why, None, 0.0, 0))
        elif not isinstance(job.state, Waiting):
            runs.resume(job)
    if was_booted:
        table.belongs_to_this_boot()
    runs.end_strays()
