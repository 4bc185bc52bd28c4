"""The emulated local manager with real processes."""

from __future__ import annotations

import asyncio
import math
import os
from dataclasses import replace
from pathlib import Path

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import ConfigError, LocalManagerError
from koala.queue_model import Discipline
from koala.queue_model.local_users import LoadParameters
from koala_agent.lrm.claim_processes import identify, scan
from koala_agent.lrm.emulated.emulated_settings import EmulatedSettings
from koala_agent.lrm.local_manager import (
    OUTPUT_FILE,
    EndCause,
    Ended,
    Idle,
    Placeholder,
    Queued,
    Running,
)
from tests.agent.watching import Ear
from tests.lrm.harness import (
    CROWD,
    ESCAPE,
    RELAY,
    Ask,
    Serve,
    find_by_claim,
    python,
    reap,
)

pytestmark = pytest.mark.live


async def test_a_claim_is_run_once_however_often_it_is_submitted(serve: Serve, ask: Ask) -> None:
    placeholder = ask("a", "sh", "-c", "echo ran")
    async with serve() as (manager, witness):
        await asyncio.gather(*(manager.submit(placeholder) for _ in range(5)))
        await witness.ended("a")
        await manager.submit(placeholder)
        assert [type(listed) for listed in await manager.listing()] == [Ended]
        await manager.submit(ask("b", "true"))
        await witness.ended("b")
    assert (placeholder.directory / OUTPUT_FILE).read_text() == "ran\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"processors": 9}, "asks for 9 processors: this site has 8"),
        ({"processors": 0}, "asks for 0 processors"),
        ({"time_limit_s": 0.0}, "time limit of 0.0 s"),
        ({"time_limit_s": math.nan}, "time limit of nan s"),
    ],
)
async def test_what_could_never_run_is_refused(
    serve: Serve, ask: Ask, change: dict[str, object], message: str
) -> None:
    async with serve() as (manager, _):
        with pytest.raises(LocalManagerError, match=message) as caught:
            await manager.submit(ask("a", **change))
        assert not caught.value.transient
        assert await manager.listing() == ()


# Ends -----------------------------------------------------------------------------------------


async def test_withdrawing_ends_the_whole_tree_with_a_daemon_that_escaped(
    serve: Serve, ask: Ask, ear: Ear
) -> None:
    """It left its session and its parent and ignores TERM; its environment tells whose it is."""
    async with serve() as (manager, witness):
        await manager.submit(ask("a", *python(ESCAPE, ear.path, "lasting")))
        daemon = int(await ear.line())
        assert identify(daemon) is not None
        await manager.withdraw("a")
        assert (await manager.idle()).idle == 7
        end = await witness.ended("a")
        assert identify(daemon) is None
        assert (end.cause, end.exit_status) == (EndCause.WITHDRAWN, -9)
        assert (await manager.idle()).idle == 8


async def test_a_job_that_exits_has_not_ended_while_its_daemon_lives(
    serve: Serve, ask: Ask, ear: Ear
) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("a", *python(ESCAPE, ear.path, "brief")))
        daemon = int(await ear.line())
        end = await witness.ended("a")
        assert identify(daemon) is None
        assert (end.cause, end.exit_status) == (EndCause.EXITED, 0)


async def test_a_job_that_flees_from_process_to_process_is_caught(
    serve: Serve, ask: Ask, ear: Ear
) -> None:
    """None of its processes lives long enough to be looked at and then signalled."""
    async with serve() as (manager, witness):
        claim = f"relay-{os.getpid()}"  # no other test run's
        await manager.submit(ask(claim, *python(RELAY, ear.path)))
        assert await ear.line() == "up"
        await witness.ended(claim)
        assert [seen for seen in scan().seen if seen.claim == claim] == []


async def test_closing_leaves_jobs_running_unless_told_to_kill(
    serve: Serve, ask: Ask, ear: Ear
) -> None:
    program = ("sh", "-c", f"echo $$ > {ear.path}; exec sleep 1000")
    async with serve(kill=False) as (manager, witness):
        await manager.submit(ask("a", *program))
        pid = int(await ear.line())
        await witness.running("a")
    assert identify(pid) is not None
    async with serve(kill=True) as (manager, witness):
        assert await manager.listing() == (Running(claim="a"),)
        await manager.submit(ask("waits", processors=8))
    assert identify(pid) is None
    assert (await witness.ended("waits")).cause is EndCause.WITHDRAWN
    assert (await witness.ended("a")).cause is EndCause.WITHDRAWN


async def test_what_waits_when_the_agent_closes_starts_under_the_next_one(
    serve: Serve, ask: Ask
) -> None:
    """The processors that came free in between change nothing: one agent leaves, one comes."""
    async with serve(kill=False) as (manager, witness):
        await manager.submit(ask("a", processors=8))
        await manager.submit(ask("b", "true", processors=8))
        await witness.running("a")
        first, *_ = find_by_claim("a")
        await asyncio.gather(manager.withdraw("a"), manager.close())
    async with serve() as (_, witness):
        assert (await witness.ended("a")).cause is EndCause.WITHDRAWN
        assert (await witness.ended("b")).exit_status == 0
    reap(first)


# The queue --------------------------------------------------------------------------------------


