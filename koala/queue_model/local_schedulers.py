"""Find the schedulers of emulated and simulated sites by their names: disciplines and orders."""

from __future__ import annotations

from typing import Any, TypeAlias

from koala.common.protocol.ordering import ORDERS, OrderPolicy, QueuedJob, in_turn, plain_key
from koala.common.runtime.foreign.guards import SIMULATED, Conduct, Form, Guarded, PolicyGuard
from koala.common.runtime.plugins import find_function
from koala.queue_model.queue import Discipline

LocalScheduler: TypeAlias = Discipline | OrderPolicy
LOCAL_SCHEDULERS: dict[str, LocalScheduler] = {
    **{discipline.value: discipline for discipline in Discipline},
    **ORDERS,
}


def _pose(job: QueuedJob) -> Any:  # noqa: ANN401 - the job is a copy already
    return (job,), plain_key


FORM = Form(
    arguments=("QueuedJob",),
    answer="sort key: a number, or a tuple of numbers",
    pose=_pose,
    fallback=in_turn,
    by="fcfs",
)


def local_scheduler(name: str, conduct: Conduct = SIMULATED) -> LocalScheduler:
    """Look up a discipline, or a function that orders the jobs: also one that a package offers for
    the daemon's queue. A function of another package is guarded. Raises ConfigError."""
    found: Any = find_function("local", name, LOCAL_SCHEDULERS, arguments=(1,), also=("queueing",))
    if name in LOCAL_SCHEDULERS:
        return found  # type: ignore[no-any-return]
    return Guarded(found, FORM, PolicyGuard(slot="local", name=name, conduct=conduct))
