"""The agent's metrics: counts of stored claims and copies, and readings of the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from koala.common.identity.tls import IdentityFile
from koala.common.metrics import declarations as m
from koala.common.metrics.declarations import Source
from koala.common.metrics.readings import Readings
from koala.common.metrics.serving import ServedMetrics
from koala.common.metrics.settings import MetricsSettings
from koala.common.protocol.messages import ReportState, TransferFailed, TransferFinished
from koala.common.protocol.names import ClaimId
from koala.common.runtime.disk_space import DiskSpace
from koala_agent.claims import states
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.states import Claim, report_of
from koala_agent.link.session_status import SessionStatus
from koala_agent.lrm.local_manager import Idle

ENDING = "ending"
STATES: dict[type[states.State], str] = {
    states.Asked: "asked",
    states.Withdrawing: ENDING,
    states.Granted: "held",
    states.Armed: "held",
    states.Passed: "running",
    states.Stopping: ENDING,
    states.Ended: ENDING,
    states.Collecting: ENDING,
    states.Gone: "gone",
}
"""Value of the label `state` for each state of a claim."""

Commit = Callable[[Sequence[StoreClaim | Forget]], Awaitable[None]]


class Observed(Protocol):
    """Site whose figures are read."""

    @property
    def figures(self) -> Idle | None:
        """Last answer of the local manager."""

    @property
    def problem(self) -> str:
        """Reason why the site needs its administrator; empty when it does not."""

    def startable(self) -> int:
        """Return the number of processors that a claim could have now."""


class AgentMetrics:
    """Metrics of one agent process: counts from its creation on, served while `run` runs."""

    def __init__(self, settings: MetricsSettings, *, version: str) -> None:
        """Listen. Raises ConfigError."""
        self._version = version
        self._states: dict[ClaimId, type[states.State]] = {}
        self._granted: set[ClaimId] = set()
        self._served = ServedMetrics(settings, Source.AGENT, key="metrics.listen")
        self._meter = self._served.meter

    # --- what is counted --------------------------------------------------------------------------

    def restore(self, claims: Sequence[Claim]) -> None:
        """Begin with the claims of an earlier process, which counted them."""
        for claim in claims:
            self._states[claim.id] = type(claim.state)
            if report_of(claim).state is not ReportState.ASKED:
                self._granted.add(claim.id)

    def committing(self, commit: Commit) -> Commit:
        """Make a commit that counts the changes of claims once they are stored."""

        async def counted(changes: Sequence[StoreClaim | Forget]) -> None:
            await commit(changes)
            for change in changes:
                if isinstance(change, StoreClaim):
                    self._count(change.claim)
                else:
                    self._states.pop(change.claim, None)
                    self._granted.discard(change.claim)

        return counted

    def note_copy(self, report: object) -> None:
        """Count the end of a copy."""
        if isinstance(report, TransferFinished):
            self._meter.add(m.AGENT_TRANSFERS, "finished")
            self._meter.add(m.AGENT_TRANSFER_BYTES, by=report.size_bytes)
        elif isinstance(report, TransferFailed):
            self._meter.add(m.AGENT_TRANSFERS, "failed")

    def _count(self, claim: Claim) -> None:
        before, now = self._states.get(claim.id), type(claim.state)
        self._states[claim.id] = now
        if STATES[now] in ("held", "running") and claim.id not in self._granted:
            self._granted.add(claim.id)
            self._meter.add(m.AGENT_GRANTED)
        end = report_of(claim).end
        if now is states.Gone and before is not states.Gone and end is not None:
            self._meter.add(m.AGENT_CLAIMS_ENDED, end.kind.value)

    # --- what is read -----------------------------------------------------------------------------

    async def run(
        self,
        site: Observed,
        *,
        session_status: SessionStatus,
        disk: DiskSpace,
        identity: IdentityFile | None,
    ) -> None:
        """Serve, and measure the lag of the event loop, until cancelled."""

        async def read() -> Readings:
            readings = Readings()
            self._read_site(readings, site)
            readings.set(m.BUILD_INFO, 1, self._version)
            readings.set(m.DISK_FREE, disk.free_bytes)
            readings.set(m.AGENT_LINK_UP, session_status.is_live)
            readings.set(m.AGENT_CONNECTIONS, session_status.connection)
            return readings

        await self._served.serve(read, identity)

    def _read_site(self, readings: Readings, site: Observed) -> None:
        numbers = Counter(STATES[state] for state in self._states.values())
        for state in m.AGENT_STATE.values:
            readings.set(m.AGENT_CLAIMS, numbers[state], state)
        readings.set(m.AGENT_TROUBLE, bool(site.problem))
        readings.set(m.AGENT_STARTABLE, site.startable())
        if (figures := site.figures) is not None:
            readings.set(m.AGENT_CAPACITY, figures.processors)
            readings.set(m.AGENT_LOCAL, figures.local_processors)
            readings.set(m.AGENT_QUEUED, figures.queued_jobs)
            if (commands := figures.commands) is not None:
                readings.set(m.AGENT_COMMANDS, commands.asks_total, "asks")
                readings.set(m.AGENT_COMMANDS, commands.acts_total, "acts")
                readings.set(m.AGENT_ASKS_ALLOWED, commands.allowed)
