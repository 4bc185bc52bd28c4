"""Check of allowances from outside: users and groups that keep within their limits stay there."""

from __future__ import annotations

from koala.core.model.allowances import Allowance, Payer, Usage, payers_of
from koala.core.scheduler import Scheduler
from koala.core.state import held_by
from tests.swarm.breach import require


class Allowances:
    """The users and groups that were within their limits after an event."""

    def __init__(self) -> None:
        self._within: set[Payer] = set()

    def require_kept(self, scheduler: Scheduler) -> None:
        """Require that no placement exceeds a limit; what was placed before it was set may. A
        limit that is lost with a daemon is set again."""
        self._within &= scheduler.allowances.keys()
        for payer, allowance in scheduler.allowances.items():
            used = Usage()
            for name, attempt in scheduler.placed.items():
                job = scheduler.jobs[name]
                if payer in payers_of(job.spec):
                    used.add(*held_by(job, attempt))
            is_within = _is_within(used, allowance)
            require(is_within or payer not in self._within, 6, f"{payer} of {allowance} has {used}")
            if is_within:
                self._within.add(payer)


def _is_within(used: Usage, allowance: Allowance) -> bool:
    pairs = ((used.jobs, allowance.jobs), (used.processors, allowance.processors))
    return all(most is None or has <= most for has, most in pairs)
