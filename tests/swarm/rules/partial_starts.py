"""Check of starts of which a starter is stopped for long: the attempt ends in time (promise 3)."""

from __future__ import annotations

from koala.core.model.values import Instant, JobId, SiteName
from tests.swarm.breach import parts, require
from tests.swarm.rules.record import Record
from tests.swarm.system.batch import SIGKILL_S_MAX
from tests.swarm.system.starters import Starter

TOLD_S = 5.0
"""Least time for the report of a pass, whatever `pause_max_s`."""
LOOK_S = 3.0
"""Limit on the time from an instant that the daemon waits for to the Stop at a starter."""


class PartialStarts:
    """Attempts with a frozen starter."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._frozen: dict[tuple[JobId, int], Instant] = {}  # D of its first frozen starter

    def froze(self, site: SiteName, starter: Starter, late_at: Instant) -> None:
        """Record that a starter is stopped for long: promise 3 has a bound from its D on."""
        self._record.note(f"{site}: {starter.nonce} is frozen")
        self._record.count("frozen")
        job, attempt, _ = parts(starter.claim)
        self._frozen.setdefault((job, attempt), late_at)

    def require_ended(self, starter: Starter, *, is_program: bool) -> None:
        """Require that an attempt with a frozen starter was ended in time: its programs by their
        starters, the frozen one by its agent and the batch system."""
        job, attempt, _ = parts(starter.claim)
        late_at = self._frozen.get((job, attempt))
        if late_at is None or (job, attempt) not in self._record.releases:
            return
        if self._record.jobs[job].spec.is_malleable:
            return  # the others go on without it
        limits = self._record.parameters
        due_at = late_at + max(limits.pause_max_s, TOLD_S) + LOOK_S + limits.kill_s
        if not is_program:
            due_at += limits.kill_s + self._record.again_s + SIGKILL_S_MAX
        late_s = self._record.now - due_at
        require(late_s <= 0, 3, f"{starter.claim} of a partial start ends {late_s:g} s too late")
