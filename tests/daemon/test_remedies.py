"""Follow the advice in refusals of a journal, with the commands that they name."""

import re
import signal
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.daemon.state.recovery import LOST_EPOCHS_MAX, LOST_JOBS_MAX
from koala.daemon.storage.folder import FILE
from tests.cli.command import koala
from tests.daemon.test_process import ONE, configured, run_daemon, started

pytestmark = pytest.mark.live

CHANGED = (
    "import koala.common.runtime.disk_formats as f; f.{0} = f.Format(f.{0}.name, 9, f.{0}.remedy)"
)
OTHER, OTHER_BACKUP = CHANGED.format("JOURNAL"), CHANGED.format("BACKUP")
"""Statements that make a process one of a version of Koala that reads another format."""


def refusal(config: Path, release: str = "") -> str:
    """The reason with which a daemon's process does not start."""
    run = run_daemon(config, release)
    assert run.returncode == 1, run.stderr
    return run.stderr.splitlines()[-1]


def carry_out(*words: str | Path) -> None:
    """Run a command, which must end well."""
    run = koala(*map(str, words))
    assert run.returncode == 0, run.stderr


async def test_the_newest_backup_replaces_a_database_that_cannot_be_read(tmp_path: Path) -> None:
    config, state, backup = configured(tmp_path), tmp_path / "state", tmp_path / "backup.tar.gz"
    with started(config) as daemon:
        async with AsyncClient(daemon.address) as client:
            kept = (await client.submit(ONE, key="kept")).job
            carry_out("backup", state, backup)
            lost = (await client.submit(ONE, key="lost")).job
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(30) == 0
    with (state / FILE).open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    reason = refusal(config)
    found = re.search(r"Put a backup back \(koala (\w+) BACKUP STATE_DIR\)$", reason)
    assert found is not None, reason
    assert str(state / FILE) in reason
    state.rename(tmp_path / "aside")
    carry_out(found[1], backup, state)
    with started(config) as daemon:
        async with AsyncClient(daemon.address) as client:
            assert (await client.hello())["epoch"] > LOST_EPOCHS_MAX
            assert [job["job"] for job in await client.list_jobs()] == [kept]
            assert (await client.submit(ONE, key="kept")).is_known
            again = await client.submit(ONE, key="lost")
            assert (again.is_known, again.job) == (False, f"j{LOST_JOBS_MAX + 2}")
            assert again.job != lost


async def test_users_are_added_again_where_their_file_has_another_format(tmp_path: Path) -> None:
    config, file = configured(tmp_path), tmp_path / "state" / "authority" / "enrolments.json"
    with started(config) as daemon:
        async with AsyncClient(daemon.address) as client:
            await client.add_user("ann")
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(30) == 0
    file.write_text(file.read_text().replace('"format": 1', '"format": 7'))
    run = run_daemon(config)
    assert run.returncode == 2
    assert "enrolments format 7: this version of Koala reads 1." in run.stderr
    assert "or move the file away, start this one, and add users and sites again" in run.stderr
    file.rename(tmp_path / "aside")
    with started(config) as daemon:
        async with AsyncClient(daemon.address) as client:
            assert (await client.add_user("ann"))["token"]
