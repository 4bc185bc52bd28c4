"""Status of sites for people: the core's view, with agents' problems and enrolments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from koala.core.model.job_spec import JobSpec
from koala.core.model.values import Instant, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.agents.registry import AgentRegistry
from koala.daemon.auth.credential_store import SiteRecord
from koala.views.documents import sites_document
from koala.views.grid_timeline import LocalHistory
from koala.views.records import grid
from koala.views.records.base import moment_of


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """Maker of the records of sites (docs/api.md), with the agents' problems and certificates.

    `enrolled` are the sites that were ever added; `local` is what was noted of their local jobs.
    """

    registry: AgentRegistry
    enrolled: Mapping[str, SiteRecord]
    local: LocalHistory

    def sites(self, scheduler: Scheduler, now: Instant) -> tuple[grid.SiteStatus, ...]:
        """Describe all sites, in order of name."""
        return tuple(map(self._whole, sites_document(scheduler, now)))

    def _whole(self, site: grid.SiteStatus) -> grid.SiteStatus:
        """Add to a site's record what the core does not know."""
        record = self.enrolled.get(site.site)
        facts = self.registry.facts(SiteName(site.site))
        status = replace(
            site,
            trouble=self._trouble(site.site),
            notice="" if facts is None else facts.notice,
            system=None if facts is None else facts.system,
            takes_native=facts is not None and "native" in facts.honours,
            why_idle=self.registry.why_idle(SiteName(site.site)),
            commands=self.registry.commands(SiteName(site.site)),
            version=self.registry.version(SiteName(site.site)),
            gate_tried=self.registry.queue(SiteName(site.site)).gate_tried,
        )
        if record is None:
            return status
        return replace(
            status,
            enrolment=record.state,
            expires_at=moment_of(record.expires_at if record.serial else None),
            revoked_at=moment_of(record.revoked_at or None),
        )

    def troubles(self, scheduler: Scheduler, spec: JobSpec) -> list[str]:
        """Describe the problems of the sites at which a job may run, one in a line, and why not
        all of their processors are idle."""
        named = {component.site for component in spec.components}
        sites = [
            site.name
            for site in scheduler.sites.values()
            if (None in named or site.name in named) and site.facts.admits(spec.owner)
        ]
        lines = []
        for site in sites:
            if why := self.registry.why_idle(site):
                lines.append(f"{site}: {why}")
            if trouble := self._trouble(site):
                lines.append(f"{site} needs its administrator: {trouble}")
        return lines

    def _trouble(self, site: str) -> str:
        """Describe the problem of a site, by its agent or, while that is away, its certificate."""
        record = self.enrolled.get(site)
        return self.registry.trouble(SiteName(site)) or (
            "" if record is None else record.clock_trouble
        )
