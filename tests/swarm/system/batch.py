"""Simulated batch system: the agents' own model of a queue, with the faults of real ones.

It lives on while the agent is gone. Commands take time, fail, succeed without an answer, or find
the controller away. Ended jobs may be forgotten. A placeholder whose node dies may be restarted
once. A job that it reports as gone is gone: the report "ended" comes after the last process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from koala.core.model.values import Instant, Seconds, SiteName
from koala.errors import LocalManagerError
from koala.lab.sim.engine import Engine, Entry
from koala.queue_model import Discipline, LocalQueue, local_queue
from koala_agent.lrm.local_manager import (
    EndCause,
    Ended,
    Listed,
    Queued,
    RequestRefusedError,
    Running,
)
from tests.swarm.breach import require
from tests.swarm.system.faults import FaultPlan

LISTING_S = 30.0
"""Time after which a manager sees that a gate is not what it ordered."""
SIGKILL_S_MAX = 2.0
"""Longest time from a batch system's TERM to its KILL."""


class Runs(Protocol):
    """Processes of a batch job on a node."""

    def signalled(self) -> None:
        """Receive the site's TERM."""

    def killed(self) -> None:
        """Kill all processes at once."""


@dataclass(slots=True, kw_only=True)
class Job:
    """A batch job. `begin` starts its processes on a node and returns them."""

    claim: str
    processors: int
    time_limit_s: Seconds
    begin: Callable[[Job], Runs]
    is_gated: bool = False  # as ordered
    is_shut: bool = False  # in force
    runs: Runs | None = None
    is_unwanted: bool = False
    begins_at: Instant = 0.0  # booked for then; 0: it waits for processors
    queued_at: Instant = 0.0
    end: Ended | None = None
    timers: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Processors of the site."""

    processors: int
    startable: int
    local_processors: int
    queued_jobs: int
    local_queued: int


Answer = Callable[[LocalManagerError | None], None]


class Room(Protocol):
    """Observer of local jobs that die for a claim."""

    def made_room(self, site: SiteName, claim: str, idle: int, killed: list[int]) -> None:
        """Record that local jobs of these sizes were killed, in this order, for this claim, beside
        so many idle processors."""


class BatchSystem:
    """One site's batch system. `on_ended` is set by the running agent, and receives ends."""

    def __init__(
        self,
        engine: Engine,
        plan: FaultPlan,
        site: SiteName,
        *,
        processors: int,
        discipline: Discipline,
        room: Room,
    ) -> None:
        self.queue: LocalQueue[str] = local_queue(processors=processors, discipline=discipline)
        self.jobs: dict[str, Job] = {}
        self.away_until: Instant = 0.0
        self.on_ended: Callable[[Ended], None] | None = None
        self.changed: Callable[[], None] | None = None
        self._engine = engine
        self._plan = plan
        self._site = site
        self._room = room
        self._local_waiting: dict[str, tuple[int, Seconds]] = {}
        self._local_sizes: dict[str, int] = {}  # of those that run, in order of start
        self._locals = 0
        self._wakes_at = math.inf

    # --- commands ---

    def submit(self, job: Job, answer: Answer, *, may_kill: bool) -> None:
        """Queue a job, once per claim."""

        def obey() -> None:
            if job.claim not in self.jobs:
                if job.begins_at:
                    self._book(job)
                self.jobs[job.claim] = job
                job.queued_at = self._engine.now
                if not job.begins_at and not (may_kill and self._make_room(job)):
                    estimate_s = min(job.time_limit_s, 1e9)
                    self.queue.submit(job.claim, processors=job.processors, estimate_s=estimate_s)
                    if job.is_gated:
                        self.queue.gate(job.claim)
                        job.is_shut = True
                self._advance()

        self._command(obey, answer, is_submission=True)

    def _book(self, job: Job) -> None:
        """Book processors for a job, which may begin a little late. The site may delete the booking
        before. Raises RequestRefusedError."""
        now, late_s = self._engine.now, self._plan.stream("bookings").choice((0.0, 0.0, 5.0))
        begin = job.begins_at + late_s
        end = begin + min(job.time_limit_s, 1e9)
        if begin < now or not self.queue.book(
            job.claim, processors=job.processors, begin=begin, end=end, now=now
        ):
            raise RequestRefusedError("the processors are not free then")
        if self._plan.strikes("booking_revoked", now):
            in_s = (begin - now) * self._plan.stream("booking revoked").random()
            self._engine.after(in_s, partial(self._revoke, job))

    def _revoke(self, job: Job) -> None:
        if self.jobs.get(job.claim) is job and job.claim in self.queue.booked:
            self.queue.withdraw(job.claim)
            self._over(job, EndCause.CANCELLED_BY_SITE)
            self._advance()

    def _waits(self, claim: str) -> bool:
        return claim in self.queue.booked or claim in self.queue.order()

    def set_gate(self, claim: str, answer: Answer, *, is_gated: bool) -> None:
        """Gate a waiting job, or open it. The order may be lost without a word: then the manager's
        next listing shows the difference, and the order is given again."""

        def obey() -> None:
            job = self.jobs.get(claim)
            if job is None:
                return
            job.is_gated = is_gated
            if self._plan.strikes("gate_lost", self._engine.now):
                self._engine.after(LISTING_S, lambda: self._repair_gate(job))
            else:
                self._repair_gate(job)

        self._command(obey, answer)

    def _repair_gate(self, job: Job) -> None:
        if self.jobs.get(job.claim) is job and job.claim in self.queue.order():
            (self.queue.gate if job.is_gated else self.queue.open)(job.claim)
            job.is_shut = job.is_gated
            self._advance()

    def withdraw(self, claim: str, answer: Answer) -> None:
        """Dequeue or end a job."""
        self._command(lambda: self._withdraw(claim), answer)

    def listing(self, answer: Callable[[tuple[Listed, ...] | LocalManagerError], None]) -> None:
        """List all known jobs; ended ones may be forgotten."""
        listed: list[Listed] = []

        def obey() -> None:
            for claim, job in list(self.jobs.items()):
                if job.end is not None:
                    if self._plan.strikes("manager_forgets", self._engine.now):
                        del self.jobs[claim]
                    else:
                        listed.append(job.end)
                elif self._waits(claim):
                    listed.append(Queued(claim=claim))
                else:
                    listed.append(Running(claim=claim))

        self._command(obey, lambda error: answer(tuple(listed) if error is None else error))

    def _command(
        self, obey: Callable[[], None], answer: Answer, *, is_submission: bool = False
    ) -> None:
        """Run a command: it takes time, and may fail on the way there or back."""
        engine, plan = self._engine, self._plan

        def reach() -> None:
            now = engine.now
            if now < self.away_until:
                error = LocalManagerError("the controller does not answer", transient=True)
                engine.after(min(9.0, self.away_until - now), lambda: answer(error))
                return
            if is_submission and plan.strikes("manager_error", now):
                answer(LocalManagerError("refused by the queue"))
                return
            if is_submission and plan.strikes("manager_refuses", now):
                answer(RequestRefusedError("more processors than the queue has"))
                return
            if plan.strikes("manager_fails_for_now", now):
                answer(LocalManagerError("try again", transient=True))
                return
            try:
                obey()
            except RequestRefusedError as error:
                answer(error)
                return
            if plan.strikes("manager_deaf", now):
                answer(LocalManagerError("no answer in time", transient=True))
            else:
                answer(None)

        engine.after(plan.command_s(engine.now), reach)

    def gates(self) -> dict[str, bool]:
        """Return the claims that wait, and whether each is gated."""
        gated = self.queue.gated
        return {key: key in gated for key in self.queue.order() if key in self.jobs}

    @property
    def figures(self) -> Figures:
        """Return the processors now."""
        return Figures(
            processors=self.queue.processors,
            startable=self.queue.startable(self._engine.now),
            local_processors=sum(self._local_sizes.values()),
            queued_jobs=self.queue.waiting,
            local_queued=len(self._local_waiting),
        )

    def starts(self, claims: Collection[str]) -> dict[str, Instant]:
        """Expected starts of those of these claims that wait, each as if it were open."""
        waiting = [claim for claim in self.queue.order() if claim in claims]
        return self.queue.forecast(waiting, self._engine.now)

    # --- the queue ---

    def submit_local(self, processors: int, run_s: Seconds) -> None:
        """Submit a job of the site's own users."""
        self._locals += 1
        key = f"local{self._locals}"
        processors = min(processors, self.queue.processors)
        self._local_waiting[key] = processors, run_s
        self.queue.submit(key, processors=processors, estimate_s=run_s)
        self._advance()

    def _advance(self) -> None:
        for key in self.queue.advance(self._engine.now):
            if key in self._local_waiting:
                self._local_sizes[key], run_s = self._local_waiting.pop(key)
                self._engine.after(run_s, partial(self._local_over, key))
            else:
                self._start(self.jobs[key])
        if self.queue.wake_at != self._wakes_at:
            self._wakes_at = self.queue.wake_at
            if self._wakes_at < math.inf:
                self._engine.at(self._wakes_at, self._advance)
        if self.changed is not None:
            self.changed()

    def _local_over(self, key: str) -> None:
        if self._local_sizes.pop(key, None) is not None:  # else it was killed
            self.queue.end(key)
            self._advance()

    def _make_room(self, job: Job) -> bool:
        """Start it at once, and kill the youngest local jobs for that if they suffice."""
        if job.processors > self.queue.idle + sum(self._local_sizes.values()):
            return False
        idle, killed = self.queue.idle, []
        for key in reversed(tuple(self._local_sizes)):
            if job.processors <= self.queue.idle:
                break
            killed.append(self._local_sizes.pop(key))
            self.queue.end(key)
        self._room.made_room(self._site, job.claim, idle, killed)
        until = self._engine.now + min(job.time_limit_s, 1e9)
        self.queue.occupy(job.claim, processors=job.processors, until=until)
        self._start(job)
        return True

    # --- a batch job's life ---

    def _start(self, job: Job) -> None:
        require(not job.is_shut, 9, f"{job.claim} starts at {self._site} and is gated")
        early_s = job.begins_at - self._engine.now
        require(early_s <= 0, 9, f"{job.claim} begins {early_s:g} s before it is booked")
        job.runs = job.begin(job)
        if job.time_limit_s < math.inf:
            limit = partial(self._end_by, job, EndCause.TIME_LIMIT)
            job.timers.append(self._engine.after(job.time_limit_s, limit))

    def _withdraw(self, claim: str) -> None:
        job = self.jobs.get(claim)
        if job is None or job.end is not None:
            return
        if self._waits(claim):
            self.queue.withdraw(claim)
            self._over(job, EndCause.WITHDRAWN)
            self._advance()
        elif not job.is_unwanted:
            job.is_unwanted = True
            self._end_by(job, EndCause.WITHDRAWN)

    def _end_by(self, job: Job, cause: EndCause) -> None:
        """End a job with TERM, and KILL after a while; the first cause counts."""
        if job.runs is None or job.end is not None:
            return
        runs = job.runs
        kill_s = SIGKILL_S_MAX * self._plan.stream("batch kill").random()
        job.timers.append(self._engine.after(kill_s, partial(self._kill, job, cause)))
        runs.signalled()

    def _kill(self, job: Job, cause: EndCause) -> None:
        if job.runs is not None:
            runs, job.runs = job.runs, None
            runs.killed()
            self._leave(job, cause)

    def exited(self, job: Job) -> None:
        """Handle the end of its processes, the last one included."""
        if job.runs is not None:
            job.runs = None
            self._leave(job, EndCause.WITHDRAWN if job.is_unwanted else EndCause.EXITED)

    def _leave(self, job: Job, cause: EndCause) -> None:
        for timer in job.timers:
            timer.cancel()
        job.timers.clear()
        self.queue.end(job.claim)
        self._over(job, cause)
        self._advance()

    def _over(self, job: Job, cause: EndCause) -> None:
        ended = job.end = Ended(claim=job.claim, cause=cause)
        delay_s = self._plan.stream("news").choice((0.01, 0.1, 1.0))
        self._engine.after(delay_s, lambda: self._tell(job, ended))

    def _tell(self, job: Job, ended: Ended) -> None:
        """Report to the current agent; an absent one finds it in a listing. The end of a forgotten
        job is not reported for another job of the same claim."""
        if self.on_ended is not None and self.jobs.get(job.claim, job) is job:
            self.on_ended(ended)

    # --- what the site does ---

    def lose_node(self, claim: str) -> None:
        """Kill a node, or all processes of the job; it may be restarted once."""
        job = self.jobs.get(claim)
        if job is None or job.runs is None:
            return
        runs, job.runs = job.runs, None
        runs.killed()
        if job.is_unwanted or not self._plan.strikes("requeue", self._engine.now):
            self._leave(job, EndCause.LOST)
            return
        for timer in job.timers:
            timer.cancel()
        job.timers.clear()
        self.queue.end(claim)
        self.queue.submit(claim, processors=job.processors, estimate_s=60.0)
        self._engine.after(LISTING_S, lambda: self._repair_gate(job))
        self._advance()

    def cancel_as_site(self, claim: str) -> None:
        """Cancel a placeholder as the site's staff would."""
        job = self.jobs.get(claim)
        if job is None or job.end is not None:
            return
        if self._waits(claim):
            self.queue.withdraw(claim)
            self._over(job, EndCause.CANCELLED_BY_SITE)
            self._advance()
        else:
            self._end_by(job, EndCause.CANCELLED_BY_SITE)

    def lives(self, claim: str, *, since: Instant) -> bool:
        """True if the batch job of a claim waits or runs, and did then."""
        job = self.jobs.get(claim)
        return job is not None and job.end is None and job.queued_at <= since

    @property
    def alive(self) -> list[str]:
        """List the claims whose batch jobs wait or run."""
        return [claim for claim, job in self.jobs.items() if job.end is None]
