"""Faults of a campaign: a schedule drawn from a seed, and the saboteur that carries it out.

`draw` says what fault comes when; `Saboteur` does it to the processes, connections and the disk of
a grid, undoes it, and keeps account of what it did. A fault whose victim is just suffering another
one is passed over and counted as such.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from koala.daemon.main import DISK_FAILED
from tests.harness.moments import moment
from tests.live.grid import Grid
from tests.live.proxied import FILES, LINK, STARTERS, filled
from tests.live.proxy import Direction, Proxy

PAUSE_S = 2.0
"""Mean time between the beginnings of two faults at intensity 1."""
TOGETHER_S = 0.010
"""Two processes that are killed within this time are killed together."""
STARTER_PAUSE_MAX_S = 1.5
"""Half of `pause_max_s` of the grid's parameters: what the protocol is promised, also where a busy
machine lets a process go on later."""
DISK_LATE_S = 60.0
"""So long after it a daemon that could write no more has ended, and said so by its status."""
LEAVES_BYTES = (0, 0, 500_000, 2_000_000)
"""What is left on a full disk: nothing at all, or enough for some commits."""


SPARED = 0.8
"""The share of faults that pass over a daemon or an agent that has not come up again since the last
one. The others meet it while it starts; with these alone a slow machine would never see it up."""


class Kind(StrEnum):
    """A fault; killing is by SIGKILL, stopping by SIGSTOP."""

    KILL_DAEMON = "kill-daemon"
    KILL_AGENT = "kill-agent"
    KILL_STARTER = "kill-starter"
    KILL_BOTH = "kill-both"  # daemon and agent within 10 ms
    KILL_ENDS = "kill-ends"  # a starter and its agent within 10 ms
    KILL_RELAY = "kill-relay"
    KILL_PARENT = "kill-parent"  # the resident parent of a site's starters
    STOP_DAEMON = "stop-daemon"
    STOP_AGENT = "stop-agent"
    STOP_STARTER = "stop-starter"
    CUT = "cut"
    HOLD = "hold"  # both directions of a route: half-open
    HOLD_UP = "hold-up"
    HOLD_DOWN = "hold-down"
    SLOW = "slow"
    FILL_DISK = "fill-disk"


WEIGHTS: dict[Kind, int] = {
    Kind.KILL_DAEMON: 5,
    Kind.KILL_AGENT: 5,
    Kind.KILL_STARTER: 5,
    Kind.KILL_BOTH: 2,
    Kind.KILL_ENDS: 2,
    Kind.KILL_RELAY: 1,
    Kind.KILL_PARENT: 3,
    Kind.STOP_DAEMON: 1,
    Kind.STOP_AGENT: 2,
    Kind.STOP_STARTER: 2,
    Kind.CUT: 4,
    Kind.HOLD: 3,
    Kind.HOLD_UP: 1,
    Kind.HOLD_DOWN: 1,
    Kind.SLOW: 2,
    Kind.FILL_DISK: 1,
}
HELD: dict[Kind, tuple[Direction, ...]] = {
    Kind.HOLD: ("up", "down"),
    Kind.HOLD_UP: ("up",),
    Kind.HOLD_DOWN: ("down",),
}
ENDS_OF_ROUTES = (LINK, LINK, LINK, LINK, STARTERS, STARTERS, FILES, "relay", "client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. `site` is whose process or route it is, where it is one's; `pick` chooses among
    the starters that there are then."""

    kind: Kind
    site: str
    route: str
    pick: float
    after_s: float
    lasts_s: float
    delay_s: float
    spares_starting: bool
    ends_in_cut: bool
    leaves_bytes: int

    def __str__(self) -> str:
        """For people."""
        whose = self.route if self.kind in HELD or self.kind in (Kind.CUT, Kind.SLOW) else self.site
        return f"{self.kind} {whose} {self.lasts_s:.1f} s"


def draw(random: Random, *, sites: Sequence[str], kinds: Sequence[Kind], intensity: float) -> Fault:
    """The next fault. Each draws the same numbers, so that one kind less changes no other."""
    kind = random.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
    site = random.choice(sites)
    end = random.choice(ENDS_OF_ROUTES)
    short, long, share = random.random(), random.uniform(10.0, 20.0), random.random()
    return Fault(
        kind=kind,
        site=site,
        route=end if end in ("relay", "client") else f"{site}.{end}",
        pick=random.random(),
        after_s=min(random.expovariate(1.0), 4.0) * PAUSE_S / intensity,
        lasts_s=_length(kind, short, long, share),
        delay_s=random.uniform(0.05, 1.0),
        spares_starting=random.random() < SPARED,
        ends_in_cut=random.random() < 0.5,
        leaves_bytes=random.choice(LEAVES_BYTES),
    )


