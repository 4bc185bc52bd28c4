"""A plain user at a cluster that hides the jobs of others, or answers with old listings."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from koala_agent.conformance.witness import Witness
from koala_agent.environments import of_commands
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.local_manager import EndCause, Idle, Placeholder, Queued
from koala_agent.transport.interface import Answer, Command
from koala_agent.transport.shell import Shell
from tests.batch.conftest import need
from tests.batch.fleet.profiles import SITE
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.system import System, open_folder
from tests.lrm.harness import asking, boot_clock, serving

pytestmark = [pytest.mark.lrm, pytest.mark.fleet]

FIRST, SECOND = "j1/1/0/1", "j2/1/0/1"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--")


class PlainUser(Shell):
    """Commands of an account without rights. While it `lies`, a listing is what it was before."""

    def __init__(self, system: System) -> None:
        super().__init__(environment=of_commands(system.environment), limit_s=10.0)
        self.lies = False
        self._old: dict[tuple[str, ...], Answer] = {}

    async def run(self, command: Command, account: str = "") -> Answer:
        """See Shell."""
        is_listing = command.argv[0] == "squeue"
        if self.lies and is_listing and command.argv in self._old:
            return self._old[command.argv]
        words = replace(command, argv=(*NOBODY, *command.argv)) if os.geteuid() == 0 else command
        answer = await super().run(words, account)
        if is_listing:
            self._old[command.argv] = answer
        return answer


@pytest.fixture(scope="module")
def system() -> Iterator[System]:
    """A cluster that shows a plain user nothing of others."""
    need("slurm")
    site = f"{SITE}:2x8"
    with open_folder() as folder, slurm_clusters(folder, site, profile="private") as systems:
        yield systems[SITE]


@pytest.fixture
def user(system: System) -> Iterator[PlainUser]:
    yield PlainUser(system)
    system.clear()


@asynccontextmanager
async def managed(
    system: System, user: PlainUser, folder: Path
) -> AsyncIterator[tuple[BatchManager, Witness]]:
    settings = BatchSettings(
        processors=16,
        state_directory=folder,
        scope=secrets.token_hex(4),
        poll_s=0.2,
        figures_s=0.5,
        waits_s=0.5,
    )
    witness = Witness()
    manager = BatchManager(settings, system.dialect, user, on_report=witness, clock=boot_clock)
    async with serving(manager, kill=True):
        yield manager, witness


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of work for any account."""
    with open_folder() as folder:
        folder.chmod(0o777)
        yield folder


def a_claim(folder: Path, claim: str, *, processors: int = 1) -> Placeholder:
    return replace(asking(folder, limit_s=60.0)(claim, processors=processors), directory=folder)


async def test_jobs_that_are_hidden_are_waited_for_and_told(
    system: System, user: PlainUser, folder: Path, tmp_path: Path
) -> None:
    first, second = [system.submit("exec sleep 1000\n", processors=16) for _ in range(2)]
    async with managed(system, user, tmp_path / "state") as (manager, witness):
        idle = await witness.until(Idle, lambda idle: idle.local_processors == 16)
        assert (idle.startable, idle.queued_jobs) == (0, 0), "nothing of the queue is shown"
        await manager.submit(a_claim(folder, FIRST, processors=16))
        told = await witness.until(Idle, lambda idle: bool(idle.waits and idle.waits[0].reason))
        assert told.waits[0].reason.startswith("Priority"), told.waits
        system.cancel(second, first)
        await witness.running(FIRST)


async def test_a_controller_that_answers_with_old_listings_loses_and_doubles_nothing(
    system: System, user: PlainUser, folder: Path, tmp_path: Path
) -> None:
    async with managed(system, user, tmp_path / "state") as (manager, witness):
        await manager.submit(a_claim(folder, FIRST))
        await witness.running(FIRST)
        user.lies = True
        await manager.submit(a_claim(folder, SECOND))
        for _ in range(5):
            assert {one.claim for one in await manager.listing()} == {FIRST, SECOND}
        assert len(system.numbers("koala-")) == 2
        await manager.withdraw(FIRST)
        assert not isinstance(await manager.find(FIRST), Queued)
        user.lies = False
        await witness.running(SECOND)
        assert (await witness.ended(FIRST)).cause is EndCause.WITHDRAWN
        assert len(system.numbers("koala-")) == 1
