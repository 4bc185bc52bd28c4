"""Record of a run: the true state of jobs and sites, which all rules share."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from koala.core.model.job import ArmNumber
from koala.core.model.job_spec import JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.predecessors import Predecessor
from koala.core.model.values import ClaimId, Instant, JobId, Seconds, SiteName
from koala.lab.sim.engine import Engine
from tests.swarm.system.starters import Starter

EVENTS_KEPT = 60
ENDS = ("Finished", "Failed", "Cancelled")
CLOCK_S = 0.05
"""Limit on the difference between clocks of different rates within a barrier."""


@dataclass
class Truth:
    """True state of one job."""

    spec: JobSpec
    is_accepted: bool = False
    is_submitted: bool = False  # durably
    phase: str = ""
    is_lost: bool = False  # with the disk
    is_restored: bool = False  # from a backup, which may know less of it than was true
    is_finished: bool = False
    running: dict[ClaimId, Starter] = field(default_factory=dict)
    began: dict[ClaimId, None] = field(default_factory=dict)
    ran: dict[ClaimId, Starter] = field(default_factory=dict)
    passed: dict[tuple[int, int], ClaimId] = field(default_factory=dict)
    newest_passed: int = 0
    deadline_at: Instant | None = None  # once it was claimed
    after: tuple[Predecessor, ...] = ()  # as it was accepted


class Record:
    """True state of a run, and what was seen of it."""

    def __init__(self, parameters: Parameters, specs: dict[JobId, JobSpec]) -> None:
        self.engine: Engine | None = None
        self.shift_s: Callable[[], Seconds] = lambda: 0.0  # the daemon's time less the true one
        self.well_since: Callable[[ClaimId], Instant | None] = lambda _: None  # as agents know it
        self.parameters = parameters
        self.jobs = {job: Truth(spec=spec) for job, spec in specs.items()}
        self.processors: dict[SiteName, int] = {}
        self.carries: dict[SiteName, bool] = {}  # connections to ports, through the grid
        self.offsets: dict[SiteName, Seconds] = {}
        self.killing: list[SiteName] = []
        self.again_s: Seconds = 0.0  # of the agents
        self.totals: dict[JobId, int] = {}  # largest ones that owners of malleable jobs ask for
        self.sizes: dict[ClaimId, int] = {}  # as they were asked for
        self.promises: dict[ClaimId, list[ArmNumber]] = {}
        self.releases: dict[tuple[JobId, int], ArmNumber] = {}  # the first of an attempt
        self.arms: dict[
            tuple[ClaimId, ArmNumber], tuple[Instant, Seconds, tuple[ClaimId, ...]]
        ] = {}
        self.last: deque[str] = deque(maxlen=EVENTS_KEPT)
        self.seen: dict[str, int] = {}
        self._hash = hashlib.sha256()

    @property
    def now(self) -> Instant:
        return self.engine.now if self.engine is not None else 0.0

    @property
    def trace(self) -> str:
        """Return a hash of everything observed, in order."""
        return self._hash.hexdigest()

    def note(self, text: str) -> None:
        line = f"{self.now:12.4f} {text}"
        self.last.append(line)
        self._hash.update(line.encode())

    def count(self, what: str) -> None:
        """Count a rare situation, to show that a swarm reaches it."""
        self.seen[what] = self.seen.get(what, 0) + 1
