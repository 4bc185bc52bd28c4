"""FaultPlan(seed): what goes wrong, when and how badly, as a function of a seed.

Two kinds. *Chances* are asked at the instant something is done (a message is sent, a claim is
handed to the local manager) and are drawn in the order in which a deterministic run asks.
*Incidents* are drawn beforehand, each with its instant. From `quiet_at` on nothing goes wrong any
more, so that promise 9 (progress) can be judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from koala.core.values import Instant, Seconds


class Incident(StrEnum):
    """Something that happens to the world at an instant that was drawn beforehand."""

    LINK_CUT = "link-cut"
    LINK_DOWN = "link-down"  # cut, and no session for a while
    AGENT_CRASH = "agent-crash"
    DAEMON_CRASH = "daemon-crash"
    STARTER_KILLED = "starter-killed"
    STARTER_DEAF = "starter-deaf"  # starter and agent do not reach one another for a while
    SITE_CANCEL = "site-cancel"  # the site's people end a claim of ours
    DRAIN = "drain"
    RESUME = "resume"
    USER_CANCEL = "user-cancel"
    LOCAL_JOB = "local-job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One incident: `pick` in 0..1 chooses whom it hits, `lasts_s` how long it lasts."""

    at: Instant
    kind: Incident
    pick: float
    lasts_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """How likely each kind of fault is, 0 to 1 each time it is asked; `incidents_per_s` in all."""

    cut: float = 0.0
    double: float = 0.0
    late: float = 0.0
    manager_error: float = 0.0
    transfer_error: float = 0.0
    transfer_stall: float = 0.0
    pause: float = 0.0
    slow_commit: float = 0.0
    requeue: float = 0.0
    closed_path: float = 0.0
    incidents_per_s: float = 0.0


NOTHING = Chances()


class FaultPlan:
    """The faults of one run."""

    def __init__(
        self,
        seed: int,
        *,
        chances: Chances = NOTHING,
        kinds: tuple[Incident, ...] = tuple(Incident),
        quiet_at: Instant = 0.0,
        lasts_s_max: Seconds = 60.0,
        latency_s: Seconds = 0.005,
        pause_s_max: Seconds = 0.0,
    ) -> None:
        self._random = Random(seed)
        self._chances = chances
        self._latency_s = latency_s
        self._pause_s_max = pause_s_max
        self.quiet_at = quiet_at
        self.happenings = self._draw(kinds, lasts_s_max)

    def _draw(self, kinds: tuple[Incident, ...], lasts_s_max: Seconds) -> tuple[Happening, ...]:
        random = self._random
        found: list[Happening] = []
        rate = self._chances.incidents_per_s
        at = random.expovariate(rate) if rate > 0 and kinds else self.quiet_at
        while at < self.quiet_at:
            kind = random.choice(kinds)
            lasts_s = min(random.expovariate(4.0 / lasts_s_max), lasts_s_max)
            found.append(Happening(at=at, kind=kind, pick=random.random(), lasts_s=lasts_s))
            at += random.expovariate(rate)
        return tuple(found)

    def _strikes(self, chance: float, now: Instant) -> bool:
        return chance > 0 and now < self.quiet_at and self._random.random() < chance

    def pick(self, count: int) -> int:
        """One of `count`, for choices that no incident has drawn."""
        return self._random.randrange(count)

    @property
    def round_trip_s(self) -> Seconds:
        """There and back, when nothing is late."""
        return 2 * 1.5 * self._latency_s

    def latency_s(self, now: Instant) -> Seconds:
        """How long a message travels."""
        spread = self._latency_s * (0.5 + self._random.random())
        return spread * 200 if self._strikes(self._chances.late, now) else spread

    def is_cut(self, now: Instant) -> bool:
        """The session breaks under this message."""
        return self._strikes(self._chances.cut, now)

    def is_doubled(self, now: Instant) -> bool:
        """The message is said twice."""
        return self._strikes(self._chances.double, now)

    def notice_s(self, now: Instant) -> Seconds:
        """How long one end of a broken session believes in it."""
        if now >= self.quiet_at:
            return 0.5
        return self._random.choice((0.0, 0.05, 1.0, 10.0)) * self._random.random()

    def redial_s(self) -> Seconds:
        """How long an agent waits before it dials again."""
        return 0.2 + 2.0 * self._random.random()

    def manager_errs(self, now: Instant) -> bool:
        """The local manager refuses a submission with an error."""
        return self._strikes(self._chances.manager_error, now)

    def transfer_factor(self, now: Instant) -> float:
        """How much longer than estimated a transfer takes."""
        factor = 0.6 + 0.8 * self._random.random()
        return factor * 20 if self._strikes(self._chances.transfer_stall, now) else factor

    def transfer_errs(self, now: Instant) -> str | None:
        """At whose end a transfer fails: source, target, or nobody's (relay); None: it does not."""
        if not self._strikes(self._chances.transfer_error, now):
            return None
        return self._random.choice(("source", "target", "nobody"))

    def pause_s(self, now: Instant) -> Seconds:
        """How long a starter is stopped at the moment it wants to act, within `pause_max_s`."""
        if not self._strikes(self._chances.pause, now):
            return 0.0
        return self._pause_s_max * self._random.choice((0.1, 0.5, 1.0))

    def kill_s(self, longest_s: Seconds) -> Seconds:
        """How long a program takes to end after TERM."""
        return longest_s * self._random.choice((0.0, 0.1, 1.0))

    def commit_s(self, now: Instant) -> Seconds:
        """How long a commit of the journal takes."""
        if self._strikes(self._chances.slow_commit, now):
            return self._random.choice((0.05, 0.5, 3.0))
        return 0.001

    def paths(self, now: Instant, limit_s: Seconds) -> tuple[Seconds, str]:
        """How long a starter takes to try its TCP paths, and what is in the way."""
        took_s = limit_s * self._random.choice((0.001, 0.05, 1.0))
        return took_s, "a path is closed" if self._strikes(self._chances.closed_path, now) else ""

    def is_requeued(self, now: Instant) -> bool:
        """The local manager starts a killed placeholder once more."""
        return self._strikes(self._chances.requeue, now)
