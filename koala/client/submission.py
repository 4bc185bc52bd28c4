"""One of several submissions, and its message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koala.common.wire.v1 import koala_pb2 as pb
from koala.errors import SpecError

if TYPE_CHECKING:
    from koala.client.description import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One of several submissions; see `submit`."""

    rsl: str | Job
    definitions: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    reject_if_full: bool = False
    queue: str = ""
    after: Sequence[str] = ()
    group: str = ""


def submission_message(submission: Submission | Job | str) -> pb.Submission:
    """Make the message of a submission."""
    if not isinstance(submission, Submission):
        return pb.Submission(rsl=_text(submission))
    return pb.Submission(
        rsl=_text(submission.rsl),
        definitions=dict(submission.definitions),
        key=submission.key,
        reject_if_full=submission.reject_if_full,
        queue=submission.queue,
        after=submission.after,
        group=submission.group,
    )


def text_of(submission: Submission | Job | str) -> tuple[str, Mapping[str, str]]:
    """Return the text of a description, and the definitions of its variables."""
    if isinstance(submission, Submission):
        return _text(submission.rsl), submission.definitions
    return _text(submission), {}


def _text(description: str | Job) -> str:
    if isinstance(description, str):
        return description
    text = getattr(description, "text", None)
    if not isinstance(text, str):
        raise SpecError(f"{description!r} cannot be submitted (expected a text, or a Job)")
    return text
