"""The daemon as a process: signals, kill -9, exit statuses."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
import pytest

from koala.client import AsyncClient, Submission
from koala.daemon.main import main
from koala.errors import KoalaError
from tests.common.files.stage import comes_true
from tests.harness.children import program_of
from tests.harness.forked import Process, Surroundings, start

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"


def configured(folder: Path, more: str = "") -> Path:
    path = folder / "daemon.toml"
    path.write_text(f'[daemon]\nlisten = "127.0.0.1:0"\nstate_dir = "state"\n{more}')
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A daemon's process."""

    process: Process
    address: str
    stderr: IO[str]


@contextmanager
def started(config: Path, release: str = "", *, by_exec: bool = False) -> Iterator[Started]:
    """Start a daemon, and kill it at the end if it still lives.

    `release` are statements that make it one of another release.
    """
    reading, writing = os.pipe()
    with os.fdopen(reading, encoding="utf-8") as stderr:
        with os.fdopen(writing, "wb") as theirs:
            process = start(
                program_of("koala.daemon.__main__", release),
                str(config),
                around=Surroundings(stderr=theirs, environment=environment()),
                by_exec=by_exec or bool(release),  # a release is made before anything is imported
            )
        try:
            for line in stderr:
                if "daemon.started" in line:
                    break
            address = (config.parent / "state" / "endpoint").read_text().strip()
            yield Started(process=process, address=address, stderr=stderr)
        finally:
            process.kill()
            process.wait(30)


def environment() -> dict[str, str]:
    """Return our environment, with the packages that we find."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_term_ends_it_in_order_and_leaves_no_process(tmp_path: Path) -> None:
    with started(configured(tmp_path), by_exec=True) as daemon:
        process = daemon.process
        for line in daemon.stderr:
            if "relay.started" in line:
                break
        children = psutil.Process(process.pid).children()
        assert len(children) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        _, alive = psutil.wait_procs(children, timeout=90)
        assert alive == []
        assert not (tmp_path / "state" / "endpoint").exists()
        assert not (tmp_path / "state" / "journal.db-wal").exists()


def test_a_daemon_that_is_started_without_standard_streams_serves(tmp_path: Path) -> None:
    """Its first files must not take their numbers, for what is written there."""
    config = configured(tmp_path)
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'exec "$0" -m koala.daemon {config} <&- >&- 2>&-', sys.executable],
        env=environment(),
    )
    try:
        endpoint = tmp_path / "state" / "endpoint"
        asyncio.run(comes_true(lambda: endpoint.exists() or process.poll() is not None))
        opened = [Path(f"/proc/{process.pid}/fd/{number}").readlink() for number in range(3)]
        assert opened == [Path(os.devnull)] * 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(90) == 0
    finally:
        process.kill()
        process.wait(30)


async def test_what_was_accepted_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    config = configured(tmp_path)
    accepted: dict[str, str] = {}
    for life in range(3):
        with started(config) as daemon:
            enough = asyncio.Event()

            async def submit(
                client: AsyncClient, key: str, enough: asyncio.Event, least: int
            ) -> None:
                with suppress(KoalaError):
                    accepted[key] = (await client.submit(ONE, key=key)).job
                if len(accepted) >= least:
                    enough.set()

            async with AsyncClient(daemon.address) as client, asyncio.TaskGroup() as group:
                for number in range(20):
                    key = f"{life}-{number}"
                    group.create_task(submit(client, key, enough, len(accepted) + 5))
                await enough.wait()
                daemon.process.kill()
    with started(config) as daemon:
        async with AsyncClient(daemon.address) as client:
            assert (await client.hello())["epoch"] == 4
            keys = [f"{life}-{number}" for life in range(3) for number in range(20)]
            again = await client.submit_many([Submission(rsl=ONE, key=key) for key in keys])
            jobs = {}
            for key, result in zip(keys, again, strict=True):
                assert not isinstance(result, KoalaError)
                jobs[key] = result.job
            assert {key: jobs[key] for key in accepted} == accepted
            assert len(set(jobs.values())) == 60
            assert len(await client.list_jobs()) == 60


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ("[parameters]\nhold = 1\n", 2, "parameters.hold is unknown"),
        ('[policies]\nplacement = "X"\n', 2, "expected one of CF"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_line(
    tmp_path: Path, more: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(configured(tmp_path, more))]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("koala daemon: ")
    assert said in line


def run_daemon(config: Path, release: str = "") -> subprocess.CompletedProcess[str]:
    """Run a daemon that does not start, with what it says on standard error."""
    with tempfile.TemporaryFile() as stderr:
        process = start(
            program_of("koala.daemon.__main__", release),
            str(config),
            around=Surroundings(stderr=stderr, environment=environment()),
            by_exec=bool(release),
        )
        status = process.wait(60)
        stderr.seek(0)
        return subprocess.CompletedProcess([], status, "", stderr.read().decode())
