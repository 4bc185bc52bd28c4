"""Recover the daemon's state at start: load a snapshot, replay the later events, begin a new epoch.

- The core starts with the default parameters, and the first event of the first run sets the
  configured ones. So no replay depends on the defaults of the code that runs it.
- Actions of a replay are dropped: agents register again and receive their whole wanted state.
- Only the files of ended jobs are processed again, which is idempotent.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from koala.common.identity.private_files import private_folder, read_private, write_private
from koala.common.runtime.clock import Clock, now
from koala.common.runtime.structured_log import get_logger
from koala.core.digest import digest
from koala.core.model.events import KINDS, DaemonStarted, Event, JobSubmitted, ParametersChanged
from koala.core.model.parameters import Parameters
from koala.core.model.values import FOREVER, JobId
from koala.core.scheduler import Scheduler
from koala.core.snapshot import UnreadableSnapshotError, load
from koala.daemon.auth.certificate_authority import FOLDER
from koala.daemon.config import Config, CoreSettings
from koala.daemon.loop.group_commit import GroupCommit
from koala.daemon.state.kept_clock import MakeClock, begin_clock, wall_clock
from koala.daemon.storage.archive import KeptSnapshot
from koala.daemon.storage.folder import RESTORED
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.journal_reader import replay_event, require_digest
from koala.daemon.storage.records import (
    JournalPosition,
    decode_event,
    encode_event,
    unusable_error,
)
from koala.errors import DamagedError, JournalError

PUBLISHED_MAX = 10_000  # newest ended jobs whose files are processed again after a start
SECRET = "secret"
DAY_S = 86_400.0
_KEY = re.compile(rb"[0-9a-f]{64}")
LOST_EPOCHS_MAX = 1_000
LOST_JOBS_MAX = 1_000_000
log = get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The state with which a run begins.

    - `jobs`: number of job ids given so far.
    - `over`: the newest ended jobs, whose files may not have been processed in time.
    - `replayed`: events since the snapshot.
    - `settings`: those in force, as the JSON of their event.
    """

    scheduler: Scheduler
    clock: Clock
    jobs: int
    over: tuple[JobId, ...]
    replayed: int
    settings: str


class _ReplayFacts:
    """Facts that a replay collects beside the state."""

    def __init__(self, jobs: int = 0, settings: Event | None = None) -> None:
        self.jobs = jobs
        self.settings = settings

    def note(self, event: Event) -> None:
        if isinstance(event, JobSubmitted):
            self.jobs += 1
        elif isinstance(event, ParametersChanged):
            self.settings = event
        elif isinstance(event, DaemonStarted):
            self.jobs += LOST_JOBS_MAX if event.after_loss else 0


def begin_run(
    config: Config, *, make_room: Callable[[], bool] = lambda: False, accept_loss: bool = False
) -> tuple[Journal, Recovered]:
    """Open the journal and recover. Raises JournalError.

    `make_room` is called when a commit, now or later, finds the disk full.

    After a restore events may be missing, as with `accept_loss`. With `accept_loss`, damaged
    history is dropped, which alone is no loss.
    """
    restored = config.state_dir / RESTORED
    is_restored = restored.exists()
    keep = config.journal
    journal = Journal.open(
        config.state_dir,
        keep_s=keep.keep_days * DAY_S or FOREVER,
        keep_jobs_s=keep.keep_past_jobs_days * DAY_S or FOREVER,
        make_room=make_room,
    )
    make_clock = partial(begin_clock, config.state_dir)
    try:
        recovered = None
        if accept_loss and (last := journal.drop_history()):
            log.warning("journal.history_dropped", last_event=last, lost="nothing that came later")
            with suppress(DamagedError):
                recovered = recover(journal, config, make_clock, accept_loss=is_restored)
        if recovered is None:
            recovered = recover(journal, config, make_clock, accept_loss=accept_loss or is_restored)
    except BaseException:
        journal.close()
        raise
    restored.unlink(missing_ok=True)
    return journal, recovered


