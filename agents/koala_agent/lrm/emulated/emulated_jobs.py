"""The jobs of an emulated site, as they are known and as they are to be stored."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace

from koala_agent.lrm.emulated.process_trees import Usage
from koala_agent.lrm.job_table import JobRow, Over, State
from koala_agent.lrm.local_manager import EndCause, Placeholder

_ENDED_MAX = 10_000
"""Ended jobs that are kept to be listed; the agent's claim table is the long memory."""


@dataclass(slots=True, eq=False)
class Job:
    """A job in the memory of the manager."""

    placeholder: Placeholder
    state: State
    gpus: tuple[int, ...] = ()
    is_doomed: bool = False
    is_launching: bool = False
    """A process was ordered, and its start was not handled."""
    ordered_end: tuple[EndCause, str] | None = None
    """An end that was ordered meanwhile."""
    limit: asyncio.TimerHandle | None = None
    usage: Usage = field(default_factory=Usage)
    """Usage of the first process and of those it waited for, once it has exited."""

    @property
    def claim(self) -> str:
        return self.placeholder.claim


class JobList:
    """All jobs by claim, and the changes since the last transaction."""

    def __init__(self) -> None:
        self.by_claim: dict[str, Job] = {}
        self.unfinished = 0
        self._unstored: dict[str, JobRow | None] = {}
        """Changes for the next transaction; None for a job to be forgotten."""
        self._ended: deque[str] = deque()

    def add(self, job: Job) -> None:
        """List a job that is new, or from an earlier run."""
        self.by_claim[job.claim] = job
        if isinstance(job.state, Over):
            self._remember_end(job.claim)
        else:
            self.unfinished += 1

    def change(self, job: Job, state: State) -> None:
        """Change the state of a job, and note it to be stored."""
        job.state = state
        self.save(job)

    def save(self, job: Job) -> None:
        """Note a changed job to be stored."""
        placeholder = job.placeholder
        if isinstance(job.state, Over):  # its script is long, and contains a secret
            placeholder = replace(placeholder, body="")
        self._unstored[job.claim] = JobRow(placeholder, job.state, job.gpus)

    def finish(self, job: Job, over: Over) -> None:
        """Note the end of a job; the oldest ended ones are forgotten."""
        self.change(job, over)
        self.unfinished -= 1
        self._remember_end(job.claim)

    def take_changes(self) -> dict[str, JobRow | None]:
        """Return the changes that are to be stored, once."""
        changes, self._unstored = self._unstored, {}
        return changes

    def _remember_end(self, claim: str) -> None:
        self._ended.append(claim)
        if len(self._ended) > _ENDED_MAX:
            oldest = self._ended.popleft()
            del self.by_claim[oldest]
            self._unstored[oldest] = None
