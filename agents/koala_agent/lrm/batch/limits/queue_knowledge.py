"""Knowledge of a batch manager of the limits of its queues, which change seldom."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from koala.common.protocol.messages import Resources, SiteResources
from koala.common.protocol.queue_limits import Times, times_of
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.account_breaker import AccountBreaker
from koala_agent.lrm.dialect import Dialect, Limits

LIMITS_S = 300.0
"""Time between two questions."""
UNKNOWN_S = 30.0
"""The same after one without an answer."""

log = get_logger()


class QueueKnowledge:
    """The newest limits; none before the first answer."""

    def __init__(
        self, dialect: Dialect, breaker: AccountBreaker, *, now: Callable[[], float]
    ) -> None:
        self._dialect = dialect
        self._breaker = breaker
        self._now = now
        self._limits = Limits()
        self._ask_at = -math.inf

    async def try_to_learn(self) -> None:
        """Ask for the limits when it is time; without an answer they stay as they are."""
        if self._now() < self._ask_at:
            return
        self._ask_at = self._now() + UNKNOWN_S
        try:
            commands = self._dialect.limits()
            answers = tuple([await self._breaker.ask(command, "") for command in commands])
            self._limits = self._dialect.read_limits(answers)
            self._ask_at = self._now() + LIMITS_S
        except LocalManagerError as error:
            log.warning("batch.limits_unknown", reason=str(error))

    @property
    def ageing(self) -> float:
        """Number of our jobs that gather age while they wait."""
        return self._limits.ageing

    def times(self, resources: Resources) -> Times:
        """Return the times that a job with these wishes may have now."""
        room_s = self._limits.closes_at - clock.unix_now()
        return times_of(
            resources,
            self._limits.queues,
            honours=self._dialect.honours,
            room_s=room_s if room_s > 0 else math.inf,
        )

    def is_usual(self, name: str) -> bool:
        """Return True for a queue of which the figures tell, as far as is known."""
        known = {queue.name: queue.is_default for queue in self._limits.queues}
        return all(known.get(one, True) for one in name.split(","))

    def completed(self, resources: SiteResources) -> SiteResources:
        """Return the resources of a site with the limits of its queues."""
        return replace(resources, queues=self._limits.queues or resources.queues)

    def explain(self, reason: str) -> str:
        """Add words, and the limits that are known, to the batch system's reason for a wait."""
        return self._dialect.explain_reason(reason, self._limits.queues)
