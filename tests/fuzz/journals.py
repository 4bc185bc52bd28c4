"""Rows of a journal, its mark, and what an agent keeps: as they were written, or an error of ours.

Files whose bits are flipped are the matter of `tests/daemon/storage/corruption.py`, where the
chain finds them. Here a row has been made by somebody who knows the chain.
"""

from __future__ import annotations

import hashlib
from random import Random
from typing import TypeAlias

from koala.core.model import events as ev
from koala.core.model.events import EVENTS
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, FileName, SiteName, UserName
from koala.daemon.storage.records import (
    JournalPosition,
    _chained,
    encode_event,
    mark_text,
    read_mark,
    read_rows,
)
from koala.errors import JournalError
from tests.fuzz.hostile_values import spoilt_bytes, spoilt_text
from tests.fuzz.target import Target, require_readable
from tests.harness.builders import a_job, a_site

Case: TypeAlias = tuple[str, str, str, bytes]
CLAIM = ClaimId("j1/1/0/1")
EVENTS_WRITTEN: tuple[ev.Event, ...] = (
    ev.DaemonStarted(epoch=3),
    ev.ParametersChanged(parameters=Parameters()),
    a_site("delft", 8),
    a_job("j1", 4, 4),
    ev.JobCancelRequested(job=a_job("j1").job, by=UserName("ann")),
    ev.ClaimGranted(claim=CLAIM, nonce="n", hosts=(("n1", 4),)),
    ev.ClaimPassed(claim=CLAIM, passed_at=5.0),
    ev.ClaimGone(claim=CLAIM, end=ClaimEnd(kind=EndKind.EXITED, statuses=(0,))),
    ev.ReplicaAdded(file=FileName("f"), site=SiteName("delft"), size_bytes=5, checksum="c"),
    ev.Woken(),
)
PIECES = ("null", "-1", "1e999", "NaN", '"', "{", "}", "[", "]", ",", ":", "true", "\\ud800",
          "99999999999999999999", '"x"', "[[" * 300, "0.5", "\x1f", "inf")  # fmt: skip


def a_case(random: Random) -> Case:
    event = random.choice(EVENTS_WRITTEN)
    kind = type(event).__name__
    body, answers = encode_event(event), random.choice(("", "[]", '[{"a": 1}]'))
    if random.randrange(4):
        body = spoilt_text(random, body, PIECES)
    if random.randrange(3) == 0:
        answers = spoilt_text(random, answers, PIECES)
    if random.randrange(8) == 0:
        kind = random.choice((*EVENTS, "", "Event", "\x1b[2J"))
    line = mark_text(JournalPosition(7, hashlib.blake2b(b"x", digest_size=16).digest()))
    return kind, _stored(body), _stored(answers), spoilt_bytes(random, line)


def _stored(text: str) -> str:
    """As SQLite gives a text."""
    return text.encode("utf-8", "replace").decode()


def check(case: Case) -> None:
    kind, body, answers, line = case
    chain = _chained(b"", 1, 1.0, kind, body, answers)
    try:
        ((record, mark),) = read_rows(
            [(1, 1.0, kind, body, answers, chain)], JournalPosition(), source="j"
        )
        assert mark == JournalPosition(1, chain)
        encode_event(record.event)
    except JournalError as error:
        require_readable(str(error))
    try:
        found = read_mark(line, source="mark")
        assert found is None or isinstance(found.seq, int)
    except JournalError as error:
        require_readable(str(error))


TARGETS = (Target(name="journal", make=a_case, check=check),)
