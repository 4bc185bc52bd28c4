"""Status of sites for people: the core's view, with agents' problems and enrolments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from koala.core.model.job_spec import JobSpec
from koala.core.model.values import Instant, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.agents.registry import AgentRegistry
from koala.daemon.auth.credential_store import SiteRecord
from koala.views.documents import sites_document


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """Renderer of site documents (docs/api.md), with the agents' problems and certificates.

    `enrolled` are the sites that were ever added.
    """

    registry: AgentRegistry
    enrolled: Mapping[str, SiteRecord]

    def documents(self, scheduler: Scheduler, now: Instant) -> list[dict[str, Any]]:
        """Render all sites, in order of name."""
        drained = {site.name for site in scheduler.sites.values() if site.is_drained}
        return [
            {
                **document,
                "is_drained": document["site"] in drained,
                "trouble": self._trouble(document["site"]),
                "notice": self.registry.notice(document["site"]),
                "version": self.registry.version(document["site"]),
                **self._enrolment(document["site"]),
            }
            for document in sites_document(scheduler, now)
        ]

    def troubles(self, scheduler: Scheduler, spec: JobSpec) -> list[str]:
        """Describe the problems of the sites at which a job may run, one in a line."""
        named = {component.site for component in spec.components}
        return [
            f"{site.name} needs its administrator: {trouble}"
            for site in scheduler.sites.values()
            if (None in named or site.name in named)
            and site.facts.admits(spec.owner)
            and (trouble := self._trouble(site.name))
        ]

    def _trouble(self, site: str) -> str:
        """Describe the problem of a site, by its agent or, while that is away, its certificate."""
        record = self.enrolled.get(site)
        return self.registry.trouble(SiteName(site)) or (
            "" if record is None else record.clock_trouble
        )

    def _enrolment(self, site: str) -> dict[str, Any]:
        record = self.enrolled.get(site)
        if record is None:
            return {"enrolment": None, "expires_at": None, "revoked_at": None}
        return {
            "enrolment": record.state,
            "expires_at": record.expires_at if record.serial else None,
            "revoked_at": record.revoked_at or None,
        }
