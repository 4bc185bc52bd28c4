"""Observers of durable batches, as metrics: their errors must not end the daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from koala.common.runtime.structured_log import get_logger
from koala.daemon.loop.group_commit import DurableBatch

log = get_logger()


class Observers:
    """Observers of batches by name, called in order. They must not block.

    An observer that raises misses the rest of that batch and is called again for the next one. Only
    its first error is logged: it may come again with every batch. `errors` counts all of them.
    """

    def __init__(self, observers: Mapping[str, Callable[[DurableBatch], None]]) -> None:
        self._observers = dict(observers)
        self.errors = dict.fromkeys(self._observers, 0)

    def __call__(self, batch: DurableBatch) -> None:
        """Show a batch to all."""
        for name, observe in self._observers.items():
            try:
                observe(batch)
            except Exception:  # the batch is durable and delivered; to observe it is optional
                self.errors[name] += 1
                if self.errors[name] == 1:
                    log.exception("observer.failed", observer=name)
