"""Use of the processors over time, as the pages draw it. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from koala.views.records.grid import SiteStatus

SAMPLES_MAX = 360
STEP_S = 5.0
"""So the pictures go back half an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Processors by use. `waiting` belong to claims that have not passed the barrier."""

    running: int = 0
    waiting: int = 0
    others: int = 0
    idle: int = 0

    @property
    def processors(self) -> int:
        """All of them."""
        return self.running + self.waiting + self.others + self.idle

    def __add__(self, other: Use) -> Use:
        return Use(
            running=self.running + other.running,
            waiting=self.waiting + other.waiting,
            others=self.others + other.others,
            idle=self.idle + other.idle,
        )


def use_of(site: SiteStatus) -> Use:
    """Divide the processors of a site. A site that is away has none."""
    if site.state == "disconnected":
        return Use()
    waiting = max(0, site.claimed - site.running)
    others = max(0, min(site.local, site.processors - site.running - waiting))
    idle = max(0, site.processors - site.running - waiting - others)
    return Use(running=site.running, waiting=waiting, others=others, idle=idle)


def total_use(sites: Iterable[SiteStatus]) -> Use:
    """Add up the use of all sites."""
    return sum((use_of(site) for site in sites), Use())


class UsageHistory:
    """Samples of the use of all sites, and of each one, at most one each `STEP_S` seconds."""

    def __init__(self) -> None:
        self.whole: deque[tuple[float, Use]] = deque(maxlen=SAMPLES_MAX)
        self.sites: dict[str, deque[tuple[float, Use]]] = {}

    def add(self, at: float, sites: Iterable[SiteStatus]) -> bool:
        """Add a sample; False if the last one is too young."""
        if self.whole and at - self.whole[-1][0] < STEP_S:
            return False
        whole = Use()
        for site in sites:
            use = use_of(site)
            whole += use
            line = self.sites.setdefault(site.site, deque(maxlen=SAMPLES_MAX))
            line.append((at, use))
        self.whole.append((at, whole))
        return True
