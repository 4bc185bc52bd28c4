"""Check of processors: none is used twice (promise 1), held for long without a program (5), or
freed of a local job without need (6)."""

from __future__ import annotations

from koala.core.model.values import ClaimId, SiteName
from tests.swarm.breach import parts, require
from tests.swarm.rules.record import CLOCK_S, Record
from tests.swarm.system.starters import Starter

LINGER_S = 60.0  # a starter whose agent is away tells its end for so long


class Processors:
    """Processors that starters use, at each site."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._used: dict[SiteName, dict[str, int]] = {}

    def began(self, site: SiteName, starter: Starter) -> None:
        """Check promise 1: a starter takes processors that were idle."""
        claim = starter.claim
        self._record.note(f"{site}: {starter.nonce} begins")
        self._record.jobs[parts(claim)[0]].began[claim] = None
        used = self._used.setdefault(site, {})
        require(claim not in used, 1, f"{claim} runs twice at {site}")
        used[claim] = starter.processors
        total = sum(used.values())
        require(total <= self._record.processors[site], 1, f"{site} runs {total}: {used}")

    def ended(self, site: SiteName, starter: Starter) -> None:
        """Record that processors are free again."""
        claim = starter.claim
        self._record.note(f"{site}: {starter.nonce} is gone")
        if starter.passed_at is None:
            held_s = self._record.now - starter.began_at
            limits = self._record.parameters
            slack_s = limits.late_max_s + limits.pause_max_s + limits.kill_s + LINGER_S + 5.0
            is_short = held_s <= starter.hold_s * (1 + limits.clock_rate_error) + slack_s
            require(is_short, 5, f"{claim} held its processors for {held_s:g} s")
        del self._used[site][claim]

    def made_room(self, site: SiteName, claim: str, idle: int, killed: list[int]) -> None:
        """Check that local jobs die only where site and operator allow it, for a job at its
        deadline, and no more of them than needed."""
        self._record.note(f"{site}: {killed} make room for {claim}")
        job, _, _ = parts(claim)
        truth = self._record.jobs[job]
        processors = self._record.sizes[ClaimId(claim)]
        allowed = site in self._record.killing and self._record.parameters.at_deadline == "kill"
        require(allowed, 6, f"local jobs die at {site}, which does not allow it")
        require(truth.deadline_at is not None, 6, f"local jobs die for {job}, without a deadline")
        assert truth.deadline_at is not None
        early_s = truth.deadline_at - self._record.parameters.lead_max_s - self._record.now
        require(early_s <= CLOCK_S, 6, f"local jobs die {early_s:g} s too early for {claim}")
        without_last = idle + sum(killed[:-1])
        is_needed = not killed or without_last < processors
        require(is_needed, 6, f"{killed} die for {processors} processors beside {idle}")
        self._record.count("killed" if killed else "room without a kill")
