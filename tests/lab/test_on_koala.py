"""Runs at Koala's own sites give the bytes of this machine, and no worker survives its command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from koala.errors import ConfigError
from koala.lab.engines import engine_of
from koala.lab.on_koala import OnKoala, _scheduler, own_address
from tests.cli.command import environment, koala
from tests.cli.grids import Up, up
from tests.harness.moments import wait_until

LIMIT_S = 180.0
SWEEP = """
simulate = "multiqueue"
reps = 4
[options]
jobs = 3000
warmup = 500
[over]
policy = ["LS-DO", "GP"]
[compare]
metric = "response.all"
over = "policy"
baseline = "GP"
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with up(tmp_path_factory.mktemp("g")) as running:
        yield running


def bytes_of(folder: Path) -> dict[str, bytes]:
    names = (path for path in folder.iterdir() if path.name != "provenance.json")
    return {path.name: path.read_bytes() for path in names}


def workers(grid: Up) -> list[psutil.Process]:
    found = []
    for one in grid.children():
        try:
            if "distributed.cli.dask_worker" in one.cmdline():
                found.append(one)
        except psutil.Error:
            continue  # it has just ended
    return found


def phases(grid: Up) -> list[str]:
    return [
        job["phase"] for job in json.loads(grid.koala("list", "--json", "--all").stdout)["jobs"]
    ]


@contextmanager
def started(file: Path, grid: Up, *, workers: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a sweep at the sites of a grid, with its results in `out` beside the file."""
    words = ("--no-store", "--on", "koala", "--workers", str(workers))
    command = subprocess.Popen(
        [
            *(sys.executable, "-m", "koala.cli", "sweep", str(file), *words),
            *("--out", str(file.parent / "out")),
        ],
        env=environment(KOALA_ADDRESS=grid.address),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield command
    finally:
        command.kill()
        command.wait(LIMIT_S)


@pytest.mark.long
@pytest.mark.slow
def test_the_bytes_are_those_of_this_machine_though_a_worker_is_killed(
    tmp_path: Path, grid: Up
) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(SWEEP.replace("3000", "20_000"))
    here = koala("sweep", str(file), "--no-store", "--out", str(tmp_path / "here"))
    assert here.returncode == 0, here.stderr
    with started(file, grid, workers=3) as command:
        wait_until(lambda: len(workers(grid)) > 1 or command.poll() is not None)
        workers(grid)[0].kill()
        assert command.wait(LIMIT_S) == 0
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "here")
    wait_until(lambda: not workers(grid))
    assert set(phases(grid)) == {"Cancelled"}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_survives_its_command(tmp_path: Path, grid: Up, number: int) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(SWEEP.replace("3000", "200_000"))
    with started(file, grid, workers=2) as command:
        wait_until(lambda: workers(grid) or command.poll() is not None)
        assert command.poll() is None
        command.send_signal(number)
        command.wait(LIMIT_S)
    wait_until(lambda: not workers(grid))
    wait_until(lambda: all(one in ("Finished", "Failed", "Cancelled") for one in phases(grid)))


def test_engines_have_names() -> None:
    assert engine_of("koala", 3) == OnKoala(workers=3)
    assert engine_of("koala:/opt/python") == OnKoala(python="/opt/python")
    for wrong in ("koala:", "koalas", "dask://"):
        with pytest.raises(ConfigError, match=r"expected processes, dask://HOST:PORT, koala or"):
            engine_of(wrong)


def test_workers_are_told_an_address_on_the_way_to_the_daemon() -> None:
    assert own_address("127.0.0.1:7740") == "127.0.0.1"
    assert own_address("unix:/run/koala") == "127.0.0.1"
    with pytest.raises(ConfigError, match="cannot be reached"):
        own_address("no-such-host.invalid:7740")


@pytest.mark.long  # imports distributed, and waits for a refusal
def test_the_scheduler_answers_only_those_who_have_the_key_of_the_sweep() -> None:
    from distributed import Client, Security

    with _scheduler("127.0.0.1:7740") as scheduler:
        where = f"tls://{scheduler.address}"
        with Client(
            where, security=scheduler.security, timeout=LIMIT_S, set_as_default=False
        ) as one:
            assert one.run_on_scheduler(int) == 0
        for security, url, told in (
            (Security.temporary(), where, "TLS certificate does not match"),
            (None, where.replace("tls", "tcp"), "reset|closed|Timed out"),
        ):
            with pytest.raises(OSError, match=told):
                Client(url, security=security, timeout=2, set_as_default=False)
