"""Look up the scheduler of a live site; a function that misbehaves is replaced and logged."""

from __future__ import annotations

from koala.common.runtime.foreign.guards import LIVE_LIMIT_S, Conduct, Replacement
from koala.common.runtime.structured_log import get_logger
from koala.queue_model.local_schedulers import LocalScheduler, local_scheduler


def _report(replacement: Replacement) -> None:
    get_logger(__name__).error(
        "local_scheduler.replaced",
        policy=replacement.policy,
        by=replacement.by,
        reason=str(replacement.fault),
    )


def live_scheduler(name: str) -> LocalScheduler:
    """Look up the scheduler of a live site. An order of another package that misbehaves is replaced
    by that of arrival. Raises ConfigError."""
    return local_scheduler(name, Conduct(limit_s=LIVE_LIMIT_S, report=_report))
