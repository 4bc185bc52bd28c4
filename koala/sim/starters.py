"""A simulated starter: what a claim runs at its site, with its leases and its promise (design:
Attempts, barrier and fence, 1 to 7).

It measures durations on its own clock, whose rate differs a little from the true one, and it can
be stopped for a moment whenever it wants to act. It needs neither agent nor daemon to pass or to
give up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from koala.core.actions import ArmClaim, ClaimProcessors, ReleaseClaim, TryPaths
from koala.core.events import PathsTried
from koala.core.job import ArmNumber, ClaimEnd, EndKind, StartType
from koala.core.values import Instant, Seconds
from koala.sim.engine import Engine, Entry
from koala.sim.faults import FaultPlan
from koala.sim.links import Ping

PINGS_A_LEASE = 6
LATE_MARGIN_S = 0.02  # from D, at which a Release in hand is acted on


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """What a starter is told of leases when its agent meets the daemon."""

    hold_lease_s: Seconds
    run_lease_s: Seconds
    kill_s: Seconds


class Surroundings(Protocol):
    """What a starter finds at its site."""

    engine: Engine
    plan: FaultPlan
    leases: Leases
    rate: float

    def check_in(self, starter: Starter) -> bool | None:
        """True: bound to this starter. False: go. None: nobody answers."""

    def meet(self, starter: Starter) -> None:
        """The starter is there (again): what the agent holds for it is given."""

    def ping(self, starter: Starter, ping: Ping) -> None:
        """Pass a ping on to the daemon, if there is a way."""

    def has_tried(self, starter: Starter, tried: PathsTried) -> None:
        """The starter has tried its TCP paths, now or before."""

    def has_armed(self, starter: Starter, number: ArmNumber) -> None:
        """The starter has promised."""

    def has_passed(self, starter: Starter) -> None:
        """The starter has passed; it is written down."""

    def has_left(self, starter: Starter, end: ClaimEnd) -> None:
        """The starter and all it ran are gone; the end is written down."""


class Starter:
    """One placeholder that was started by the local manager."""

    def __init__(
        self,
        site: Surroundings,
        order: ClaimProcessors,
        *,
        nonce: str,
        run_s: Seconds,
        status: int,
    ) -> None:
        self.order = order
        self.nonce = nonce
        self.is_alive = True
        self.is_bound = False
        self.deaf_until: Instant = 0.0
        self.asked_paths: TryPaths | None = None
        self.tried: PathsTried | None = None
        self.armed: ArmNumber | None = None
        self.peers: tuple[str, ...] = ()
        self.passed_at: Instant | None = None
        self.passes = 0
        self._site = site
        self._run_s = run_s
        self._status = status
        self._lease_from = site.engine.now  # the sending of the newest answered ping
        self._hold_until: Instant = float("inf")
        self._armed_until: Instant | None = None  # D
        self._released: ArmNumber | None = None
        self._is_ending = False
        self._pinging: Entry | None = None
        self._watching: Entry | None = None

    # --- time, as this machine measures it ---

    @property
    def _now(self) -> Instant:
        return self._site.engine.now

    def _real(self, duration_s: Seconds) -> Seconds:
        """The true length of what this machine measures as `duration_s`."""
        return duration_s / self._site.rate

    def _after(self, duration_s: Seconds, call: Callable[[], None]) -> Entry:
        """Call in a measured duration, or a moment later when the process is stopped just then."""
        pause_s = self._site.plan.pause_s(self._now)
        return self._site.engine.after(self._real(duration_s) + pause_s, call)

    # --- life ---

    def begin(self) -> None:
        """The local manager has started it."""
        self._watch()
        self._check_in()

    def _check_in(self) -> None:
        if not self.is_alive or self.is_bound or self._is_ending:
            return
        answer = self._site.check_in(self) if self.is_reachable else None
        if answer is None:
            self._after(0.5, self._check_in)
        elif not answer:
            self._leave(ClaimEnd(kind=EndKind.STOPPED, reason="its claim is not its own"))
        else:
            self.is_bound = True
            self._hold_until = self._now + self._real(self.order.hold_s)
            if self.order.start_type is StartType.NONE:
                self._pass()
            else:
                self._after(self.order.hold_s, self._hold_over)
                self._ping()

    @property
    def is_reachable(self) -> bool:
        """Agent and starter can talk."""
        return self._now >= self.deaf_until

    def hear_again(self) -> None:
        """The way to the agent is back: the starter reconnects."""
        if self.is_alive and self.is_bound and self.is_reachable:
            self._site.meet(self)
            self._ping()

    # --- leases ---

    @property
    def _lease_s(self) -> Seconds:
        leases = self._site.leases
        return leases.hold_lease_s if self.passed_at is None else leases.run_lease_s

    @property
    def _lease_until(self) -> Instant:
        return self._lease_from + self._real(self._lease_s)

    def _watch(self) -> None:
        """Look again when the lease would end."""
        if self._watching is not None:
            self._watching.cancel()
        left_s = self._lease_until - self._now
        if left_s < float("inf"):
            self._watching = self._after(max(0.0, left_s * self._site.rate), self._lease_over)

    def _lease_over(self) -> None:
        if not self.is_alive or self._is_ending:
            return
        if self._lease_until > self._now + 1e-9:
            self._watch()
        else:
            self._end(ClaimEnd(kind=EndKind.LEASE, reason="nobody answered its pings"))

    def _ping(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()
        if not self.is_alive or not self.is_bound:
            return
        if self.is_reachable:
            ping = Ping(claim=self.order.claim, nonce=self.nonce, sent_at=self._now)
            self._site.ping(self, ping)
        every_s = min(self._lease_s, 3600.0) / PINGS_A_LEASE
        self._pinging = self._after(every_s, self._ping)

    def answered(self, sent_at: Instant) -> None:
        """A ping was answered: the lease counts from its sending."""
        if self.is_alive and self.is_reachable and sent_at > self._lease_from:
            self._lease_from = sent_at

    def _hold_over(self) -> None:
        if self.is_alive and self.passed_at is None and self._released is None:
            self._end(ClaimEnd(kind=EndKind.HOLD, reason="its hold deadline came"))

    # --- the barrier ---

    def try_paths(self, order: TryPaths) -> None:
        """Once; the answer is always the same."""
        if not self.is_alive or self._is_ending or self.passed_at is not None:
            return
        if self.tried is not None:
            self._site.has_tried(self, self.tried)
        elif self.asked_paths is None:
            self.asked_paths = order
            took_s, problem = self._site.plan.paths(self._now, order.limit_s)
            tried = PathsTried(claim=order.claim, problem=problem)
            self._after(took_s, lambda: self._have_tried(tried))

    def _have_tried(self, tried: PathsTried) -> None:
        self.tried = tried
        if self.is_alive and not self._is_ending:
            self._site.has_tried(self, tried)

    def arm(self, order: ArmClaim) -> bool:
        """Promise, if lease and hold deadline both outlast D. True: promised."""
        if not self.is_alive or self._is_ending or self.passed_at is not None:
            return False
        if self._released is not None or (self.armed is not None and self.armed == order.number):
            return self.armed == order.number
        if self.armed is not None and _rank(order.number) < _rank(self.armed):
            return False
        late_at = self._now + self._real(order.late_s)
        if min(self._lease_until, self._hold_until) < late_at:
            return False
        self.armed = order.number
        self.peers = tuple(peer.claim for peer in order.peers)
        self._armed_until = late_at
        self._after(order.late_s, self._late)
        self._site.has_armed(self, order.number)
        return True

    def _late(self) -> None:
        """D, if it was not moved by a later Arm."""
        if self._armed_until is None or not self.is_alive or self.passed_at is not None:
            return
        if self._now >= self._armed_until - 1e-9:
            self._end(ClaimEnd(kind=EndKind.LATE, reason="armed, and not released in time"))

    def release(self, order: ReleaseClaim, at: Instant) -> None:
        """The barrier opens at `at`, T as this site's clock has it."""
        if not self.is_alive or self._is_ending or self._released is not None:
            return
        if self.armed is None or self.armed != order.number:
            return
        self._released = order.number
        assert self._armed_until is not None
        at = min(at, self._armed_until - LATE_MARGIN_S)  # a wrong offset never carries T past D
        self._after(max(0.0, at - self._now) * self._site.rate, self._open)

    def _open(self) -> None:
        if self.is_alive and not self._is_ending and self.passed_at is None:
            assert self._armed_until is not None
            if self._now <= min(self._armed_until, self._lease_until):
                self._pass()

    def _pass(self) -> None:
        self.passed_at = self._now
        self.passes += 1
        self._watch()
        self._ping()  # from here on at the pace of the run lease
        self._site.has_passed(self)
        wall_s = self.order.component.wall_time_s
        if wall_s is not None and wall_s < self._run_s:
            self._after(wall_s, lambda: self._program_over(EndKind.WALL_TIME))
        else:
            self._after(self._run_s, lambda: self._program_over(EndKind.EXITED))

    def _program_over(self, kind: EndKind) -> None:
        if self.is_alive and not self._is_ending:
            statuses = (self._status,) * self.order.component.processes
            self._leave(ClaimEnd(kind=kind, statuses=statuses, ended_at=self._now))

    # --- ends ---

    def stop(self) -> None:
        """Before the pass: do not pass; after it: end."""
        self._end(ClaimEnd(kind=EndKind.STOPPED, reason="stopped"))

    def _end(self, end: ClaimEnd) -> None:
        """TERM to what it runs, KILL after `kill_s` at the latest, then go."""
        if not self.is_alive or self._is_ending:
            return
        self._is_ending = True
        kill_s = 0.0
        if self.passed_at is not None:
            kill_s = self._site.plan.kill_s(self._site.leases.kill_s)
        # No second stop of the process in a row: together they would exceed `pause_max_s`.
        self._site.engine.after(self._real(kill_s), lambda: self._leave(end))

    def _leave(self, end: ClaimEnd) -> None:
        if self.is_alive:
            self.die()
            self._site.has_left(self, end)

    def die(self) -> None:
        """It is gone from one instant to the next, and says nothing."""
        self.is_alive = False
        for entry in (self._pinging, self._watching):
            if entry is not None:
                entry.cancel()


def _rank(number: ArmNumber) -> tuple[int, int]:
    return (number.epoch, number.counter)
