"""One set of real batch systems for all tests of this folder."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from unittest import SkipTest

import pytest

from koala.client import AsyncClient
from koala_agent.conformance.witness import Witness
from koala_agent.environments import of_commands
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.dialect import Dialect
from koala_agent.transport.interface import CommandRunner
from koala_agent.transport.shell import Shell
from tests.agent.transport.servers import a_server
from tests.batch.systems.gridengine import grid_engine_cells
from tests.batch.systems.htcondor import condor_pools
from tests.batch.systems.oar import oar_clusters
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.system import System, open_folder
from tests.harness.limits import limit
from tests.harness.ssh_server import SSHServer
from tests.live.conftest import client_of
from tests.live.grid import Grid
from tests.lrm.harness import Ask, asking, boot_clock, serving

OTHER_DEBIAN = "KOALA_DEV_ROOT"
"""Variable with the folder of the Debian that has HTCondor and OAR; empty: this one."""
OF_OTHER_DEBIAN = {
    "htcondor": "usr/sbin/condor_master",
    "oar": "usr/lib/oar/Almighty",
    "newer slurm": "usr/sbin/slurmctld",
}
PACKAGES = {
    "slurm": ("/usr/sbin/slurmctld", "slurm-wlm"),
    "database": ("/usr/sbin/slurmdbd", "slurmdbd mariadb-server"),
    "gridengine": ("/usr/sbin/sge_qmaster", "gridengine-master gridengine-exec"),
}


def need(kind: str) -> None:
    """Skips the test where a batch system is not installed."""
    if (other := OF_OTHER_DEBIAN.get(kind)) is not None:
        if not Path("/", os.environ.get(OTHER_DEBIAN, ""), other).exists():
            raise SkipTest(f"{other} is not installed, and {OTHER_DEBIAN} names no Debian with it")
        if kind == "oar" and (os.geteuid() != 0 or not list(Path("/usr/lib/postgresql").glob("*"))):
            raise SkipTest("OAR needs root and PostgreSQL (Debian: apt install postgresql)")
        return
    path, packages = PACKAGES[kind]
    program = Path(path).name
    if not Path(path).exists() and shutil.which(program) is None:
        raise SkipTest(f"{program} is not installed (Debian: apt install {packages})")
    if kind == "gridengine" and os.geteuid() != 0:
        raise SkipTest("Grid Engine's execution daemon sets user ids: its tests need root")


TEST_S = 300.0
"""No test of this folder takes longer, unless its module has such a limit of its own."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test of this folder its time limit."""
    limit(items, Path(__file__).parent, TEST_S)


@pytest.fixture(scope="session")
def slurm() -> Iterator[dict[str, System]]:
    """alpha (2 nodes of 8) and beta (2 nodes of 16)."""
    need("slurm")
    with open_folder() as folder, slurm_clusters(folder, "alpha:2x8 beta:2x16") as systems:
        yield systems


@pytest.fixture(scope="session")
def newer_slurm() -> Iterator[dict[str, System]]:
    """iota, a cluster of 2 nodes of 8 with the Slurm of the other Debian."""
    need("newer slurm")
    root = os.environ.get(OTHER_DEBIAN, "")
    with open_folder() as folder, slurm_clusters(folder, "iota:2x8", root=root) as systems:
        yield systems


@pytest.fixture(scope="session")
def slurm_by_age() -> Iterator[dict[str, System]]:
    """zeta, a cluster of 2 nodes of 8 whose priorities grow with the age of jobs."""
    need("slurm")
    need("database")
    with open_folder() as folder, slurm_clusters(folder, "zeta:2x8", profile="age") as systems:
        yield systems


@pytest.fixture(scope="session")
def cell() -> Iterator[dict[str, System]]:
    """gamma, one cell of 16 slots."""
    need("gridengine")
    with open_folder() as folder, grid_engine_cells(folder, "gamma:1x16") as systems:
        yield systems


@pytest.fixture(scope="session")
def wide_cell() -> Iterator[dict[str, System]]:
    """delta, a cell in which a job of more than 4 slots has two machines."""
    need("gridengine")
    delta = partial(grid_engine_cells, cells="delta:2x4", first_group=66_000)
    with open_folder() as folder, delta(folder) as systems:
        yield systems


@pytest.fixture(scope="session")
def pool() -> Iterator[dict[str, System]]:
    """kappa, an HTCondor pool with one machine of 16 processors."""
    need("htcondor")
    with open_folder() as folder, condor_pools(folder, "kappa:1x16") as systems:
        yield systems


@pytest.fixture(scope="session")
def oar() -> Iterator[dict[str, System]]:
    """omega, an OAR cluster with one machine of 16 processors."""
    need("oar")
    with open_folder() as folder, oar_clusters(folder, "omega:1x16") as systems:
        yield systems


@pytest.fixture(scope="module")
def server() -> Iterator[SSHServer]:
    """The login node of sites behind ssh."""
    with a_server(settings="MaxStartups 100") as server:
        yield server


@pytest.fixture
async def client(grid: Grid) -> AsyncIterator[AsyncClient]:
    """A client of the module's grid, which is ready before each test and at rest after it."""
    async with client_of(grid) as client:
        yield client


ONE_OF_EACH = {
    "slurm": ("slurm", "alpha"),
    "gridengine": ("cell", "gamma"),
    "htcondor": ("pool", "kappa"),
    "oar": ("oar", "omega"),
}
"""Fixture and name of a system of each kind."""
WITHOUT_OAR = [kind for kind in ONE_OF_EACH if kind != "oar"]
"""Kinds for what OAR does not offer here."""


@pytest.fixture(params=list(ONE_OF_EACH))
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """One of each kind, 16 processors; empty before and after each test."""
    yield from cleared(request, *ONE_OF_EACH[request.param])


def cleared(request: pytest.FixtureRequest, fixture: str, name: str) -> Iterator[System]:
    """This system of a fixture, whose jobs are ended after the test."""
    system: System = request.getfixturevalue(fixture)[name]
    yield system
    system.clear()


COMMAND_S = 30.0
"""A command may take so long on a busy machine."""
Serve = Callable[..., AbstractAsyncContextManager[tuple[BatchManager, Witness]]]


@pytest.fixture
def shell(system: System) -> Shell:
    """Run the commands of the system."""
    return Shell(environment=of_commands(system.environment), limit_s=COMMAND_S)


@pytest.fixture
def serve(system: System, tmp_path: Path, shell: Shell) -> Serve:
    """Runs a manager in front of the system; at its end all its jobs are ended, unless the block
    asks for something else."""

    @asynccontextmanager
    async def run(
        *,
        kill: bool = True,
        processors: int = 16,
        dialect: Dialect | None = None,
        runner: CommandRunner | None = None,
        scope: str = "",
    ) -> AsyncIterator[tuple[BatchManager, Witness]]:
        settings = BatchSettings(
            processors=processors,
            state_directory=tmp_path / "state",
            scope=scope or f"{abs(hash(str(tmp_path))) % 16**8:08x}",
            poll_s=0.2,
            figures_s=0.5,
            waits_s=0.5,
            missing_s=8.0,
            account=pwd.getpwuid(os.geteuid()).pw_name,
        )
        witness = Witness()
        manager = BatchManager(
            settings,
            dialect or system.dialect,
            runner or shell,
            on_report=witness,
            clock=boot_clock,
        )
        async with serving(manager, kill=kill):
            yield manager, witness

    return run


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    return asking(tmp_path, limit_s=600.0)
