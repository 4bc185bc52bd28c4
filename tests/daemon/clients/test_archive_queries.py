"""Jobs that have left the daemon's memory are still told of; state and journal do not grow."""

import asyncio
import json
import re
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from koala.cli.main import main
from koala.client import AsyncClient, AsyncJobHandle, Submission
from koala.core.model.job import Cancelled, Job
from koala.core.model.values import JobId, UserName
from koala.core.purge import PurgedJob
from koala.daemon.auth.access_rules import Caller, CallerKind, Role
from koala.daemon.clients.listing import ArchiveQueries, owner_wanted
from koala.daemon.lifecycle import Daemon
from koala.daemon.loop.group_commit import Upkeep
from koala.daemon.state.recovery import begin_life
from koala.daemon.storage import archive
from koala.daemon.storage.archive import ArchiveQuery
from koala.daemon.storage.folder import FILE, MARK
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.records import RESTORE, Batch
from koala.errors import DamagedError, ExhaustedError, JournalError, RejectedError, UnknownJobError
from koala.views.accounting import ReportBuilder
from tests.common.files.stage import comes_true
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
    monkeypatch.setattr("koala.daemon.assembly.Upkeep", partial(Upkeep, lot=LOT))


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


@pytest.mark.parametrize("change", ["ended_at = ended_at + 1", "owner = CAST(x'ff' AS TEXT)"])
async def test_a_row_of_the_archive_that_is_damaged_meanwhile_hides_no_other(
    tmp_path: Path, change: str
) -> None:
    async with served(tmp_path) as (_, client):
        jobs = await finished(client, JOBS)
        with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection, connection:
            connection.execute(f"UPDATE job SET {change} WHERE id = ?", (jobs[0],))
        with pytest.raises(JournalError, match=f"job {jobs[0]} does not match its checksum"):
            await client.show(jobs[0])
        with pytest.raises(JournalError, match=f"job {jobs[0]} does not match its checksum"):
            await client.submit(ONE, key="k0")
        with pytest.raises(JournalError, match=f"job {jobs[0]} does not match its checksum"):
            await client.report("job")
        assert (await client.show(jobs[1]))["phase"] == "Finished"
        listed = {job["job"]: job["phase"] for job in await client.list_jobs(past=True)}
        assert listed == dict.fromkeys(jobs, "Finished") | {jobs[0]: "Damaged"}
    with pytest.raises(DamagedError, match="archived"):
        Journal.open(tmp_path / "state")


