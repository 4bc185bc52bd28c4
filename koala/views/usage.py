"""Use of the processors of sites, as pages and the terminal show it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from koala.views.records.grid import SiteStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Processors by use. `waiting` belong to claims that are held at the barrier."""

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
    waiting = min(site.held, max(0, site.processors - site.running))
    others = max(0, min(site.local, site.processors - site.running - waiting))
    idle = max(0, site.processors - site.running - waiting - others)
    return Use(running=site.running, waiting=waiting, others=others, idle=idle)


def total_use(sites: Iterable[SiteStatus]) -> Use:
    """Add up the use of all sites."""
    return sum((use_of(site) for site in sites), Use())
