"""Progress of running jobs: their blocks of instructions and data, and the sharing of a link.

A job is a list of *steps*, each with instructions to execute and data to move at the same time. The
next begins when both are done (Hints 3.3, figure 1): the data of a block travel while the block
before is executed, its output while the block after it is. A job that streams has one step, which
executes as fast as its data come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf

from koala.core.model.values import Instant
from koala.lab.papers.hints.simulation.setting import JobClass, Setting

DUST = 1e-9
"""Rounding tolerance, as a share of power or of a link."""


@dataclass(slots=True, kw_only=True, eq=False)
class Step:
    """Work to do at the same time: million instructions, and MB."""

    mi: float
    mb: float


def steps_of(setting: Setting, kind: JobClass) -> list[Step]:
    """List the steps of a job in order; the first moves the data of the first block, before which
    nothing can be executed."""
    n = setting.blocks
    if n == 0 or kind.data_mb == 0:
        return [Step(mi=kind.length_mi, mb=kind.data_mb)]
    read, written = (kind.data_mb * part / n for part in (1 - setting.written, setting.written))
    steps = []
    for block in range(n + 2):  # block 0 and block n + 1 have no instructions
        is_block = 1 <= block <= n
        mb = (read if block < n else 0.0) + (written if block > 1 else 0.0)
        steps.append(Step(mi=kind.length_mi / n if is_block else 0.0, mb=mb))
    return [step for step in steps if step.mi or step.mb]


@dataclass(slots=True, kw_only=True, eq=False)
class Running:
    """A placed job: it executes at `mips` at most, and moves data at `mbps` as its link allows.
    `booked_mbps` is reserved for it; None if nothing is booked."""

    job: int
    site: int
    ends: tuple[int, int]  # of its link
    mips: float
    booked_mbps: float | None
    steps: list[Step]  # the present one last
    is_streaming: bool
    mbps: float = 0.0
    mi_rate: float = 0.0
    executed_at: Instant = inf  # when all of the present step is executed ...
    moved_at: Instant = inf  # ... and moved

    @property
    def next_at(self) -> Instant:
        """Return the instant at which a part of the present step is done."""
        return min(self.executed_at, self.moved_at)

    @property
    def wanted_mbps(self) -> float:
        """Bandwidth that it can use: a stream as much as it executes, a block all that there is."""
        step = self.steps[-1]
        if step.mb <= 0:
            return 0.0
        return 8 * step.mb / step.mi * self.mips if self.is_streaming else inf

    @property
    def sure_mbps(self) -> float:
        """Bandwidth of its booking that it uses now."""
        booked = self.booked_mbps or 0.0
        return booked if self.is_streaming else min(booked, self.wanted_mbps)

    def advance(self, now: Instant, since: Instant) -> float:
        """Advance its work to now; return the MB moved. Work that is due now is done, whatever
        rounding has left of it."""
        step = self.steps[-1]
        before, elapsed_s = step.mb, now - since
        if self.is_streaming:
            part = min(1.0, self.mi_rate * elapsed_s / step.mi)
            rest = 0.0 if self.executed_at <= now else 1.0 - part
            step.mi, step.mb = step.mi * rest, step.mb * rest
        else:
            step.mi = 0.0 if self.executed_at <= now else step.mi - self.mi_rate * elapsed_s
            step.mb = 0.0 if self.moved_at <= now else step.mb - self.mbps / 8 * elapsed_s
        moved = before - step.mb
        while self.steps and self.steps[-1].mi <= 0 and self.steps[-1].mb <= 0:
            self.steps.pop()
            self.executed_at = self.moved_at = inf  # those of the next step are not known yet
        return moved

    def set_rates(self, mbps: float, now: Instant) -> None:
        """Set its share of the link."""
        step, wanted = self.steps[-1], self.wanted_mbps
        self.mbps = mbps if step.mb > 0 else 0.0
        self.mi_rate = self.mips if step.mi > 0 else 0.0
        if self.is_streaming and wanted > 0:
            self.mi_rate *= min(1.0, mbps / wanted)
        self.executed_at = now + step.mi / self.mi_rate if self.mi_rate > 0 else inf
        has_data = not self.is_streaming and step.mb > 0 and mbps > 0
        self.moved_at = now + 8 * step.mb / mbps if has_data else inf


@dataclass(slots=True, kw_only=True, eq=False)
class Link:
    """A link and the jobs that use it, in the order of their placement."""

    mbps: float
    running: dict[int, Running] = field(default_factory=dict)
    advanced_at: Instant = 0.0
    moved_mb: float = 0.0

    @property
    def free_mbps(self) -> float:
        """Bandwidth that is not booked."""
        return left(self.mbps, [job.booked_mbps or 0.0 for job in self.running.values()])

    def advance(self, now: Instant) -> None:
        """Advance its jobs to this instant."""
        for job in self.running.values():
            self.moved_mb += job.advance(now, self.advanced_at) if job.steps else 0.0
        self.advanced_at = now

    def share(self, now: Instant) -> None:
        """Give each job its booked part and a max-min fair part of the rest. A stream with a
        booking wants no more than that."""
        jobs = [job for job in self.running.values() if job.steps]
        wanted = [
            0.0 if job.is_streaming and job.booked_mbps else job.wanted_mbps - job.sure_mbps
            for job in jobs
        ]
        for job, part in zip(jobs, max_min_fair(wanted, self.free_mbps), strict=True):
            job.set_rates(job.sure_mbps + part, now)


def left(capacity: float, taken: Iterable[float]) -> float:
    """Remaining capacity. It is summed again each time so that rounding does not accumulate; dust
    counts as 0."""
    rest = capacity - sum(taken)
    return rest if rest > DUST * capacity else 0.0


def max_min_fair(wanted: Sequence[float], capacity: float) -> list[float]:
    """Share bandwidth max-min fairly. No job gets more than it wants, or less than another unless
    it wants no more. The smallest demand is served first, with an equal part of what is left."""
    parts = [0.0] * len(wanted)
    order = sorted(range(len(wanted)), key=wanted.__getitem__)
    for place, index in enumerate(order):
        parts[index] = min(wanted[index], capacity / (len(order) - place))
        capacity -= parts[index]
    return parts
