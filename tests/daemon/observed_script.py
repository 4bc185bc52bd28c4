"""A script of events whose batches are observed, each event as a batch of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from koala.core.model import events as ev
from koala.core.model.actions import Announce
from koala.core.policy_api import Policies
from koala.core.scheduler import Scheduler
from koala.daemon.loop.group_commit import DurableBatch
from koala.daemon.storage.records import Notice, Record
from tests.harness.script import Script

Observe = Callable[[DurableBatch], None]


class ObservedScript(Script):
    """A script with an observer, which `make` makes for its scheduler."""

    def __init__(
        self,
        make: Callable[[Scheduler], Observe],
        policies: Policies | None = None,
        **parameters: Any,
    ) -> None:
        self._make = make
        self._observe: Observe | None = None
        super().__init__(policies, **parameters)

    def restart(self) -> None:
        """Give the scheduler another observer, as a new life of the daemon does."""
        self._observe = self._make(self.scheduler)

    def _handle(self, event: ev.Event) -> None:
        if self._observe is None:
            self.restart()
        assert self._observe is not None
        super()._handle(event)
        actions = self.scheduler.actions
        notices = [
            Notice(number=1, at=one.at, job=one.job or "", site=one.site or "", phase=one.phase)
            for one in actions
            if isinstance(one, Announce)
        ]
        record = Record(seq=1, at=self.now, event=event, answers=[])
        others = [action for action in actions if not isinstance(action, Announce)]
        self._observe(
            DurableBatch(records=[record], actions=others, notices=notices, commit_s=0.001)
        )
