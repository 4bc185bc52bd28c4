"""Orders of waiting jobs, for the placement queue and for simulated sites.

Each is a function of one job: the smallest answer goes first, equal ones in the order of the queue.
"""

from __future__ import annotations

from koala.core.model.ordering import OrderPolicy, QueuedJob


def shortest_first(job: QueuedJob) -> float:
    """Order by the limit on wall-clock time (shortest job first); jobs without one go last."""
    return job.estimate_s


def priorities(job: QueuedJob) -> float:
    """Order by priority, the highest first."""
    return -job.priority


def fair_share(job: QueuedJob) -> float:
    """Order by the processors that the job's user holds, the fewest first."""
    return job.held


ORDERS: dict[str, OrderPolicy] = {
    "sjf": shortest_first,
    "priorities": priorities,
    "fair-share": fair_share,
}
