"""Recorded run of `koala replay`: a verified journal, replayed to its end or to an instant."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from koala.common.runtime.progress_bar import progress
from koala.core.model.parameters import Parameters
from koala.core.model.values import FOREVER, Instant, JobId
from koala.core.policy_api import NO_POLICIES
from koala.core.scheduler import Scheduler
from koala.daemon.storage.journal_reader import JournalReader, Step, replay
from koala.errors import UnknownJobError
from koala.lab.sim.journal_replay.run_history import RunHistory
from koala.lab.sim.journal_replay.story import Narrator, StoryEvent

QUIET = ("Woken", "SiteReported")
"""Kinds of event that the story skips unless they had consequences."""


class PastRun:
    """Run up to `until_at`; the rest of the journal is verified too."""

    def __init__(self, past: JournalReader, *, until_at: Instant | None) -> None:
        self.past = past
        self.history = RunHistory()
        self.scheduler = Scheduler(Parameters(), NO_POLICIES)
        self._until_at = FOREVER if until_at is None else until_at
        if until_at is not None:
            deque(self._steps(FOREVER), maxlen=0)
        for step in self._steps(self._until_at):
            self.scheduler = step.scheduler
            self.history.note(step.record.event, step.record.at, step.actions)

    @property
    def missing(self) -> int:
        """Number of events at the start that the journal no longer keeps."""
        return 0 if self.past.begin is None else self.past.begin.position.seq

    def require(self, job: str) -> JobId:
        """Check that the run has this job. Raises UnknownJobError."""
        if job not in self.scheduler.jobs:
            known = list(self.scheduler.jobs)
            has = f"it has {known[0]} to {known[-1]}" if known else "it has none"
            raise UnknownJobError(f"{self.past.source}: no job {job!r}; {has}")
        return JobId(job)

    def story(
        self, since_at: Instant | None, *, job: JobId | None, is_whole: bool
    ) -> Iterator[StoryEvent]:
        """Yield the events from `since_at` on, of one job or of all.

        Reports and timers without consequences are left out, unless `is_whole`.
        """
        narrator = Narrator()
        for step in replay(self.past, until_at=self._until_at):
            record = step.record
            event = narrator.narrate(record.seq, record.at, record.event, step.actions)
            about = event if job is None else event.about(job)
            if about is None or (since_at is not None and record.at < since_at):
                continue
            if is_whole or about.came or about.kind not in QUIET:
                yield about

    def _steps(self, until_at: Instant) -> Iterator[Step]:
        with progress("reading the journal", self.past.events) as update:
            for step in replay(self.past, until_at=until_at):
                if step.record.seq % 1000 == 0:
                    update(step.record.seq)
                yield step
