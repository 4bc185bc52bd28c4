"""The gate probe that an agent repeats by itself, once the configuration of its batch system is
another one. It is beside nobody who waits: it needs idle processors, and ends for a claim of ours.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

from koala.common.runtime.structured_log import get_logger
from koala.errors import KoalaError
from koala_agent.lrm.batch.account_breaker import AccountBreaker
from koala_agent.lrm.batch.claim_tracking import TrackedClaims
from koala_agent.lrm.batch.gatekeeper import Gatekeeper
from koala_agent.lrm.dialect import Dialect
from koala_agent.lrm.gate_probe import Trial, later_than, probe_job
from koala_agent.lrm.local_manager import Idle

POLL_S, AGAIN_S = 5.0, 3600.0
"""Pause between two looks of a probe, and between two probes that have shown nothing."""
HOLE_S = 300.0
"""Time for which the two processors must be idle that a probe uses."""

log = get_logger()


class RepeatedProbe:
    """Starts and ends the probe. Its jobs have names of ours: after a crash nobody wants them."""

    def __init__(
        self,
        dialect: Dialect,
        breaker: AccountBreaker,
        claims: TrackedClaims,
        gatekeeper: Gatekeeper,
        *,
        folder: Path,
        scope: str,
        clock: Callable[[], float],
    ) -> None:
        self._dialect = dialect
        self._breaker = breaker
        self._claims = claims
        self._gatekeeper = gatekeeper
        self._folder = folder
        self._scope = scope
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._due_at = -math.inf

    def start_when_due(self, group: asyncio.TaskGroup, idle_now: Callable[[], Idle]) -> None:
        """Begin a probe when it is due; end it as soon as a claim of ours waits."""
        is_needed = any(claim.is_waiting() for claim in self._claims.open())
        if self._task is not None and not self._task.done():
            if is_needed:
                self._task.cancel()
        elif not is_needed and self._clock() >= self._due_at and self._gatekeeper.to_try:
            idle = idle_now()
            spare = max(1, idle.resources.unit) * 2
            holes = [hole.processors for hole in idle.holes if hole.for_s >= HOLE_S]
            if not idle.trouble and max(idle.startable, *holes, 0) >= spare:
                self._task = group.create_task(self._run())

    def cancel(self) -> None:
        """End a probe that runs."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        self._due_at = self._clock() + AGAIN_S
        job = probe_job(self._folder)
        self._claims.apart |= {job.claim, later_than(job).claim}
        trial = Trial(
            self._dialect,
            ask=partial(self._breaker.ask, account=""),
            act=partial(self._breaker.act, account=""),
            poll_s=POLL_S,
            scope=self._scope,
        )
        try:
            gates = self._gatekeeper.to_try
            usable = [gate for gate in gates if gate.keeps_place]
            seen = await trial.try_all(gates, usable, job, self._folder)
            log.info("gate.probed", result=seen)
        except (KoalaError, OSError) as error:
            log.warning("gate.probed", result=str(error))
        self._gatekeeper.note_probe()