async def test_a_withdrawn_claim_leaves_the_queue_and_those_behind_it_start(
    serve: Serve, ask: Ask
) -> None:
    async with serve(discipline=Discipline.FCFS) as (manager, witness):
        await manager.submit(ask("first", processors=5))
        await manager.submit(ask("head", processors=8))
        await manager.submit(ask("behind", processors=3))
        idle = await manager.idle()
        assert idle == Idle(
            processors=8,
            idle=3,
            startable=0,
            queued_jobs=2,
            local_processors=0,
            waits=idle.waits,
            outlook=idle.outlook,
            why="3 idle, but claims of Koala wait for processors",
        )
        assert not manager.starts_after_stop
        await manager.withdraw("head")
        await witness.running("behind")
        assert [listed.claim for listed in await manager.listing() if type(listed) is Running] == [
            "first",
            "behind",
        ]
        end = await witness.ended("head")
        assert (end.cause, end.exit_status) == (EndCause.WITHDRAWN, None)
        assert manager.starts_after_stop


async def test_the_youngest_local_jobs_make_room_for_a_claim_that_may_kill(
    serve: Serve, ask: Ask
) -> None:
    """Two of four jobs go for three processors; the fourth of what they had is too little for the
    next in the queue, before which the claim started."""
    async with serve(discipline=Discipline.FCFS, load=CROWD, may_kill_local=True) as site:
        manager, witness = site
        await witness.until(Idle, lambda idle: idle.local_processors == 8 and idle.queued_jobs > 0)
        await manager.submit(replace(ask("c1", processors=3), may_kill=True))
        await witness.running("c1")
        now = await manager.idle()
        assert (now.idle, now.startable, now.local_processors) == (1, 0, 4)
        await manager.withdraw("c1")
        await witness.ended("c1")
        assert (await manager.idle()).local_processors == 8


@pytest.mark.parametrize(
    ("allowed", "asked", "processors"), [(False, True, 3), (True, False, 3), (True, True, 6)]
)
async def test_no_local_job_is_killed_unless_site_and_claim_say_so_and_it_helps(
    serve: Serve, ask: Ask, allowed: bool, asked: bool, processors: int
) -> None:
    """The last: with a claim of 3 running, at most 5 of 8 processors can be had."""
    async with serve(discipline=Discipline.FCFS, load=CROWD, may_kill_local=allowed) as site:
        manager, witness = site
        await witness.until(Idle, lambda idle: idle.local_processors == 8)
        if processors > 5:
            await manager.submit(replace(ask("c1", processors=3), may_kill=True))
        before = (await manager.idle()).local_processors
        await manager.submit(replace(ask("c2", processors=processors), may_kill=asked))
        assert (await manager.idle()).local_processors == before
        assert Queued(claim="c2") in await manager.listing()


# Faults -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"processors": 0}, "processors is 0"),
        ({"fault_rate": 1.5}, "fault_rate is 1.5"),
        ({"load": LoadParameters(arrivals_per_hour=1, size_max=9)}, "load.size_max is 9"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        EmulatedSettings(**{"processors": 8, "state_directory": tmp_path, **options})  # type: ignore[arg-type]


# GPUs -----------------------------------------------------------------------------------------


def wanting(placeholder: Placeholder, gpus: int) -> Placeholder:
    return replace(placeholder, resources=Resources(gpus=gpus))


async def test_each_claim_sees_gpus_of_its_own(serve: Serve, ask: Ask, ear: Ear) -> None:
    show = f"echo $KOALA_CLAIM $CUDA_VISIBLE_DEVICES. > {ear.path}"
    async with serve(gpus=3) as (manager, witness):
        await manager.submit(wanting(ask("a", "sh", "-c", f"{show}; sleep 1000"), 2))
        assert await ear.line() == "a 0,1."
        await manager.submit(wanting(ask("b", "sh", "-c", f"{show}; sleep 1000"), 1))
        assert await ear.line() == "b 2."
        await manager.submit(wanting(ask("c", "sh", "-c", show), 2))
        await manager.submit(ask("d", "sh", "-c", show))
        assert await ear.line() == "d ."
        await witness.ended("d")
        assert (await manager.idle()).idle_gpus == 0
        assert (await manager.listing())[2] == Queued(claim="c")
        await manager.withdraw("b")
        await witness.ended("b")
        assert (await manager.listing())[2] == Queued(claim="c")
        await manager.withdraw("a")
        assert await ear.line() == "c 0,1."
        await witness.ended("c")
        assert (await manager.idle()).idle_gpus == 3


async def test_gpus_stay_with_their_claims_when_the_agent_is_restarted(
    serve: Serve, ask: Ask, ear: Ear
) -> None:
    async with serve(kill=False, gpus=3) as (manager, witness):
        await manager.submit(wanting(ask("a"), 2))
        await witness.running("a")
        await manager.submit(wanting(ask("b", "true"), 2))
    async with serve(gpus=3) as (manager, witness):
        assert (await manager.listing())[1] == Queued(claim="b")
        await manager.withdraw("b")
        assert (await manager.idle()).idle_gpus == 1
        show = f"echo $CUDA_VISIBLE_DEVICES > {ear.path}"
        await manager.submit(wanting(ask("c", "sh", "-c", show), 1))
        assert await ear.line() == "2"
        await witness.ended("c")


async def test_a_job_is_ended_at_its_time_limit(serve: Serve, ask: Ask, ear: Ear) -> None:
    async with serve() as (manager, witness):
        await manager.submit(ask("a", *python(ESCAPE, ear.path, "lasting"), time_limit_s=2.0))
        end = await witness.ended("a")
        assert (end.cause, end.reason) == (EndCause.TIME_LIMIT, "time limit of 2 s")
        assert identify(int(await ear.line())) is None
