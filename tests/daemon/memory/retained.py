"""Count the objects that something keeps, by type: the same on every machine, as memory is not."""

from __future__ import annotations

import gc
from collections import Counter, OrderedDict, defaultdict, deque
from functools import partial
from types import BuiltinMethodType, CellType, FunctionType, MethodType
from typing import Any

from koala.core.model.timers import Timers

_ENTERED = (
    *(dict, list, tuple, set, frozenset, deque, OrderedDict, defaultdict, Counter),
    *(partial, MethodType, BuiltinMethodType, CellType),
)


def retained(*roots: object) -> Counter[str]:
    """Count the objects, by type, that are reached through ours and through containers. What
    belongs to others (gRPC, asyncio, SQLite) is counted and not entered; nor are timers, which pass
    with time: those of a job are not cancelled when it ends."""
    seen: set[int] = set()
    kinds: Counter[str] = Counter()
    to_see = list(roots)
    while to_see:
        one = to_see.pop()
        if id(one) in seen or isinstance(one, type):
            continue
        seen.add(id(one))
        kinds[type(one).__qualname__] += 1
        to_see += _parts(one)
    return kinds


def _parts(one: object) -> list[Any]:
    if isinstance(one, Timers):
        return []
    if isinstance(one, FunctionType):
        return [*(one.__closure__ or ()), *(one.__defaults__ or ())]
    if isinstance(one, _ENTERED) or type(one).__module__.startswith(("koala.", "koala_agent.")):
        return gc.get_referents(one)
    return []