def test_no_flipped_bit_in_the_archive_gives_a_key_a_second_job(tmp_path: Path) -> None:
    """In a page of its table or of an index: it is refused, or all is as it was."""
    config = config_of(tmp_path)
    journal, _ = begin_life(config)
    journal.append(Batch(records=[], purged=ended_jobs(40)))
    journal.close()
    file, random = config.state_dir / FILE, Random(1)
    with closing(sqlite3.connect(file)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        names = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'job'"
        pages = [page for (page,) in connection.execute(names)]
        keys = [key for (key,) in connection.execute("SELECT key FROM job")]
    whole, mark = file.read_bytes(), (config.state_dir / MARK).read_bytes()
    assert len(keys) == 40
    places = [whole.find(key.encode()) for key in keys]
    places += [whole.rfind(key.encode()) for key in keys]
    places += [(page - 1) * size + random.randrange(size) for page in pages * 10]
    refused = 0
    for place in places:
        bits = bytearray(whole)
        bits[place] ^= 1 << random.randrange(7)
        file.write_bytes(bits)
        (config.state_dir / MARK).write_bytes(mark)
        try:
            journal, _ = begin_life(config)
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
            begin_life(config, accept_loss=accept_loss)


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
    assert "were deleted; the story starts after them" in told.err
    assert len(json.loads(told.out)["story"]) > 0
    assert main(["replay", state]) == 0
    assert main(["replay", state, "--with", "hold_s=100"]) == 1
    assert "--with needs all events" in capsys.readouterr().err


async def test_snapshots_go_on_however_many_jobs_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a start would need all events since there were so few, and none of them could go."""
    monkeypatch.setattr("koala.daemon.loop.group_commit.SNAPSHOT_JOBS_MAX", 5)
    monkeypatch.setattr("koala.daemon.loop.group_commit.DIGEST_SHARE_MAX", 1e9)
    async with served(tmp_path, SMALL.replace("keep_jobs = 0", "keep_jobs = 1000")) as (_, client):
        await finished(client, 60)
        events = (await client.metrics())["events"]
        assert rows(tmp_path, "job") == 0, "they are all in the state"
        with closing(sqlite3.connect(tmp_path / "state" / FILE)) as connection:
            newest = connection.execute("SELECT max(seq) FROM snapshot").fetchone()[0]
    assert events - newest <= 150, "100 events, and those of one commit"


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


def test_one_users_jobs_are_found_without_a_look_at_those_of_others() -> None:
    with closing(archive_of([])) as connection:
        questions: list[str] = []
        connection.set_trace_callback(questions.append)
        archive.read_jobs(connection, HERE, ArchiveQuery(owner="ann", since=1.0, before=(9.0, 9)))
        connection.set_trace_callback(None)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {questions[-1]}").fetchall()
    assert [row[3].split("(")[0] for row in plan] == ["SEARCH job USING INDEX job_owner "]


def test_whose_jobs_are_read_is_up_to_who_asks() -> None:
    ann = Caller(name="ann", kind=CallerKind.USER, role=Role.USER)
    root = Caller(name="root", kind=CallerKind.USER, role=Role.OPERATOR)
    assert owner_wanted(ann, "") == owner_wanted(ann, "bob") == owner_wanted(ann, "ann") == "ann"
    assert (owner_wanted(root, ""), owner_wanted(root, "bob")) == (None, "bob")


async def test_a_short_question_does_not_wait_behind_a_list(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path)
    list(journal.records())
    go_on = threading.Event()

    def long_read(_: sqlite3.Connection, __: Path, wanted: ArchiveQuery) -> archive.ArchivePage:
        go_on.wait(60.0)
        return archive.ArchivePage(jobs=(), before=None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "read_jobs", long_read)
        async with asyncio.timeout(90), asyncio.TaskGroup() as group:
            reading = group.create_task(journal.jobs(ArchiveQuery()))
            await asyncio.sleep(0)  # it is asked
            assert await journal.job("j1") is None
            assert await journal.jobs_of_keys(["k"]) == {}
            assert not reading.done()
            go_on.set()
    journal.close()


async def test_long_reads_are_few_and_one_of_a_user(tmp_path: Path) -> None:
    reading: list[ArchiveQuery] = []
    go_on = asyncio.Event()

    class SlowJournal:
        async def jobs(self, wanted: ArchiveQuery) -> archive.ArchivePage:
            reading.append(wanted)
            await go_on.wait()
            return archive.ArchivePage(jobs=(), before=None)

    past = ArchiveQueries(cast("Journal", SlowJournal()), calls_per_user=3)

    async def read(user: str) -> None:
        async with past.slot(user), aclosing(past.read(ArchiveQuery(owner=user))) as parts:
            async for _ in parts:
                pass

    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        users = ["ann", "ann", "ann", "bob", "eve", "eve"]
        for task in [group.create_task(read(user)) for user in users]:
            assert not task.done()
            await asyncio.sleep(0)
        with pytest.raises(ExhaustedError, match=r"3 calls of ann .*limits\.calls_per_user"):
            await read("ann")
        assert [wanted.owner for wanted in reading] == ["ann", "bob"]
        go_on.set()
    assert sorted(str(wanted.owner) for wanted in reading) == sorted(users)


async def test_a_list_of_one_user_is_not_lost_behind_the_jobs_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koala.daemon.clients.service.PAST_JOBS_MAX", 20)
    async with served(tmp_path) as (daemon, client):
        async with AsyncClient(daemon.address, user="bob") as bob:
            own = await finished(bob, 3, begin=1_000)
        await finished(client, JOBS)
        listed = await client.list_jobs(past=True, owner="bob")
        assert [job["job"] for job in listed] == own


async def test_a_forgotten_job_is_over_for_whoever_cancels_it(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, client):
        jobs = await finished(client, JOBS)
        assert jobs[0] not in {job["job"] for job in await client.list_jobs()}
        over, none = await client.cancel([jobs[0], "j9999"])
        assert (over["phase"], over["error"]) == ("Finished", f"{jobs[0]} is Finished already")
        assert none["error"] == "no job 'j9999'"


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


async def test_a_report_ends_though_jobs_leave_the_state_while_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path) as (daemon, client):
        await finished(client, JOBS)
        asked = forgetting_meanwhile(monkeypatch, "jobs", client, of=None, times=2)
        async with AsyncClient(daemon.address) as other:
            total = (await other.report("user"))["total"]
        assert len(asked) < 5
        assert total["jobs_finished"] == JOBS  # as of its begin


async def test_reports_of_one_user_look_at_the_state_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is at all jobs, and nobody else is answered meanwhile."""
    looks, reads, go_on = 0, 0, asyncio.Event()
    original = Journal.jobs

    def look(*arguments: Any) -> ReportBuilder:
        nonlocal looks
        looks += 1
        return ReportBuilder(*arguments)

    async def jobs(journal: Journal, wanted: ArchiveQuery) -> archive.ArchivePage:
        nonlocal reads
        reads += 1
        await go_on.wait()
        return await original(journal, wanted)

    monkeypatch.setattr("koala.daemon.clients.service.ReportBuilder", look)
    monkeypatch.setattr(Journal, "jobs", jobs)
    async with served(tmp_path) as (daemon, client), asyncio.TaskGroup() as group:
        reporting = [group.create_task(client.report("user")) for _ in range(5)]
        await comes_true(lambda: reads > 0)
        async with AsyncClient(daemon.address, user="bob") as bob:
            for _ in range(20):  # so much later than all of them were asked for
                await bob.hello()
            assert (looks, reads) == (1, 1)
            bobs = group.create_task(bob.report("user"))
            await comes_true(lambda: reads == 2)
            assert looks == 2
            go_on.set()
            await bobs
        assert len(await asyncio.gather(*reporting)) == 5
    assert looks == 6


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
