"""Reads of a simulated journal outside the daemon that writes it."""

from __future__ import annotations

from koala.common.runtime.clock import Clock
from koala.common.runtime.sqlite_store import Database
from koala.core.digest import digest
from koala.core.model.job import Job
from koala.core.model.parameters import Parameters
from koala.core.model.values import Instant, JobId
from koala.core.policy_api import NO_POLICIES
from koala.core.scheduler import Scheduler
from koala.core.snapshot import load
from koala.daemon.config import CoreSettings
from koala.daemon.state.recovery import recover
from koala.daemon.storage import archive
from koala.daemon.storage.journal import SCHEMA, Journal
from koala.daemon.storage.records import JournalPosition, Notice, Record
from koala.errors import JournalError
from tests.swarm.system.disk import PATH, Copy, Disk


def opened(disk: Disk) -> Journal:
    """Open the journal on a disk. Raises JournalError."""
    database = Database(PATH, SCHEMA, connection=disk.connection)
    archive.check_jobs(disk.connection, PATH)
    return Journal(disk, database)


def state_of(disk: Disk, settings: CoreSettings) -> str | None:
    """Return the digest of the state on a disk; None when it is refused."""
    try:
        journal = opened(disk)
        recovered = recover(journal, settings, _still)
    except JournalError:
        return None
    return digest(recovered.scheduler)


def _still(not_before: Instant, *, has_claims: bool) -> Clock:
    return Clock(wall=lambda: 0.0, boot=lambda: 0.0)


def last_seq(disk: Disk) -> int:
    """Return the number of the last durable event."""
    (last,) = disk.connection.execute("SELECT max(seq) FROM event").fetchone()
    return int(last or 0)


def replayed(disk: Disk) -> Scheduler:
    """Replay the journal alone: from the first event, or from the oldest snapshot where the first
    ones are not kept any longer."""
    copy = Copy(disk.image(), disk.mark)
    journal = opened(copy)
    scheduler, begun, at = Scheduler(Parameters(), NO_POLICIES), JournalPosition(), 0.0
    if journal.first_event > 1:
        kept = [one for one in journal.snapshots() if isinstance(one, archive.KeptSnapshot)][-1]
        scheduler = load(kept.snapshot.plain, NO_POLICIES, kept.snapshot.specs)
        begun, at = kept.position, kept.at
    for record in journal.records(begun, last_at=at):
        scheduler.replay(record.event, record.at, record.answers)
    return scheduler


def records_of(disk: Disk) -> list[Record]:
    """Return all records of the journal."""
    copy = Copy(disk.image(), disk.mark)
    return list(opened(copy).records())


def archived_job(disk: Disk, job: JobId) -> Job | None:
    """Return a job that has left the state."""
    return archive.read_job(disk.connection, PATH, job)


def archived_key(disk: Disk, key: str) -> tuple[JobId, str] | None:
    """Return job and digest of a submission whose job has left the state."""
    return archive.read_keys(disk.connection, PATH, [key]).get(key)


def notices_of(disk: Disk) -> list[Notice]:
    """Return all notices that watchers can read."""
    rows = disk.connection.execute(
        "SELECT number, at, job, site, phase, text FROM notice ORDER BY number"
    )
    names = ("number", "at", "job", "site", "phase", "text")
    return [Notice(**dict(zip(names, row, strict=True))) for row in rows]
