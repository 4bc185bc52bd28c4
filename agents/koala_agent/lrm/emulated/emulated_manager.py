"""The emulated local manager: the model of a queue on the wall clock, with real processes.

It replaces a batch system in demonstrations, in tests and on a single large machine. Jobs are real
processes in sessions of their own; they go on when the agent is killed, and the next agent with the
same state directory finds them, or finds that they ended.

- A job's processors are freed, and its end is reported, when none of its processes is left.
- The job table is written before a process is started and after. A job found between the two after
  a crash is ended and reported as lost, never run twice. Changes of one turn are one transaction.
- After a reboot everything that had not ended is lost.
- A gated job keeps its place in the queue, also over a restart. One that waits for GPUs is gated in
  the queue, too.
- Local users' jobs are virtual and do not survive a restart (`local_load`).

One task owns all state and takes its events (a process exited, a limit passed, a local job arrived)
from an inbox, all that wait in one turn. An event is handled when all changes that were made before
it was posted are stored: what rests on a change is posted after it. An error in any event ends
`run` and with it the agent, rather than be logged.
It is no machine with a driver (`common.runtime.driver`): each job has timers of its own and starts
processes.
"""

from __future__ import annotations

import asyncio
import math
import random
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

from koala.common.protocol.messages import Resources, SiteResources
from koala.common.protocol.queue_limits import NO_LIMITS, Times
from koala.common.runtime.clock import boot_id, unix_now
from koala.errors import LocalManagerError
from koala.queue_model import LocalQueue, local_queue
from koala_agent.lrm.claim_processes import ProcessIdentity, scan, tag_of
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings
from koala_agent.lrm.emulated.first_processes import Failure, FirstProcesses, JobCallbacks
from koala_agent.lrm.emulated.gpu_pool import VARIABLE, GpuPool
from koala_agent.lrm.emulated.local_load import LocalKey, LocalLoad
from koala_agent.lrm.emulated.process_trees import ProcessTrees, Usage
from koala_agent.lrm.emulated.start_forecasts import FORECAST_S, StartForecasts
from koala_agent.lrm.job_table import (
    Alive,
    JobRow,
    JobTable,
    Leaving,
    Over,
    Starting,
    State,
    Waiting,
    listed,
)
from koala_agent.lrm.launch import check
from koala_agent.lrm.local_manager import (
    EndCause,
    Idle,
    Listed,
    OnReport,
    Placeholder,
    RequestRefusedError,
    Running,
)
from koala_agent.lrm.outlook import short_holes

_TURN_MAX = 16
"""Events of one turn. A launch without a resident parent takes a millisecond, and the agent has
more to do."""
_ENDED_MAX = 10_000
"""Ended jobs that are kept to be listed; the agent's claim table is the long memory."""


@dataclass(slots=True, eq=False)
class _Job:
    placeholder: Placeholder
    state: State
    gpus: tuple[int, ...] = ()
    is_doomed: bool = False
    is_launching: bool = False
    """A process was ordered, and its start was not handled."""
    ordered_end: tuple[EndCause, str] | None = None
    """An end that was ordered meanwhile."""
    limit: asyncio.TimerHandle | None = None
    usage: Usage = field(default_factory=Usage)
    """Usage of the first process and of those it waited for, once it has exited."""

    @property
    def claim(self) -> str:
        return self.placeholder.claim


_Key = str | LocalKey


