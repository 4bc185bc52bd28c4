"""The journal of a release whose core decided otherwise than ours: what of it can be relied on.

A state that it saved is taken as it is: no digest of ours vouches for it, so it is held against the
invariants instead. Events after it are replayed by our core, which might decide otherwise than
sites and users were told. So the replay counts only if every job thereby goes through the same
phases at the same instants as the notices say that were committed with these events (each
placement, release, start, setback and end of an attempt is such a phase). What a job waits for, and
words, may differ. The start then saves the state at once, with our core's number: no later start
replays these events again, and `koala replay` begins there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from koala.core.invariants import check
from koala.core.model.actions import Action, Announce
from koala.core.model.values import Instant
from koala.core.scheduler import Scheduler
from koala.daemon.storage.records import ADVICE, Notice
from koala.errors import JournalError
from koala.runtime.disk_formats import CORE

REMEDY = (
    "Start the release that wrote it once more, end it with TERM, so that it saves its state, and"
    " start this one then; where that release is gone: "
    + ADVICE[0].lower()
    + ADVICE[1:].partition(", or go on")[0]
)

Step: TypeAlias = tuple[Instant, str, str]
"""When a job came to a phase: instant, job, phase."""


def require_sound(scheduler: Scheduler, at: Instant) -> None:
    """Hold a state that another core saved, or a replay of its events, against the invariants.
    Raises AssertionError."""
    check(scheduler, at)


def later(path: Path, wrote: int) -> JournalError:
    """Make the error of a journal of a later release."""
    return JournalError(
        f"{path}: core {wrote}: this release has core {CORE}. A later release wrote it: go on with"
        " that one, or a later one yet; or put back a backup that was made before it was started"
        " (koala restore BACKUP STATE_DIR)"
    )


def refused(path: Path, wrote: int, replayed: int, why: str) -> JournalError:
    """Make the error of a journal whose last events our core decides otherwise."""
    return JournalError(
        f"{path}: its last {replayed} events were written by an earlier release (core {wrote}, this"
        f" one has {CORE}) that did not save its state at the end, and a replay by this one"
        f" differs: {why}. {REMEDY}"
    )


@dataclass(slots=True)
class Comparison:
    """Compares the replay of another core's events with what was told when they happened."""

    _begin_at: Instant
    _before: dict[str, str]
    _found: list[Step]

    @classmethod
    def begin(cls, scheduler: Scheduler, at: Instant) -> Comparison:
        """Begin at the state before the first of these events."""
        return cls(at, {job.id: job.phase_name for job in scheduler.jobs.values()}, [])

    def note(self, at: Instant, actions: Iterable[Action]) -> None:
        """Take in what came of an event."""
        for action in actions:
            if isinstance(action, Announce) and action.job is not None:
                self._found.append((at, action.job, action.phase))

    def difference(self, notices: Callable[[Instant], Sequence[Notice]], *, is_cut: bool) -> str:
        """Say in what the two differ; empty when they do not. Of a journal that `is_cut` the
        notices may go further than the events."""
        told = [(n.at, n.job, n.phase) for n in notices(self._begin_at) if n.job]
        found = list(_changes(self._found, dict(self._before)))
        expected = list(_changes(told, dict(self._before)))
        # Of the instant of the saved state itself some were told before it.
        while expected and expected[0][0] <= self._begin_at and expected[: len(found)] != found:
            expected.pop(0)
        if is_cut:
            expected = expected[: len(found)]
        for ours, theirs in zip(found, expected, strict=False):
            if ours != theirs:
                return f"{_words(theirs)} then, and {_words(ours)} now"
        if len(found) < len(expected):
            return f"{_words(expected[len(found)])} then, and not now"
        if len(found) > len(expected):
            return f"{_words(found[len(expected)])} now, and not then"
        return ""


def _changes(steps: Iterable[Step], phases: dict[str, str]) -> Iterable[Step]:
    """The steps at which a job's phase became another one."""
    for at, job, phase in steps:
        if phases.get(job) != phase:
            phases[job] = phase
            yield at, job, phase


def _words(step: Step) -> str:
    at, job, phase = step
    return f"{job} came to {phase} at {at:.3f}"
