"""Restoring of an emulated site's jobs when its agent comes back.

After a reboot everything that had not ended is lost. A job found between the order to start it and
its start is ended and reported as lost, never run twice. A gated job keeps its place in the queue.
"""

from __future__ import annotations

from dataclasses import dataclass

from koala_agent.lrm.emulated.emulated_jobs import Job, JobList
from koala_agent.lrm.emulated.job_runs import JobRuns
from koala_agent.lrm.emulated.queue_places import QueuePlaces
from koala_agent.lrm.job_table import JobRow, JobTable, Over, Waiting
from koala_agent.lrm.local_manager import EndCause


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRestoring:
    """Restoring of jobs to the list, the queue and their runs."""

    jobs: JobList
    places: QueuePlaces
    runs: JobRuns

    def restore(self, table: JobTable[JobRow]) -> None:
        """Restore the jobs of an earlier run from the state directory."""
        was_booted = not table.is_of_this_boot
        for record in table.load():
            job = Job(record.placeholder, record.state, record.gpus)
            self.jobs.add(job)
            if isinstance(job.state, Over):
                continue
            if was_booted:
                self._lose(job, "the machine was restarted")
            else:
                self._restore_job(job)
        if was_booted:
            table.belongs_to_this_boot()
        self.runs.end_strays()

    def _restore_job(self, job: Job) -> None:
        """Restore a job of an earlier run that had not ended."""
        if job.gpus:
            self.places.gpus.occupy(job.claim, job.gpus)
        if isinstance(job.state, Waiting):
            self._restore_waiting(job)
        else:
            self.places.occupy(job)
            self.runs.resume(job)

    def _restore_waiting(self, job: Job) -> None:
        if why := self.places.why_impossible_now(job.placeholder):
            self._lose(job, why)
        elif job.placeholder.begins_at:
            if not self.places.rebook(job):
                self._lose(job, "its booking could not be kept: its processors have other jobs")
        else:
            self.places.ask_gpus(job)
            self.places.enqueue(job)

    def _lose(self, job: Job, reason: str) -> None:
        self.runs.finish(job, Over(EndCause.LOST, reason, None, 0.0, 0))
