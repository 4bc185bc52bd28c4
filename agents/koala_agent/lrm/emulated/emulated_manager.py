"""The emulated local manager: the model of a queue on the wall clock, with real processes.

It replaces a batch system in demonstrations, in tests and on a single large machine. Jobs are real
processes in sessions of their own; they go on when the agent is killed, and the next agent with the
same state directory finds them, or finds that they ended (`job_runs`, `job_restoring`).

- The job table is written before a process is started and after. Changes of one turn are one
  transaction.
- Local users' jobs are virtual and do not survive a restart (`local_load`).

One task owns all state and takes its events (a process exited, a limit passed, a local job arrived)
from an inbox, all that wait in one turn (`event_turns`). An event is handled when all changes that
were made before it was posted are stored: what rests on a change is posted after it. An error in
any event ends `run` and with it the agent, rather than be logged.
It is no machine with a driver (`common.runtime.driver`): each job has timers of its own and starts
processes.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
from collections.abc import Callable

from koala.common.protocol.messages import Resources
from koala.common.protocol.queue_limits import NO_LIMITS, Times
from koala.common.runtime.clock import boot_id
from koala.errors import LocalManagerError
from koala.queue_model import LocalQueue, local_queue
from koala_agent.lrm.emulated.emulated_jobs import Job, JobList
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings
from koala_agent.lrm.emulated.event_turns import EventTurns
from koala_agent.lrm.emulated.idle_figures import IdleFigures
from koala_agent.lrm.emulated.job_restoring import JobRestoring
from koala_agent.lrm.emulated.job_runs import JobRuns
from koala_agent.lrm.emulated.local_load import LocalKey, LocalLoad
from koala_agent.lrm.emulated.queue_places import Key, QueuePlaces
from koala_agent.lrm.emulated.start_forecasts import FORECAST_S
from koala_agent.lrm.job_table import JobRow, JobTable, Waiting, listed
from koala_agent.lrm.local_manager import EndCause, Idle, Listed, OnReport, Placeholder


class EmulatedLocalManager:
    """`LocalManager` over processes of this machine.

    `clock` gives seconds since boot that count suspended time (CLOCK_BOOTTIME).
    """

    def __init__(
        self,
        settings: EmulatedSettings,
        *,
        on_report: OnReport,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._report = on_report
        self._clock = clock
        self._rng = random.Random(settings.seed)
        self._queue: LocalQueue[Key] = local_queue(
            processors=settings.processors, discipline=settings.discipline
        )
        self._jobs = JobList()
        self._turns = EventTurns(self._store_changes)
        self._post = self._turns.post
        self._places = QueuePlaces(settings, self._queue, clock=clock)
        self._local = LocalLoad(self._queue, clock=clock, post=self._post, advance=self._advance)
        self._figures = IdleFigures(
            settings.processors,
            jobs=self._jobs,
            places=self._places,
            local=self._local,
            clock=clock,
        )
        self._wake: asyncio.TimerHandle | None = None
        """For the next reservation, where the discipline makes them."""
        self._reported_idle: Idle | None = None
        self._opened = asyncio.Event()
        self._closed = asyncio.Event()
        self._is_closing = False
        self._is_killing = False

    # The port ---------------------------------------------------------------------------------

    @property
    def starts_after_stop(self) -> bool:
        """True when no job waits that may start: a claim at the tail then starts next."""
        return self._queue.waiting == len(self._queue.gated)

    @property
    def honours(self) -> tuple[str, ...]:
        """GPUs alone: processors here are alike and in one queue."""
        return ("gpus",)

    @property
    def gate(self) -> str:
        """The queue itself passes over gated jobs."""
        return "queue"

    @property
    def books(self) -> str:
        """The queue itself keeps processors free."""
        return "emulated" if self._settings.books else ""

    def times(self, resources: Resources) -> Times:
        """See `LocalManager`. Nothing limits the time of its jobs."""
        return NO_LIMITS

    def number(self, claim: str) -> str:
        """See `LocalManager`. Its jobs have no other names than their claims."""
        return ""

    async def run(self) -> None:
        """See `LocalManager`. Raises `JournalError` when the state directory cannot be used,
        another agent's use of it included."""
        settings = self._settings
        fresh_scope = secrets.token_hex(8)
        self._table = JobTable(
            settings.state_directory,
            JobRow,
            boot=boot_id(),
            scope=fresh_scope,
            make_room=settings.make_room,
        )
        self._runs = JobRuns(
            settings,
            scope=self._table.scope,
            jobs=self._jobs,
            places=self._places,
            clock=self._clock,
            post=self._post,
            report=self._report,
            advance=self._advance,
        )
        restoring = JobRestoring(jobs=self._jobs, places=self._places, runs=self._runs)
        try:
            restoring.restore(self._table)
            self._advance()
            self._store_changes()
            self._opened.set()
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(self._runs.watch()),
                    group.create_task(self._renew_forecasts()),
                ]
                if settings.load is not None:
                    load = self._local.run(settings.load, random.Random(settings.seed))
                    helpers.append(group.create_task(load))
                await self._turns.serve(is_done=self._is_done)
                for helper in helpers:
                    helper.cancel()
        finally:
            self._release()

    async def opened(self) -> None:
        await self._opened.wait()

    async def close(self, *, kill: bool = False) -> None:
        await self.opened()
        self._is_closing = True
        self._is_killing = kill
        if kill:
            for claim in self._jobs.by_claim:
                self._runs.post_end(claim, EndCause.WITHDRAWN, "the local manager was closed")
        self._post(self._report_idle)  # wakes the inbox
        await self._closed.wait()

    async def submit(self, placeholder: Placeholder) -> None:
        """See `LocalManager`; a job that could never start is refused, not transient."""
        await self.opened()
        self._require_open()
        if placeholder.claim in self._jobs.by_claim:
            await self._turns.stored()  # the call before may have been cancelled
            return
        self._places.require_possible(placeholder)
        is_faulty = self._rng.random() < self._settings.fault_rate
        is_doomed = is_faulty and self._rng.random() < 0.5
        if is_faulty and not is_doomed:
            message = f"submission of {placeholder.claim} failed: fault_rate drew an error"
            raise LocalManagerError(message, transient=True)
        job = Job(placeholder, Waiting(), is_doomed=is_doomed)
        if placeholder.begins_at:
            self._places.book(job)
        self._jobs.add(job)
        self._places.ask_gpus(job)
        if placeholder.begins_at:
            pass  # the queue has its booking
        elif (
            placeholder.may_kill
            and self._places.is_eligible(job)
            and self._settings.may_kill_local
            and self._local.make_room(placeholder.processors, job.claim)
        ):
            self._places.occupy(job)
            self._runs.begin(job)
        else:
            self._places.enqueue(job)
        self._advance()
        if isinstance(job.state, Waiting):  # else its start is a change already
            self._jobs.save(job)
        await self._turns.stored()

    async def set_gate(self, claim: str, *, is_gated: bool) -> None:
        """See `LocalManager`."""
        await self.opened()
        self._require_open()
        job = self._jobs.by_claim.get(claim)
        if (
            job is not None
            and isinstance(job.state, Waiting)
            and job.placeholder.is_gated != is_gated
        ):
            self._places.change_gate(job, is_gated=is_gated)
            self._jobs.save(job)
            self._advance()
        await self._turns.stored()

    async def withdraw(self, claim: str) -> None:
        await self.opened()
        self._runs.post_end(claim, EndCause.WITHDRAWN, "withdrawn")
        await self._turns.stored()

    def note_start(self, claim: str) -> None:
        """See `LocalManager`: it has started the job itself."""

    def note_left(self, claim: str, *, is_gone: bool) -> None:
        """See `LocalManager`: it sees the end itself."""

    async def listing(self) -> tuple[Listed, ...]:
        await self.opened()
        jobs = self._jobs.by_claim.values()
        return tuple(listed(JobRow(job.placeholder, job.state)) for job in jobs)

    async def find(self, claim: str) -> Listed | None:
        """See `LocalManager`."""
        await self.opened()
        job = self._jobs.by_claim.get(claim)
        return None if job is None else listed(JobRow(job.placeholder, job.state))

    async def idle(self) -> Idle:
        await self.opened()
        self._reported_idle = self._idle_now()  # the next change is one from this
        return self._reported_idle

    def _require_open(self) -> None:
        if self._is_closing:
            raise LocalManagerError("the local manager is closing", transient=True)

    # Turns ------------------------------------------------------------------------------------

    def _store_changes(self) -> None:
        if changes := self._jobs.take_changes():
            self._table.store(changes)

    def _is_done(self) -> bool:
        has_work = not self._turns.is_idle or self._runs.is_starting
        has_work |= self._is_killing and self._jobs.unfinished > 0
        return self._is_closing and not has_work

    def _advance(self) -> None:
        """Start the jobs that the model selects; called at once after every change to the queue."""
        if self._is_closing:
            return  # waiting jobs stay in the stored queue, for the next agent
        for claim, gpus in self._places.gpus.allocate().items():
            job = self._jobs.by_claim[claim]
            job.gpus = gpus
            self._jobs.save(job)
            self._queue.open(claim)
        for key in self._queue.advance(self._clock()):
            if isinstance(key, LocalKey):
                self._local.start(key)
            else:
                self._runs.begin(self._jobs.by_claim[key])
        self._wake_later()
        self._post(self._report_idle)

    def _wake_later(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = None
        if (wake_at := self._queue.wake_at) < math.inf:
            left_s = max(0.0, wake_at - self._clock())
            loop = asyncio.get_running_loop()
            self._wake = loop.call_later(left_s, self._post, self._advance)

    async def _renew_forecasts(self) -> None:
        while True:
            await asyncio.sleep(FORECAST_S)
            self._post(self._report_idle)

    def _report_idle(self) -> None:
        idle = self._idle_now()
        if idle != self._reported_idle:
            self._reported_idle = idle
            self._report(idle)

    def _idle_now(self) -> Idle:
        return self._figures.now(is_closing=self._is_closing)

    def _release(self) -> None:
        """Release this process's resources and leave jobs as they are."""
        try:
            self._runs.release()
            if self._wake is not None:
                self._wake.cancel()
            self._store_changes()
        finally:
            self._table.close()
            self._closed.set()
