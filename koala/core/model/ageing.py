"""Ageing, which the paper says practice needs (Multiple queues 2.5): who has waited too long is
visited first, and holds the door now and then. Pure arithmetic of waiting times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from koala.core.model.values import Seconds

Key = TypeVar("Key")
PERIOD_MIN_S: Seconds = 1.0


def aged_first(
    keys: Sequence[Key], waited_s: Callable[[Key], Seconds], ageing_s: Seconds
) -> Sequence[Key]:
    """The keys whose waiting time has reached `ageing_s`, longest first, then the others in their
    order. Without a reason the order is left as it is.
    """
    waits = [(waited_s(key), key) for key in keys]
    aged = [entry for entry in waits if entry[0] >= ageing_s]
    if not aged:
        return keys
    aged.sort(key=lambda entry: -entry[0])
    return [*(key for _, key in aged), *(key for wait_s, key in waits if wait_s < ageing_s)]


def is_door_held(waited_s: Seconds, ageing_s: Seconds) -> bool:
    """Whether somebody who waited for so long lets nobody pass: every second half of an ageing
    period, beginning with the first. Processors gather for it then; if others take them all the
    same, the others are not starved in turn.
    """
    if waited_s < ageing_s:
        return False
    period_s = max(ageing_s / 2, PERIOD_MIN_S)
    return int((waited_s - ageing_s) // period_s) % 2 == 0
