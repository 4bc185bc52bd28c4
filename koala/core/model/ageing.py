"""Ageing of waiting jobs, which the paper says practice needs (Multiple queues 2.5).

A job that has waited too long is visited first. If it does not fit, backfilling pauses for it in
alternate periods. Pure arithmetic of waiting times.
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
    """Sort the keys whose waiting time has reached `ageing_s` to the front, longest first. The
    others keep their order.
    """
    waits = [(waited_s(key), key) for key in keys]
    aged = [entry for entry in waits if entry[0] >= ageing_s]
    if not aged:
        return keys
    aged.sort(key=lambda entry: -entry[0])
    return [*(key for _, key in aged), *(key for wait_s, key in waits if wait_s < ageing_s)]


def is_draining_for_aged(waited_s: Seconds, ageing_s: Seconds) -> bool:
    """Return True while an aged job that does not fit stops backfilling.

    This holds in every second half of an ageing period, beginning with the first. Processors
    accumulate for the job meanwhile. If local users take them, other jobs still get their turn.
    """
    if waited_s < ageing_s:
        return False
    period_s = max(ageing_s / 2, PERIOD_MIN_S)
    return int((waited_s - ageing_s) // period_s) % 2 == 0
