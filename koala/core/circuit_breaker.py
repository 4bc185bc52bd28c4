"""The circuit breaker of a site: after consecutive errors it rests, and gets no claims (KOALA 3.4).

It comes back by a probe when it has rested, or by an operator's word. Live, the errors of one job
count once. A job that fails everywhere is itself at fault, and must not close sites to other jobs
(`errors_counted`).
"""

from __future__ import annotations

from koala.core.model.grid import Site
from koala.core.model.parameters import Parameters
from koala.core.model.values import Instant, JobId

LAUNCH_REST_S = 120.0
"""First rest of a site at which a batch job could not begin; each further one is twice as long."""
DOUBLINGS_MAX = 10


def is_resting(site: Site) -> bool:
    """Return True if the site reached the threshold and may not be probed yet.

    The probe timer ends a rest, not the clock: before it fires the site would count as healthy.
    """
    return site.unusable_until is not None and not site.is_probing


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
