"""Jobs that have left the daemon's memory are still told of; state and journal do not grow."""

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from koala.client import AsyncClient, AsyncJobHandle, Submission
from koala.core.model.job import Cancelled, Job
from koala.core.model.values import JobId, UserName
from koala.core.purge import PurgedJob
from koala.daemon.auth.access_rules import Caller, CallerKind, Role
from koala.daemon.clients.listing import owner_wanted
from koala.daemon.lifecycle import Daemon
from koala.daemon.loop.group_commit import Retention
from koala.daemon.state.recovery import begin_run
from koala.daemon.storage import archive
from koala.daemon.storage.archive import ArchiveQuery
from koala.daemon.storage.folder import FILE, POSITION_FILE
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import RESTORE, Batch
from koala.errors import DamagedError, ExhaustedError, RejectedError, UnknownJobError
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.harness.builders import a_spec

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"
SMALL = "[journal]\nkeep_jobs = 0\nsnapshot_events = 100\n"
PARAMETERS = "claiming_step_min_s = 0.05"
LOT = 10
"""Jobs that the daemon forgets together here; its default of a hundred would take long to run."""
JOBS = LOT + 10
"""More than are forgotten together, all over."""
TOGETHER = 10
"""Jobs in one call, for the time that it takes."""


@pytest.fixture(autouse=True)
def small_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let jobs be forgotten in small lots."""
    monkeypatch.setattr("koala.daemon.assembly.Retention", partial(Retention, chunk=LOT))


@asynccontextmanager
async def served(folder: Path, more: str = SMALL) -> AsyncIterator[tuple[Daemon, AsyncClient]]:
    """A daemon that forgets quickly, with an agent."""
    config = config_of(folder, more, parameters=PARAMETERS)
    async with running(config) as daemon, asyncio.TaskGroup() as group, asyncio.timeout(120):
        agent = FakeAgent(daemon.address, processors=100)
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client:
            yield daemon, client
        staying.cancel()


async def finished(client: AsyncClient, count: int, *, begin: int = 0) -> list[str]:
    """So many jobs with keys of their own, all over."""
    jobs: list[str] = []
    for first in range(begin, begin + count, TOGETHER):
        keys = [f"k{number}" for number in range(first, min(first + TOGETHER, begin + count))]
        results = await client.submit_many([Submission(rsl=ONE, key=key) for key in keys])
        jobs += [result.job for result in results if isinstance(result, AsyncJobHandle)]
    assert len(jobs) == count
    assert set((await client.wait_all(jobs)).values()) == {"Finished"}
    return jobs


def rows(folder: Path, table: str) -> int:
    with closing(sqlite3.connect(folder / "state" / FILE)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


async def test_a_job_that_was_forgotten_is_told_of_as_before(tmp_path: Path) -> None:
    async with served(tmp_path, "[journal]\nkeep_jobs = 100000\n") as (_, client):
        jobs = await finished(client, JOBS)
        before = await client.show(jobs[3])
        told = [notice async for notice in client.watch(after=0, job=jobs[3])]
        why, timeline = await client.why(jobs[3]), await client.timeline(jobs[3])
        costs = await client.report("job")
    async with served(tmp_path) as (_, client):
        more = await finished(client, 5, begin=JOBS)
        memory = [job["job"] for job in await client.list_jobs()]
        assert jobs[3] not in memory
        assert rows(tmp_path, "job") >= JOBS
        assert await client.show(jobs[3]) == before
        assert [notice async for notice in client.watch(after=0, job=jobs[3])] == told
        assert [notice async for notice in client.watch(job=jobs[3])] == []
        assert told[-1]["phase"] == "Finished"
        assert await client.why(jobs[3]) == why
        assert await client.timeline(jobs[3]) == timeline
        assert [p async for p in client.logs(jobs[3])] == []
        output = tmp_path / "state" / "spool" / "jobs" / jobs[3] / "output" / "0" / "a"
        output.parent.mkdir(parents=True)
        output.write_bytes(b"kept")
        outputs = [(part.name, part.data) async for part in client.outputs(jobs[3])]
        assert outputs == [("0/a", b""), ("0/a", b"kept")]
        listed = await client.list_jobs(past=True)
        assert {job["job"] for job in listed} == {*jobs, *more}
        assert len(await client.list_jobs(past=True, last=7)) == 7
        again = await client.report("job")
        known = {row["job"]: row for row in again["rows"]}
        assert [known[row["job"]] for row in costs["rows"]] == costs["rows"]
        assert (await client.metrics())["jobs"]["Finished"] == JOBS + 5
        with pytest.raises(UnknownJobError, match="no job 'j999'"):
            await client.show("j999")


async def test_the_key_of_a_forgotten_job_still_gives_that_job(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        jobs = await finished(client, JOBS)
        assert jobs[0] not in {job["job"] for job in await client.list_jobs()}
        again = await client.submit(ONE, key="k0")
        assert (again.job, again.is_known) == (jobs[0], True)
        with pytest.raises(RejectedError, match="was used for j1, which has another text"):
            await client.submit(ONE + "(arguments=other)", key="k0")
        after = await client.submit(ONE, after=[jobs[0]])  # its end is known from the archive
        assert await client.wait(after.job) == "Finished"
        assert (await client.submit(ONE, key="new")).job == f"j{JOBS + 2}"
    async with served(tmp_path) as (_, client):
        assert (await client.submit(ONE, key="k1")).job == jobs[1]


def test_no_flipped_bit_in_the_archive_gives_a_key_a_second_job(tmp_path: Path) -> None:
    """In a page of its table or of an index: it is refused, or all is as it was."""
    config = config_of(tmp_path)
    journal, _ = begin_run(config)
    journal.append(Batch(records=[], purged=ended_jobs(40)))
    journal.close()
    file, random = config.state_dir / FILE, Random(1)
    with closing(sqlite3.connect(file)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        names = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'job'"
        pages = [page for (page,) in connection.execute(names)]
        keys = [key for (key,) in connection.execute("SELECT key FROM job")]
    whole, mark = file.read_bytes(), (config.state_dir / POSITION_FILE).read_bytes()
    assert len(keys) == 40
    places = [whole.find(key.encode()) for key in keys]
    places += [whole.rfind(key.encode()) for key in keys]
    places += [(page - 1) * size + random.randrange(size) for page in pages * 10]
    refused = 0
    for place in places:
        bits = bytearray(whole)
        bits[place] ^= 1 << random.randrange(7)
        file.write_bytes(bits)
        (config.state_dir / POSITION_FILE).write_bytes(mark)
        try:
            journal, _ = begin_run(config)
        except DamagedError:
            refused += 1
        else:
            found = archive.read_keys(journal._database.connection, file, keys)
            assert set(found) == set(keys)
            journal.close()
    assert refused >= 2 * len(keys)
    file.write_bytes(whole.replace(b"ann\x0039", b"ANN\x0039"))
    for accept_loss in (False, True):
        with pytest.raises(DamagedError, match=re.escape(RESTORE)):
            begin_run(config, accept_loss=accept_loss)


def test_past_jobs_go_after_their_time() -> None:
    with closing(archive_of(ended_jobs(5))) as connection:
        archive.write_jobs(connection, ended_jobs(5)[:2])  # by a replay, once more
        archive.remove_jobs(connection, before=12.0)
        left = archive.read_jobs(connection, HERE, ArchiveQuery())
        assert [job.id for job in left.jobs] == ["j4", "j3", "j2"]
        keys = archive.read_keys(connection, HERE, ["ann\x000", "ann\x004"])
        assert keys == {"ann\x004": ("j4", "")}
        assert archive.read_owners(connection, HERE, ["j1", "j2"]) == {"j2": ""}


# --- what is long, beside what is short -----------------------------------------------------------

HERE = Path("x")


def ended_jobs(count: int, owner: str = "") -> list[PurgedJob]:
    """Job n lived from n to n + 10."""
    return [
        PurgedJob(
            job=Job(
                id=JobId(f"j{number}{owner}"),
                spec=replace(a_spec(1), owner=UserName(owner)),
                submitted_at=number,
                phase=Cancelled(at=number + 10.0, reason=""),
                claim_fraction=0.75,
            ),
            ended_at=number + 10.0,
            key=f"ann\0{number}{owner}",
        )
        for number in range(count)
    ]


def archive_of(jobs: list[PurgedJob]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(archive.TABLES)
    archive.write_jobs(connection, jobs)
    return connection


@pytest.mark.parametrize("size", [1, 4, 30, 100])
def test_the_archive_is_read_whole_in_parts(size: int) -> None:
    def read(**wanted: Any) -> list[str]:
        found: list[str] = []
        before: archive.Place | None = archive.END
        while before is not None:
            part = archive.read_jobs(
                connection, HERE, ArchiveQuery(before=before, most=size, **wanted)
            )
            assert len(part.jobs) <= size
            found += [job.id for job in part.jobs]
            before = part.before
        return found

    both = [*ended_jobs(30, "bob"), *ended_jobs(30, "eve")]  # two always end together
    with closing(archive_of(both)) as connection:
        assert read() == [f"j{n}{owner}" for n in range(29, -1, -1) for owner in ("eve", "bob")]
        assert read(owner="bob") == [f"j{n}bob" for n in range(29, -1, -1)]
        assert read(since=20.0, until=12.0, owner="eve") == ["j11eve", "j10eve"]
        assert read(owner="nobody") == []


def test_whose_jobs_are_read_is_up_to_who_asks() -> None:
    ann = Caller(name="ann", kind=CallerKind.USER, role=Role.USER)
    root = Caller(name="root", kind=CallerKind.USER, role=Role.OPERATOR)
    assert owner_wanted(ann, "") == owner_wanted(ann, "bob") == owner_wanted(ann, "ann") == "ann"
    assert (owner_wanted(root, ""), owner_wanted(root, "bob")) == (None, "bob")


def forgetting_meanwhile(
    monkeypatch: pytest.MonkeyPatch, method: str, client: AsyncClient, *, of: object, times: int
) -> list[int]:
    """So often jobs end and leave the state while the journal is asked about `of`; the numbers of
    the times it was asked."""
    original = getattr(Journal, method)
    asked: list[int] = []

    async def ask(journal: Journal, question: Any) -> Any:
        if question == of or of is None:
            asked.append(len(asked))
            if len(asked) <= times:
                monkeypatch.setattr("koala.daemon.clients.submit_service.KEY_TRIES", 99)
                await finished(client, JOBS, begin=10_000 * len(asked))
        return await original(journal, question)

    monkeypatch.setattr(Journal, method, ask)
    return asked


async def test_a_submission_is_put_off_when_keys_go_too_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as (daemon, client), AsyncClient(daemon.address) as other:
        await finished(client, JOBS)
        user = (await other.hello())["user"]
        keys = [f"{user}\0late"]
        asked = forgetting_meanwhile(monkeypatch, "jobs_of_keys", client, of=keys, times=2)
        monkeypatch.setattr("koala.daemon.clients.submit_service.KEY_TRIES", 2)
        with pytest.raises(ExhaustedError, match="too quickly") as refused:
            await other.submit(ONE, key="late")
        assert refused.value.retry_after_s == 1.0
        assert len(asked) == 2
        assert (await other.submit(ONE, key="late")).job