def recover(
    journal: Journal,
    config: CoreSettings,
    make_clock: MakeClock = wall_clock,
    *,
    accept_loss: bool = False,
) -> Recovered:
    """Recover from the newest usable snapshot and begin a new epoch, durable on return.

    Raises JournalError. With `accept_loss` events may be missing: epoch and job numbers continue
    beyond any that the lost part can have used.
    """
    begun_s = now()
    start, scheduler = _start(journal, config)
    snapshot = None if start is None else start.snapshot
    facts = (
        _ReplayFacts()
        if snapshot is None
        else _ReplayFacts(snapshot.jobs, _settings(snapshot.settings))
    )
    begun = JournalPosition() if start is None else start.position
    last_at = 0.0 if start is None else start.at
    if begun.seq:
        journal.check_history(begun, accept_loss=accept_loss)
    recorded = None if accept_loss else journal.last_digest()
    for record in journal.records(begun, last_at=last_at, accept_loss=accept_loss):
        replay_event(journal.path, scheduler, record)
        facts.note(record.event)
        if recorded is not None and record.seq == recorded[0]:
            require_digest(journal.path, scheduler, *recorded)
    replayed = journal.seq - begun.seq
    clock = make_clock(journal.last_at, has_claims=bool(scheduler.ledger))
    changed = ParametersChanged(
        parameters=config.parameters,
        links=config.links,
        policies=config.policy_names,
        bookable=config.bookable,
    )
    epoch = scheduler.epoch + (LOST_EPOCHS_MAX if accept_loss else 1)
    events: list[Event] = [DaemonStarted(epoch=epoch, after_loss=accept_loss)]
    if facts.settings != changed:
        events.insert(0, changed)
    last = journal.seq
    for seq in journal.ready(accept_loss=accept_loss):
        log.warning("snapshot.dropped", after_event=seq, reason="it does not match its checksum")
    settings = encode_event(changed)
    jobs = facts.jobs + (LOST_JOBS_MAX if accept_loss else 0)
    batch = GroupCommit(scheduler, journal, clock, digest=digest, jobs=jobs).handle(events)
    journal.append(replace(batch, digest=digest(scheduler)))
    if accept_loss:
        log.warning("journal.loss_accepted", last_event=last, epoch=scheduler.epoch)
    log.info(
        "journal.replayed",
        snapshot=begun.seq,
        events=replayed,
        jobs=len(scheduler.jobs),
        epoch=scheduler.epoch,
        took_s=round(now() - begun_s, 3),
    )
    return Recovered(
        scheduler=scheduler,
        clock=clock,
        jobs=jobs,
        over=tuple(scheduler.ended)[-PUBLISHED_MAX:],
        replayed=replayed,
        settings=settings,
    )


def _start(journal: Journal, config: CoreSettings) -> tuple[KeptSnapshot | None, Scheduler]:
    """Return the snapshot to start from and its state; None means the first event.

    Raises JournalError.
    """
    problems = []
    for kept in journal.snapshots():
        if isinstance(kept, JournalError):
            problems.append(kept)
            continue
        try:
            scheduler = load(kept.snapshot.plain, config.policies, kept.snapshot.specs)
            require_digest(journal.path, scheduler, kept.position.seq, kept.snapshot.digest)
        except UnreadableSnapshotError as error:
            reason = f"{journal.path}: the snapshot after event {kept.position.seq}: {error}"
            problems.append(JournalError(reason))
            continue
        for problem in problems:
            log.warning("snapshot.skipped", reason=str(problem))
        return kept, scheduler
    if journal.first_event > 1:
        gone = f"events before {journal.first_event} are not kept any longer"
        why = f"; {getattr(problems[0], 'what', problems[0])}" if problems else ""
        raise unusable_error(journal.path, f"there is no snapshot to begin at, and {gone}{why}")
    return None, Scheduler(Parameters(), config.policies)


def _settings(text: str) -> Event | None:
    return None if not text else decode_event(KINDS[ParametersChanged], text)


def read_secret(state_dir: Path) -> bytes:
    """Return the key of this daemon's tokens; create it at the first start.

    Raises JournalError, and ConfigError if other accounts can read it.
    """
    path = private_folder(state_dir / FOLDER) / SECRET
    try:
        if not path.exists():
            write_private(path, secrets.token_hex(32).encode())
        text = read_private(path)
    except OSError as error:
        raise JournalError(f"{path}: the tokens' key cannot be used: {error}") from error
    if not _KEY.fullmatch(text):
        raise JournalError(
            f"{path}: the tokens' key is damaged: {len(text)} bytes (expected 64 hexadecimal"
            " digits). Take it from a backup; or remove it, and the next start makes another. Then"
            " outputs and logs of claims from before are refused, so that a job with output files"
            " that runs now fails, and until sites have had new orders an older journal than they"
            " know of is not detected"
        )
    return bytes.fromhex(text.decode())
