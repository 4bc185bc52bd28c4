"""The barrier of one starter: its promise, its release, and the one opening.

- Armed promises: no abort until D, unless by D or because the daemon says Stop or the site signals.
- It opens if and only if it holds the Release that matches its latest Arm, which it had answered,
  and neither D nor its lease has run out. Without a barrier it opens at its first answered ping: by
  then the daemon still wanted it.
"""

from __future__ import annotations

from koala_agent.starter.compat import dataclass
from koala_agent.starter.events import ClosePaths, Open, Prepare, ProbePaths, Send
from koala_agent.starter.messages import ArmAnswered, PathsTried, to_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Settings
    from koala_agent.starter.messages import ArmOrder, PathsOrder, ReleaseOrder


PORT_MAX = 65_535
BEFORE_D_S = 0.02
"""Least time from T to D: less than half of the shortest `late_max_s` that the daemon allows."""


@dataclass(frozen=True, kw_only=True)
class Arming:
    """The latest Arm. `until` is D after its receipt; `is_promised` when it was answered;
    `has_peers` when other components wait for the same release.
    """

    number: tuple[int, int]
    release_at: float
    late_s: float
    until: float
    is_promised: bool
    has_peers: bool = True


class Barrier:
    """State of the barrier. D and T are instants of our clock here."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.arming: Arming | None = None
        self.hold_until = now + settings.hold_s
        self.promised_until: float | None = None
        self.open_at: float | None = None
        self.is_wanted = False  # the daemon has answered a ping: it has not given the claim up
        self.problem: tuple[str, str] | None = None  # kind and reason of an end that must wait
        self._settings = settings
        self._released_at = 0.0  # T in the daemon's time, when `open_at` is set by a Release
        self._is_open_due = True
        self._is_ready = False
        self._unready_arm: tuple[float, ArmOrder] | None = None

    def dues(self, lease_until: float) -> list[float]:
        """Return the instants at which something is due."""
        until = self.promised_until
        dues = [min(lease_until, self.hold_until) if until is None else until]
        return dues if self.open_at is None else [*dues, self.open_at]

    def is_promising(self, now: float) -> bool:
        """Return True while a promise forbids an abort."""
        return self.promised_until is not None and now < self.promised_until

    def ready(self, now: float) -> tuple[float, ArmOrder] | None:
        """Note that all processes are ready; return the Arm that waited for them, with the instant
        of its receipt.
        """
        self._is_ready = True
        self.open_unarmed(now)
        waiting, self._unready_arm = self._unready_arm, None
        return waiting

    def open_unarmed(self, now: float) -> None:
        """Let a component without a barrier pass, once the daemon has granted a lease.

        Without the lease, an agent that was away might adopt a starter whose claim has been fenced,
        and whose job runs elsewhere by now (promise 3).
        """
        is_free = self._settings.no_barrier and self._is_ready and self.is_wanted
        if is_free and self._is_open_due:
            self.open_at = now

    def is_stale(self, number: tuple[int, int]) -> bool:
        """Return True for an Arm that is older than the latest."""
        return self.arming is not None and number < self.arming.number

    def is_promised(self, number: tuple[int, int]) -> bool:
        """Return True when this very Arm was answered."""
        arming = self.arming
        return arming is not None and number == arming.number and arming.is_promised

    def repeat(self, now: float) -> list[Action]:
        """Repeat the answer to the latest Arm, unless the end is due or waits for D."""
        assert self.arming is not None
        is_good = now < self.arming.until and not self.problem
        return [_armed(self.arming.number)] if is_good else []

    def arm(
        self, order: ArmOrder, received_at: float, *, now: float, lease_until: float
    ) -> list[Action]:
        """Promise when lease and hold deadline both outlast D, all processes are ready, and no end
        waits for the D of an earlier promise. A release of an earlier Arm does not count any more.

        D counts from the receipt, however long the processes took.
        """
        if not self._is_ready:
            earlier = self._unready_arm
            if earlier is None or earlier[1].number <= order.number:
                self._unready_arm = (received_at, order)
            return []
        until = received_at + order.late_s
        is_promised = not self.problem and min(lease_until, self.hold_until) > until > now
        self.arming = Arming(
            number=order.number,
            release_at=order.release_at,
            late_s=order.late_s,
            until=until,
            is_promised=is_promised,
            has_peers=has_peers(order),
        )
        self.open_at = None
        if not is_promised:
            return []
        self.promised_until = max(until, self.promised_until or until)
        return [Prepare(bundle=order.bundle or {}), _armed(order.number)]

    def release(self, order: ReleaseOrder, offset_s: float) -> bool:
        """Set T by the Release of the latest Arm; False for any other. The daemon's clock is ahead
        of ours by `offset_s`.
        """
        arming = self.arming
        if arming is None or not self.is_promised(order.number):
            return False
        # The decided instant may be later than the requested one.
        told_at = arming.release_at if order.release_at is None else order.release_at
        self._released_at = max(arming.release_at, told_at)
        self._set_open_at(arming, offset_s)
        return True

    def correct(self, offset_s: float) -> None:
        """Convert T again, by a better sample of the daemon's clock."""
        if self.arming is not None and self.open_at is not None:
            self._set_open_at(self.arming, offset_s)

    def _set_open_at(self, arming: Arming, offset_s: float) -> None:
        """Convert T to our clock. A wrong offset must not carry it past D, and a right one does not
        come near.
        """
        self.open_at = self._released_at - offset_s
        if self.open_at > arming.until - BEFORE_D_S:
            self.open_at = arming.until - min(1.0, arming.late_s / 2)

    def lost(self, now: float, lease_until: float) -> tuple[str, str] | None:
        """Return kind and reason of the end when the time at the barrier is over."""
        if self.promised_until is not None:
            late = ("late", "armed, and no Release came in time")
            return (self.problem or late) if now >= self.promised_until else None
        if now >= lease_until:
            return "lease", "no ping was answered within the hold lease"
        if now >= self.hold_until:
            return "hold", f"held for {self._settings.hold_s:g} s"
        return None

    def open(self, now: float, lease_until: float) -> list[Action]:
        """Open the barrier if that is due. It is the only place that does, and never repeats it."""
        if self.open_at is None or now < self.open_at or not self._is_open_due:
            return []
        self._is_open_due = False
        self.open_at = None
        arming = self.arming if self.promised_until is not None else None
        not_after = self.hold_until if arming is None else arming.until
        has_peers = arming is not None and arming.has_peers
        return [Open(not_after=min(not_after, lease_until), has_peers=has_peers)]


