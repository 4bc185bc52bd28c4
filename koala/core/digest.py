"""Digest of the state: the checksum that a replay of the journal must give again (promise 8).

It covers all that a snapshot saves, so each new field of the state counts by itself, except:

- Texts for people (`TEXTS`): another wording is the same state.
- Jobs that are over, which count by phase only, with their keys: a driver purges them when it
  likes, and no decision depends on them.
- The description of a queued job, which counts by its sizes: a long queue must stay cheap.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import msgspec

from koala.core.model.charges import Refusal
from koala.core.model.job import ClaimEnd, Job, Member, Stopping
from koala.core.snapshot import Plain, Writer, scanner_kind
from koala.core.snapshot_rows import FACTS, row_of
from koala.core.state import State

TEXTS: dict[type, frozenset[str]] = {
    ClaimEnd: frozenset({"reason"}),
    Job: frozenset({"story"}),
    Member: frozenset({"refusal"}),
    Refusal: frozenset({"reason"}),
    Stopping: frozenset({"reason"}),
}
"""Fields that hold texts for people, by class."""
_COUNTED = ("jobs", "ended", "forgotten", "keys", "keys_forgotten")
"""Parts of the state from which purged jobs are missing."""


def digest(state: State) -> str:
    """Checksum of the facts of the state, the same after the same events in any process."""
    over = Counter(state.forgotten)
    over.update(state.jobs[job].phase_name for job in state.ended)
    writer = Writer(leave_out=TEXTS)
    facts = {
        "over": sorted(over.items()),
        "jobs": [_job(job, writer) for job in state.jobs.values() if job.id not in state.ended],
        "keys": [(key, *of) for key, of in state.keys.items() if of[0] not in state.ended],
        "keys_known": len(state.keys) + state.keys_forgotten,
        "scanner": scanner_kind(state),
        "parts": writer.parts(state, without=_COUNTED),
    }
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def _job(job: Job, writer: Writer) -> Plain:
    row = row_of(job, 0)
    if row is None:
        return writer.plain(job)
    return [*row[:FACTS], job.processors, job.largest, job.needed]
