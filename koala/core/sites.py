"""Sites: their views for policies, their counters of claims, and their circuit breaker.

Consecutive errors make a site unusable until it has rested or an operator resumes it (KOALA 3.4).
Live, the errors of one job count once. A job that fails everywhere is itself at fault, and must not
close sites to other jobs (`errors_counted`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koala.core.model.claim import Claim
from koala.core.model.grid import Site, SiteView
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, Instant, JobId, SiteName


def is_usable(site: Site) -> bool:
    """Return True if a site takes new claims: connected, not drained, not resting after errors."""
    return site.is_connected and not site.is_drained and not is_resting(site)


def site_views(
    sites: Mapping[SiteName, Site],
    *,
    placed: Mapping[SiteName, tuple[int, int]],
    busy: Iterable[Claim],
    slots: Mapping[SiteName, int],
    closed: Iterable[SiteName] = (),
) -> list[SiteView]:
    """Make the views of the usable sites.

    - `placed` processors and GPUs are subtracted from the idle ones.
    - A site shows no idle processors if it is `closed`, has none of its `slots` left, or is probed
      by a claim already.
    """
    shut = frozenset([*closed, *(name for name, left in slots.items() if left <= 0)])
    claimed: set[SiteName] | None = None  # worked out when a site is on probation
    views = []
    for name, site in sites.items():
        if not is_usable(site):
            continue
        if site.is_probing and claimed is None:
            claimed = {claim.site for claim in busy if is_probe(claim, sites[claim.site])}
        is_taken = name in shut or (claimed is not None and site.is_probing and name in claimed)
        processors, gpus = placed.get(name, (0, 0))
        views.append(
            SiteView(
                name=name,
                processors=site.facts.processors,
                idle=0 if is_taken else max(0, site.idle() - processors),
                owner=site.facts.owner,
                users=site.facts.users,
                is_probing=site.is_probing,
                mips=site.facts.mips,
                slots=slots.get(name),
                gpus=max(0, site.idle_gpus() - gpus) if site.reported_gpus else 0,
                unit=site.facts.resources.unit or 1,
                holes=() if is_taken or not site.holes else _holes(site, processors),
            )
        )
    return views


def _holes(site: Site, placed: int) -> tuple[tuple[int, Instant], ...]:
    """Return what is left of the holes that a site has told."""
    taken = site.reported_idle - site.idle() + placed
    return tuple([(processors - taken, until) for processors, until in site.holes])


def note_ask(site: Site, claim: ClaimId, processors: int, gpus: int = 0) -> int:
    """Count a claim that the site's next reports may not include yet; return its ask number."""
    site.asks += 1
    site.unreported[claim] = (site.asks, processors)
    if gpus:
        site.unreported_gpus[claim] = gpus
    return site.asks


def note_gone(site: Site, claim: ClaimId) -> None:
    """Drop a claim that the site's reports did not include yet."""
    site.unreported.pop(claim, None)
    site.unreported_gpus.pop(claim, None)


def increase_window(site: Site, *, limit: int) -> None:
    """Increase the window of unanswered claims after a grant: by one, and after the site's first
    refusal by one for each windowful."""
    step = 1 / site.window if site.narrowed_at_ask else 1.0
    site.window = min(float(max(1, limit)), site.window + step)


def decrease_window(site: Site, ask_number: int) -> None:
    """Halve the window of unanswered claims after a refusal; once for all claims asked by then."""
    if ask_number > site.narrowed_at_ask:
        site.window = max(1.0, site.window / 2)
        site.narrowed_at_ask = site.asks


def note_report(site: Site, *, idle: int, through: int, idle_gpus: int = 0) -> bool:
    """Apply a report that includes all claims up to `through`; return True if more processors or
    GPUs are idle than before.
    """
    before, gpus_before = site.idle(), site.idle_gpus()
    site.reported_idle = idle
    site.reported_gpus = idle_gpus
    if not site.unreported:  # as nearly always
        return idle > before or idle_gpus > gpus_before
    for claim in [c for c, (number, _) in site.unreported.items() if number <= through]:
        note_gone(site, claim)
    return site.idle() > before or site.idle_gpus() > gpus_before


# --- the circuit breaker (KOALA 3.4) ---


def is_resting(site: Site) -> bool:
    """Return True if the site reached the threshold and may not be probed yet.

    The probe timer ends a rest, not the clock: before it fires the site would count as healthy.
    """
    return site.unusable_until is not None and not site.is_probing


def is_probe(claim: Claim, site: Site) -> bool:
    """Return True if a claim was made after the rest of its site: older ones prove nothing."""
    return site.unusable_until is not None and claim.asked_at >= site.unusable_until


LAUNCH_REST_S = 120.0
"""First rest of a site at which a batch job could not begin; each further one is twice as long."""
DOUBLINGS_MAX = 10


def record_launch_failure(site: Site, parameters: Parameters, now: Instant) -> Instant | None:
    """Let a site rest at which a batch job was over before its starter ran, as by a prolog that
    fails: each further job could take another machine out of service. Return the end of the rest;
    None while it rests already."""
    site.errors += 1
    if is_resting(site):
        return None
    rest_s = LAUNCH_REST_S * 2 ** min(site.launch_failures, DOUBLINGS_MAX)
    site.launch_failures += 1
    return _rest(site, now + min(rest_s, parameters.probe_after_s), now)


def record_error(site: Site, job: JobId, parameters: Parameters, now: Instant) -> Instant | None:
    """Count an error; return the end of the rest if it makes the site unusable. A failed probe
    starts a new rest.

    With `errors_counted = jobs`, further errors of a job do not count until a component ends well
    here, not even as a probe.
    """
    times = site.erring[job] = site.erring.get(job, 0) + 1
    if times > 1 and parameters.errors_counted == "jobs":
        return None
    site.errors += 1
    if site.unusable_until is not None and not site.is_probing:
        return None
    if not site.is_probing and site.errors < parameters.consecutive_errors_max:
        return None
    return _rest(site, now + parameters.probe_after_s, now)


def _rest(site: Site, until: Instant, now: Instant) -> Instant:
    if site.unusable_until is None:
        site.unusable_since = now
    site.unusable_until = until
    site.is_probing = False
    return until


def reset_errors(site: Site) -> bool:
    """Reset the errors after a component ended well; return True if the site was unusable."""
    was_unusable = site.unusable_until is not None
    site.errors = site.launch_failures = 0
    site.erring.clear()
    site.unusable_until = None
    site.is_probing = False
    return was_unusable
