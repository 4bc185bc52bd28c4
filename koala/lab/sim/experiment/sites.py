"""A site of an experiment: a local manager, its own users' jobs, and the claims of the scheduler.

It acts as an agent and its starters without sessions and leases: each order is answered by its
outcome. One pass of the local manager sees all that ends or arrives at one instant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from koala.core.model.actions import (
    ArmClaim,
    ClaimProcessors,
    ReleaseClaim,
    ResizeClaim,
    StopClaim,
    TryPaths,
)
from koala.core.model.events import (
    ClaimArmed,
    ClaimGone,
    ClaimGranted,
    ClaimPassed,
    Event,
    PathsTried,
    SiteReported,
)
from koala.core.model.job import ArmNumber, ClaimEnd, EndKind
from koala.core.model.values import ClaimId, Instant, Seconds
from koala.lab.sim.engine import Engine, Entry, Rank
from koala.lab.sim.experiment.programs import Programs
from koala.lab.sim.experiment.setting import Faults, LocalJob, SiteSetting
from koala.lab.sim.experiment.usage import Usage, Use
from koala.queue_model import LocalQueue, local_queue

Order = ClaimProcessors | TryPaths | ArmClaim | ReleaseClaim | ResizeClaim | StopClaim

_LOCAL = int(Use.LOCAL)  # a member takes four times as long to read
FORECAST_S = 300.0
"""Time between two reports of when tickets would start."""
WALL_TIME_S = 3600.0  # of a component that names none; what an agent takes, too


@dataclass(slots=True, kw_only=True)
class LocalUsers:
    """Counters of the site's own users' jobs."""

    submitted: int = 0
    started: int = 0
    finished: int = 0
    lost: int = 0  # ran, or were submitted, while the site was down
    too_large: int = 0
    waited_s: Seconds = 0.0  # all that were started together
    waits_s: list[Seconds] = field(default_factory=list)  # of each, if the setting keeps them


@dataclass(slots=True, kw_only=True)
class _Held:
    """A claim at the site. `next` is its pending timeout: the end of its grace (a ticket has none),
    its hold or its run."""

    order: ClaimProcessors
    next: Entry | None = None
    hold_until: Instant | None = None  # None: not started
    armed: ArmNumber | None = None
    passed_at: Instant | None = None
    gives_way: bool = False


class Site:
    """One site. `receive` handles the scheduler's orders; `emit` receives the site's events."""

    def __init__(
        self,
        engine: Engine,
        setting: SiteSetting,
        *,
        faults: Faults,
        programs: Programs,
        usage: Usage,
        emit: Callable[[Event], None],
    ) -> None:
        self.setting = setting
        self.name = setting.name
        self.is_down = False
        self.reports_on_request = False
        self.passed_at: Instant | None = None
        """The last pass, if the figure that it left was not computed yet."""
        self.has_figure = False
        """A figure was computed since the last report."""
        self.users = LocalUsers()
        self.claims: dict[ClaimId, _Held] = {}
        self.given_back = 0
        """Claims that held processors, and ended before the barrier."""
        self.queue = self._empty_queue()
        self._engine = engine
        self._faults = faults
        self._programs = programs
        self._usage = usage
        self._emit = emit
        self._arriving: Iterator[LocalJob] = iter(setting.local_jobs)
        self._next_local: LocalJob | None = None
        self._waiting: dict[int, LocalJob] = {}
        self._waiting_claims = 0
        self._running: dict[int, LocalJob] = {}
        self._through = 0
        self._figure: tuple[int, int] = (setting.facts.processors, 0)
        """Idle processors after the last pass, and the newest claim that they include."""
        self._reported = self._figure
        self._is_pass_due = False
        self._is_unwatched = False
        """The site is down, and its users' jobs arrive without an entry of the engine: they are
        lost, so nobody looks before `count_lost`."""
        self._wake: Entry | None = None
        self._has_other_tickets = False
        """Tickets came or went since it was told when they would start."""
        self._next_forecast: Entry | None = None

    @property
    def is_left(self) -> bool:
        """True when all jobs of the site's own users have arrived and none is left here."""
        self.count_lost(self._engine.now)
        return not (self._next_local is not None or self._waiting or self._running)

    def begin(self) -> None:
        """Start the submissions of the site's own users."""
        self._next_local = first = next(self._arriving, None)
        if first is not None:
            self._engine.surely_at(first.at, self._submit_local)

    def receive(self, order: Order) -> None:
        """Handle an order of the scheduler."""
        match order:
            case ClaimProcessors():
                self._claim(order)
            case TryPaths(claim=claim):
                self._send(PathsTried(claim=claim))
            case ArmClaim():
                self._arm(order)
            case ReleaseClaim():
                self._release(order)
            case ResizeClaim(claim=claim, leave_s=leave_s):
                if leave_s is not None:
                    self._give_way(claim)
            case StopClaim(claim=claim):
                if claim in self.claims:
                    self._end(claim, EndKind.STOPPED, "stopped")

    # --- claims ---

    def _claim(self, order: ClaimProcessors) -> None:
        claim = order.claim
        if claim in self.claims:
            self._set_gate(order)
            return
        self._compute_figure()
        self._through = max(self._through, order.ask_number)
        errs = self._faults.claim_errs(self.name, self._engine.now)
        held = _Held(order=order)
        if self.is_down or errs or order.processors > self.setting.facts.processors:
            self._gone(held, EndKind.FAILED, "the local manager erred")
            return
        self.claims[claim] = held
        self._waiting_claims += 1
        self._pass_soon()
        wall_time_s = order.program.wall_time_s or WALL_TIME_S
        if order.begins_at:
            self._book(held, order.begins_at + order.hold_s + wall_time_s)
            return
        self.queue.submit(
            claim,
            processors=order.processors,
            estimate_s=order.hold_s + wall_time_s,
            user=order.owner,
        )
        if order.is_gated:
            self.queue.gate(claim)
        if order.waits:
            self._has_other_tickets = True
            return
        grace_s = self.setting.facts.grace_s
        held.next = self._engine.after(
            grace_s, lambda: self._end(claim, EndKind.REFUSED, "not started within the grace time")
        )

    def _book(self, held: _Held, end: Instant) -> None:
        """Keep processors free for a claim until it ends, or refuse it."""
        order, now = held.order, self._engine.now
        if not self.queue.book(
            order.claim, processors=order.processors, begin=order.begins_at, end=end, now=now
        ):
            del self.claims[order.claim]
            self._waiting_claims -= 1
            self._gone(held, EndKind.REFUSED, "its processors are not free then")

    def _set_gate(self, order: ClaimProcessors) -> None:
        """Gate or open a claim, unless it has started."""
        held = self.claims[order.claim]
        if held.hold_until is not None or held.order.is_gated == order.is_gated:
            return
        self._pass_soon()
        held.order = order
        if order.is_gated:
            self.queue.gate(order.claim)
        else:
            self.queue.open(order.claim)

    def _start_claim(self, claim: ClaimId) -> None:
        held = self.claims[claim]
        now = self._engine.now
        self._has_other_tickets |= held.order.waits
        self._waiting_claims -= 1
        self._cancel_next(held)
        self._usage.add(self.name, Use.HELD, held.order.processors, now)
        held.hold_until = now + held.order.hold_s
        self._send(ClaimGranted(claim=claim, nonce=f"{claim}#1"))
        if held.order.no_barrier:
            self._pass_barrier(claim)
        else:
            held.next = self._engine.at(
                held.hold_until, lambda: self._end(claim, EndKind.HOLD, "its hold deadline came")
            )

    def _arm(self, order: ArmClaim) -> None:
        held = self.claims.get(order.claim)
        if held is None or held.hold_until is None or held.passed_at is not None:
            return
        if held.hold_until >= self._engine.now + order.late_s:
            held.armed = order.number
            self._send(ClaimArmed(claim=order.claim, number=order.number))

    def _release(self, order: ReleaseClaim) -> None:
        held = self.claims.get(order.claim)
        if held is None or held.armed != order.number or held.passed_at is not None:
            return
        self._cancel_next(held)
        held.next = self._engine.at(order.release_at, lambda: self._pass_barrier(order.claim))

    def _pass_barrier(self, claim: ClaimId) -> None:
        held, now = self.claims[claim], self._engine.now
        held.passed_at = now
        processors = held.order.processors
        self._usage.add(self.name, Use.HELD, -processors, now)
        self._usage.add(self.name, Use.RUNNING, processors, now)
        self._send(ClaimPassed(claim=claim, passed_at=now))
        run_s, status = self._programs.begin(claim, processors, lambda: self._exit(claim))
        wall_time_s = held.order.program.wall_time_s
        kind, reason = EndKind.EXITED, ""
        if wall_time_s is not None and wall_time_s < run_s:
            kind, reason, run_s = EndKind.WALL_TIME, "its wall time is over", wall_time_s
        fails_after_s = self._faults.fails_after(self.name, run_s, now)
        if fails_after_s is not None:
            kind, reason, run_s = EndKind.VANISHED, "its processor was lost", fails_after_s
        held.next = self._engine.after(run_s, lambda: self._end(claim, kind, reason, status))

    def _exit(self, claim: ClaimId) -> None:
        """End a component whose program is over."""
        self._end(claim, EndKind.EXITED, "")

    def _give_way(self, claim: ClaimId) -> None:
        """Let a component give way, unless it does already or ends sooner."""
        held = self.claims.get(claim)
        if held is None or held.passed_at is None or held.gives_way:
            return
        held.gives_way = True
        leave_at = self._engine.now + self._programs.leave_s(claim)
        if held.next is None or held.next.at > leave_at:
            self._cancel_next(held)
            held.next = self._engine.at(leave_at, lambda: self._exit(claim))

    def _end(self, claim: ClaimId, kind: EndKind, reason: str, status: int = 0) -> None:
        """Remove a claim that was here."""
        held = self.claims.pop(claim)
        self._cancel_next(held)
        self._pass_soon()
        if held.hold_until is None:
            self._waiting_claims -= 1
            self._has_other_tickets |= held.order.waits
            self.queue.withdraw(claim)
        else:
            self.queue.end(claim)
            self._programs.note_end(claim)
            self.given_back += held.passed_at is None
            use = Use.HELD if held.passed_at is None else Use.RUNNING
            self._usage.add(self.name, use, -held.order.processors, self._engine.now)
        self._gone(held, kind, reason, status)

    def _gone(self, held: _Held, kind: EndKind, reason: str, status: int = 0) -> None:
        statuses = (status,) if kind is EndKind.EXITED else ()
        end = ClaimEnd(kind=kind, reason=reason, statuses=statuses, ended_at=self._engine.now)
        self._send(ClaimGone(claim=held.order.claim, end=end))

    def _cancel_next(self, held: _Held) -> None:
        if held.next is not None:
            held.next.cancel()
            held.next = None

    def _send(self, event: Event) -> None:
        if self.setting.latency_s:
            self._engine.after(self.setting.latency_s, partial(self._emit, event))
        else:
            self._emit(event)

    # --- the site's own users ---

    def _submit_local(self) -> None:
        """Submit the next job; most of a run is this and `_end_local`."""
        if self.is_down:
            self._is_unwatched = True
            return
        job, users, engine = self._next_local, self.users, self._engine
        assert job is not None, self.name
        self._next_local = following = next(self._arriving, None)
        if following is not None:
            engine.surely_at(following.at, self._submit_local)
        users.submitted += 1
        key = users.submitted
        _, processors, _, estimate_s = job
        if processors > self.setting.facts.processors:
            users.too_large += 1
            return
        queue, now = self.queue, engine.now
        is_free = not self._waiting_claims and engine.is_last_of_instant
        if is_free and queue.start_at_once(
            key, processors=processors, estimate_s=estimate_s, now=now
        ):
            self._start_local(key, job)
            self.passed_at = now  # a pass would find nothing to do, because no job waits
            if not self.reports_on_request:
                self.report()
            return
        if not is_free:
            self._pass_soon()
        self._waiting[key] = job
        queue.submit(key, processors=processors, estimate_s=estimate_s)
        if is_free:
            self._pass()

    def _start_local(self, key: int, job: LocalJob) -> None:
        now, users = self._engine.now, self.users
        at, processors, run_s, _ = job
        users.started += 1
        users.waited_s += now - at
        if self.setting.keeps_waits:
            users.waits_s.append(now - at)
        self._usage.add(self.name, _LOCAL, processors, now)
        self._running[key] = job
        self._engine.surely_at(now + run_s, partial(self._end_local, key))

    def _end_local(self, key: int) -> None:
        job = self._running.pop(key, None)
        if job is None:
            return  # lost with its site
        queue, now = self.queue, self._engine.now
        # A pass may be made at once if nothing else happens at this instant, and no claim waits,
        # whose start would ask for a report during the pass.
        is_free = not self._waiting_claims and self._engine.is_last_of_instant
        if not is_free:
            self._pass_soon()
        self.users.finished += 1
        queue.end(key)
        self._usage.add(self.name, _LOCAL, -job.processors, now)
        if not is_free:
            return
        if not queue.is_settled():
            self._pass()
            return
        self.passed_at = now
        if not self.reports_on_request:
            self.report()

    # --- the local manager ---

    def _empty_queue(self) -> LocalQueue[ClaimId | int]:
        return local_queue(
            processors=self.setting.facts.processors, discipline=self.setting.discipline
        )

    def _pass_soon(self) -> None:
        """Schedule a pass at this instant. It is called before the queue changes: until that pass
        reports tell what the last one left."""
        if not self._is_pass_due:
            self._compute_figure()
            self._is_pass_due = True
            self._engine.at(self._engine.now, self._pass, rank=Rank.PASS)

    def _pass(self) -> None:
        """Make one scheduling pass, and report the idle processors when they have changed."""
        self._is_pass_due = False
        now = self._engine.now
        for key in self.queue.advance(now):
            if isinstance(key, int):
                self._start_local(key, self._waiting.pop(key))
            else:
                self._start_claim(key)
        wake_at = self.queue.wake_at
        if self._wake is not None or wake_at < math.inf:
            self._wake_again(wake_at)
        self.passed_at = now
        if self._has_other_tickets:
            self._tell_starts()
        elif not self.reports_on_request:
            self.report()

    def _tell_starts(self) -> None:
        """Report when the oldest ticket of each component would start, if it were opened now; again
        after some time."""
        self._has_other_tickets = False
        if self._next_forecast is not None:
            self._next_forecast.cancel()
            self._next_forecast = None
        oldest: dict[str, ClaimId] = {}
        for claim, held in self.claims.items():
            if held.order.waits and held.hold_until is None and not held.order.begins_at:
                oldest.setdefault(claim.rpartition("/")[0], claim)
        now = self._engine.now
        starts: tuple[tuple[ClaimId, Seconds | None], ...]
        if self.setting.has_forecast and oldest:
            expected = self.queue.forecast([*oldest.values()], now)
            starts = tuple(
                (claim, expected[claim] - now if expected[claim] < math.inf else None)
                for claim in oldest.values()
            )
            self._next_forecast = self._engine.at(
                now + FORECAST_S, self._tell_starts, rank=Rank.WAKE
            )
        else:
            starts = tuple((claim, None) for claim in oldest.values())
        self.report(starts)

    def _wake_again(self, wake_at: Instant) -> None:
        """Schedule a pass that is due without another event."""
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if wake_at < math.inf:
            self._wake = self._engine.at(wake_at, self._pass_soon)

    def _compute_figure(self) -> None:
        """Compute the figure that the last pass left; most passes are followed by another before
        anyone asks."""
        if self.passed_at is not None:
            self._figure = (self.queue.startable(self.passed_at), self._through)
            self.passed_at = None
            self.has_figure = True

    def report(self, starts: tuple[tuple[ClaimId, Seconds | None], ...] = ()) -> None:
        """Report the idle processors of the last pass, if they have changed since the last
        report, and expected starts of tickets."""
        self._compute_figure()
        self.has_figure = False
        if starts or self._figure != self._reported:
            self._reported = idle, through = self._figure
            reported = SiteReported(
                site=self.name,
                idle=idle,
                through=through,
                rtt_s=2 * self.setting.latency_s,
                local=self._usage.used_by(self.name, _LOCAL),
                queued=len(self._waiting),
                starts=starts,
            )
            self._send(reported)

    # --- outages ---

    def break_down(self) -> None:
        """Break the site down: nothing that is here survives."""
        self.is_down = True
        self._pass_soon()
        now = self._engine.now
        for claim, held in list(self.claims.items()):
            is_started = held.hold_until is not None
            self._end(claim, EndKind.VANISHED if is_started else EndKind.FAILED, "its site is down")
        for job in self._running.values():
            self._usage.add(self.name, _LOCAL, -job.processors, now)
        self.users.lost += len(self._waiting) + len(self._running)
        self._waiting.clear()
        self._running.clear()
        self.queue = self._empty_queue()

    def repair(self) -> None:
        """Repair the site; it is empty."""
        self.count_lost(self._engine.now)
        self.is_down = False
        if self._is_unwatched and self._next_local is not None:
            self._engine.surely_at(self._next_local.at, self._submit_local)
        self._is_unwatched = False

    def count_lost(self, by: Instant) -> Instant:
        """Count the jobs of the site's own users that come by then to a site that is down; return
        the instant of the last one counted, 0 if there is none."""
        last_at = 0.0
        while self._is_unwatched and (job := self._next_local) and job.at <= by:
            self._next_local, last_at = next(self._arriving, None), job.at
            self.users.submitted += 1
            self.users.lost += 1
        return last_at