def _length(kind: Kind, short: float, long: float, share: float) -> float:
    """Mostly shorter than the leases, now and then longer; `short` and `share` are from 0 to 1."""
    match kind:
        case Kind.KILL_DAEMON | Kind.KILL_AGENT | Kind.KILL_BOTH | Kind.KILL_ENDS:
            if share < 0.6:
                return 0.0
            return 3.0 * short if share < 0.95 or kind is Kind.KILL_DAEMON else long
        case Kind.STOP_STARTER:
            return 0.2 + (STARTER_PAUSE_MAX_S - 0.2) * short
        case Kind.STOP_DAEMON | Kind.FILL_DISK:
            return 0.5 + 4.5 * short
        case Kind.STOP_AGENT | Kind.HOLD | Kind.HOLD_UP | Kind.HOLD_DOWN:
            return 0.5 + 6.0 * short if share < 0.9 else long
        case Kind.SLOW:
            return 1.0 + 7.0 * short
        case Kind.KILL_STARTER | Kind.KILL_RELAY | Kind.KILL_PARENT | Kind.CUT:
            return 0.0


@dataclass(slots=True)
class Account:
    """Count what was done: faults by kind, those passed over, signals that killed, pairs killed
    within 10 ms, attempts of jobs of which a starter was killed, claims whose starter stood still
    and from when to when (seconds since 1970), ends that nobody ordered."""

    faults: Counter[str] = field(default_factory=Counter)
    passed_over: int = 0
    kills: int = 0
    together: int = 0
    bereft: set[tuple[str, int]] = field(default_factory=set)
    stood_still: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    ended: list[tuple[str, int]] = field(default_factory=list)
    ended_on_full_disk: int = 0


