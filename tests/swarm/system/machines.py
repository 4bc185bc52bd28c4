"""Simulated computers and processes: clocks that differ, crashes at any boundary, stops.

A process runs in calls from the engine. A call that raises `CrashedError` ends the process as
SIGKILL would, between two of its steps. Later calls that it had scheduled belong to that life and
are dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from koala.core.model.values import Instant, Seconds
from koala.lab.sim.engine import Engine, Entry, Rank
from tests.swarm.system.faults import FaultPlan

RINGS_MAX = 1_000
"""Limit on calls at one instant: a machine above it would loop without end."""


class CrashedError(SystemExit):
    """The process is killed here. No handler of errors sees it, and it leaves an event loop at
    once."""


class Machine:
    """A computer's clocks: the rate differs a little from the true one, the boot instant differs,
    and the wall clock can be set."""

    __slots__ = ("_boot_at", "_engine", "_rate", "wall_error_s")

    def __init__(
        self,
        engine: Engine,
        *,
        rate: float = 1.0,
        boot_at: Instant = 0.0,
        wall_error_s: Seconds = 0.0,
    ) -> None:
        self.wall_error_s = wall_error_s
        self._engine = engine
        self._rate = rate
        self._boot_at = boot_at

    def boot(self) -> Instant:
        """Return seconds since boot, as it measures them."""
        return self._boot_at + self._engine.now * self._rate

    def wall(self) -> Instant:
        """Return its time of day."""
        return self._engine.now + self.wall_error_s

    def when(self, boot: Instant) -> Instant:
        """Return the true instant at which its clock shows this; slightly later, so that rounding
        never wakes a machine too early."""
        return (boot - self._boot_at) / self._rate + 1e-9


class Process:
    """A process on a machine, and its lives."""

    crash_kind = ""

    def __init__(self, engine: Engine, plan: FaultPlan, machine: Machine) -> None:
        self.engine = engine
        self.plan = plan
        self.machine = machine
        self.is_up = False
        self.life = 0
        self.stopped_until: Instant = 0.0

    def begin_life(self) -> None:
        """Start a life."""
        assert not self.is_up
        self.is_up = True
        self.life += 1
        self.stopped_until = 0.0

    def point(self) -> None:
        """Mark a boundary at which it may be killed. Raises CrashedError."""
        if self.plan.strikes(self.crash_kind, self.engine.now):
            raise CrashedError

    def crash(self) -> None:
        """End this life: none of its later calls runs."""

    def run(self, call: Callable[[], None]) -> None:
        """Make a call of this life, now or when it continues after a stop."""
        if not self.is_up:
            return
        if self.stopped_until > self.engine.now:
            self.engine.at(self.stopped_until, self.guarded(call))
            return
        try:
            call()
        except CrashedError:
            self.crash()

    def guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        """Wrap a call so that it runs only in this life."""
        life = self.life

        def guard() -> None:
            if life == self.life:
                self.run(call)

        return guard

    def after(self, duration_s: Seconds, call: Callable[[], None]) -> Entry:
        """Schedule a call of this life, in a duration that its machine measures."""
        return self.engine.at(
            self.machine.when(self.machine.boot() + duration_s), self.guarded(call)
        )

    def soon(self, call: Callable[[], None]) -> None:
        """Schedule a call of this life at this instant, after the current one."""
        self.engine.at(self.engine.now, self.guarded(call))


class Timer:
    """One scheduled call of a process; its owner can move it."""

    __slots__ = ("_at", "_call", "_entry", "_process", "_rang_at", "_rings")

    def __init__(self, process: Process, call: Callable[[], None]) -> None:
        self._process = process
        self._call = call
        self._entry: Entry | None = None
        self._at: Instant | None = None
        self._rang_at: Instant = -1.0
        self._rings = 0

    def set(self, boot: Instant | None, *, rank: Rank = Rank.OUTCOME) -> None:
        """Schedule the call when the machine's clock shows this; None: not at all."""
        if boot == self._at and self._entry is not None:
            return
        self.stop()
        if boot is not None and boot < float("inf"):
            self._at = boot
            process = self._process
            at = process.machine.when(boot)
            self._entry = process.engine.at(at, process.guarded(self._ring), rank=rank)

    def stop(self) -> None:
        """Cancel the call."""
        if self._entry is not None:
            self._entry.cancel()
        self._entry = self._at = None

    def _ring(self) -> None:
        self._entry = self._at = None
        now = self._process.engine.now
        self._rings = self._rings + 1 if now == self._rang_at else 0
        self._rang_at = now
        assert self._rings < RINGS_MAX, f"{self._process}: is due again and again at {now:g}"
        self._call()
