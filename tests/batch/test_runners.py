"""Programs are started on several machines of real batch systems, by jobType."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest

from tests.batch.systems.grids import grid_over
from tests.batch.systems.system import System
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def grid(
    tmp_path: Path, slurm: dict[str, System], wide_cell: dict[str, System]
) -> Iterator[tuple[Grid, dict[str, System]]]:
    """Daemon and agents in front of alpha, beta and delta, two machines each."""
    systems = {**slurm, **wide_cell}
    with grid_over(tmp_path, systems) as grid:
        yield grid, systems


async def finished(grid: Grid, job: str) -> None:
    """Submit it and wait for its good end."""
    async with grid.client() as client:
        await grid.ready(client)
        submitted = await client.submit(job)
        phase = await client.wait(submitted.job)
        assert phase == "Finished", (await client.show(submitted.job))["parts"]
        await grid.at_rest(client)


def component(site: str, program: str, *, count: int, more: str = "") -> str:
    return (
        f'(&(executable=/bin/sh)(arguments=-c "{program}")(count={count})(maxWallTime=5)'
        f"(resourceManagerContact={site}){more})"
    )


async def test_a_process_for_each_processor_of_all_machines(
    grid: tuple[Grid, dict[str, System]], tmp_path: Path
) -> None:
    """12 of alpha's 8 + 8, 6 of delta's 4 + 4: what a process learns is where it is."""
    live, _ = grid
    told = "$RANK $KOALA_PROCESS $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $NNODES $WORLD_SIZE"
    where = "${SLURM_NODEID-}${PE_HOSTFILE:+g}"
    program = f"echo {told} {where} > {tmp_path}/rank.$RANK"
    await finished(
        live,
        "+" + component("alpha", program, count=12) + component("delta", program, count=6),
    )
    said = [(tmp_path / f"rank.{rank}").read_text().split() for rank in range(18)]
    assert [int(words[1]) for words in said] == [*range(12), *range(6)]
    assert all(words[5:7] == ["4", "18"] for words in said)
    nodes = [[words for words in said if words[4] == str(node)] for node in range(4)]
    assert sorted(len(node) for node in nodes[:2]) == [4, 8]
    assert sorted(len(node) for node in nodes[2:]) == [2, 4]
    assert [words for node in nodes for words in node] == said
    for number, node in enumerate(nodes):
        assert [int(words[2]) for words in node] == list(range(len(node)))
        assert {int(words[3]) for words in node} == {len(node)}
        assert {words[7] for words in node} == ({str(number)} if number < 2 else {"g"})


# MPI -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def mpi_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example's sum over all ranks, compiled here."""
    compiler = shutil.which("mpicc.mpich")
    if compiler is None or shutil.which("mpiexec.mpich") is None:
        raise SkipTest("MPICH is not installed (Debian: apt install mpich libmpich-dev)")
    folder = tmp_path_factory.mktemp("mpi")
    program = folder / "sum"
    source = EXAMPLES / "mpi" / "sum.c"
    subprocess.run([compiler, "-o", program, source], check=True)
    return program


def ranks(site: str, program: Path, *, count: int, argument: str = "", more: str = "") -> str:
    arguments = f"(arguments={argument})" if argument else ""
    return (
        f"(&(executable={program}){arguments}(jobType=mpi)(count={count})(maxWallTime=5)(label=at-{site})"
        f"(stdout={program.parent}/out-{site})(resourceManagerContact={site}){more})"
    )


async def test_one_mpi_world_over_three_batch_systems(
    grid: tuple[Grid, dict[str, System]], mpi_program: Path
) -> None:
    """Unmodified programs, two machines at each site but beta."""
    live, _ = grid
    sizes = {"alpha": 10, "beta": 2, "delta": 6}
    await finished(
        live, "+" + "".join(ranks(site, mpi_program, count=n) for site, n in sizes.items())
    )
    first = 0
    for site, size in sizes.items():
        for process in range(size):
            said = (mpi_program.parent / f"out-{site}.{process}").read_text()
            rank = rf"rank {first + process} of 18 on \S+: the sum is {17 * 18 // 2}\n"
            assert re.fullmatch(rank, said), said
        first += size


async def test_one_component_by_the_sites_own_launcher(
    tmp_path: Path, slurm: dict[str, System], mpi_program: Path
) -> None:
    """Slurm starts the ranks itself where the site says so; no mpiexec runs."""
    systems = {"alpha": slurm["alpha"]}
    launcher = 'launcher = ["srun", "--mpi=pmi2", "-n", "{processes}"]\n'
    with grid_over(tmp_path, systems, more={"alpha": launcher}) as live:
        await finished(live, "+" + ranks("alpha", mpi_program, count=12))
    outputs = [mpi_program.parent / f"out-alpha.{process}" for process in range(12)]
    assert all("of 12 on" in output.read_text() for output in outputs)


@pytest.fixture(scope="session")
def open_mpi_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same for Open MPI."""
    compiler = shutil.which("mpicc.openmpi")
    if compiler is None or shutil.which("mpirun.openmpi") is None:
        raise SkipTest("Open MPI is not installed (Debian: apt install openmpi-bin libopenmpi-dev)")
    program = tmp_path_factory.mktemp("openmpi") / "sum"
    subprocess.run([compiler, "-o", program, EXAMPLES / "mpi" / "sum.c"], check=True)
    return program


async def test_one_component_by_open_mpi(
    tmp_path: Path, slurm: dict[str, System], open_mpi_program: Path
) -> None:
    """`mpirun` as the site's launcher: it starts its daemons by Slurm, on both machines. The
    options are for root, and for machines that are one in truth."""
    systems = {"alpha": slurm["alpha"]}
    words = ["mpirun.openmpi", "--allow-run-as-root", "-n", "{processes}"]
    words += ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"]
    launcher = f"launcher = {json.dumps(words)}\n"
    with grid_over(tmp_path, systems, more={"alpha": launcher}) as live:
        await finished(live, "+" + ranks("alpha", open_mpi_program, count=12))
        async with live.client() as client:
            failing = ranks("alpha", open_mpi_program, count=12, argument="3")
            submitted = await client.submit("+" + failing)
            assert await client.wait(submitted.job) == "Failed"
            (part,) = (await client.show(submitted.job))["parts"]
            assert part["end"]["statuses"][3] == 9, part
    outputs = [open_mpi_program.parent / f"out-alpha.{process}" for process in range(12)]
    assert all("of 12 on" in output.read_text() for output in outputs)
