"""Standstill: jobs wait, and none of them will be started, as far as a run can show.

- With nothing else at the sites a day is enough: nothing can change any more.
- Local users who submit for ever, always in the same way, give a job its chance again and again.
  One that had none in so long a time may never have one: a run that waited for it would not end.

A run that has an end of its own is never judged by the second rule. It takes both much simulated
time and many events: ten days are hardly a sample where little happens, and many events are soon
over where many users submit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from koala.core.model.job import Job
from koala.core.model.values import FOREVER, Instant, Seconds
from koala.lab.sim.experiment.setting import Outage
from koala.views.units import counted

if TYPE_CHECKING:
    from koala.lab.sim.experiment.world import World

UNCLAIMED_S: Seconds = 86_400.0
"""Simulated time without a claim on empty sites after which a run ends: longer than any pause of
the scheduler."""
DAY_S: Seconds = 86_400.0
NAMED_MAX = 3
"""Number of waiting jobs that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Limit of a wait without the start or end of any job: both must be over."""

    idle_s: Seconds
    steps: int


SAID = Patience(idle_s=DAY_S, steps=10_000)
"""After this the run says that it may not end: a second or two."""
STOPPED = Patience(idle_s=10 * DAY_S, steps=100_000)
"""After this it is stopped: ten seconds to a minute."""


class Standstill:
    """Judge of one run, asked after each step."""

    def __init__(
        self,
        world: World,
        outages: Iterable[Outage] = (),
        *,
        until: Instant = FOREVER,
        warn: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """Judge a run to `until`; `warn` is told once if it may be stopped later."""
        self.note = ""
        """Why the run is stopped."""
        self._world = world
        self._has_end = until < FOREVER
        self._warn = warn
        self._has_warned = False
        # Sites come back until then.
        self._claimed_at = max((one.until for one in outages if one.until < inf), default=0.0)
        self._moved_at = self._claimed_at
        self._moved_step = 0
        self._over = 0

    def is_reached(self) -> bool:
        """Return True if nothing will start any more."""
        world = self._world
        is_waiting = world.is_all_submitted and not world.scheduler.ledger
        now = world.engine.now
        if not (is_waiting and all(site.is_left for site in world.grid.sites.values())):
            self._claimed_at = max(self._claimed_at, now)
        elif now - self._claimed_at > UNCLAIMED_S:
            self._stop(f"no claim for {_days(now - self._claimed_at)} on empty sites")
            return True
        if self._has_end:
            return False
        idle = f"no job started or ended for {_days(now - self._moved_at)}"
        if self._is_idle(STOPPED):
            self._stop(f"{idle}, while local users came and went")
            return True
        if not self._has_warned and self._is_idle(SAID):
            self._has_warned = True
            most = f"{_days(STOPPED.idle_s)} and {STOPPED.steps} steps without one"
            self._warn(f"{idle}; {self._waiting()}; the run is stopped after {most}")
        return False

    def _is_idle(self, patience: Patience) -> bool:
        """Return True if jobs wait, and none started or ended for so long, while nothing but
        steady local users was at the sites."""
        world = self._world
        now, step = world.engine.now, world.engine.scheduled
        if world.running or not world.is_all_submitted or world.over != self._over:
            self._over = world.over
        elif now - self._moved_at <= patience.idle_s or step - self._moved_step <= patience.steps:
            return False
        elif all(s.setting.is_steady or s.is_left for s in world.grid.sites.values()):
            return True
        self._moved_at, self._moved_step = max(self._moved_at, now), step
        return False

    def _stop(self, why: str) -> None:
        self.note = f"stopped at a standstill: {why}; {self._waiting()}"

    def _waiting(self) -> str:
        """Name the jobs that wait, with what they need, and what the sites have."""
        world = self._world
        waiting = [job for job in world.scheduler.jobs.values() if not job.has_ended]
        named = ", ".join(_needs(job) for job in islice(waiting, NAMED_MAX))
        more = f" and {len(waiting) - NAMED_MAX} more" if len(waiting) > NAMED_MAX else ""
        sites = ", ".join(
            f"{site.name} {site.setting.facts.processors}" for site in world.grid.sites.values()
        )
        verb = "waits" if len(waiting) == 1 else "wait"
        return f"{counted(len(waiting), 'job')} {verb}: {named}{more}; sites have {sites}"


def _needs(job: Job) -> str:
    parts = " + ".join(str(one.processors) for one in job.spec.components)
    return f"{job.id} needs {parts} processors at once"


def _days(duration_s: Seconds) -> str:
    return f"{duration_s / DAY_S:.3g} simulated days"
