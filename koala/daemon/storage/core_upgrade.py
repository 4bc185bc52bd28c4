"""Take over the journal of a release whose core decides differently.

Its saved state is taken as it is. This core cannot verify the digest, so it checks the invariants
instead. Later events are replayed by this core, which might decide differently from what sites and
users were told. So the replay is accepted only if every job goes through the same phases at the
same instants as the notices committed with these events (each placement, release, start, setback
and end of an attempt is such a phase). Reasons for waiting, and wording, may differ.

The start then saves a snapshot at once, with this core's number: no later start replays these
events again, and `koala replay` begins there.
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
from koala.daemon.storage.records import RESTORE, Notice
from koala.errors import JournalError
from koala.runtime.disk_formats import CORE

REMEDY = (
    "Start the release that wrote it once more, end it with TERM, so that it saves its state, and"
    f" start this one then. {RESTORE} where that release is gone"
)

Step: TypeAlias = tuple[Instant, str, str]
"""Transition of a job: instant, job, new phase."""


def require_sound(scheduler: Scheduler, at: Instant) -> None:
    """Check the invariants of a state that another core saved, or of a replay of its events.

    Raises AssertionError.
    """
    check(scheduler, at)


def newer_release_error(path: Path, wrote: int) -> JournalError:
    """Create the error of a journal of a later release."""
    return JournalError(
        f"{path}: core {wrote}: this release has core {CORE}. A later release wrote it: go on with"
        " that one, or a later one yet; or put back a backup that was made before it was started"
        " (koala restore BACKUP STATE_DIR)"
    )


def differs_error(path: Path, wrote: int, replayed: int, why: str) -> JournalError:
    """Create the error of a journal whose last events this core decides differently."""
    return JournalError(
        f"{path}: its last {replayed} events were written by an earlier release (core {wrote}, this"
        f" one has {CORE}) that did not save its state at the end, and a replay by this one"
        f" differs: {why}. {REMEDY}"
    )


@dataclass(slots=True)
class ReplayComparison:
    """Compare the replay of another core's events with the notices committed with them."""

    _begin_at: Instant
    _before: dict[str, str]
    _found: list[Step]

    @classmethod
    def begin(cls, scheduler: Scheduler, at: Instant) -> ReplayComparison:
        """Begin at the state before the first of these events."""
        return cls(at, {job.id: job.phase_name for job in scheduler.jobs.values()}, [])

    def note(self, at: Instant, actions: Iterable[Action]) -> None:
        """Record the transitions among an event's actions."""
        for action in actions:
            if isinstance(action, Announce) and action.job is not None:
                self._found.append((at, action.job, action.phase))

    def difference(self, notices: Callable[[Instant], Sequence[Notice]], *, is_cut: bool) -> str:
        """Return the first difference; empty if there is none.

        If the journal `is_cut`, the notices may go further than the events.
        """
        published = [(n.at, n.job, n.phase) for n in notices(self._begin_at) if n.job]
        found = list(_changes(self._found, dict(self._before)))
        expected = list(_changes(published, dict(self._before)))
        # At the instant of the saved state some notices were published before it.
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
    """Yield the steps that change a job's phase."""
    for at, job, phase in steps:
        if phases.get(job) != phase:
            phases[job] = phase
            yield at, job, phase


def _words(step: Step) -> str:
    at, job, phase = step
    return f"{job} came to {phase} at {at:.3f}"