class Saboteur:
    """Spoils a grid behind a proxy."""

    def __init__(self, grid: Grid, proxy: Proxy, *, has_own_disk: bool) -> None:
        self.account = Account()
        self._grid = grid
        self._proxy = proxy
        self._has_own_disk = has_own_disk
        self._suffering: set[str] = set()
        self._away: set[str] = set()
        self._disk_full_until = 0.0
        self._started_at: dict[str, float] = {}
        self._heard_at: dict[str, float] = {}

    def heard(self, name: str) -> None:
        """The daemon or an agent is up: something came from it just now."""
        self._heard_at[name] = time.monotonic()

    async def do(self, fault: Fault) -> None:
        """One fault from its beginning to its end, after which all is as it was."""
        victims = self._victims(fault)
        if not victims or self._suffering & set(victims) or self._is_spared(fault, victims):
            self.account.passed_over += 1
            return
        self._suffering |= set(victims)
        try:
            self.account.faults[fault.kind] += 1
            await self._act(fault)
        finally:
            self._suffering -= set(victims)

    async def supervise(self) -> None:
        """Start again what ended by itself, as a service manager does. Until cancelled."""
        while True:
            await moment(0.25)
            for name in ("daemon", *self._grid.sites):
                if name not in self._away and (status := self._grid.exit_status(name)) is not None:
                    if name == "daemon" and self._was_disk_full(status):
                        self.account.ended_on_full_disk += 1
                    else:
                        self.account.ended.append((name, status))
                    self._start(name)

    def _was_disk_full(self, status: int) -> bool:
        """True when the daemon ended for a full disk; a busy machine takes a while to end it."""
        late_s = time.monotonic() - self._disk_full_until
        return late_s < 0 or (status == DISK_FAILED and late_s < DISK_LATE_S)

    # --- faults -----------------------------------------------------------------------------------

    def _is_spared(self, fault: Fault, victims: Sequence[str]) -> bool:
        return fault.spares_starting and any(
            self._heard_at.get(name, 0.0) < self._started_at[name]
            for name in victims
            if name in self._started_at
        )

    def _start(self, *names: str) -> None:
        self._grid.start(*names)
        self._started_at.update(dict.fromkeys(names, time.monotonic()))

    def _victims(self, fault: Fault) -> tuple[str, ...]:
        match fault.kind:
            case Kind.KILL_DAEMON | Kind.STOP_DAEMON:
                return ("daemon",)
            case Kind.KILL_AGENT | Kind.STOP_AGENT | Kind.KILL_ENDS:
                return (fault.site,)
            case Kind.KILL_BOTH:
                return ("daemon", fault.site)
            case Kind.KILL_STARTER | Kind.STOP_STARTER:
                return (f"starters of {fault.site}",)
            case Kind.KILL_RELAY:
                return ("relay process",)
            case Kind.KILL_PARENT:
                return (f"parent of {fault.site}",)
            case Kind.FILL_DISK:
                return ("disk",) if self._has_own_disk else ()
            case Kind.CUT | Kind.HOLD | Kind.HOLD_UP | Kind.HOLD_DOWN | Kind.SLOW:
                return (fault.route,)

    async def _act(self, fault: Fault) -> None:
        match fault.kind:
            case (
                Kind.KILL_DAEMON
                | Kind.KILL_AGENT
                | Kind.KILL_STARTER
                | Kind.KILL_BOTH
                | Kind.KILL_ENDS
            ):
                await self._kill(fault)
            case Kind.KILL_RELAY:
                self._kill_helpers(self._grid.relays())
            case Kind.KILL_PARENT:
                self._kill_helpers(self._grid.parents(fault.site))
            case Kind.STOP_DAEMON | Kind.STOP_AGENT | Kind.STOP_STARTER:
                await self._stop(fault)
            case Kind.FILL_DISK:
                with self._full_disk(fault):
                    await moment(fault.lasts_s)
            case Kind.CUT:
                self._proxy.cut(fault.route)
            case Kind.HOLD | Kind.HOLD_UP | Kind.HOLD_DOWN | Kind.SLOW:
                await self._spoil(fault)

    async def _kill(self, fault: Fault) -> None:
        """Kill daemon, agent, a starter, or two of them; leave them away for as long as it says."""
        names = [name for name in self._victims(fault) if name in ("daemon", *self._grid.sites)]
        has_starter = fault.kind in (Kind.KILL_STARTER, Kind.KILL_ENDS)
        chosen = self._starter(fault) if has_starter else []
        alive = [name for name in names if self._grid.is_alive(name)]
        self._away |= set(names)
        try:
            began_at = time.monotonic()
            for pid, claim in chosen:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.account.kills += 1
                    job, attempt, *_ = claim.split("/")
                    self.account.bereft.add((job, int(attempt)))
            for name in alive:
                self._grid.signal(name, signal.SIGKILL)
            self.account.kills += len(alive)
            took_s = time.monotonic() - began_at
            if len(alive) + len(chosen) == 2 and took_s < TOGETHER_S:
                self.account.together += 1
            self._grid.kill(*alive)
            await moment(fault.lasts_s)
            if names:
                self._start(*names)
        finally:
            self._away -= set(names)

    def _kill_helpers(self, pids: Sequence[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.account.kills += 1

    async def _stop(self, fault: Fault) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        if fault.kind is Kind.STOP_STARTER:
            stopped = self._starter(fault)
        else:
            stopped = [(self._grid.pid(name), "") for name in self._victims(fault)]
        for pid, claim in stopped:
            since = time.time()
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                try:
                    await moment(fault.lasts_s)
                finally:
                    self.account.stood_still.setdefault(claim, []).append((since, time.time()))
                    os.kill(pid, signal.SIGCONT)

    async def _spoil(self, fault: Fault) -> None:
        """Hold or slow a route down for a while."""
        proxy, route = self._proxy, fault.route
        if fault.kind is Kind.SLOW:
            proxy.slow(route, fault.delay_s)
        else:
            proxy.hold(route, *HELD[fault.kind])
        try:
            await moment(fault.lasts_s)
        finally:
            if fault.ends_in_cut:
                proxy.cut(route)
            proxy.free(route)

    @contextmanager
    def _full_disk(self, fault: Fault) -> Iterator[None]:
        self._disk_full_until = float("inf")
        try:
            with filled(self._grid.state / "daemon", leave_bytes=fault.leaves_bytes):
                yield
        finally:
            # A commit that failed may be noticed, and a daemon's end be seen, a little later.
            self._disk_full_until = time.monotonic() + 5.0

    def _starter(self, fault: Fault) -> list[tuple[int, str]]:
        """One of those that run at the site, or none."""
        found = sorted(self._grid.starters(site=fault.site).items())
        return [found[int(fault.pick * len(found))]] if found else []
