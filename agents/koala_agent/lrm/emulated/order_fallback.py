"""Fall back to the order of arrival when a user's function that orders jobs raises an error."""

from __future__ import annotations

from koala.protocol.ordering import OrderPolicy, QueuedJob, key_error
from koala.runtime.structured_log import get_logger
from koala_agent.lrm.model import Discipline, local_scheduler


def live_scheduler(name: str) -> Discipline | OrderPolicy:
    """Look up the scheduler of a live site: an order that fails is replaced by that of arrival."""
    found = local_scheduler(name)
    return found if isinstance(found, Discipline) else _OrderWithFallback(found, name)


class _OrderWithFallback:
    """An order of jobs until it fails, then that of arrival."""

    def __init__(self, order: OrderPolicy, name: str) -> None:
        self._order = order
        self._name = name
        self._trouble = ""

    def __call__(self, job: QueuedJob) -> object:
        """Return the sort key of a job."""
        if self._trouble:
            return 0
        key: object = 0
        try:
            key = self._order(job)
            self._trouble = key_error(key)
        except Exception as error:  # noqa: BLE001 - foreign code
            self._trouble = f"{type(error).__name__}: {error}"
        if self._trouble:
            log = get_logger(__name__)
            log.error(
                "local_scheduler.replaced", policy=self._name, by="fcfs", reason=self._trouble
            )
            return 0
        return key
