"""Jobs that have left the daemon's memory are still told of; state and journal do not grow."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from koala.cli.main import main
from koala.client import Client
from koala.core.forgetting import Forgotten
from koala.core.job import Finished, Job
from koala.core.values import JobId
from koala.daemon import archive
from koala.daemon.folder import FILE
from koala.daemon.main import Daemon
from koala.errors import JournalError, RejectedError, UnknownJobError
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running
from tests.harness.builders import a_spec

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"
SMALL = "[journal]\nkeep_jobs = 0\nsnapshot_events = 100\n"
PARAMETERS = "claiming_step_min_s = 0.05"
JOBS = 150
"""More than are forgotten together, all over."""


@asynccontextmanager
async def served(folder: Path, more: str = SMALL) -> AsyncIterator[tuple[Daemon, Client]]:
    """A daemon that forgets quickly, with an agent."""
    config = config_of(folder, more, parameters=PARAMETERS)
    async with running(config) as daemon, asyncio.TaskGroup() as group, asyncio.timeout(120):
        agent = FakeAgent(daemon.address, processors=100)
        staying = group.create_task(agent.stay())
        async with Client(daemon.address) as client:
            yield daemon, client
        staying.cancel()


async def finished(client: Client, count: int, *, begin: int = 0) -> list[str]:
    """So many jobs with keys of their own, all over."""
    jobs = [(await client.submit(ONE, key=f"k{begin + n}")).job for n in range(count)]
    assert set((await client.wait_all(jobs)).values()) == {"Finished"}
    return jobs


def rows(folder: Path, table: str) -> int:
    with closing(sqlite3.connect(folder / "state" / FILE)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


async def test_a_job_that_was_forgotten_is_told_of_as_before(tmp_path: Path) -> None:
    async with served(tmp_path, "[journal]\nkeep_jobs = 100000\n") as (_, client):
        jobs = await finished(client, JOBS)
        before = await client.show(jobs[3])
        why, timeline = await client.why(jobs[3]), await client.timeline(jobs[3])
        costs = await client.report("job")
    async with served(tmp_path) as (_, client):
        more = await finished(client, 5, begin=JOBS)
        memory = [job["job"] for job in await client.list_jobs()]
        assert jobs[3] not in memory
        assert rows(tmp_path, "job") >= JOBS
        assert await client.show(jobs[3]) == before
        assert await client.why(jobs[3]) == why
        assert await client.timeline(jobs[3]) == timeline
        assert [p async for p in client.logs(jobs[3])] == []
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
        assert (await client.submit(ONE, key="new")).job == f"j{JOBS + 1}"
    async with served(tmp_path) as (_, client):
        assert (await client.submit(ONE, key="k1")).job == jobs[1]


async def test_a_damaged_row_of_the_archive_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        jobs = await finished(client, JOBS)
    with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection, connection:
        connection.execute("UPDATE job SET ended_at = ended_at + 1 WHERE id = ?", (jobs[0],))
    async with served(tmp_path) as (_, client):
        with pytest.raises(JournalError, match=f"job {jobs[0]} is not as it was archived"):
            await client.show(jobs[0])
        assert (await client.show(jobs[1]))["phase"] == "Finished"


async def test_old_events_go_when_there_are_snapshots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forgetful = f"{SMALL}keep_days = 0.0000001\n"
    async with served(tmp_path, forgetful) as (_, client):
        jobs = await finished(client, JOBS)
        events = (await client.metrics())["events"]
    assert rows(tmp_path, "snapshot") == 2
    assert rows(tmp_path, "event") < events
    async with served(tmp_path, forgetful) as (daemon, client):
        assert daemon.address
        assert (await client.hello())["epoch"] == 2
        assert (await client.show(jobs[0]))["phase"] == "Finished"
        await finished(client, 5, begin=JOBS)
    state = str(tmp_path / "state")
    capsys.readouterr()
    assert main(["replay", state, "--json"]) == 0
    told = capsys.readouterr()
    assert "are not kept any longer; the story begins after them" in told.err
    assert len(json.loads(told.out)["story"]) > 0
    assert main(["replay", state]) == 0
    assert main(["replay", state, "--with", "hold_s=100"]) == 1
    assert "--with needs a journal from its begin" in capsys.readouterr().err


def test_past_jobs_go_after_their_time() -> None:
    jobs = [
        Forgotten(
            job=Job(
                id=JobId(f"j{number}"),
                spec=a_spec(1),
                submitted_at=number,
                phase=Finished(at=number + 10.0),
                claim_fraction=0.75,
            ),
            ended_at=number + 10.0,
            key=f"ann\0{number}",
        )
        for number in range(5)
    ]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(archive.TABLES)
        archive.write_jobs(connection, jobs)
        archive.write_jobs(connection, jobs[:2])  # by a replay, once more
        archive.remove_jobs(connection, before=12.0)
        left = archive.read_jobs(connection, Path("x"), since=0.0, until=99.0, most=9)
        assert [job.id for job in left] == ["j2", "j3", "j4"]
        assert archive.read_key(connection, Path("x"), "ann\x000") is None
        assert archive.read_key(connection, Path("x"), "ann\x004") == ("j4", "")
