"""Base of the parts of a batch manager, with the settings and means that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from koala_agent.lrm.batch.account_breaker import AccountBreaker
from koala_agent.lrm.batch.batch_settings import BatchSettings
from koala_agent.lrm.batch.claim_tracking import TrackedClaims
from koala_agent.lrm.dialect import Dialect
from koala_agent.lrm.site_commands import SiteCommands


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Settings and means of a batch manager. `scope` is in the names of its jobs; `calendar` gives
    the seconds since the epoch."""

    settings: BatchSettings
    dialect: Dialect
    commands: SiteCommands
    breaker: AccountBreaker
    claims: TrackedClaims
    scope: str
    clock: Callable[[], float]
    calendar: Callable[[], float]


class ManagerPart:
    """Part of a batch manager."""

    def __init__(self, shared: Shared) -> None:
        self._settings = shared.settings
        self._dialect = shared.dialect
        self._commands = shared.commands
        self._breaker = shared.breaker
        self._claims = shared.claims
        self._scope = shared.scope
        self._clock = shared.clock
        self._calendar = shared.calendar
