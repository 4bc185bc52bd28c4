"""Check of charges: each program is charged for once, from its start until its batch job has ended
(promise 4)."""

from __future__ import annotations

from koala.core.model.job import EndKind, Job
from koala.core.model.values import ClaimId, Seconds
from tests.swarm.breach import parts, require
from tests.swarm.rules.record import Record
from tests.swarm.system.starters import Starter

CHARGE_S = 15.0


class Charges:
    """Times that programs ran, and from their starts on their batch jobs."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._ran_s: dict[ClaimId, Seconds] = {}  # as it was
        self._lasted_s: dict[ClaimId, Seconds] = {}

    def stopped(self, starter: Starter) -> None:
        """Record that a program is dead."""
        assert starter.passed_at is not None
        self._ran_s[starter.claim] = self._record.now - starter.passed_at

    def ended(self, starter: Starter) -> None:
        """Record that a batch job has ended."""
        if starter.claim in self._ran_s and starter.passed_at is not None:
            self._lasted_s[starter.claim] = self._record.now - starter.passed_at

    def require_charged(self, job: Job) -> None:
        """Require that each program is charged for once, from its start until its batch job ended,
        wherever the daemon's wall clock was set meanwhile. Its starter may notice the end late."""
        slack_s = CHARGE_S + self._record.parameters.pause_max_s
        charges = {charge.claim: charge for charge in job.charges}
        require(len(charges) == len(job.charges), 4, f"{job.id} is charged twice: {charges}")
        for claim, ran_s in self._ran_s.items():
            if parts(claim)[0] != job.id:
                continue
            charge = charges.get(claim)
            is_known = charge is not None or self._record.jobs[job.id].is_restored
            require(is_known, 4, f"{claim} ran {ran_s:g} s uncharged")
            if charge is None or charge.end != EndKind.EXITED.value or charge.passed_at is None:
                continue
            assert charge.ended_at is not None
            lasted_s = self._lasted_s[claim]
            over_s = charge.ended_at - charge.passed_at - lasted_s
            require(abs(over_s) <= slack_s, 4, f"{claim} is charged for {over_s:g} s more")
