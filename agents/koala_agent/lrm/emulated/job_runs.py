"""Runs of an emulated site's jobs, from the order to start a process until none is left.

A job's processors are freed, and its end is reported, when none of its processes is left.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import assert_never

from koala_agent.lrm.claim_processes import ProcessIdentity, scan, tag_of
from koala_agent.lrm.emulated.emulated_jobs import Job, JobList
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings
from koala_agent.lrm.emulated.first_processes import Failure, FirstProcesses, JobCallbacks
from koala_agent.lrm.emulated.process_trees import ProcessTrees, Usage
from koala_agent.lrm.emulated.queue_places import QueuePlaces
from koala_agent.lrm.job_table import Alive, JobRow, Leaving, Over, Starting, Waiting, listed
from koala_agent.lrm.local_manager import EndCause, OnReport, Running


class JobRuns:
    """Runs of jobs that have their processors.

    `post` puts an event into the manager's inbox; `advance` starts what the queue selects next.
    """

    def __init__(
        self,
        settings: EmulatedSettings,
        *,
        scope: str,
        jobs: JobList,
        places: QueuePlaces,
        clock: Callable[[], float],
        post: Callable[[Callable[[], None]], None],
        report: OnReport,
        advance: Callable[[], None],
    ) -> None:
        self._scope = scope
        self._jobs = jobs
        self._places = places
        self._clock = clock
        self._post = post
        self._report = report
        self._advance = advance
        self._loop = asyncio.get_running_loop()
        self._trees = ProcessTrees(
            scope=scope,
            kill_s=settings.kill_s,
            sample_s=settings.sample_s,
            clock=clock,
            gone=lambda claim, usage: self._post(partial(self._claim_gone, claim, usage)),
        )
        self._first = FirstProcesses(
            environment=settings.environment,
            umask=settings.umask,
            switches=settings.switches,
            scope=scope,
            clock=clock,
            callbacks=JobCallbacks(
                started=lambda *started: self._post(partial(self._started, *started)),
                failed=lambda claim, failure: self._post(partial(self._failed, claim, failure)),
                exited=lambda claim: self._post(partial(self._handle_exit, claim)),
            ),
        )

    @property
    def is_starting(self) -> bool:
        """True while an order to start a process is not answered."""
        return self._first.is_starting

    async def watch(self) -> None:
        """Watch all processes, without end."""
        await self._trees.run()

    # The begin --------------------------------------------------------------------------------

    def begin(self, job: Job) -> None:
        """Start a job that has its processors."""
        self._jobs.change(job, Starting())
        self._post(partial(self._launch, job))

    def _launch(self, job: Job) -> None:
        if not isinstance(job.state, Starting):
            return
        if job.is_doomed:
            self._begin_end(job, EndCause.LOST, "start failed: fault_rate drew an error")
            return
        job.is_launching = True
        self._first.start(self._places.with_gpus(job))

    def _started(self, claim: str, leader: ProcessIdentity, earlier_cpu_s: float) -> None:
        job = self._jobs.by_claim[claim]
        job.is_launching = False
        alive = Alive(leader, self._clock(), earlier_cpu_s)
        self._jobs.change(job, alive)
        self._watch(job, alive)
        self._post(partial(self._report, Running(claim=job.claim)))
        if job.ordered_end is not None:
            self._begin_end(job, *job.ordered_end)

    def _failed(self, claim: str, failure: Failure) -> None:
        job = self._jobs.by_claim[claim]
        job.is_launching = False
        cause, reason = job.ordered_end or (failure.cause, failure.reason)
        self._begin_end(job, cause, reason, exit_status=failure.exit_status)

    def _watch(self, job: Job, alive: Alive) -> None:
        """Sample the usage of a living first process, and end it at its time limit."""
        self._trees.watch(job.claim, alive.leader, alive.earlier_cpu_s)
        self._set_limit(job, alive)

    def _set_limit(self, job: Job, alive: Alive) -> None:
        left_s = alive.started_at + job.placeholder.time_limit_s - self._clock()
        if left_s < math.inf:
            late = partial(self._limit_passed, job)
            job.limit = self._loop.call_later(max(0.0, left_s), self._post, late)

    # The end ----------------------------------------------------------------------------------

    def post_end(self, claim: str, cause: EndCause, reason: str) -> None:
        """Order the end of a job, if there is one, after all that was posted."""
        if claim in self._jobs.by_claim:
            self._post(partial(self._end_by, self._jobs.by_claim[claim], cause, reason))

    def finish(self, job: Job, over: Over) -> None:
        """Note and report the end of a job of which nothing is left."""
        self._jobs.finish(job, over)
        # After it is stored: no two stored claims that have not ended have the same process.
        self._post(partial(self._first.reuse, job.claim))
        self._places.gpus.release(job.claim)
        self._post(partial(self._report, listed(JobRow(job.placeholder, job.state))))

    def _end_by(self, job: Job, cause: EndCause, reason: str) -> None:
        """End a job on request, whatever its state."""
        match job.state:
            case Waiting():
                self._places.queue.withdraw(job.claim)
                self.finish(job, Over(cause, reason, None, 0.0, 0))
                self._advance()
            case Starting() if job.is_launching:
                job.ordered_end = job.ordered_end or (cause, reason)
            case Starting():
                self._places.queue.end(job.claim)
                self.finish(job, Over(cause, reason, None, 0.0, 0))
                self._advance()
            case Alive():
                self._begin_end(job, cause, reason)
            case Leaving() | Over():
                pass
            case _:
                assert_never(job.state)

    def _limit_passed(self, job: Job) -> None:
        if isinstance(job.state, Alive):
            limit_s = job.placeholder.time_limit_s
            self._begin_end(job, EndCause.TIME_LIMIT, f"time limit of {limit_s:g} s")

    def _handle_exit(self, claim: str) -> None:
        """Handle the exit of the first process, once."""
        job = self._jobs.by_claim.get(claim)
        end = None if job is None else self._first.reap(claim)
        if job is None or end is None:
            return
        job.usage = end.usage
        match job.state:
            case Alive() if end.is_empty:
                self._cancel_limit(job)
                job.state = Leaving(EndCause.EXITED, "", end.status, None)  # stored when it is over
                self._trees.end_empty(claim)
            case Alive():
                reason = "ended unseen" if end.status is None else ""
                self._begin_end(job, EndCause.EXITED, reason, exit_status=end.status)
            case Leaving(cause=cause, reason=reason, leader=leader):
                self._first.retire(claim)  # its process is among those that are being ended
                self._jobs.change(job, Leaving(cause, reason, end.status, leader))
                self._trees.end(job.claim)
            case Waiting() | Starting() | Over():
                raise AssertionError((job.claim, job.state))

    def _begin_end(
        self, job: Job, cause: EndCause, reason: str, *, exit_status: int | None = None
    ) -> None:
        """Begin the end of a job: its processes are ended, then `_claim_gone` follows."""
        leader = job.state.leader if isinstance(job.state, Alive) else None
        self._jobs.change(job, Leaving(cause, reason, exit_status, leader))
        self._cancel_limit(job)
        self._trees.end(job.claim, leader, is_script=bool(job.placeholder.body))

    def _cancel_limit(self, job: Job) -> None:
        if job.limit is not None:
            job.limit.cancel()
            job.limit = None

    def _claim_gone(self, claim: str, seen: Usage) -> None:
        """Finish a claim of which no process is left."""
        job = self._jobs.by_claim.get(claim)
        if job is None or not isinstance(job.state, Leaving):
            return  # a stray of an earlier run
        self._handle_exit(claim)
        state = job.state
        assert isinstance(state, Leaving)
        cpu_s = max(seen.cpu_s, job.usage.cpu_s)
        peak = max(seen.peak_memory_bytes, job.usage.peak_memory_bytes)
        self._places.queue.end(claim)
        self.finish(job, Over(state.cause, state.reason, state.exit_status, cpu_s, peak))
        self._advance()

    # Between two runs of the agent ------------------------------------------------------------

    def resume(self, job: Job) -> None:
        """Go on with a job of an earlier run that had its processors."""
        match job.state:
            case Starting():
                job.is_launching = True
                self._first.resume(self._places.with_gpus(job))
            case Alive(leader=leader) as alive:
                try:
                    self._first.adopt(job.claim, leader)
                except ProcessLookupError:
                    self._begin_end(job, EndCause.EXITED, "ended while no agent ran")
                else:
                    self._watch(job, alive)
            case Leaving(leader=first):
                self._trees.end(job.claim, first, is_script=bool(job.placeholder.body))
            case Waiting() | Over():
                raise AssertionError(job.claim)

    def end_strays(self) -> None:
        """End processes of an earlier run that are no longer wanted."""
        tags = {tag_of(claim, scope=self._scope): claim for claim in self._jobs.by_claim}
        for process in scan().seen:
            carried = process.claim if process.scope == self._scope else None
            claim = tags.get(process.tag or 0, carried)
            job = None if claim is None else self._jobs.by_claim.get(claim)
            if claim and (job is None or isinstance(job.state, Waiting | Over)):
                self._trees.end(claim)

    def release(self) -> None:
        """Release this process's resources and leave jobs as they are."""
        self._first.close()
        for job in self._jobs.by_claim.values():
            if job.limit is not None:
                job.limit.cancel()
            if isinstance(job.state, Starting) and not job.is_launching:
                # Cancelled before its launch: there is no process, so it may wait again.
                self._jobs.change(job, Waiting())
