"""Runs on a real scheduler of dask.distributed give the bytes of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from koala.errors import ConfigError
from koala.sim.campaign import on_dask
from koala.sim.campaign.engines import engine_of
from tests.cli.command import environment, koala

pytestmark = [pytest.mark.long, pytest.mark.slow]

LIMIT_S = 120.0
SWEEP = """
simulate = "multiqueue"
reps = 6
[options]
jobs = 4000
warmup = 500
[over]
policy = ["LS-DO", "GP"]
utilization = [0.4, 0.6]
[compare]
metric = "response.all"
over = "policy"
baseline = "GP"
"""


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end
        os.sched_yield()


@contextmanager
def process(*words: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", *words]
    with (folder / "log").open("ab") as log:
        started = subprocess.Popen(command, env=environment(), stdout=log, stderr=log, cwd=folder)
    try:
        yield started
    finally:
        started.terminate()
        started.wait(LIMIT_S)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and two workers, each a process."""
    place = tmp_path / "scheduler.json"
    with ExitStack() as stack:
        words = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        more = ("--no-dashboard", "--scheduler-file", str(place))
        stack.enter_context(process(*words, *more, folder=tmp_path))
        until(lambda: place.exists() and place.read_text().endswith("}"))
        address = json.loads(place.read_text())["address"].removeprefix("tcp://")
        worker = ("distributed.cli.dask_worker", f"tcp://{address}", "--nthreads", "1")
        workers = [
            stack.enter_context(process(*worker, "--no-nanny", "--no-dashboard", folder=tmp_path))
            for _ in range(2)
        ]
        until(lambda: _workers(address) == 2)
        yield address, workers


def _workers(address: str) -> int:
    from distributed import Client

    with Client(f"tcp://{address}", set_as_default=False) as client:
        return len(client.nthreads())


def bytes_of(folder: Path) -> dict[str, bytes]:
    names = (path for path in folder.iterdir() if path.name != "provenance.json")
    return {path.name: path.read_bytes() for path in names}


def test_the_bytes_are_those_of_this_machine_though_a_worker_is_killed(
    tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    address, workers = cluster
    file, store = tmp_path / "policies.toml", tmp_path / "store"
    file.write_text(SWEEP)
    here = koala("sweep", str(file), "--no-store", "--out", str(tmp_path / "here"))
    assert here.returncode == 0, here.stderr
    command = [sys.executable, "-m", "koala.cli", "sweep", str(file), "--on", f"dask://{address}"]
    words = ["--store", str(store), "--out", str(tmp_path / "there")]
    with subprocess.Popen(
        [*command, *words], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as there:
        until(lambda: there.poll() is not None or count_lines(store) >= 2)
        workers[0].kill()
        _, told = there.communicate(timeout=LIMIT_S)
    assert there.returncode == 0, told.decode()
    assert bytes_of(tmp_path / "there") == bytes_of(tmp_path / "here")
    assert len(bytes_of(tmp_path / "there")) == 4
    found = json.loads((tmp_path / "there" / "provenance.json").read_text())
    assert found["on"] == f"dask://{address}"


def test_workers_of_other_code_are_refused(
    cluster: tuple[str, list[subprocess.Popen[bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, _ = cluster
    monkeypatch.setattr(on_dask, "interpreter", lambda: "cpython 2.7")
    engine = engine_of(f"dask://{address}")
    with pytest.raises(ConfigError, match=r"worker tcp.* has other code .*this machine cpython 2"):
        engine(len, ["a"], progress=lambda _: None, each=lambda _one, _made: None)  # type: ignore[arg-type]


def test_an_engine_that_does_not_exist_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--on dask:127.0.0.1:1: allowed are processes and dask"):
        engine_of("dask:127.0.0.1:1")


def count_lines(store: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in store.glob("*/*.jsonl"))
