"""Runs on a real scheduler of dask.distributed give the bytes of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from koala.errors import ConfigError, KoalaError
from koala.lab.engines import engine_of
from koala.lab.sim.campaign import on_dask
from koala.lab.sim.campaign.records import FinishedRun
from koala.lab.sim.runs import Outcome
from tests.cli.command import environment, koala, koala_here
from tests.harness.moments import wait_until
from tests.harness.ports import free_port

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


class Cluster(NamedTuple):
    """Address and processes of a scheduler and its workers."""

    address: str
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler and two workers, each a process."""
    place = tmp_path / "scheduler.json"
    with ExitStack() as stack:
        words = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
        more = ("--no-dashboard", "--scheduler-file", str(place))
        scheduler = stack.enter_context(process(*words, *more, folder=tmp_path))
        wait_until(lambda: place.exists() and place.read_text().endswith("}"))
        address = json.loads(place.read_text())["address"].removeprefix("tcp://")
        worker = ("distributed.cli.dask_worker", f"tcp://{address}", "--nthreads", "1")
        workers = [
            stack.enter_context(process(*worker, "--no-nanny", "--no-dashboard", folder=tmp_path))
            for _ in range(2)
        ]
        wait_until(lambda: _workers(address) == 2)
        yield Cluster(address, scheduler, workers)


def _workers(address: str) -> int:
    from distributed import Client

    with Client(f"tcp://{address}", set_as_default=False) as client:
        return len(client.nthreads())


def bytes_of(folder: Path) -> dict[str, bytes]:
    names = (path for path in folder.iterdir() if path.name != "provenance.json")
    return {path.name: path.read_bytes() for path in names}


def test_the_bytes_are_those_of_this_machine_though_a_worker_is_killed(
    tmp_path: Path, cluster: Cluster
) -> None:
    address, _, workers = cluster
    file, store = tmp_path / "policies.toml", tmp_path / "store"
    file.write_text(SWEEP)
    here = koala("sweep", str(file), "--no-store", "--out", str(tmp_path / "here"))
    assert here.returncode == 0, here.stderr
    status, told = swept(file, cluster, store, killed=workers[0])
    assert status == 0, told
    assert bytes_of(tmp_path / "there") == bytes_of(tmp_path / "here")
    assert len(bytes_of(tmp_path / "there")) == 4
    found = json.loads((tmp_path / "there" / "provenance.json").read_text())
    assert found["on"] == f"dask://{address}"


def test_a_lost_scheduler_is_named_and_finished_runs_are_kept(
    tmp_path: Path, cluster: Cluster
) -> None:
    file, store = tmp_path / "policies.toml", tmp_path / "store"
    file.write_text(SWEEP.replace("4000", "40000"))
    status, told = swept(file, cluster, store, killed=cluster.scheduler)
    assert status != 0
    assert told.splitlines()[-1].startswith("koala sweep: --on: the scheduler was lost after")
    assert 2 <= count_lines(store) < 24


def test_a_scheduler_whose_workers_are_gone_is_given_up_in_the_end(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_item: int) -> FinishedRun:
        threading.Event().wait(0.5)
        return FinishedRun(outcome=Outcome(values={}), cpu_s=0.5)

    def kill(_item: int, _made: FinishedRun) -> None:
        for worker in cluster.workers:
            worker.kill()

    engine = on_dask.Dask(address=cluster.address, workerless_s=2)
    with pytest.raises(KoalaError, match=r"had no workers for 2 s, after \d+ of 100 runs"):
        engine(run, range(100), progress=lambda _: None, each=kill)
    assert capsys.readouterr().err.startswith("--on: the scheduler has lost all workers")


def swept(
    file: Path, cluster: Cluster, store: Path, *, killed: subprocess.Popen[bytes]
) -> tuple[int, str]:
    """Run a sweep on a cluster, one of whose processes is killed after two runs; return its status
    and its messages."""
    command = [sys.executable, "-m", "koala.cli", "sweep", str(file)]
    words = ["--on", f"dask://{cluster.address}", "--store", str(store)]
    with subprocess.Popen(
        [*command, *words, "--out", str(file.parent / "there")],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as there:
        wait_until(lambda: there.poll() is not None or count_lines(store) >= 2)
        killed.kill()
        _, told = there.communicate(timeout=LIMIT_S)
    return there.returncode, told.decode()


@pytest.mark.parametrize(
    "words",
    [
        ("multiqueue", "--jobs", "2000", "--warmup", "200"),
        ("sq", "--tasks", "10"),
    ],
    ids=lambda words: words[0],
)
def test_replications_of_a_simulation_are_made_there(
    words: tuple[str, ...], cluster: Cluster
) -> None:
    command = ("simulate", *words, "--reps", "3", "--json")
    here = koala(*command, "--workers", "1")
    assert here.returncode == 0, here.stderr
    there = koala(*command, "--on", f"dask://{cluster.address}")
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout


def test_workers_of_other_code_are_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_dask, "interpreter", lambda: "cpython 2.7")
    engine = engine_of(f"dask://{cluster.address}")
    with pytest.raises(ConfigError, match=r"worker tcp.* has other code .*this machine cpython 2"):
        engine(len, ["a"], progress=lambda _: None, each=lambda _one, _made: None)  # type: ignore[type-var]


def test_workers_of_other_code_that_come_later_are_refused(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of `--on koala`, which join one by one."""
    monkeypatch.setattr(on_dask, "_check_workers", lambda _client: None)
    monkeypatch.setattr(on_dask, "interpreter", lambda: "cpython 2.7")
    engine = engine_of(f"dask://{cluster.address}")
    with pytest.raises(ConfigError, match=r"worker tcp.* has other code .*this machine cpython 2"):
        engine(len, ["a"], progress=lambda _: None, each=lambda _one, _made: None)  # type: ignore[type-var]


def test_a_run_that_fails_is_not_repeated(cluster: Cluster, tmp_path: Path) -> None:
    log = tmp_path / "runs"

    def fail(_item: str) -> FinishedRun:
        with log.open("a") as file:
            file.write("run\n")
        raise LookupError("of the policy")

    engine = engine_of(f"dask://{cluster.address}")
    with pytest.raises(LookupError, match="of the policy"):
        engine(fail, ["a"], progress=lambda _: None, each=lambda _one, _made: None)
    assert log.read_text() == "run\n"


def test_a_port_where_nobody_listens_is_named_at_once() -> None:
    engine = engine_of(f"dask://127.0.0.1:{free_port()}")
    with pytest.raises(ConfigError, match="no scheduler there: Connection refused"):
        engine(len, ["a"], progress=lambda _: None, each=lambda _one, _made: None)  # type: ignore[type-var]


@pytest.mark.parametrize("name", ["dask:127.0.0.1:1", "dask://127.0.0.1", "dask://host:port"])
def test_an_engine_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"--on {name} \(expected processes, dask"):
        engine_of(name)


def test_a_simulation_names_an_engine_that_does_not_exist() -> None:
    done = koala_here("simulate", "sq", "--on", "nowhere")
    assert done.returncode == 2
    assert "--on nowhere (expected processes, dask://HOST:PORT" in done.stderr


def count_lines(store: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in store.glob("*/*.jsonl"))
