"""Settings of the emulated local manager, checked when they are made."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from koala.common.protocol.ordering import OrderPolicy
from koala.common.runtime.foreign.guards import LIVE_LIMIT_S, Conduct, Replacement
from koala.common.runtime.structured_log import get_logger
from koala.errors import ConfigError
from koala.queue_model import Discipline
from koala.queue_model.local_schedulers import LocalScheduler, local_scheduler
from koala.queue_model.local_users import LoadParameters
from koala_agent.transport.shell import AccountSwitch


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedSettings:
    """Settings of an emulated site.

    Of its `gpus` each claim sees those that it holds, by CUDA_VISIBLE_DEVICES.
    `fault_rate` is the share of the claims that fail, half of them at submission and half at their
    start, drawn from `seed`; `environment` is added to that of jobs, except for those of accounts,
    whose environment is in `switches`. `umask` applies to jobs too, -1: the agent's own.
    It `books` processors for claims with a known start.
    `make_room` is called when the job table finds the disk full.
    """

    processors: int
    gpus: int = 0
    state_directory: Path
    discipline: Discipline | OrderPolicy = Discipline.EASY
    kill_s: float = 5.0
    sample_s: float = 2.0
    fault_rate: float = 0.0
    seed: int = 0
    load: LoadParameters | None = None
    may_kill_local: bool = False
    books: bool = True
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    switches: Mapping[str, AccountSwitch] = field(default_factory=dict)
    umask: int = -1
    make_room: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        if self.processors < 1:
            raise ConfigError(f"processors is {self.processors}, it must be at least 1")
        if not 0.0 <= self.fault_rate <= 1.0:
            raise ConfigError(f"fault_rate is {self.fault_rate}, it must be from 0 to 1")
        if self.load is not None and self.load.size_max > self.processors:
            largest = self.load.size_max
            message = f"load.size_max is {largest}, more than the site's {self.processors}"
            raise ConfigError(message)


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
