"""State folders that earlier releases left, ended by TERM and by KILL, are taken over; what cannot
be is refused with the number found, those that are known, and what to do.

They hold jobs in all phases that last, an archive, claims, a copy under way and what agents keep
(`tests/states/record.py`). Who renames or moves a class, or lets the core decide otherwise, sees
here whether state on disks survives it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from koala.core.invariants import check
from koala.core.model.job import Job
from koala.core.model.values import JobId
from koala.daemon.auth.credential_store import CredentialStore
from koala.daemon.config import read_config
from koala.daemon.state.backup import back_up
from koala.daemon.state.recovery import Recovered, begin_life
from koala.daemon.storage.folder import FILE
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.journal_reader import open_journal, replay
from koala.errors import ConfigError, JournalError
from koala.files.incoming import Incoming
from koala.runtime.disk_formats import CLAIMS, CORE, JOURNAL, LOCAL_JOBS
from koala_agent.claims.store import Store
from koala_agent.lrm.job_table import JobRow, JobTable
from tests.states.recorded import RECORDED, SITES, unpack

KILLED_WITH_CORE_1 = ("727e3e3-kill", "ff0b831-kill")


@contextmanager
def life(folder: Path) -> Iterator[tuple[Journal, Recovered]]:
    """One start of the daemon, without its ports, and an end that saves nothing."""
    journal, found = begin_life(read_config(folder / "state" / "daemon.toml"))
    with closing(journal):
        yield journal, found


def job(journal: Journal, found: Recovered, name: str) -> Job:
    known = found.scheduler.jobs.get(JobId(name)) or asyncio.run(journal.job(name))
    assert known is not None, name
    return known


@contextmanager
def written(folder: Path) -> Iterator[sqlite3.Connection]:
    """The journal's database, to be changed."""
    with closing(sqlite3.connect(folder / "state" / "daemon" / FILE)) as connection, connection:
        yield connection


def test_there_are_states_of_both_ends() -> None:
    assert {name.rpartition("-")[2] for name in RECORDED} == {"term", "kill"}


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_state_is_taken_over(name: str, tmp_path: Path) -> None:
    phases = unpack(name, tmp_path)
    counts = Counter(phases.values())
    kinds = {"Finished", "Failed", "Cancelled", "Running", "Stopping", "Placing", "Delayed"}
    assert kinds <= counts.keys(), "the recorded state is not rich enough"
    for start in (1, 2):  # the second begins at what the first one saved
        with life(tmp_path) as (journal, found):
            known = {one: job(journal, found, one).phase_name for one in phases}
            assert known == phases
            assert found.jobs == max(int(one.removeprefix("j")) for one in phases)
            assert found.scheduler.epoch == start + 1
            assert journal.core() == CORE
            assert found.scheduler.ledger
            assert list(found.scheduler.sites) == sorted(SITES)
            check(found.scheduler, found.clock.now())
    made = back_up(tmp_path / "state" / "daemon", tmp_path / "backup", with_spool=False)
    *_, last = replay(open_journal(tmp_path / "backup"))
    assert (made.events, last.scheduler.epoch) == (last.record.seq, 3)
    credentials = CredentialStore(tmp_path / "state" / "daemon" / "authority")
    assert credentials.sites.keys() == SITES.keys()


@pytest.mark.parametrize("name", KILLED_WITH_CORE_1)
def test_events_that_this_core_decides_otherwise_are_refused_with_a_remedy(
    name: str, tmp_path: Path
) -> None:
    """The notices say what was done at the time; a replay that tells otherwise is not believed."""
    unpack(name, tmp_path)
    with written(tmp_path) as connection:
        done = connection.execute(
            "UPDATE notice SET phase = 'Releasing' WHERE number ="
            " (SELECT max(number) FROM notice WHERE phase = 'Running')"
        )
        assert done.rowcount == 1
    told = r"core 1, this one has \d+\).* came to \w+ at .* then, and .*end it with TERM.* backup"
    for _ in range(2):
        with pytest.raises(JournalError, match=told), life(tmp_path):
            pass


@pytest.mark.parametrize("name", RECORDED)
def test_state_of_a_later_release_is_refused(name: str, tmp_path: Path) -> None:
    unpack(name, tmp_path)
    with written(tmp_path) as connection:
        connection.execute("UPDATE fact SET value = '99' WHERE name = 'core'")
    told = rf"core 99: this release has core {CORE}\. A later release wrote it: go on with that"
    with pytest.raises(JournalError, match=told):
        open_journal(tmp_path / "state" / "daemon")
    with pytest.raises(JournalError, match=told), life(tmp_path):
        pass
    with written(tmp_path) as connection:
        connection.execute(f"PRAGMA user_version = {JOURNAL.newest + 1}")
    told = (
        f"format {JOURNAL.newest + 1}: this release reads 2 to 3. A later release wrote it: go on"
    )
    with pytest.raises(JournalError, match=told), life(tmp_path):
        pass


@pytest.mark.parametrize("name", RECORDED)
def test_what_an_agent_kept_is_read(name: str, tmp_path: Path) -> None:
    phases = unpack(name, tmp_path)
    states = set()
    for site in SITES:
        store = Store(tmp_path / "state" / site)
        for claim in store.claims():
            assert claim.id.split("/")[0] in phases
            states.add(type(claim.state).__name__)
        assert store.epoch == 1
        assert store.port > 0
        assert store.watermark is not None
        store.close()
        table = JobTable(tmp_path / "state" / site / "lrm", JobRow, boot="another", scope="new")
        assert table.scope != "new"
        table.load()
        table.close()
    assert "Passed" in states
    Incoming(tmp_path / "state" / "delft" / "transfers" / "incoming")


@pytest.mark.parametrize("name", RECORDED[:1])
def test_what_an_agent_of_a_later_release_kept_is_refused(name: str, tmp_path: Path) -> None:
    unpack(name, tmp_path)
    folder = tmp_path / "state" / "delft"
    for file in (folder / "agent.db", folder / "lrm" / "jobs.sqlite3"):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA user_version = 9")
    told = "9: this release reads 1 to {}. A later release wrote it: go on with that one"
    with pytest.raises(JournalError, match=told.format(CLAIMS.newest)):
        Store(folder)
    with pytest.raises(JournalError, match=told.format(LOCAL_JOBS.newest)):
        JobTable(folder / "lrm", JobRow, boot="another", scope="new")
    enrolments = tmp_path / "state" / "daemon" / "authority" / "enrolments.json"
    enrolments.write_text(enrolments.read_text().replace('"format": 1', '"format": 7'))
    with pytest.raises(ConfigError, match=r"enrolments format 7: this release reads 1\. A later"):
        CredentialStore(enrolments.parent)
