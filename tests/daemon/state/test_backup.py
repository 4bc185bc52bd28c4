"""Backups are made beside a running daemon, read back, and go on with sites that know more."""

import asyncio
import gzip
import json
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from koala.cli.main import main
from koala.client import AsyncClient
from koala.core.model.events import SiteDrained
from koala.core.model.values import SiteName, UserName
from koala.daemon.auth.audit import FILE as AUDIT
from koala.daemon.auth.audit import account
from koala.daemon.state.backup import MANIFEST, Backup, back_up, open_packed, restore
from koala.daemon.state.recovery import LOST_JOBS_MAX
from koala.daemon.storage.folder import FILE, RESTORED
from koala.daemon.storage.journal import Journal
from koala.daemon.storage.journal_reader import open_journal, records
from koala.daemon.storage.records import Batch, Record
from koala.errors import ConfigError, JournalError, KoalaError
from tests.common.files.tar_blocks import END, tar_block, tar_entry
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running

pytestmark = pytest.mark.live

SECRET = "authority/secret"
LONG_S = 90.0
"""Far longer than a backup takes, also where the machine does other things."""
ONE = "&(executable=/bin/true)(count=4)"
PARAMETERS = """
claiming_step_min_s = 0.05
run_lease_s = 1.0
hold_lease_s = 1.0
late_max_s = 0.1
kill_s = 0.1
pause_max_s = 0.1
"""


def modes(folder: Path) -> set[tuple[bool, int]]:
    paths = [folder, *folder.rglob("*")] if folder.is_dir() else [folder]
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in paths}


async def backed_up(folder: Path, target: str, agent: FakeAgent, *, jobs: int) -> Backup:
    """A backup that is made while jobs are submitted, of a life after which agents know more."""
    config = config_of(folder, parameters=PARAMETERS)
    async with running(config) as daemon, asyncio.TaskGroup() as group, asyncio.timeout(60):
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client:
            first = (await client.submit(ONE, key="first")).job
            await client.wait(first)

            async def submit() -> None:
                for number in range(jobs):
                    with suppress(KoalaError):
                        await client.submit(ONE, key=f"k{number}")

            submitting = group.create_task(submit())
            made = await asyncio.to_thread(
                back_up, config.state_dir, folder / target, with_spool=False
            )
            await submitting
            for job in await client.list_jobs():
                await client.wait(job["job"])
        staying.cancel()
    return made


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


