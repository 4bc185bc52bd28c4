"""The beginning of a daemon's life: replay the journal, check the state, begin a new epoch.

The core is made with the default parameters, and the first event of the first life sets the
configured ones, so that no replay depends on what a later version's defaults are. Actions of a
replay are dropped: agents register anew and are told all that is wanted. Only outputs of jobs that
Finished are published again, which changes nothing where it was done.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from koala.core.actions import Action, Announce, PublishOutputs
from koala.core.events import DaemonStarted, Event, JobSubmitted, ParametersChanged
from koala.core.parameters import Parameters
from koala.core.scheduler import Scheduler
from koala.core.slots import Policies
from koala.core.snapshot import digest
from koala.core.values import Instant, SiteName
from koala.daemon.clock import Clock, boot_s
from koala.daemon.journal import Journal
from koala.daemon.past import require_digest
from koala.daemon.records import Batch, Notice, Record
from koala.errors import JournalError

PUBLISHED_MAX = 10_000  # of the newest Finished jobs, looked at again after a start
SECRET = "secret"
RESTORED = "restored"
"""A file that `koala restore` leaves in the state directory: the journal may lack its end."""
LOST_EPOCHS_MAX = 1_000
LOST_JOBS_MAX = 1_000_000
log = structlog.get_logger()


class Settings(Protocol):
    """What of the configuration is part of the state."""

    @property
    def parameters(self) -> Parameters:
        """Those of the core."""

    @property
    def policies(self) -> Policies:
        """Those that are asked from now on."""

    @property
    def policy_names(self) -> tuple[tuple[str, str], ...]:
        """(slot, name) of each."""

    @property
    def links(self) -> tuple[tuple[SiteName, SiteName, float], ...]:
        """(from, to, bytes a second)."""

    @property
    def bookable(self) -> tuple[tuple[SiteName, SiteName, float], ...]:
        """The same, of what jobs may book."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What a life begins with; `jobs` are the ids given so far."""

    scheduler: Scheduler
    clock: Clock
    jobs: int
    publications: tuple[PublishOutputs, ...]


class _Past:
    """What a replay gathers beside the state."""

    def __init__(self) -> None:
        self.jobs = 0
        self.publications: deque[PublishOutputs] = deque(maxlen=PUBLISHED_MAX)
        self.parameters: ParametersChanged | None = None

    def note(self, event: Event, actions: list[Action]) -> None:
        if isinstance(event, JobSubmitted):
            self.jobs += 1
        elif isinstance(event, DaemonStarted):
            self.jobs += LOST_JOBS_MAX if event.after_loss else 0
        elif isinstance(event, ParametersChanged):
            self.parameters = event
        self.publications.extend(a for a in actions if isinstance(a, PublishOutputs))


def recover(
    journal: Journal,
    config: Settings,
    make_clock: Callable[[Instant], Clock] = Clock,
    *,
    accept_loss: bool = False,
) -> Recovered:
    """Replay and begin a new epoch; durable when this returns. Raises JournalError.

    With `accept_loss` events may be missing: epoch and numbers of jobs go on beyond all that the
    lost part can have given.
    """
    begun_s = boot_s()
    scheduler = Scheduler(Parameters(), config.policies)
    past = _Past()
    recorded = journal.last_digest()
    for record in journal.records(accept_loss=accept_loss):
        past.note(record.event, scheduler.replay(record.event, record.at, record.answers))
        if recorded is not None and record.seq == recorded[0]:
            require_digest(journal.path, scheduler, *recorded)
    replayed = journal.seq
    clock = make_clock(journal.last_at)
    changed = ParametersChanged(
        parameters=config.parameters,
        links=config.links,
        policies=config.policy_names,
        bookable=config.bookable,
    )
    lost = journal.seq > 0 and accept_loss
    epoch = scheduler.epoch + (LOST_EPOCHS_MAX if lost else 1)
    events: list[Event] = [DaemonStarted(epoch=epoch, after_loss=lost)]
    if past.parameters != changed:
        events.insert(0, changed)
    _begin(journal, scheduler, events, clock.now())
    if lost:
        log.warning("journal.loss_accepted", last_event=replayed, epoch=scheduler.epoch)
    log.info(
        "journal.replayed",
        events=replayed,
        jobs=len(scheduler.jobs),
        epoch=scheduler.epoch,
        took_s=round(boot_s() - begun_s, 3),
    )
    return Recovered(
        scheduler=scheduler,
        clock=clock,
        jobs=past.jobs + (LOST_JOBS_MAX if lost else 0),
        publications=tuple(past.publications),
    )


def read_secret(state_dir: Path) -> bytes:
    """The key of this daemon's tokens, made once. Raises JournalError."""
    path = state_dir / SECRET
    try:
        if not path.exists():
            part = path.with_suffix(".new")
            part.touch(mode=0o600)
            part.write_text(secrets.token_hex(32), encoding="ascii")
            part.rename(path)
        return bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise JournalError(f"{path}: the tokens' key cannot be used: {error}") from error


def _begin(journal: Journal, scheduler: Scheduler, events: list[Event], now: Instant) -> None:
    """The first events of this life, and a digest of the state that it begins with."""
    records: list[Record] = []
    notices: list[Notice] = []
    for number, event in enumerate(events, journal.seq + 1):
        for action in scheduler.handle(event, now):
            if isinstance(action, Announce):
                notices.append(
                    Notice(
                        number=journal.notice_number + len(notices) + 1,
                        at=action.at,
                        job=action.job or "",
                        site=action.site or "",
                        phase=action.phase,
                        text=action.text,
                    )
                )
        records.append(Record(seq=number, at=now, event=event, answers=scheduler.answers))
    journal.append(Batch(records=records, notices=notices, digest=digest(scheduler)))
