"""Policies of your own: one orders the jobs of a queue, one chooses sites.

Try them in simulated time, in this folder:

    koala simulate koala --queueing my_policy:small_first --placement my_policy:most_idle
    koala simulate trace LOG.swf --policy my_policy:small_first
    koala replay STATE_DIR --with queueing=my_policy:small_first

Use them in the configuration of a daemon that finds this module (PYTHONPATH, or installed):

    [policies]
    queueing = "my_policy:small_first"

A policy answers the same for the same arguments: no clock, no random numbers, nothing kept.
"""

from __future__ import annotations

from koala.common.protocol.ordering import QueuedJob
from koala.core.model.grid import Assignment, GridView, Placement, PlacementRequest, Unplaceable
from koala.policies.placement.close_to_files import close_to_files

HOUR_S = 3600.0


def small_first(job: QueuedJob) -> float:
    """Order by processor-seconds, the fewest first; who has waited an hour goes before all."""
    if job.waited_s >= HOUR_S:
        return -job.waited_s
    return job.processors * min(job.estimate_s, 24 * HOUR_S)


def most_idle(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
    """Place each component, the largest first, at the site with the most idle processors."""
    if any(part.file for part in request.parts):  # the answer then names where files come from
        return close_to_files(request, view)
    idle = view.idle(request.user)  # a copy: of the sites that this user may use
    slots = view.slots()  # of sites with a limit: how many components more they take
    found = []
    for part in sorted(request.parts, key=lambda part: (part.site is None, -part.processors)):
        fitting = [
            site
            for site, free in idle.items()
            if part.site in (None, site) and free >= part.processors and slots.get(site, 1) > 0
        ]
        if not fitting:
            reason = f"no site has {part.processors} idle processors"
            return Unplaceable(component=part.component, reason=reason)
        site = max(fitting, key=idle.__getitem__)
        idle[site] -= part.processors
        if site in slots:
            slots[site] -= 1
        found.append(Assignment(component=part.component, site=site, source=None, transfer_s=0.0))
    return Placement(assignments=tuple(found))
