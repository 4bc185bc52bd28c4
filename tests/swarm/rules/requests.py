"""Check of what sites and malleable jobs are asked: nothing of a site that is drained or rests
(promise 7), and of no job more than it can spare (6)."""

from __future__ import annotations

from koala.core.model.actions import ClaimProcessors, ResizeClaim
from koala.core.model.events import Event, SiteDrained, SiteRegistered, SiteResumed
from koala.core.model.values import ClaimId, SiteName
from koala.core.scheduler import Scheduler
from tests.swarm.breach import parts, require
from tests.swarm.rules.record import Record


class Requests:
    """Sites that are drained, and components that were asked to give way."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._drained: dict[SiteName, bool] = {}
        self._asked_away: set[ClaimId] = set()

    def require_usable(self, scheduler: Scheduler, action: ClaimProcessors) -> None:
        """Require that the site of a new claim is neither drained nor rests."""
        claim, site = action.claim, action.site
        require(not self._drained[site], 7, f"{claim} is asked of {site}, which is drained")
        unusable = scheduler.sites[site].unusable_until
        is_resting = unusable is not None and not scheduler.sites[site].is_probing
        text = f"{claim} is asked of {site}, which rests"
        require(not is_resting or self._is_hit_now(scheduler, site), 7, text)

    def _is_hit_now(self, scheduler: Scheduler, site: SiteName) -> bool:
        """True if the site became unusable in the same batch, after the claim was made."""
        until = scheduler.sites[site].unusable_until
        rest_s = self._record.parameters.probe_after_s
        now = self._record.now + self._record.shift_s()
        return until is not None and until - rest_s >= now - 13.0

    def note_drain(self, event: Event) -> None:
        """Update the drained sites from the events; an event about an unregistered site has no
        effect."""
        match event:
            case SiteRegistered(site=site):
                self._drained.setdefault(site, False)
            case SiteDrained(site=site) if site in self._drained:
                self._drained[site] = True
            case SiteResumed(site=site) if site in self._drained:
                self._drained[site] = False
            case _:
                pass

    def require_least(self, order: ResizeClaim) -> None:
        """Require that a malleable job keeps its least processors when a component is first asked
        to give way."""
        if order.claim in self._asked_away:
            return
        self._asked_away.add(order.claim)
        split = self._record.jobs[parts(order.claim)[0]].spec.split
        left = sum([peer.processors for peer in order.peers if peer.claim != order.claim])
        assert split is not None
        require(left >= split.least, 6, f"{order.claim} is to give way, and {left} are left")

    def restored(self, scheduler: Scheduler) -> None:
        """Go on from a backup: a site that came later is not known, nor what was said of it."""
        self._drained = {name: site.is_drained for name, site in scheduler.sites.items()}
