"""A machine that has no descriptors left, no place for the state, or none for the log."""

import asyncio
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from koala.client import AsyncClient
from tests.daemon.test_process import configured, environment, run_daemon
from tests.harness.children import program_of
from tests.harness.forked import Surroundings, start

pytestmark = pytest.mark.live

ONE = "&(executable=/bin/true)(count=4)"
PLAIN = "plain = true\n"


@contextmanager
def ready(folder: Path, errors: str) -> Iterator[tuple[int, str]]:
    """A daemon that says that it is ready, with its messages in this file: its process id and
    address; TERM ends it with status 0."""
    config = configured(folder, PLAIN)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
        Path(errors).open("wb") as out,
    ):
        manager.bind(str(folder / "notify"))
        manager.settimeout(60)
        process = start(
            program_of("koala.daemon.__main__"),
            str(config),
            around=Surroundings(
                stderr=out,
                environment={**environment(), "NOTIFY_SOCKET": str(folder / "notify")},
            ),
        )
        try:
            while b"READY=1" not in manager.recv(4096):
                pass
            yield process.pid, (folder / "state" / "endpoint").read_text().strip()
            process.terminate()
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait(30)


async def test_a_log_that_takes_nothing_ends_nobody(tmp_path: Path) -> None:
    with ready(tmp_path, "/dev/full") as (_, address):
        async with AsyncClient(address) as client, asyncio.timeout(90):
            job = (await client.submit(ONE)).job
            assert (await client.show(job))["phase"] == "Placing"


async def test_a_daemon_without_descriptors_goes_on_when_it_has_some(tmp_path: Path) -> None:
    """Those who are there are served, and what was accepted is kept."""
    with ready(tmp_path, str(tmp_path / "log")) as (pid, address):
        hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
        async with AsyncClient(address) as client, asyncio.timeout(60):
            first = (await client.submit(ONE, key="first")).job
            used = psutil.Process(pid).num_fds()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 3, hard))
            host, _, port = address.rpartition(":")
            others = [socket.create_connection((host, int(port))) for _ in range(20)]
            assert (await client.submit(ONE, key="second")).job != first
            for other in others:
                other.close()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))
            async with AsyncClient(address) as later:
                assert len(await later.list_jobs()) == 2
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.root
def test_a_state_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,mode=700", "none", state], check=True)
    try:
        run = run_daemon(configured(tmp_path))
    finally:
        subprocess.run(["umount", "-l", state], check=True)
    assert run.returncode in (1, 2)
    assert f"{state}" in run.stderr
    assert "Read-only file system" in run.stderr
    assert "Traceback" not in run.stderr
