"""Find the schedulers of emulated and simulated sites by their names: disciplines and orders."""

from __future__ import annotations

from typing import TypeAlias, cast

from koala.protocol.ordering import ORDERS, OrderPolicy
from koala.runtime.plugins import find_function
from koala_agent.lrm.model.queue import Discipline

LocalScheduler: TypeAlias = Discipline | OrderPolicy
LOCAL_SCHEDULERS: dict[str, LocalScheduler] = {
    **{discipline.value: discipline for discipline in Discipline},
    **ORDERS,
}


def local_scheduler(name: str) -> LocalScheduler:
    """Look up a discipline, or a function that orders the jobs. Raises ConfigError."""
    return cast("LocalScheduler", find_function("local", name, LOCAL_SCHEDULERS, arguments=(1,)))
