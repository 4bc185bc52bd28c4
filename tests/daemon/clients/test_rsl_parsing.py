"""Long descriptions are read one after the other, in turns between users, and few are in memory."""

import asyncio
import threading
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koala.client import AsyncClient, AsyncJobHandle
from koala.common.wire.v1 import koala_pb2 as pb
from koala.daemon.clients.rsl_parsing import (
    DEFINITIONS_MAX,
    INLINE_CHARACTERS,
    LOT_BYTES,
    DescriptionParser,
)
from koala.errors import KoalaError, SpecError
from koala.job_descriptions.evaluation import PRODUCED_CHARACTERS_MAX
from koala.job_descriptions.job_reader import JOB_CHARACTERS_MAX, JOB_TOKENS_MAX, JobReading
from tests.daemon.running import config_of, running

LONG = "&(executable=a)" + "(x-a=b)" * (JOB_TOKENS_MAX // 20)
LARGE = f"&(executable=/bin/true)(rsl_substitution=(A {'x' * 100_000}))(arguments=$(A)#y)"
LARGE_JOB = "+" + f"({LARGE})" * 8  # its arguments have 0.8 MB


@pytest.fixture
async def texts() -> AsyncIterator[DescriptionParser]:
    made = DescriptionParser(calls_per_user=10)
    yield made
    made.close()


def long_text(number: int) -> pb.Submission:
    return pb.Submission(rsl=f"{LONG}(x-n={number})")


async def test_long_texts_are_read_one_after_the_other_in_turns_between_users(
    texts: DescriptionParser,
) -> None:
    order: list[str] = []

    async def read(user: str, number: int) -> None:
        reading = await texts.read(long_text(number), user)
        assert reading.spec.owner == user
        order.append(f"{user}{number}")
        assert len([t for t in threading.enumerate() if t.name.startswith("texts")]) == 1

    async with asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(read("ann", number))
        await asyncio.sleep(0)
        group.create_task(read("bob", 0))
        short = pb.Submission(rsl="&(executable=a)")
        await texts.read(short, "ann")  # does not wait
        assert order == []
    assert order == ["ann0", "bob0", "ann1", "ann2"]


async def test_a_call_that_is_given_up_gives_its_user_no_second_thread(
    texts: DescriptionParser,
) -> None:
    for number in range(4):
        async with asyncio.TaskGroup() as group:
            given_up = group.create_task(texts.read(long_text(number), "ann"))
            await asyncio.sleep(0)
            given_up.cancel()
    await texts.read(long_text(4), "bob")
    assert len([t for t in threading.enumerate() if t.name.startswith("texts")]) == 1


async def test_what_was_read_is_dealt_with_before_it_is_much(texts: DescriptionParser) -> None:
    submissions = [pb.Submission(rsl=LARGE_JOB)] * 20
    readings = await texts.read_lot(submissions, "ann")
    sizes = [r.size_bytes for r in readings if isinstance(r, JobReading)]
    assert len(sizes) == len(readings)
    assert sum(sizes[:-1]) < LOT_BYTES <= sum(sizes)


async def test_what_is_wrong_keeps_nothing_of_what_was_read(texts: DescriptionParser) -> None:
    """An error keeps its traceback, whose frames keep the tree and what references produced."""
    wrong = pb.Submission(rsl=LARGE_JOB.replace("$(A)#y", "$(A)#y $(A)#y $(A)#y $(A)#y"))
    tracemalloc.start()
    try:
        readings = await texts.read_lot([wrong] * 10, "ann")
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert {reading.error for reading in readings if isinstance(reading, pb.Submitted)} == {
        "the variables of this text produce more than 4194304 characters, which is the limit"
    }
    assert len(readings) == 10
    assert kept < PRODUCED_CHARACTERS_MAX < most < 3 * PRODUCED_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("submission", "words"),
    [
        (pb.Submission(rsl="&(executable=a)", key="k" * 257), "key has 257 characters"),
        (
            pb.Submission(rsl="&(executable=a)", definitions={"A": "x" * (JOB_CHARACTERS_MAX + 1)}),
            "definitions have 1000002 characters: allowed are 1000000",
        ),
        (
            pb.Submission(
                rsl="&(executable=a)",
                definitions={f"A{n}": "x" for n in range(DEFINITIONS_MAX + 1)},
            ),
            "1001 definitions: allowed are 1000",
        ),
        (pb.Submission(rsl="&(executable=a)", after=["j1", "j1"]), "'j1': j1 is named twice"),
        (pb.Submission(rsl="&(executable=a)", after=["j1:any", "j1"]), "'j1': j1 is named twice"),
        (pb.Submission(rsl="&(executable=a)", after=["j1"] * 100_000), "found 100000 jobs"),
        (
            pb.Submission(rsl="&(executable=a)" + "(x-a=b)" * (JOB_TOKENS_MAX // 5)),
            "more than 200000 names, values and signs",
        ),
    ],
)
async def test_what_is_too_much_is_refused(
    texts: DescriptionParser, submission: pb.Submission, words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        await texts.read(submission, "ann")


async def test_definitions_count_as_text(texts: DescriptionParser) -> None:
    """A text that waits behind a long one of the same user is long, too."""
    given = {"A": "x" * INLINE_CHARACTERS}
    defined = pb.Submission(rsl="&(executable=a)(arguments=$(A))", definitions=given)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(texts.read(long_text(0), "ann"))
        await group.create_task(texts.read(defined, "ann"))
        assert first.done()


@pytest.mark.live
async def test_each_of_many_large_submissions_has_its_own_answer_in_order(tmp_path: Path) -> None:
    jobs = [LARGE_JOB] * 12
    jobs[7] = "&(executable=a)(cuont=4)"
    async with running(config_of(tmp_path)) as daemon, AsyncClient(daemon.address) as client:
        results = await client.submit_many(jobs)
    wrong = [number for number, result in enumerate(results) if isinstance(result, KoalaError)]
    assert wrong == [7]
    assert "cuont" in str(results[7])
    told = [result.job for result in results if isinstance(result, AsyncJobHandle)]
    assert told == [f"j{number}" for number in range(1, 12)]
