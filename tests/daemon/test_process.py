"""The daemon as a process: signals, kill -9, exit statuses."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from koala.client import AsyncClient, Submission
from koala.daemon.main import main
from koala.errors import KoalaError
from tests.files.stage import comes_true

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"


def configured(folder: Path, more: str = "") -> Path:
    path = folder / "daemon.toml"
    path.write_text(f'[daemon]\nlisten = "127.0.0.1:0"\nstate_dir = "state"\n{more}')
    return path


@contextmanager
def started(config: Path, release: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A daemon's process and its address; killed at the end if it still lives.

    `release` are statements that make it one of another release.
    """
    code = f"{release}\nimport sys; from koala.daemon.main import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(config)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "daemon.started" in line:
                break
        address = (config.parent / "state" / "endpoint").read_text().strip()
        yield process, address
    finally:
        process.kill()
        process.wait(30)
        process.stderr.close()


def test_term_ends_it_in_order_and_leaves_no_process(tmp_path: Path) -> None:
    with started(configured(tmp_path)) as (process, _):
        assert process.stderr is not None
        for line in process.stderr:
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
        ["/bin/sh", "-c", f'exec "$0" -m koala.daemon.main {config} <&- >&- 2>&-', sys.executable],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
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
        with started(config) as (process, address):
            enough = asyncio.Event()

            async def submit(
                client: AsyncClient, key: str, enough: asyncio.Event, least: int
            ) -> None:
                with suppress(KoalaError):
                    accepted[key] = (await client.submit(ONE, key=key)).job
                if len(accepted) >= least:
                    enough.set()

            async with AsyncClient(address) as client, asyncio.TaskGroup() as group:
                for number in range(20):
                    key = f"{life}-{number}"
                    group.create_task(submit(client, key, enough, len(accepted) + 5))
                await enough.wait()
                process.kill()
    with started(config) as (_, address):
        async with AsyncClient(address) as client:
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
        ('[policies]\nplacement = "X"\n', 2, "known are CF"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_line(
    tmp_path: Path, more: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(configured(tmp_path, more))]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("koala daemon: ")
    assert said in line


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with started(configured(tmp_path)) as (_, address):
        other = tmp_path / "other"
        other.mkdir()
        config = other / "daemon.toml"
        config.write_text(f'[daemon]\nlisten = "{address}"\nstate_dir = "state"\n')
        run = run_daemon(config)
        assert run.returncode == 2
        (said,) = [line for line in run.stderr.splitlines() if not line.startswith("{")]
        assert f"daemon.listen = '{address}': cannot listen there" in said
        assert f"port {address.rpartition(':')[2]} is taken" in said


def test_a_port_of_the_relays_that_is_in_use_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = run_daemon(configured(tmp_path, f'[relay]\nlisten = "127.0.0.1:{port}"'))
    (said,) = [line for line in run.stderr.splitlines() if not line.startswith("{")]
    assert run.returncode == 1
    assert f"relay.listen = '127.0.0.1:{port}': cannot listen there: port {port} is taken" in said


def test_a_damaged_journal_is_told(tmp_path: Path) -> None:
    config = configured(tmp_path)
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "journal.db").write_bytes(b"x" * 10_000)
    (tmp_path / "state" / "journal.db").chmod(0o600)
    run = run_daemon(config)
    assert run.returncode == 1
    assert "journal.db: damaged: it cannot be read: file is not a database" in run.stderr
    assert "Traceback" not in run.stderr


def run_daemon(config: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "koala.daemon.main", str(config)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