@pytest.fixture
def open_mask() -> Iterator[None]:
    """Let all read what is made, unless the code sees to it, whoever runs the tests."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_mask")
@pytest.mark.parametrize("target", ["backup", "backup.tar.gz", "backup.tar"])
async def test_a_restored_daemon_goes_on_with_agents_that_know_more(
    tmp_path: Path, target: str
) -> None:
    agent = FakeAgent("")
    (tmp_path / "state" / "more").mkdir(mode=0o700, parents=True)
    (tmp_path / "state").chmod(0o700)
    (tmp_path / "state" / "more" / "key").write_text("secret")
    made = await backed_up(tmp_path, target, agent, jobs=20)
    assert modes(tmp_path / target) <= {(True, 0o700), (False, 0o600)}
    secret = (tmp_path / "state" / SECRET).read_text()
    shutil.rmtree(tmp_path / "state")
    found = restore(tmp_path / target, tmp_path / "state")
    assert (found.events, found.files) == (made.events, made.files)
    assert modes(tmp_path / "state") == {(True, 0o700), (False, 0o600)}
    assert (tmp_path / "state" / SECRET).read_text() == secret
    assert (tmp_path / "state" / "more" / "key").read_text() == "secret"
    assert len(list(records(open_journal(tmp_path / "state")))) == made.events

    config = config_of(tmp_path, parameters=PARAMETERS)
    async with running(config) as daemon, asyncio.TaskGroup() as group, asyncio.timeout(120):
        assert not (config.state_dir / RESTORED).exists()
        agent.address = daemon.address
        staying = group.create_task(agent.stay())
        async with AsyncClient(daemon.address) as client:
            assert (await client.submit(ONE, key="first")).is_known
            known = await client.list_jobs()
            later = (await client.submit(ONE)).job
            assert later == f"j{len(known) + LOST_JOBS_MAX + 1}"
            assert await client.wait(later) == "Finished"
            for job in known:  # those that waited in the backup run again, after the fence
                assert await client.wait(job["job"]) == "Finished"
            assert (await client.hello())["epoch"] > 1000
        staying.cancel()
    async with running(config) as daemon, AsyncClient(daemon.address) as client:
        assert (await client.hello())["epoch"] < 2000, "the loss is accepted once"


async def test_what_is_no_backup_and_what_is_damaged_is_refused(tmp_path: Path) -> None:
    await backed_up(tmp_path, "backup", FakeAgent(""), jobs=1)
    backup, target = tmp_path / "backup", tmp_path / "other"
    with pytest.raises(ConfigError, match=r"state is not empty \(expected"):
        restore(backup, tmp_path / "state")
    with pytest.raises(ConfigError, match=r"no backup: backup\.json cannot be read"):
        restore(tmp_path / "state", target)
    with pytest.raises(ConfigError, match="no backup"):
        restore(tmp_path / "nothing.tar", target)
    with pytest.raises(ConfigError, match="exists already"):
        back_up(tmp_path / "state", backup, with_spool=False)
    with pytest.raises(ConfigError, match="no state directory"):
        back_up(tmp_path, target, with_spool=False)
    manifest = json.loads((backup / MANIFEST).read_text())
    (backup / MANIFEST).write_text(json.dumps({**manifest, "events": manifest["events"] - 1}))
    with pytest.raises(JournalError, match="name other events"):
        restore(backup, target)
    (backup / MANIFEST).write_text(json.dumps({**manifest, "koala-backup": 9}))
    with pytest.raises(ConfigError, match=r"format 9: this version of Koala reads 1\. Put it back"):
        restore(backup, target)
    for wrong in ({"chain": "no hex"}, {"chain": 7}, {"files": None}, {"spool": [["a"]]}):
        (backup / MANIFEST).write_text(json.dumps({**manifest, **wrong}))
        with pytest.raises(ConfigError, match=r"no backup: backup\.json cannot be read"):
            restore(backup, target)
    (backup / MANIFEST).write_text('{"koala-backup": 1, "other": ' + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"no backup: backup\.json cannot be read"):
        restore(backup, target)
    (backup / MANIFEST).write_text(json.dumps(manifest))
    for name in (".tar", ".tar.gz"):
        packed = tmp_path / f"packed{name}"
        back_up(tmp_path / "state", packed, with_spool=False)
        os.truncate(packed, packed.stat().st_size // 2)
        with pytest.raises(ConfigError, match="no backup"):
            restore(packed, target)
    file = tmp_path / "file"
    file.write_text("of somebody")
    with pytest.raises(ConfigError, match="file is not empty"):
        restore(backup, file)
    assert file.read_text() == "of somebody"
    for inside in ("bk", "spool/bk.tar"):
        with pytest.raises(ConfigError, match="is in the state directory"):
            back_up(tmp_path / "state", tmp_path / "state" / inside, with_spool=True)
    (backup / SECRET).unlink()
    with pytest.raises(JournalError, match="secret is missing"):
        restore(backup, target)
    data = bytearray((backup / FILE).read_bytes())
    data[len(data) // 2] ^= 1
    (backup / FILE).write_bytes(data)
    with pytest.raises(JournalError) as refused:
        restore(backup, target)
    assert "--accept-loss" not in str(refused.value), "there is no daemon yet"
    assert not target.exists()


async def test_the_commands_say_what_they_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await backed_up(tmp_path, "first", FakeAgent(""), jobs=1)
    state, copy = str(tmp_path / "state"), str(tmp_path / "copy.tar.gz")
    capsys.readouterr()
    assert main(["backup", state, copy]) == 0
    said = capsys.readouterr()
    assert said.out == f"{copy}\n"
    assert "listed, not copied" in said.err
    assert main(["restore", copy, str(tmp_path / "back"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state_dir"] == str(tmp_path / "back")
    told = (tmp_path / "back" / AUDIT).read_text().splitlines()[-1]
    assert json.loads(told) == {
        "at": json.loads(told)["at"],
        "who": account(),
        "role": "account",
        "from": "",
        "verb": "Restore",
        "object": copy,
        "outcome": "done",
    }
    told = (tmp_path / "state" / AUDIT).read_text().splitlines()[-1]
    assert (json.loads(told)["verb"], json.loads(told)["object"]) == ("Backup", copy)
    assert main(["restore", copy, state]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_a_backup_ends_beside_a_daemon_that_commits_all_the_time(tmp_path: Path) -> None:
    """A journal of sixty megabytes, so that others commit while it is copied. One that begins again
    after each commit would end when nobody commits any more."""
    journal = Journal.open(tmp_path / "state")
    assert list(journal.records()) == []
    done, gave_up = threading.Event(), threading.Event()

    def commit(events: int, size: int) -> None:
        last = journal.seq
        by = SiteDrained(site=SiteName("delft"), by=UserName("x" * size))
        journal.append(
            Batch(
                records=[
                    Record(seq=seq, at=float(seq), event=by, answers=[])
                    for seq in range(last + 1, last + 1 + events)
                ]
            )
        )

    def commit_on() -> None:
        until = time.monotonic() + LONG_S
        while not done.is_set():
            if time.monotonic() > until:
                gave_up.set()
                return
            commit(1, 20)

    commit(3_000, 20_000)
    writing = threading.Thread(target=commit_on)
    writing.start()
    try:
        made = back_up(tmp_path / "state", tmp_path / "backup", with_spool=False)
    finally:
        done.set()
        writing.join()
        journal.close()
    assert made.events >= 3_000
    assert not gave_up.is_set(), "it ended when nobody committed any more"


async def test_links_are_left_aside_and_what_they_name_is_left_alone(tmp_path: Path) -> None:
    await backed_up(tmp_path, "first", FakeAgent(""), jobs=1)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("of somebody else")
    (outside / "file").chmod(0o644)
    outside.chmod(0o755)
    for folder in (tmp_path / "state" / "more", tmp_path / "state" / "spool" / "jobs" / "j1"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "file").symlink_to(outside / "file")
        (folder / "folder").symlink_to(outside)
        (folder / "dangling").symlink_to(tmp_path / "nothing")
        (folder / "own").write_text("own")
    back_up(tmp_path / "state", tmp_path / "second", with_spool=True)
    for name in ("file", "folder", "dangling"):
        (tmp_path / "second" / "more" / name).symlink_to(outside / name)
    restore(tmp_path / "second", tmp_path / "back")
    for folder in (tmp_path / "second" / "spool", tmp_path / "back"):
        assert not [path for path in folder.rglob("*") if path.is_symlink()]
    for name in ("more", "spool/jobs/j1"):
        assert (tmp_path / "back" / name / "own").read_text() == "own"
    assert modes(outside) == {(True, 0o755), (False, 0o644)}


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A folder with the state directory of a daemon that is over, and a backup of it, `backup`."""
    folder = tmp_path / "whole"
    folder.mkdir()
    asyncio.run(backed_up(folder, "first", FakeAgent(""), jobs=1))
    (folder / "state" / "spool" / "jobs" / "j1").mkdir(parents=True, exist_ok=True)
    (folder / "state" / "spool" / "jobs" / "j1" / "out").write_text("an output")
    back_up(folder / "state", folder / "backup", with_spool=True)
    return folder


