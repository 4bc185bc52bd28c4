"""Circuit breaker of a site (KOALA 3.4): consecutive errors make it unusable until it has rested or
an operator resumes it.

Live, the errors of one job count once. A job that fails everywhere is itself at fault, and must not
close sites to other jobs (`errors_counted`).
"""

from __future__ import annotations

from koala.core.model.grid import Site
from koala.core.model.parameters import Parameters
from koala.core.model.values import Instant, JobId


def is_resting(site: Site) -> bool:
    """Return True if the site reached the threshold and may not be probed yet.

    The probe timer ends a rest, not the clock: before it fires the site would count as healthy.
    """
    return site.unusable_until is not None and not site.is_probing


def erred(site: Site, job: JobId, parameters: Parameters, now: Instant) -> Instant | None:
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
    if site.unusable_until is None:
        site.unusable_since = now
    site.unusable_until = now + parameters.probe_after_s
    site.is_probing = False
    return site.unusable_until


def ended_well(site: Site) -> bool:
    """Reset the errors after a component ended well; return True if the site was unusable."""
    was_unusable = site.unusable_until is not None
    site.errors = 0
    site.erring.clear()
    site.unusable_until = None
    site.is_probing = False
    return was_unusable