class PathProbing:
    """Probes of TCP paths before the barrier is armed: once, with one answer."""

    def __init__(self) -> None:
        self._is_listening = False
        self._problem: str | None = None
        self._reached: tuple[tuple[str, float], ...] = ()
        self._ports: tuple[tuple[str, int, float, str], ...] = ()

    def begin(self, order: PathsOrder) -> list[Action]:
        """Begin the probes; a repeated order gets the same answer. Raises ValueError."""
        if self._problem is not None:
            return [Send(message=self.report)]
        if self._is_listening:
            return []
        for port in [*order.listens, *(target[2] for target in order.targets)]:
            if not 1 <= port <= PORT_MAX:
                raise ValueError(f"{port} is not a port (expected 1 to {PORT_MAX})")
        self._is_listening = True
        return [ProbePaths(order=order)]

    def end(
        self,
        problem: str,
        reached: tuple[tuple[str, float], ...],
        ports: tuple[tuple[str, int, float, str], ...] = (),
    ) -> None:
        """Note the result: no problem when all paths are open, but those to `ports` that may be
        closed, and the round trips."""
        self._problem, self._reached, self._ports = problem, reached, ports

    @property
    def report(self) -> dict[str, object]:
        """The report of the result."""
        tried = PathsTried(problem=self._problem or "", reached=self._reached, ports=self._ports)
        return to_message(tried)

    def close(self) -> list[Action]:
        """Stop listening: the ports are the program's from here on."""
        if not self._is_listening:
            return []
        self._is_listening = False
        return [ClosePaths()]


def has_peers(order: ArmOrder) -> bool:
    """Test an Arm for other components; True when it does not say."""
    members = None if order.bundle is None else order.bundle.get("members")
    return not isinstance(members, list) or len(members) != 1


def _armed(number: tuple[int, int]) -> Send:
    return Send(message=to_message(ArmAnswered(number=number)))