def test_each_file_of_a_backup_that_was_changed_is_named(whole: Path, tmp_path: Path) -> None:
    """No journal protects keys, users, notices and outputs."""
    names = [
        path.relative_to(whole / "backup")
        for path in (whole / "backup").rglob("*")
        if path.is_file() and path.name != MANIFEST and path.stat().st_size
    ]
    assert {Path(FILE), Path(SECRET), Path("spool/jobs/j1/out")} <= set(names)
    for number, name in enumerate(names):
        spoilt = tmp_path / f"spoilt-{number}"
        shutil.copytree(whole / "backup", spoilt)
        flip(spoilt / name, -1)
        with pytest.raises(JournalError, match=f"damaged: {name} does not match its checksum"):
            restore(spoilt, tmp_path / "back")
        (spoilt / name).unlink()
        with pytest.raises(JournalError, match=f"damaged: {name} is missing"):
            restore(spoilt, tmp_path / "back")
    shutil.copytree(whole / "backup", tmp_path / "more")
    (tmp_path / "more" / "authority" / "other").write_text("a key of somebody")
    with pytest.raises(JournalError, match="authority/other is not of this backup"):
        restore(tmp_path / "more", tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    ("hostile", "told"),
    [
        (tar_block(b"header", b"x", 2**30), "a header of 1073741824 bytes"),
        (tar_entry(b"backup/../../outside", b"x"), "is not a file below its folder"),
        (tar_entry(b"/outside", b"x"), "is not a file below its folder"),
        (tar_entry(b"link", kind=b"2"), "'link' has type '2'"),
    ],
    ids=["header", "above", "absolute", "link"],
)
def test_a_hostile_backup_writes_nothing_elsewhere(
    tmp_path: Path, hostile: bytes, told: str
) -> None:
    packed, back = tmp_path / "packed.tar.gz", tmp_path / "inner" / "back"
    packed.write_bytes(gzip.compress(hostile + END))
    back.parent.mkdir()
    with pytest.raises(ConfigError, match=f"no backup, or a damaged one: .*{told}"):
        restore(packed, back)
    with pytest.raises(ConfigError, match=told), open_packed(packed):
        pass
    assert list(back.parent.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner", "packed.tar.gz"]
