"""The gate probe that an agent makes by itself: once at a site, and again when the configuration of
its batch system is another one. It is beside nobody who waits: it needs idle processors, and ends
for a claim of ours. Until it has shown something the gate counts that the documents promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from koala.common.runtime.structured_log import get_logger
from koala.errors import KoalaError
from koala_agent.lrm.batch.gatekeeper import Gatekeeper
from koala_agent.lrm.batch.manager_part import ManagerPart, Shared
from koala_agent.lrm.gate_probe import Trial, later_than, probe_job
from koala_agent.lrm.local_manager import Idle

POLL_S = 10.0
"""Pause between two looks of a probe."""
HOLE_S = 300.0
"""Time for which the two processors must be idle that a probe uses."""

log = get_logger()


class RepeatedProbe(ManagerPart):
    """Starts and ends the probe. Its jobs have names of ours: after a crash nobody wants them."""

    def __init__(self, shared: Shared, gatekeeper: Gatekeeper) -> None:
        """None begins in the first `probe_after_s`: who starts an agent wants something else."""
        super().__init__(shared)
        self._gatekeeper = gatekeeper
        self._task: asyncio.Task[None] | None = None
        self._trial: Trial | None = None
        self._due_at = self._clock() + self._settings.probe_after_s

    def start_when_due(self, group: asyncio.TaskGroup, idle_now: Callable[[], Idle]) -> None:
        """Begin a probe when it is due; end it as soon as a claim of ours waits."""
        is_needed = any(claim.is_waiting() for claim in self._claims.open())
        if self._task is not None and not self._task.done():
            self._gatekeeper.note_probe()
            if is_needed:
                self._task.cancel()
        elif not is_needed and self._clock() >= self._due_at and self._gatekeeper.to_try:
            idle = idle_now()
            spare = max(1, idle.resources.unit) * 2
            holes = [hole.processors for hole in idle.holes if hole.for_s >= HOLE_S]
            if not idle.trouble and max(idle.startable, *holes, 0) >= spare:
                self._task = group.create_task(self._run())

    def without(self, idle: Idle) -> Idle:
        """Return the figures without the jobs of a probe: it makes room for any claim."""
        mine = 0 if self._trial is None else self._trial.running * max(1, idle.resources.unit)
        mine = min(mine, idle.local_processors)
        if not mine:
            return idle
        return replace(
            idle,
            idle=idle.idle + mine,
            startable=idle.startable + mine,
            local_processors=idle.local_processors - mine,
        )

    def cancel(self) -> None:
        """End a probe that runs."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        job = probe_job(self._settings.state_directory)
        self._claims.apart |= {job.claim, later_than(job).claim}
        self._trial = Trial(
            self._dialect,
            ask=partial(self._breaker.ask, account=""),
            act=partial(self._breaker.act, account=""),
            poll_s=POLL_S,
            scope=self._scope,
        )
        try:
            gates = self._gatekeeper.to_try
            usable = [gate for gate in gates if gate.keeps_place]
            seen = await self._trial.try_all(gates, usable, job, self._settings.state_directory)
            log.info("gate.probed", result=seen)
        except (KoalaError, OSError) as error:
            log.warning("gate.probed", result=str(error))
        finally:
            self._trial = None
            self._gatekeeper.note_probe()
