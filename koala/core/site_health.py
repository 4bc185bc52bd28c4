"""Consecutive errors of a site (KOALA 3.4): at the threshold it is unusable, until it has rested or
somebody says so.

Live, the errors of one job count once: a job that fails everywhere is at fault itself, and is not
to take sites from others (`errors_counted`).
"""

from __future__ import annotations

from koala.core.model.grid import Site
from koala.core.model.parameters import Parameters
from koala.core.model.values import Instant, JobId


def is_resting(site: Site) -> bool:
    """Unusable now: it reached the threshold, and its rest is not over or no probe is allowed yet.

    Not the clock but the bell ends a rest: before it rings the site would pass for a healthy one.
    """
    return site.unusable_until is not None and not site.is_probing


def erred(site: Site, job: JobId, parameters: Parameters, now: Instant) -> bool:
    """Count an error; True when the site becomes unusable by it. A failed probe makes it rest
    again. Where jobs are counted, a job that erred here since a component ended well says nothing
    new, as a probe neither.
    """
    times = site.erring[job] = site.erring.get(job, 0) + 1
    if times > 1 and parameters.errors_counted == "jobs":
        return False
    site.errors += 1
    if site.unusable_until is not None and not site.is_probing:
        return False
    if not site.is_probing and site.errors < parameters.consecutive_errors_max:
        return False
    if site.unusable_until is None:
        site.unusable_since = now
    site.unusable_until = now + parameters.probe_after_s
    site.is_probing = False
    return True


def ended_well(site: Site) -> bool:
    """A component ended well here; True when that makes the site usable again."""
    was_unusable = site.unusable_until is not None
    site.errors = 0
    site.erring.clear()
    site.unusable_until = None
    site.is_probing = False
    return was_unusable
