"""Readings on an event loop, asked for by threads: new ones, or the last ones with their age."""

from __future__ import annotations

import asyncio
import threading

import pytest

from koala.common.metrics import declarations as m
from koala.common.metrics.readings import LoopReader, Readings
from koala.errors import UnreachableError


def age_of(readings: Readings) -> float:
    ((_, age_s),) = readings.of(m.READINGS_AGE)
    return age_s


def epoch_of(readings: Readings) -> list[float]:
    return [found for _, found in readings.of(m.EPOCH)]


async def test_a_thread_gets_what_the_loop_reads_now() -> None:
    count = 0

    async def read() -> Readings:
        nonlocal count
        count += 1
        readings = Readings()
        readings.set(m.EPOCH, count)
        return readings

    reader = LoopReader(asyncio.get_running_loop(), read)
    for expected in (1, 2):
        found = await asyncio.to_thread(reader.read)
        assert epoch_of(found) == [expected]
        assert age_of(found) < 60


async def test_a_busy_loop_gives_the_last_readings_with_their_age() -> None:
    now = 100.0
    answers: list[Readings] = []

    async def read() -> Readings:
        readings = Readings()
        readings.set(m.EPOCH, 7)
        return readings

    reader = LoopReader(asyncio.get_running_loop(), read, wait_s=0.05, now=lambda: now)
    await asyncio.to_thread(reader.read)
    now = 130.0
    thread = threading.Thread(target=lambda: answers.append(reader.read()))
    thread.start()
    thread.join(60)  # blocks this loop
    assert epoch_of(answers[0]) == [7]
    assert age_of(answers[0]) == 30


@pytest.mark.parametrize("error", [UnreachableError("over"), asyncio.CancelledError()])
async def test_a_loop_that_ends_gives_the_last_readings(error: BaseException) -> None:
    errors: list[BaseException] = []

    async def read() -> Readings:
        if errors:
            raise errors.pop()
        readings = Readings()
        readings.set(m.EPOCH, 7)
        return readings

    reader = LoopReader(asyncio.get_running_loop(), read)
    await asyncio.to_thread(reader.read)
    errors.append(error)
    assert epoch_of(await asyncio.to_thread(reader.read)) == [7]
    assert errors == []
