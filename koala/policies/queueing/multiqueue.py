"""Disciplines for several queues (Multiple queues 2.5): one global queue, one at each site, or
both. `DISCIPLINES` is the table of them; the functions before it are its building blocks.

If local queues hold jobs for their own site alone, only the order between global and local queues
matters. With LP, the global queue is not permitted at a departure while no local queue is empty. It
joins when one gets empty. Wherever it is in the order, it is then visited after the last local
queue, because rounds are cyclic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Sized
from typing import Any

from koala.core.model.visiting import Discipline, Keys, LocalJobs

# --- orders at a departure ---


def local_first(
    local: Keys, common: Keys, _released: Sequence[Any], _disabled: Keys, _draw: float
) -> Keys:
    """Order the local queues by index, then the global one."""
    return local + common


def global_first(
    local: Keys, common: Keys, _released: Sequence[Any], _disabled: Keys, _draw: float
) -> Keys:
    """Order the global queue first, then the local ones."""
    return common + local


def by_coin(
    local: Keys, common: Keys, _released: Sequence[Any], _disabled: Keys, draw: float
) -> Keys:
    """Order the global or the local queues first, with equal probability."""
    return common + local if draw < 0.5 else local + common


def from_random(
    local: Keys, common: Keys, _released: Sequence[Any], _disabled: Keys, draw: float
) -> Keys:
    """Order the queues cyclically, beginning with a random one."""
    first = int(draw * len(local))
    return local[first:] + local[:first] + common


def as_released(
    local: Keys, common: Keys, released: Sequence[Any], _disabled: Keys, _draw: float
) -> Iterable[Any]:
    """Order the departing job's sites by component size, largest first; then the others."""
    others = [site for site in local if site not in released]
    return [*released, *others, *common]


def as_disabled(
    local: Keys, common: Keys, _released: Sequence[Any], disabled: Keys, _draw: float
) -> Iterable[Any]:
    """Order the queues as they were disabled; then those that were not."""
    others = [queue for queue in local + common if queue not in disabled]
    return [*disabled, *others]


# --- permissions to start jobs ---


def local_only_if_global_is_empty(queue: Sized, common: Sized, _local: Collection[Sized]) -> bool:
    """GP: no local job starts while the global queue holds one, even if that does not fit."""
    return queue is common or not common


def global_only_if_a_local_is_empty(queue: Sized, common: Sized, local: Collection[Sized]) -> bool:
    """LP: the global queue has to wait while every local queue holds a job."""
    return queue is not common or not all(local)


def longest_side(queue: Sized, common: Sized, local: Collection[Sized]) -> bool:
    """LQ: the global queue if it is longer than every local one, else the local ones."""
    return (queue is common) == (len(common) > max(map(len, local)))


# --- the table ---

NONE, SINGLE, ALL = LocalJobs.NONE, LocalJobs.SINGLE, LocalJobs.ALL
GP, LP, LQ = local_only_if_global_is_empty, global_only_if_a_local_is_empty, longest_side
GP_RULE = "no local queue is permitted while the global one holds a job"
LP_RULE = "the global queue is not permitted while no local one is empty"
LQ_RULE = "only the global queue is permitted if it is longer than every local one, else only those"

DISCIPLINES: dict[str, Discipline] = {
    discipline.name: discipline
    for discipline in (
        Discipline(name="GS", local_jobs=NONE, order=local_first),
        Discipline(name="LS-OR", local_jobs=ALL, order=local_first),
        Discipline(name="LS-RD", local_jobs=ALL, order=from_random),
        Discipline(name="LS-RO", local_jobs=ALL, order=as_released),
        Discipline(name="LS-DO", local_jobs=ALL, order=as_disabled),
        Discipline(name="GP", local_jobs=SINGLE, order=global_first, permits=GP, rule=GP_RULE),
        Discipline(name="LP-LF", local_jobs=SINGLE, order=local_first, permits=LP, rule=LP_RULE),
        Discipline(name="LP-GF", local_jobs=SINGLE, order=global_first, permits=LP, rule=LP_RULE),
        Discipline(name="LP-RD", local_jobs=SINGLE, order=by_coin, permits=LP, rule=LP_RULE),
        Discipline(name="EQ-LF", local_jobs=SINGLE, order=local_first),
        Discipline(name="EQ-GF", local_jobs=SINGLE, order=global_first),
        Discipline(name="EQ-RD", local_jobs=SINGLE, order=by_coin),
        Discipline(name="LQ", local_jobs=SINGLE, order=global_first, permits=LQ, rule=LQ_RULE),
    )
}
"""Every discipline by its name."""
