"""Gates of the emulated local manager, and expected starts, with real processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from koala.common.protocol.messages import Resources
from koala.queue_model import Discipline
from koala_agent.lrm.emulated.emulated_manager import EmulatedLocalManager
from koala_agent.lrm.local_manager import Ended, Placeholder, Queued, Running
from tests.agent.watching import Ear
from tests.lrm.harness import Ask, Serve

pytestmark = pytest.mark.live


def gated(placeholder: Placeholder) -> Placeholder:
    return replace(placeholder, is_gated=True)


async def waits(manager: EmulatedLocalManager) -> dict[str, float | None]:
    """Return the expected waits of claims, to 10 s."""
    return {
        wait.claim: None if wait.start_in_s is None else round(wait.start_in_s, -1)
        for wait in (await manager.idle()).waits
    }


@pytest.mark.parametrize("discipline", list(Discipline))
async def test_a_gated_claim_is_passed_over_and_keeps_its_place(
    serve: Serve, ask: Ask, discipline: Discipline
) -> None:
    async with serve(discipline=discipline) as (manager, witness):
        await manager.submit(ask("a", processors=8))
        for claim in ("early", "second", "third"):
            await manager.submit(ask(claim, processors=8))
        await manager.set_gate("early", is_gated=True)
        await manager.withdraw("a")
        await witness.running("second")
        await manager.set_gate("early", is_gated=False)
        await manager.withdraw("second")
        await witness.running("early")
        assert Queued(claim="third") in await manager.listing()


async def test_a_gate_outlives_its_agent_with_the_place_of_the_claim(
    serve: Serve, ask: Ask
) -> None:
    async with serve(kill=False) as (manager, witness):
        await manager.submit(ask("a", processors=8))
        await manager.submit(ask("early", processors=8))
        await manager.submit(ask("second", processors=8))
        await manager.submit(gated(ask("open", processors=8)))
        await manager.set_gate("early", is_gated=True)
        await manager.set_gate("open", is_gated=False)
        await witness.running("a")
    async with serve() as (manager, witness):
        await manager.withdraw("a")
        await witness.running("second")
        await manager.set_gate("early", is_gated=False)
        await manager.withdraw("second")
        await witness.running("early")
        await manager.withdraw("early")
        await witness.running("open")


# Expected starts --------------------------------------------------------------------------------


async def test_waits_follow_from_the_limits_of_all_jobs(serve: Serve, ask: Ask) -> None:
    """A gated claim is taken as if it alone were opened now."""
    async with serve(discipline=Discipline.FCFS) as (manager, witness):
        await manager.submit(ask("running", processors=8, time_limit_s=1000))
        await manager.submit(gated(ask("first", processors=8, time_limit_s=3000)))
        await manager.submit(ask("second", processors=8, time_limit_s=500))
        await manager.submit(gated(ask("third", processors=8)))
        await witness.running("running")
        assert await waits(manager) == {"first": 1000, "second": 1000, "third": 1500}
        assert {wait.source for wait in (await manager.idle()).waits} == {"queue run forward"}
        await manager.set_gate("first", is_gated=False)
        assert await waits(manager) == {"first": 1000, "second": 4000, "third": 4500}
        await manager.withdraw("first")
        assert await waits(manager) == {"second": 1000, "third": 1500}


# GPUs -------------------------------------------------------------------------------------------


async def test_a_gated_claim_has_no_gpus_and_keeps_its_place_for_them(
    serve: Serve, ask: Ask, ear: Ear
) -> None:
    wish = Resources(gpus=2)

    def wanting(claim: str) -> Placeholder:
        show = f"echo $KOALA_CLAIM $CUDA_VISIBLE_DEVICES > {ear.path}"
        return replace(ask(claim, "sh", "-c", f"{show}; sleep 1000", processors=8), resources=wish)

    async with serve(gpus=3) as (manager, _):
        await manager.submit(ask("a", processors=8))
        await manager.submit(wanting("early"))
        await manager.submit(wanting("second"))
        assert (await manager.idle()).idle_gpus == 0
        assert (await waits(manager))["second"] is None, "it waits for GPUs, too"
        await manager.set_gate("early", is_gated=True)
        await manager.withdraw("a")
        assert await ear.line() == "second 0,1"
        assert (await manager.idle()).idle_gpus == 1
        await manager.set_gate("early", is_gated=False)
        assert (await manager.idle()).idle_gpus == 0
        await manager.submit(ask("third", processors=8))
        await manager.withdraw("second")
        assert await ear.line() == "early 0,1"
        assert [type(entry) for entry in await manager.listing()] == [Ended, Running, Ended, Queued]
