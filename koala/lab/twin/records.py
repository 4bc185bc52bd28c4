"""Records of jobs, whatever batch system wrote them, and counts of what was not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from koala.views.units import counted


class Skip(StrEnum):
    """Reason for which a line or record is no job of the twin, after any count of them."""

    STEP = "step or task inside a job"
    NOT_STARTED = "never started: waiting, or cancelled before"
    NO_PROCESSORS = "no processors"
    REPEATED = "repeated by another file or line"
    MALFORMED = "could not be read"


class Note(StrEnum):
    """Property of a job that the twin keeps, after any count of them; the reader of a report should
    know how many."""

    RUNNING = "still running, counted until the record was made"
    REQUEUED = "requeued or preempted by the batch system: each run is a job"
    CANCELLED = "cancelled while running"
    FAILED = "failed, or hit a time limit"
    ARRAY = "of arrays: each task is a job"
    HETEROGENEOUS = "of heterogeneous jobs: each component is a job"
    NO_LIMIT = "without a time limit: the run time stands for it"
    CLOCK_CHANGE = "in the hour that clocks repeat in autumn"


Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run of a job at a site. Instants are in seconds since 1970; `submit_at` is when the batch
    system could have started it, if the record says so. `end_at` is None for a job that still ran
    when the record was made, `limit_s` where no time limit is known."""

    site: str
    job: str
    user: str
    submit_at: int
    start_at: int
    end_at: int | None
    elapsed_s: int | None
    processors: int
    limit_s: int | None
    notes: frozenset[Note]

    @property
    def key(self) -> Key:
        """Identity of the run, which overlapping recordings share, whatever their columns."""
        return self.site, self.job, self.start_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A line or record that is no job of the twin; `detail` names a wrong value."""

    reason: Skip
    line: int
    detail: str = ""


Word = TypeVar("Word", bound=StrEnum)
Read = Record | Skipped
SHOWN_MAX = 5
"""Malformed lines that are named."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counts of an import: what was skipped and why, and what jobs had."""

    kept: int = 0
    skipped: Counter[Skip] = field(default_factory=Counter)
    notes: Counter[Note] = field(default_factory=Counter)
    malformed: list[str] = field(default_factory=list)

    def skip(self, source: str, one: Skipped) -> None:
        """Count a line that is no job."""
        self.skipped[one.reason] += 1
        if one.reason is Skip.MALFORMED and len(self.malformed) < SHOWN_MAX:
            self.malformed.append(f"{source}, line {one.line}: {one.detail}")

    def lines(self) -> Iterator[str]:
        """Say all counts in words."""
        yield counted(self.kept, "job")
        yield from (f"  {count} {note}" for note, count in _ordered(Note, self.notes))
        yield from (f"{count} left out: {why}" for why, count in _ordered(Skip, self.skipped))
        yield from (f"  {line}" for line in self.malformed)

    def document(self) -> dict[str, object]:
        """Return the counts for JSON."""
        return {
            "jobs": self.kept,
            "of_them": {note.name.lower(): self.notes[note] for note in Note},
            "left_out": {reason.name.lower(): self.skipped[reason] for reason in Skip},
            "malformed": self.malformed,
        }


def _ordered(kind: Iterable[Word], counts: Counter[Word]) -> Iterator[tuple[Word, int]]:
    return ((reason, counts[reason]) for reason in kind if counts[reason])


def merged(sources: Iterable[tuple[str, Iterable[Read]]], counts: Counts) -> list[Record]:
    """Collect the jobs of several recordings by their submission. Of a run that two recordings
    have, the one that knows its end counts."""
    found: dict[Key, Record] = {}
    for source, reads in sources:
        for read in reads:
            if isinstance(read, Skipped):
                counts.skip(source, read)
                continue
            known = found.get(read.key)
            if known is not None:
                counts.skipped[Skip.REPEATED] += 1
            if known is None or (known.end_at is None and _is_later(read, known)):
                found[read.key] = read
    jobs = sorted(
        _timed(found.values()), key=lambda one: (one.submit_at, one.start_at, one.site, one.job)
    )
    counts.kept = len(jobs)
    for job in jobs:
        counts.notes.update(job.notes)
    return jobs


def _timed(jobs: Iterable[Record]) -> Iterator[Record]:
    """Let jobs that still run, and whose records do not say for how long, run until the latest
    instant of their site's records."""
    found = list(jobs)
    latest: dict[str, int] = {}
    for job in found:
        seen = max(
            job.submit_at, job.start_at, job.end_at or 0, job.start_at + (job.elapsed_s or 0)
        )
        latest[job.site] = max(latest.get(job.site, 0), seen)
    for job in found:
        if job.end_at is None and job.elapsed_s is None:
            yield replace(job, elapsed_s=latest[job.site] - job.start_at)
        else:
            yield job


def _is_later(one: Record, known: Record) -> bool:
    return one.end_at is not None or (one.elapsed_s or 0) > (known.elapsed_s or 0)
