"""Submission of messages: in batches of bounded size, with patience while the daemon has no room.

It needs only a connection: `koala submit` starts faster without the rest of the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from koala.client.connection import Connection
from koala.client.submission import Submission, submission_message, text_of
from koala.common.wire.status import from_submitted
from koala.common.wire.v1 import koala_pb2 as pb
from koala.errors import ExhaustedError, KoalaError

if TYPE_CHECKING:
    from koala.client.description import Job

STAGE = "stage"
"""A description without this word stages nothing."""
BATCH_MAX = 500  # submissions in one message
RETRY_AFTER_S_MIN, RETRY_AFTER_S_MAX = 0.1, 60.0  # bounds of the daemon's answer

Answer: TypeAlias = pb.Submitted | KoalaError


async def submit_one(
    daemon: Connection, submission: Submission, *, dry_run: bool = False, retry_for_s: float = 0.0
) -> pb.Submitted:
    """Submit one description, with the files that it stages. Raises KoalaError."""
    message, warnings = await staged_message(daemon, submission, dry_run=dry_run)
    (answer,) = await submit_messages(daemon, [message], dry_run=dry_run, retry_for_s=retry_for_s)
    if isinstance(answer, KoalaError):
        raise answer
    answer.warnings.extend(warnings)
    return answer


async def staged_message(
    daemon: Connection, submission: Submission | Job | str, *, dry_run: bool
) -> tuple[pb.Submission, list[str]]:
    """Make the message of a submission, and upload what it stages unless it is a dry run; return
    the warnings about that, too."""
    message = submission_message(submission)
    text, definitions = text_of(submission)
    if STAGE not in text.lower() or dry_run:
        return message, []
    from koala.client.staging import stage  # noqa: PLC0415 - late, for commands to start fast

    staged, warnings = await stage(daemon, text, definitions)
    message.staged.update(staged)
    return message, warnings


async def submit_messages(
    daemon: Connection,
    messages: Sequence[pb.Submission],
    *,
    dry_run: bool = False,
    retry_for_s: float = 0.0,
) -> list[Answer]:
    """Submit; return an answer or an error for each message, in order.

    Submissions for which the daemon has no room are retried for `retry_for_s` seconds, at the
    intervals that the daemon asks for.
    """
    clock = asyncio.get_running_loop().time
    until_s = clock() + retry_for_s
    results = await _submit_all(daemon, messages, dry_run=dry_run)
    while True:
        waits = {
            index: min(RETRY_AFTER_S_MAX, max(RETRY_AFTER_S_MIN, result.retry_after_s or 0.0))
            for index, result in enumerate(results)
            if isinstance(result, ExhaustedError)
        }
        wait_s = max(waits.values(), default=0.0)
        if wait_s:
            wait_s *= 1 + _random_share() / 2
        if not waits or clock() + wait_s > until_s:
            return results
        await asyncio.sleep(wait_s)
        again = await _submit_all(daemon, [messages[index] for index in waits], dry_run=dry_run)
        for index, result in zip(waits, again, strict=True):
            results[index] = result


async def _submit_all(
    daemon: Connection, messages: Sequence[pb.Submission], *, dry_run: bool
) -> list[Answer]:
    """Submit in batches of bounded size."""
    results: list[Answer] = []
    for first in range(0, len(messages), BATCH_MAX):
        batch = messages[first : first + BATCH_MAX]
        request = pb.SubmitRequest(submissions=batch, dry_run=dry_run)
        try:
            reply = await daemon.call("Submit", request, pb.SubmitReply)
        except ExhaustedError as error:  # refuses the whole batch
            results += [error] * len(batch)
        else:
            results += [from_submitted(result) or result for result in reply.results]
    return results


def _random_share() -> float:
    """Return a share of 1, so that clients that were refused together do not return together."""
    import secrets  # noqa: PLC0415 - late, for commands to start fast

    return secrets.randbelow(1_000) / 1_000
