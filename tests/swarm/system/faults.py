"""Fault plan of a seed: kind, time and severity of every fault.

There are two kinds:

- *Strikes* are drawn at the instant of an operation (a message is sent, a row is written). The n-th
  request of a kind uses that kind's own random stream, so a strike depends on nothing else.
- *Happenings* are drawn beforehand, each with its instant.

Each single fault can be left out, which is how a failure is minimised. From `quiet_at` on there are
no more faults, so that promise 9 (progress) can be judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TypeAlias

from koala.core.model.values import Instant, Seconds

Fault: TypeAlias = tuple[str, int]
"""A strike, by its kind and its number within the kind; or a happening."""

HAPPENING = "happening"


class Incident(StrEnum):
    """Kind of an incident, which comes at an instant that was drawn beforehand."""

    LINK_CUT = "link-cut"
    LINK_DOWN = "link-down"  # nothing gets through between agent and daemon for a while
    TO_DAEMON_STUCK = "to-daemon-stuck"  # in one direction only
    TO_AGENT_STUCK = "to-agent-stuck"
    HALF_OPEN = "half-open"  # neither end is told that the connection is gone
    AGENT_CRASH = "agent-crash"
    AGENT_STOPPED = "agent-stopped"  # SIGSTOP, and CONT after a while
    DAEMON_CRASH = "daemon-crash"
    DAEMON_STOPPED = "daemon-stopped"
    AGENT_ENDS = "agent-ends"  # TERM: in order, and up again after a while
    DAEMON_ENDS = "daemon-ends"
    WALL_JUMP = "wall-jump"  # somebody sets the daemon's wall clock
    STARTER_KILLED = "starter-killed"
    STARTER_CUT = "starter-cut"
    STARTER_DEAF = "starter-deaf"  # nothing gets through between starter and agent for a while
    TO_STARTER_STUCK = "to-starter-stuck"
    TO_THE_STARTERS_AGENT_STUCK = "to-the-starters-agent-stuck"
    SITE_CANCEL = "site-cancel"  # the site's people end a claim of ours
    MANAGER_AWAY = "manager-away"  # the batch system's controller answers nothing for a while
    AGENTS_APART = "agents-apart"  # two agents do not reach one another for a while
    AGENT_DISK_FULL = "agent-disk-full"
    DAEMON_DISK_FULL = "daemon-disk-full"
    DRAIN = "drain"
    RESUME = "resume"
    USER_CANCEL = "user-cancel"
    LOCAL_JOB = "local-job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """One incident: `pick` in 0..1 chooses its target, `lasts_s` is its length."""

    at: Instant
    kind: Incident
    pick: float
    lasts_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Chances:
    """Probability of each kind of fault, 0 to 1 per request; `incidents_per_s` in all.

    `crash_*` are requested at each boundary that matters of one process: before and after each
    durable write, before each message that leaves it.
    """

    cut: float = 0.0
    late: float = 0.0
    crash_daemon: float = 0.0
    crash_agent: float = 0.0
    crash_starter: float = 0.0
    disk_error: float = 0.0
    slow_commit: float = 0.0
    slow_store: float = 0.0
    corrupt: float = 0.0
    restore: float = 0.0  # at a start of the daemon: from a backup, for the disk is lost
    manager_error: float = 0.0
    manager_refuses: float = 0.0  # what is submitted, with a reason, and is well
    manager_fails_for_now: float = 0.0
    manager_deaf: float = 0.0  # it did what it was told, and the answer is lost
    manager_late: float = 0.0
    manager_forgets: float = 0.0
    gate_lost: float = 0.0  # the batch system says that it gated or opened a job, and did not
    booking_revoked: float = 0.0  # by the site, some time before its begin
    transfer_error: float = 0.0
    transfer_cut: float = 0.0
    transfer_spoilt: float = 0.0
    transfer_stall: float = 0.0
    transfer_busy: float = 0.0
    spool_error: float = 0.0
    slow_collect: float = 0.0  # logs and outputs take longer than leases
    fork_error: float = 0.0
    unready: float = 0.0
    pause: float = 0.0
    freeze: float = 0.0  # of a starter that has just armed
    requeue: float = 0.0
    slow_end: float = 0.0
    closed_path: float = 0.0
    closed_port: float = 0.0
    file_late: float = 0.0  # in a shared folder: other machines see it after a while
    file_lost: float = 0.0  # they never do
    file_again: float = 0.0  # one that was removed is still there for a while
    file_full: float = 0.0  # its quota
    incidents_per_s: float = 0.0


NOTHING = Chances()


class FaultPlan:
    """Faults of one run."""

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
        only: frozenset[Fault] | None = None,
    ) -> None:
        self.quiet_at = quiet_at
        self.struck: list[Fault] = []
        self._seed = seed
        self._chances: Mapping[str, float] = {
            name: getattr(chances, name) for name in Chances.__slots__
        }
        self._latency_s = latency_s
        self._pause_s_max = pause_s_max
        self._only = only
        self._streams: dict[str, Random] = {}
        self._asked: Counter[str] = Counter()
        self.happenings = self._draw(kinds, lasts_s_max)

    def _draw(self, kinds: tuple[Incident, ...], lasts_s_max: Seconds) -> tuple[Happening, ...]:
        random = self.stream(HAPPENING)
        found: list[Happening] = []
        rate = self._chances["incidents_per_s"]
        at = random.expovariate(rate) if rate > 0 and kinds else self.quiet_at
        while at < self.quiet_at:
            kind = random.choice(kinds)
            lasts_s = min(random.expovariate(4.0 / lasts_s_max), lasts_s_max)
            one = Happening(at=at, kind=kind, pick=random.random(), lasts_s=lasts_s)
            fault = (HAPPENING, len(self.struck))
            self.struck.append(fault)
            if self._happens(fault):
                found.append(one)
            at += random.expovariate(rate)
        return tuple(found)

    def stream(self, purpose: str) -> Random:
        """Return the random stream of one purpose."""
        found = self._streams.get(purpose)
        if found is None:
            found = self._streams[purpose] = Random(f"{self._seed}/{purpose}")
        return found

    def strikes(self, kind: str, now: Instant) -> bool:
        """True if this fault, a chance's name, strikes this time."""
        chance = self._chances[kind]
        if chance <= 0:
            return False
        random = self._streams.get(kind) or self.stream(kind)
        if random.random() >= chance or now >= self.quiet_at:
            self._asked[kind] += 1
            return False
        fault = (kind, self._asked[kind])
        self._asked[kind] += 1
        self.struck.append(fault)
        return self._happens(fault)

    def _happens(self, fault: Fault) -> bool:
        return self._only is None or fault in self._only

    def latency_s(self, now: Instant) -> Seconds:
        """Draw the travel time of a message."""
        spread = self._latency_s * (0.5 + self.stream("latency").random())
        return spread * 200 if self.strikes("late", now) else spread

    def notice_s(self, now: Instant) -> Seconds:
        """Draw the time until one end notices a broken connection."""
        random = self.stream("notice")
        delay_s = random.choice((0.0, 0.05, 1.0, 10.0)) * random.random()
        return min(delay_s, 0.5) if now >= self.quiet_at else delay_s

    def pause_s(self, now: Instant) -> Seconds:
        """Draw the time that a starter is stopped at the moment of an action, within
        `pause_max_s`."""
        if not self.strikes("pause", now):
            return 0.0
        return self._pause_s_max * self.stream("pause_s").choice((0.1, 0.5, 1.0))

    def freeze_s(self, now: Instant) -> Seconds:
        """Draw the time for which a starter is stopped that has just armed; longer than any is
        assumed to be stopped."""
        if not self.strikes("freeze", now):
            return 0.0
        return self.stream("freeze_s").choice((20.0, 120.0, 1000.0))

    def kill_s(self, longest_s: Seconds, now: Instant) -> Seconds:
        """Draw the time of a program from TERM to its end; if longer than allowed, it is killed."""
        if not self.strikes("slow_end", now):
            return min(0.02, longest_s)
        return longest_s * self.stream("slow_end").choice((0.1, 1.0, 2.0))

    def commit_s(self, now: Instant) -> Seconds:
        """Draw the time of a commit of the journal."""
        is_slow = self.strikes("slow_commit", now)
        return self.stream("commit").choice((0.05, 0.5, 3.0, 12.0)) if is_slow else 0.001

    def store_s(self, now: Instant) -> Seconds:
        """Draw the time of an agent's transaction."""
        is_slow = self.strikes("slow_store", now)
        return self.stream("store").choice((0.05, 0.5, 3.0)) if is_slow else 0.001

    def collect_s(self, now: Instant) -> Seconds:
        """Draw the time in which logs and outputs of a claim reach the daemon; sometimes longer
        than leases last."""
        is_slow = self.strikes("slow_collect", now)
        return self.stream("collect").choice((2.0, 20.0, 120.0)) if is_slow else 0.05

    def command_s(self, now: Instant) -> Seconds:
        """Draw the time of a command of a batch system."""
        random = self.stream("command")
        quick_s = 0.02 * (0.5 + random.random())
        is_late = self.strikes("manager_late", now)
        return random.choice((1.0, 5.0, 20.0)) if is_late else quick_s

    def port(self, now: Instant) -> str:
        """Draw the obstacle on the path to a port."""
        return "refused" if self.strikes("closed_port", now) else ""

    def paths(self, now: Instant, limit_s: Seconds) -> tuple[Seconds, str]:
        """Draw the time in which a starter tries its TCP paths, and their obstacles."""
        took_s = limit_s * self.stream("paths").choice((0.001, 0.05, 1.0))
        return took_s, "a path is closed" if self.strikes("closed_path", now) else ""
