"""Programs of the grid's jobs in simulated time.

A component of most jobs runs for a given time. A malleable job has work instead: its speed follows
from the processors of all its components that run, so each that comes or goes changes when the
work is done. Then all of them end. An attempt that is made again begins with all its work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from koala.core.model.values import FOREVER, ClaimId, Instant, JobId, Seconds
from koala.lab.sim.engine import Engine, Entry
from koala.lab.sim.experiment.setting import MalleableProgram, Submission

End = Callable[[], None]
"""Ends a component at its site, because its program exits."""


@dataclass(slots=True, kw_only=True)
class _Work:
    """Work of an attempt of a malleable job. `left` of it, 1 at first, was not done at `told_at`;
    `components` run now."""

    attempt: str
    program: MalleableProgram
    told_at: Instant
    left: float = 1.0
    components: dict[ClaimId, tuple[int, End]] = field(default_factory=dict)
    done: Entry | None = None
    sizes: list[tuple[Instant, int]] = field(default_factory=list)

    @property
    def processors(self) -> int:
        """Processors of all components that run."""
        return sum(processors for processors, _ in self.components.values())


class Programs:
    """Programs of all jobs that are not over."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._submissions: dict[JobId, Submission] = {}
        self._works: dict[JobId, _Work] = {}
        self._running: dict[ClaimId, _Work] = {}

    def add(self, submission: Submission) -> None:
        """Add the program of a job."""
        self._submissions[submission.job] = submission

    def forget(self, job: JobId) -> None:
        """Forget a job that is over, but for the sizes that a malleable one had."""
        self._submissions.pop(job, None)

    def sizes_of(self, job: JobId) -> tuple[tuple[Instant, int], ...]:
        """Return the processors of a malleable job in its last attempt, each with the instant from
        which it had them; none of another job."""
        return tuple(self._works[job].sizes) if job in self._works else ()

    def begin(self, claim: ClaimId, processors: int, end: End) -> tuple[Seconds, int]:
        """Begin a component; return its run time and its exit status. One of a malleable job runs
        until `end` is called."""
        name, attempt, component, _ = claim.rsplit("/", 3)
        job, index = JobId(name), int(component)
        submission = self._submissions[job]
        if submission.program is None:
            status = submission.statuses[index] if submission.statuses else 0
            return submission.run_s[index], status
        work = self._works.get(job)
        if work is None or work.attempt != attempt:
            work = _Work(attempt=attempt, program=submission.program, told_at=self._engine.now)
            self._works[job] = work
        self._advance(work)
        work.components[claim] = (processors, end)
        self._running[claim] = work
        self._go_on(work)
        return FOREVER, 0

    def note_end(self, claim: ClaimId) -> None:
        """Go on without a component that ended, for whatever reason."""
        work = self._running.pop(claim, None)
        if work is not None:
            self._advance(work)
            del work.components[claim]
            self._go_on(work)

    def leave_s(self, claim: ClaimId) -> Seconds:
        """Return the time that a component takes to give way."""
        return self._running[claim].program.leave_s

    def _advance(self, work: _Work) -> None:
        """Do the work from the last change until now."""
        now, processors = self._engine.now, work.processors
        if processors:
            done = (now - work.told_at) / work.program.run_s(processors)
            work.left = max(0.0, work.left - done)
        work.told_at = now

    def _go_on(self, work: _Work) -> None:
        """Go on with the processors that the job has now."""
        now, processors = self._engine.now, work.processors
        if work.sizes and work.sizes[-1][0] == now:
            work.sizes.pop()
        work.sizes.append((now, processors))
        if work.done is not None:
            work.done.cancel()
        work.done = None
        if processors:
            left_s = work.left * work.program.run_s(processors)
            work.done = self._engine.after(left_s, lambda: self._finish(work))

    def _finish(self, work: _Work) -> None:
        """End all components, because the work is done."""
        work.left = 0.0
        for _, end in list(work.components.values()):
            end()