class EmulatedLocalManager:
    """`LocalManager` over processes of this machine.

    `clock` gives seconds since boot that count suspended time (CLOCK_BOOTTIME), `calendar` those
    since the epoch.
    """

    def __init__(
        self,
        settings: EmulatedSettings,
        *,
        on_report: OnReport,
        clock: Callable[[], float],
        calendar: Callable[[], float] = unix_now,
    ) -> None:
        self._settings = settings
        self._report = on_report
        self._clock = clock
        self._calendar = calendar
        self._rng = random.Random(settings.seed)
        self._queue: LocalQueue[_Key] = local_queue(
            processors=settings.processors, discipline=settings.discipline
        )
        self._local = LocalLoad(self._queue, clock=clock, post=self._post, advance=self._advance)
        self._forecasts = StartForecasts(self._queue, clock=clock)
        self._gpus = GpuPool(settings.gpus)
        self._resources = SiteResources(gpus=settings.gpus)
        self._wake: asyncio.TimerHandle | None = None
        """For the next reservation, where the discipline makes them."""
        self._jobs: dict[str, _Job] = {}
        self._unstored: dict[str, JobRow | None] = {}
        """Changes for the next transaction; None for a job to be forgotten."""
        self._ended: deque[str] = deque()
        self._unfinished = 0
        self._reported_idle: Idle | None = None
        self._inbox: asyncio.Queue[Callable[[], None]] = asyncio.Queue()
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
        self._loop = asyncio.get_running_loop()
        fresh_scope = secrets.token_hex(8)
        self._table = JobTable(
            settings.state_directory,
            JobRow,
            boot=boot_id(),
            scope=fresh_scope,
            make_room=settings.make_room,
        )
        self._trees = ProcessTrees(
            scope=self._table.scope,
            kill_s=settings.kill_s,
            sample_s=settings.sample_s,
            clock=self._clock,
            gone=lambda claim, usage: self._post(partial(self._claim_gone, claim, usage)),
        )
        self._first = FirstProcesses(
            environment=settings.environment,
            umask=settings.umask,
            switches=settings.switches,
            scope=self._table.scope,
            clock=self._clock,
            callbacks=JobCallbacks(
                started=lambda *started: self._post(partial(self._started, *started)),
                failed=lambda claim, failure: self._post(partial(self._failed, claim, failure)),
                exited=lambda claim: self._post(partial(self._handle_exit, claim)),
            ),
        )
        try:
            self._restore()
            self._store_changes()
            self._opened.set()
            async with asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(self._trees.run()),
                    group.create_task(self._renew_forecasts()),
                ]
                if settings.load is not None:
                    load = self._local.run(settings.load, random.Random(settings.seed))
                    helpers.append(group.create_task(load))
                await self._serve()
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
            for claim in self._jobs:
                self._post_end(claim, EndCause.WITHDRAWN, "the local manager was closed")
        self._post(self._report_idle)  # wakes the inbox
        await self._closed.wait()

    async def submit(self, placeholder: Placeholder) -> None:
        """See `LocalManager`; a job that could never start is refused, not transient."""
        await self.opened()
        self._require_open()
        if placeholder.claim in self._jobs:
            await self._stored()  # the call before may have been cancelled
            return
        check(placeholder, self._settings.processors)
        gpus = placeholder.resources.gpus or 0
        if gpus > self._gpus.total:
            message = f"{placeholder.claim} asks for {gpus} GPUs: this site has {self._gpus.total}"
            raise RequestRefusedError(message)
        is_faulty = self._rng.random() < self._settings.fault_rate
        is_doomed = is_faulty and self._rng.random() < 0.5
        if is_faulty and not is_doomed:
            message = f"submission of {placeholder.claim} failed: fault_rate drew an error"
            raise LocalManagerError(message, transient=True)
        job = _Job(placeholder, Waiting(), is_doomed=is_doomed)
        if placeholder.begins_at:
            self._book(job)
        self._jobs[job.claim] = job
        self._unfinished += 1
        if gpus:
            self._ask_gpus(job)
        if placeholder.begins_at:
            pass  # the queue has its booking
        elif (
            placeholder.may_kill
            and self._is_eligible(job)
            and self._settings.may_kill_local
            and self._local.make_room(placeholder.processors, job.claim)
        ):
            self._occupy(job)
            self._begin(job)
        else:
            self._enqueue(job)
        self._advance()
        if isinstance(job.state, Waiting):  # else its start is a change already
            self._save(job)
        await self._stored()

    async def set_gate(self, claim: str, *, is_gated: bool) -> None:
        """See `LocalManager`."""
        await self.opened()
        self._require_open()
        job = self._jobs.get(claim)
        if (
            job is not None
            and isinstance(job.state, Waiting)
            and job.placeholder.is_gated != is_gated
        ):
            self._change_gate(job, is_gated=is_gated)
        await self._stored()

    async def withdraw(self, claim: str) -> None:
        await self.opened()
        self._post_end(claim, EndCause.WITHDRAWN, "withdrawn")
        await self._stored()

    def note_start(self, claim: str) -> None:
        """See `LocalManager`: it has started the job itself."""

    def note_left(self, claim: str, *, is_gone: bool) -> None:
        """See `LocalManager`: it sees the end itself."""

    async def listing(self) -> tuple[Listed, ...]:
        await self.opened()
        return tuple(listed(JobRow(job.placeholder, job.state)) for job in self._jobs.values())

    async def find(self, claim: str) -> Listed | None:
        """See `LocalManager`."""
        await self.opened()
        job = self._jobs.get(claim)
        return None if job is None else listed(JobRow(job.placeholder, job.state))

    async def idle(self) -> Idle:
        await self.opened()
        self._reported_idle = self._idle_now()  # the next change is one from this
        return self._reported_idle

    def _require_open(self) -> None:
        if self._is_closing:
            raise LocalManagerError("the local manager is closing", transient=True)

    # The inbox --------------------------------------------------------------------------------

    def _post(self, event: Callable[[], None]) -> None:
        self._inbox.put_nowait(event)

    async def _serve(self) -> None:
        while not self._is_done():
            events = [await self._inbox.get()]
            while len(events) < _TURN_MAX and not self._inbox.empty():
                events.append(self._inbox.get_nowait())
            self._store_changes()  # those of submissions, on which an event may rest
            for event in events:
                event()
            self._store_changes()
            await asyncio.sleep(0)

    def _store_changes(self) -> None:
        changes, self._unstored = self._unstored, {}
        if changes:
            self._table.store(changes)

    async def _stored(self) -> None:
        """Wait until what was changed or posted so far is handled and stored."""
        stored = self._loop.create_future()
        self._post(partial(self._post, partial(_complete, stored)))
        await stored

    def _is_done(self) -> bool:
        has_work = not self._inbox.empty() or self._first.is_starting
        has_work |= self._is_killing and self._unfinished > 0
        return self._is_closing and not has_work

    def _book(self, job: _Job) -> None:
        """Book the processors of a job. Raises RequestRefusedError."""
        asked = job.placeholder
        if not self.books:
            raise RequestRefusedError("this site books no processors (site.booking_ahead_s = 0)")
        if asked.resources.gpus:
            raise RequestRefusedError("this site books no GPUs (expected a booking without them)")
        now, in_s = self._clock(), asked.begins_at - self._calendar()
        if in_s < 0:
            raise RequestRefusedError(f"a booking that was to begin {-in_s:.0f} s ago")
        begin = now + in_s
        if not self._queue.book(
            job.claim,
            processors=asked.processors,
            begin=begin,
            end=begin + asked.time_limit_s,
            now=now,
        ):
            free = f"{asked.processors} processors are not free for {asked.time_limit_s:.0f} s then"
            raise RequestRefusedError(f"a booking in {in_s:.0f} s: {free}")

    def _enqueue(self, job: _Job) -> None:
        asked = job.placeholder
        self._queue.submit(job.claim, processors=asked.processors, estimate_s=asked.time_limit_s)
        if not self._is_eligible(job):
            self._queue.gate(job.claim)

    def _is_eligible(self, job: _Job) -> bool:
        """Return False for a job that is gated, or waits for GPUs."""
        return not job.placeholder.is_gated and not self._lacks_gpus(job)

    def _lacks_gpus(self, job: _Job) -> bool:
        return bool(job.placeholder.resources.gpus) and not job.gpus

    def _ask_gpus(self, job: _Job) -> None:
        self._gpus.ask(job.claim, job.placeholder.resources.gpus or 0)
        if job.placeholder.is_gated:
            self._gpus.gate(job.claim)

    def _change_gate(self, job: _Job, *, is_gated: bool) -> None:
        """Gate or open a waiting job."""
        job.placeholder = replace(job.placeholder, is_gated=is_gated)
        if is_gated:
            self._gpus.gate(job.claim)
            job.gpus = ()
            self._queue.gate(job.claim)
        else:
            self._gpus.open(job.claim)
            if self._is_eligible(job):
                self._queue.open(job.claim)
        self._save(job)
        self._advance()

    def _advance(self) -> None:
        """Start the jobs that the model selects; called at once after every change to the queue."""
        if self._is_closing:
            return  # waiting jobs stay in the stored queue, for the next agent
        for claim, gpus in self._gpus.allocate().items():
            job = self._jobs[claim]
            job.gpus = gpus
            self._save(job)
            self._queue.open(claim)
        for key in self._queue.advance(self._clock()):
            if isinstance(key, LocalKey):
                self._local.start(key)
            else:
                self._begin(self._jobs[key])
        self._wake_later()
        self._post(self._report_idle)

    def _wake_later(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = None
        if (wake_at := self._queue.wake_at) < math.inf:
            left_s = max(0.0, wake_at - self._clock())
            self._wake = self._loop.call_later(left_s, self._post, self._advance)

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
        # Nothing starts any more once we are closing, not even what would fit.
        startable = 0 if self._is_closing else self._queue.startable(self._clock())
        return Idle(
            processors=self._settings.processors,
            idle=self._queue.idle,
            startable=startable,
            queued_jobs=self._queue.waiting,
            local_processors=self._local.processors,
            idle_gpus=0 if self._is_closing else self._gpus.idle,
            resources=self._resources,
            waits=self._forecasts.waits(
                is_known=lambda claim: not self._lacks_gpus(self._jobs[claim])
            ),
            foreign_queued=self._local.waiting,
            outlook=self._forecasts.outlook(),
            holes=() if self._is_closing else short_holes(self._queue, self._clock(), startable),
            why=self._why_no_more(startable),
        )

    def _why_no_more(self, startable: int) -> str:
        idle, others = self._queue.idle, self._local.waiting
        if self._is_closing or startable == idle:
            return "" if idle else f"all {self._settings.processors} are in use"
        if others:
            verb = "waits" if others == 1 else "wait"
            who = f"{others} job{'s' if others > 1 else ''} of local users {verb}"
        else:
            who = "claims of Koala wait"
        return f"{idle} idle, but {who} for processors"

    # From a job's begin to its end ------------------------------------------------------------

    def _begin(self, job: _Job) -> None:
        self._change(job, Starting())
        self._post(partial(self._launch, job))

    def _launch(self, job: _Job) -> None:
        if not isinstance(job.state, Starting):
            return
        if job.is_doomed:
            self._begin_end(job, EndCause.LOST, "start failed: fault_rate drew an error")
            return
        job.is_launching = True
        self._first.start(self._with_gpus(job))

    def _started(self, claim: str, leader: ProcessIdentity, earlier_cpu_s: float) -> None:
        job = self._jobs[claim]
        job.is_launching = False
        alive = Alive(leader, self._clock(), earlier_cpu_s)
        self._change(job, alive)
        self._watch(job, alive)
        self._post(partial(self._report, Running(claim=job.claim)))
        if job.ordered_end is not None:
            self._begin_end(job, *job.ordered_end)

    def _failed(self, claim: str, failure: Failure) -> None:
        job = self._jobs[claim]
        job.is_launching = False
        cause, reason = job.ordered_end or (failure.cause, failure.reason)
        self._begin_end(job, cause, reason, exit_status=failure.exit_status)

    def _with_gpus(self, job: _Job) -> Placeholder:
        """Return the job with the variable that shows its GPUs, where the site has any."""
        if not self._gpus.total:
            return job.placeholder
        shown = (VARIABLE, ",".join(map(str, job.gpus)))
        environment = (*job.placeholder.environment, shown)
        return replace(job.placeholder, environment=environment)

    def _watch(self, job: _Job, alive: Alive) -> None:
        """Sample the usage of a living first process, and end it at its time limit."""
        self._trees.watch(job.claim, alive.leader, alive.earlier_cpu_s)
        self._set_limit(job, alive)

    def _set_limit(self, job: _Job, alive: Alive) -> None:
        left_s = alive.started_at + job.placeholder.time_limit_s - self._clock()
        if left_s < math.inf:
            late = partial(self._limit_passed, job)
            job.limit = self._loop.call_later(max(0.0, left_s), self._post, late)

    def _limit_passed(self, job: _Job) -> None:
        if isinstance(job.state, Alive):
            limit_s = job.placeholder.time_limit_s
            self._begin_end(job, EndCause.TIME_LIMIT, f"time limit of {limit_s:g} s")

    def _handle_exit(self, claim: str) -> None:
        """Handle the exit of the first process, once."""
        job = self._jobs.get(claim)
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
                self._change(job, Leaving(cause, reason, end.status, leader))
                self._trees.end(job.claim)
            case Waiting() | Starting() | Over():
                raise AssertionError((job.claim, job.state))

    def _post_end(self, claim: str, cause: EndCause, reason: str) -> None:
        """Order the end of a job, if there is one, after all that was posted."""
        if claim in self._jobs:
            self._post(partial(self._end_by, self._jobs[claim], cause, reason))

    def _end_by(self, job: _Job, cause: EndCause, reason: str) -> None:
        """End a job on request, whatever its state."""
        match job.state:
            case Waiting():
                self._queue.withdraw(job.claim)
                self._finish(job, Over(cause, reason, None, 0.0, 0))
                self._advance()
            case Starting() if job.is_launching:
                job.ordered_end = job.ordered_end or (cause, reason)
            case Starting():
                self._queue.end(job.claim)
                self._finish(job, Over(cause, reason, None, 0.0, 0))
                self._advance()
            case Alive():
                self._begin_end(job, cause, reason)
            case Leaving() | Over():
                pass
            case _:
                assert_never(job.state)

    def _begin_end(
        self, job: _Job, cause: EndCause, reason: str, *, exit_status: int | None = None
    ) -> None:
        """Begin the end of a job: its processes are ended, then `_claim_gone` follows."""
        leader = job.state.leader if isinstance(job.state, Alive) else None
        self._change(job, Leaving(cause, reason, exit_status, leader))
        self._cancel_limit(job)
        self._trees.end(job.claim, leader, is_script=bool(job.placeholder.body))

    def _cancel_limit(self, job: _Job) -> None:
        if job.limit is not None:
            job.limit.cancel()
            job.limit = None

    def _claim_gone(self, claim: str, seen: Usage) -> None:
        """Finish a claim of which no process is left."""
        job = self._jobs.get(claim)
        if job is None or not isinstance(job.state, Leaving):
            return  # a stray of an earlier run
        self._handle_exit(claim)
        state = job.state
        assert isinstance(state, Leaving)
        cpu_s = max(seen.cpu_s, job.usage.cpu_s)
        peak = max(seen.peak_memory_bytes, job.usage.peak_memory_bytes)
        self._queue.end(claim)
        self._finish(job, Over(state.cause, state.reason, state.exit_status, cpu_s, peak))
        self._advance()

    def _finish(self, job: _Job, over: Over) -> None:
        self._change(job, over)
        # After it is stored: no two stored claims that have not ended have the same process.
        self._post(partial(self._first.reuse, job.claim))
        self._gpus.release(job.claim)
        self._unfinished -= 1
        self._remember_end(job.claim)
        self._post(partial(self._report, listed(JobRow(job.placeholder, job.state))))

    def _remember_end(self, claim: str) -> None:
        self._ended.append(claim)
        if len(self._ended) > _ENDED_MAX:
            oldest = self._ended.popleft()
            del self._jobs[oldest]
            self._unstored[oldest] = None

    def _change(self, job: _Job, state: State) -> None:
        job.state = state
        self._save(job)

    def _save(self, job: _Job) -> None:
        placeholder = job.placeholder
        if isinstance(job.state, Over):  # its script is long, and contains a secret
            placeholder = replace(placeholder, body="")
        self._unstored[job.claim] = JobRow(placeholder, job.state, job.gpus)

    # Coming and going -------------------------------------------------------------------------

    def _restore(self) -> None:
        """Restore the jobs of an earlier run from the state directory."""
        records = self._table.load()
        was_booted = not self._table.is_of_this_boot
        for record in records:
            job = _Job(record.placeholder, record.state, record.gpus)
            self._jobs[job.claim] = job
            if isinstance(job.state, Over):
                self._remember_end(job.claim)
                continue
            self._unfinished += 1
            if was_booted:
                self._finish(job, Over(EndCause.LOST, "the machine was restarted", None, 0.0, 0))
            else:
                self._restore_job(job)
        if was_booted:
            self._table.belongs_to_this_boot()
        self._end_strays()
        self._advance()

    def _restore_job(self, job: _Job) -> None:
        """Restore a job of an earlier run that had not ended."""
        if job.gpus:
            self._gpus.occupy(job.claim, job.gpus)
        if isinstance(job.state, Waiting):
            self._restore_waiting(job)
            return
        self._occupy(job)
        match job.state:
            case Starting():
                job.is_launching = True
                self._first.resume(self._with_gpus(job))
            case Alive(leader=leader) as alive:
                try:
                    self._first.adopt(job.claim, leader)
                except ProcessLookupError:
                    self._begin_end(job, EndCause.EXITED, "ended while no agent ran")
                else:
                    self._watch(job, alive)
            case Leaving(leader=first):
                self._trees.end(job.claim, first, is_script=bool(job.placeholder.body))
            case Over():
                raise AssertionError(job.claim)

    def _restore_waiting(self, job: _Job) -> None:
        asked, gpus = job.placeholder, job.placeholder.resources.gpus or 0
        if asked.processors > self._settings.processors or gpus > self._gpus.total:
            has = f"{self._settings.processors} processors and {self._gpus.total} GPUs"
            self._finish(job, Over(EndCause.LOST, f"the site has only {has} now", None, 0.0, 0))
        elif asked.begins_at:
            self._rebook(job)
        else:
            if self._lacks_gpus(job):
                self._ask_gpus(job)
            self._enqueue(job)

    def _rebook(self, job: _Job) -> None:
        """Restore a booking. One that should have begun meanwhile begins now, if it finds room."""
        asked, now = job.placeholder, self._clock()
        begin = now + max(0.0, asked.begins_at - self._calendar())
        end = begin + asked.time_limit_s
        if not self._queue.book(
            job.claim, processors=asked.processors, begin=begin, end=end, now=now
        ):
            reason = "its booking could not be kept: its processors have other jobs"
            self._finish(job, Over(EndCause.LOST, reason, None, 0.0, 0))

    def _occupy(self, job: _Job) -> None:
        asked = job.placeholder
        if asked.processors > self._queue.idle:
            message = (
                f"{self._settings.state_directory} holds running claims on more processors than "
                f"the {self._settings.processors} of this site: {job.claim} finds no room"
            )
            raise LocalManagerError(message)
        began_at = job.state.started_at if isinstance(job.state, Alive) else self._clock()
        until = began_at + asked.time_limit_s
        self._queue.occupy(job.claim, processors=asked.processors, until=until)

    def _end_strays(self) -> None:
        """End processes of an earlier run that are no longer wanted."""
        scope = self._table.scope
        tags = {tag_of(claim, scope=scope): claim for claim in self._jobs}
        for process in scan().seen:
            carried = process.claim if process.scope == scope else None
            claim = tags.get(process.tag or 0, carried)
            job = None if claim is None else self._jobs.get(claim)
            if claim and (job is None or isinstance(job.state, Waiting | Over)):
                self._trees.end(claim)

    def _release(self) -> None:
        """Release this process's resources and leave jobs as they are."""
        try:
            self._first.close()
            if self._wake is not None:
                self._wake.cancel()
            for job in self._jobs.values():
                if job.limit is not None:
                    job.limit.cancel()
                if isinstance(job.state, Starting) and not job.is_launching:
                    # Cancelled before its launch: there is no process, so it may wait again.
                    self._change(job, Waiting())
            self._store_changes()
        finally:
            self._table.close()
            self._closed.set()


def _complete(future: asyncio.Future[None]) -> None:
    """Complete a future, unless its waiter was cancelled."""
    if not future.done():
        future.set_result(None)
