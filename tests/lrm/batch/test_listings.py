"""Listings that lie, are late or do not come, and the manager in front of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from koala_agent.conformance.witness import Witness
from koala_agent.lrm.batch.batch_manager import BatchManager
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.slurm import Slurm
from koala_agent.lrm.local_manager import EndCause, Idle, Placeholder, Running
from koala_agent.transport.command_budget import WINDOW_S, CommandBudget
from tests.lrm.batch.imitated_slurm import (
    CLAIM,
    MISSING_S,
    Cluster,
    Job,
    Serve,
)
from tests.lrm.harness import boot_clock, serving


async def test_a_listing_that_leaves_out_a_running_job_ends_nothing(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        cluster.job("1").is_listed = False
        cluster.now += 100 * MISSING_S
        await cluster.polls()
        assert await manager.listing() == (Running(claim=CLAIM),)


async def test_a_number_that_was_given_to_another_job_is_ours_no_more(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """A controller that lost its state begins with its first number again."""
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        cluster.jobs["1"] = Job("somebody's", "RUNNING")
        await cluster.polls()
        await manager.withdraw(CLAIM)
        await cluster.polls()
        cluster.now += MISSING_S
        assert (await witness.ended(CLAIM)).cause is EndCause.WITHDRAWN
        assert cluster.cancelled() == []
        assert cluster.jobs["1"].state == "RUNNING"


async def test_a_number_of_an_earlier_life_is_not_cancelled_before_it_was_seen(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
    mine, cluster.jobs["1"] = cluster.jobs["1"], Job("somebody's", "RUNNING")
    async with serve() as (manager, _):
        cluster.is_away = True
        await manager.withdraw(CLAIM)
        cluster.is_away = False
        await cluster.polls()
        assert cluster.cancelled() == []
    cluster.jobs["1"] = mine
    async with serve() as (manager, witness):
        assert (await witness.ended(CLAIM)).cause is EndCause.WITHDRAWN
        assert set(cluster.cancelled()) == {"1"}


async def test_a_second_job_under_our_name_does_not_hide_the_end_of_the_first(
    serve: Serve, cluster: Cluster, placeholder: Placeholder
) -> None:
    """A submission that arrived twice; what was cancelled stays in the listing for long."""
    async with serve() as (manager, witness):
        await manager.submit(placeholder)
        cluster.job("1").state = "RUNNING"
        await witness.running(CLAIM)
        cluster.jobs["2"] = Job(cluster.jobs.pop("1").name, "CANCELLED")
        await cluster.polls()
        cluster.now += MISSING_S
        assert (await witness.ended(CLAIM)).cause is EndCause.EXITED


async def test_commands_that_disappear_are_the_site_s_trouble(
    serve: Serve, cluster: Cluster
) -> None:
    """An update of the batch system, a folder that is no longer mounted: it says which one."""
    async with serve() as (manager, witness):
        await witness.until(Idle, lambda idle: idle.startable == 16)
        cluster.has_commands = False
        gone = await witness.until(Idle, lambda idle: idle.startable == 0)
        assert gone.trouble.startswith("the batch system gives no answer (s")
        assert "cannot be run: No such file or directory" in gone.trouble
        assert (await manager.idle()).trouble == gone.trouble
        cluster.has_commands = True
        await witness.until(Idle, lambda idle: idle.startable == 16)


async def test_a_manager_whose_budget_is_used_up_closes_without_another_listing(
    cluster: Cluster, tmp_path: Path
) -> None:
    budget = CommandBudget(1, clock=boot_clock)
    await budget.take()
    settings = BatchSettings(processors=16, state_directory=tmp_path / "lrm", scope="ab")
    manager = BatchManager(
        settings, Slurm(), cluster, on_report=Witness(), clock=boot_clock, budget=budget
    )
    async with asyncio.timeout(WINDOW_S / 4), serving(manager):
        pass
