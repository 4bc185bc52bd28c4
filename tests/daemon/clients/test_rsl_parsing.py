"""Long descriptions are read one after the other, in turns between users, and few are in memory."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from koala.common.wire.v1 import koala_pb2 as pb
from koala.daemon.clients.rsl_parsing import (
    DEFINITIONS_MAX,
    INLINE_CHARACTERS,
    DescriptionParser,
)
from koala.errors import SpecError
from koala.job_descriptions.job_reader import JOB_CHARACTERS_MAX, JOB_TOKENS_MAX

LONG = "&(executable=a)" + "(x-a=b)" * (JOB_TOKENS_MAX // 20)


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


@pytest.mark.parametrize(
    ("submission", "words"),
    [
        (pb.Submission(rsl="&(executable=a)", key="k" * 257), "key has 257 characters"),
        (
            pb.Submission(rsl="&(executable=a)", definitions={"A": "x" * (JOB_CHARACTERS_MAX + 1)}),
            r"definitions have 1000002 characters \(expected at most 1000000",
        ),
        (
            pb.Submission(
                rsl="&(executable=a)",
                definitions={f"A{n}": "x" for n in range(DEFINITIONS_MAX + 1)},
            ),
            r"1001 definitions \(expected at most 1000",
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
