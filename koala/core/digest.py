"""Digest of the state: the checksum that a replay of the journal must give again (promise 8).

It covers each field of each object of the state, so a new one counts by itself, except:

- Texts for people (`TEXTS`): another wording is the same state.
- Jobs that are over, which count by phase only, with their keys: a driver purges them when it
  likes, and no decision depends on them.
- The description of a queued job, which counts by its sizes: a long queue must stay cheap.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any

from koala.core.model.charges import Refusal
from koala.core.model.job import ClaimEnd, Job, Member, Stopping
from koala.core.snapshot import NOT_SAVED, fields_of, scanner_kind
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
_COUNTED = frozenset({"jobs", "placed", "ended", "forgotten", "keys", "keys_forgotten"})
"""Parts of the state that hold jobs, or from which purged ones are missing."""
_AS_THEY_ARE = frozenset({type(None), bool, int, float, str})


def digest(state: State) -> str:
    """Checksum of the facts of the state, the same after the same events in any process."""
    over = Counter(state.forgotten)
    over.update(state.jobs[job].phase_name for job in state.ended)
    facts = {
        "over": sorted(over.items()),
        "jobs": [_job(job) for job in state.jobs.values() if job.id not in state.ended],
        "placed": list(state.placed),
        "keys": [(key, *of) for key, of in state.keys.items() if of[0] not in state.ended],
        "keys_known": len(state.keys) + state.keys_forgotten,
        "scanner": scanner_kind(state),
    }
    for name, value in vars(state).items():
        if name not in _COUNTED and name not in NOT_SAVED:
            facts[name] = _facts(value)
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _job(job: Job) -> list[Any]:
    row = row_of(job, 0)
    if row is None:
        return _object(job)
    return [*row[:FACTS], job.processors, job.largest, job.needed]


def _facts(value: Any) -> Any:  # noqa: ANN401 - any value of the state
    match value:
        case str() | int() | float() | None:  # the members of enumerations are texts
            return value
        case dict():
            if type(next(iter(value.values()), None)) is Job:
                return list(value)
            return [part for key, entry in value.items() for part in (key, _facts(entry))]
        case list() | tuple() | deque():
            return [_facts(entry) for entry in value]
        case _:
            return _object(value)


def _object(value: object) -> list[Any]:
    """Return the class of an object and its facts."""
    cls: type = type(value)
    values = _reader(cls)(value)
    return [cls.__name__, *[x if type(x) in _AS_THEY_ARE else _facts(x) for x in values]]


@cache
def _reader(cls: type) -> Callable[[object], tuple[object, ...]]:
    """Return a function that reads the facts of an object of this class."""
    names = [name for name in fields_of(cls) if name not in TEXTS.get(cls, ())]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])
