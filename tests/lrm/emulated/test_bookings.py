"""Bookings of the emulated local manager, with real processes."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from koala.common.protocol.messages import Hole
from koala_agent.lrm.local_manager import (
    EndCause,
    Ended,
    Placeholder,
    Queued,
    RequestRefusedError,
    Running,
)
from tests.lrm.harness import Ask, Serve

pytestmark = pytest.mark.live


def booked(placeholder: Placeholder, in_s: float) -> Placeholder:
    return replace(placeholder, begins_at=time.time() + in_s)


async def test_a_booked_claim_begins_in_time_beside_jobs_that_would_run_into_it(
    serve: Serve, ask: Ask
) -> None:
    async with serve() as (manager, witness):
        asked = booked(ask("b", processors=6), 1.0)
        await manager.submit(asked)
        await manager.submit(ask("long", processors=4))
        idle = await manager.idle()
        assert (idle.idle, idle.startable) == (8, 2)
        assert {wait.claim for wait in idle.waits} == {"b", "long"}
        await witness.running("b")
        assert 0 <= time.time() - asked.begins_at < 5
        assert await manager.listing() == (Running(claim="b"), Queued(claim="long"))
        await manager.withdraw("b")
        await witness.running("long")


async def test_a_booking_outlives_its_agent_and_is_given_back(serve: Serve, ask: Ask) -> None:
    async with serve(kill=False) as (manager, _):
        await manager.submit(booked(ask("a", processors=8), 3600.0))
        idle = await manager.idle()
        assert (idle.startable, idle.holes) == (0, (Hole(processors=8, for_s=3540.0),))
        await manager.submit(booked(ask("b", "true", processors=8), 0.5))
    async with serve() as (manager, witness):
        assert await manager.find("a") == Queued(claim="a")
        assert (await witness.ended("b")).exit_status == 0
        with pytest.raises(RequestRefusedError, match="8 processors are not free"):
            await manager.submit(booked(ask("c", processors=8), 3000.0))
        await manager.withdraw("a")
        assert (await witness.ended("a")).cause is EndCause.WITHDRAWN
        await manager.submit(booked(ask("c", processors=8), 3000.0))


@pytest.mark.parametrize(
    ("in_s", "limit_s", "books", "words"),
    [
        (-9.0, 60.0, True, "was to begin 9 s ago"),
        (60.0, float("inf"), True, "without a time limit"),
        (60.0, 60.0, False, "books no processors"),
    ],
)
async def test_a_booking_that_cannot_be_kept_is_refused(
    serve: Serve, ask: Ask, *, in_s: float, limit_s: float, books: bool, words: str
) -> None:
    async with serve(books=books) as (manager, _):
        assert bool(manager.books) == books
        with pytest.raises(RequestRefusedError, match=words):
            await manager.submit(booked(ask("b", time_limit_s=limit_s), in_s))
        assert await manager.listing() == ()


async def test_a_booking_for_which_the_site_has_become_too_small_ends_its_claim(
    serve: Serve, ask: Ask
) -> None:
    async with serve(kill=False) as (manager, _):
        await manager.submit(booked(ask("a", processors=8), 3600.0))
    async with serve(processors=4) as (manager, _):
        end = await manager.find("a")
        assert isinstance(end, Ended)
        assert end.cause is EndCause.LOST
