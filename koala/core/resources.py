"""Resources beside processors: what a site lacks for a component, and placement that respects it.

GPUs are counted as processors are. The other resources (features, licences, queues, memory of a
machine) a site has or lacks; its local manager counts them. Policies know of none of this: they are
asked for one component at a time, on a view without the sites that lack something.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from koala.common.protocol.messages import NO_RESOURCES, Queue
from koala.common.protocol.queue_limits import (
    END_S,
    RUN_MIN_S,
    Times,
    hold_room_s,
    limit_text,
    queues_of,
    times_of,
)
from koala.core.model.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Site,
    SiteFacts,
    Unplaceable,
)
from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.core.model.values import SiteName, UserName
from koala.core.policy_api import PlacementPolicy

SITES_NAMED = 6
_FEATURES = re.compile(r"[A-Za-z0-9_.:=-]+(?:&[A-Za-z0-9_.:=-]+)*")
"""A constraint that needs all of its features."""


def needs_resources(components: Sequence[ComponentSpec], sites: Iterable[Site]) -> bool:
    """Return True if a component asks for something that sites may lack, or for more time or
    processors than a queue of these sites allows."""
    for c in components:
        if c.sites or c.gpus or c.constraint or c.licenses:
            return True
        if c.queue or c.memory_min_mb or c.reservation:
            return True
    limited = [site.facts for site in sites if site.facts.resources.queues]
    return any(_beyond_limits(c, facts) for facts in limited for c in components)


def occupied(component: ComponentSpec, facts: SiteFacts) -> int:
    """Return the processors that a component takes from a site: whole machines or cores, where the
    site gives no parts of them, or the component shares its machines with nobody."""
    has, processors = facts.resources, component.processors
    host = has.host_processors
    unit = max(has.unit, host if component.is_exclusive else 1, 1)
    if unit == 1:
        return processors
    units = -(-processors // unit)
    if unit >= host:
        each = (component.tasks_per_host or 0) * (component.cpus_per_task or 1)
        units = max(units, component.hosts or 0, -(-processors // each) if each else 0)
    return max(processors, min(units * unit, facts.processors))


def takes_more(spec: JobSpec, sites: Iterable[Site]) -> bool:
    """Return True if a component of a job may take more from a site than it asks for, in a way that
    the idle processors of the site alone do not tell."""
    if any(component.is_exclusive or component.hosts for component in spec.components):
        return True
    return len(spec.components) > 1 and any(site.facts.resources.unit > 1 for site in sites)


def may_have_gpus(component: ComponentSpec, site: Site) -> bool:
    """Return True if a component asks for GPUs, and the site has not told yet whether it has any:
    agents register before their batch systems answer."""
    is_told = site.has_told_resources or site.facts.resources != NO_RESOURCES
    return bool(component.gpus) and not is_told


def may_be_reserved(component: ComponentSpec, site: Site) -> bool:
    """Return True if a site lacks only the reservation that a component names: it may be made, or
    was a moment ago."""
    if not component.reservation or "reservation" not in site.facts.honours:
        return False
    told = site.reservations
    is_unknown = told is not None and component.reservation not in dict(told)
    return is_unknown and not describe_missing(replace(component, reservation=None), site)


def describe_missing(component: ComponentSpec, site: Site) -> str:
    """Describe what a site lacks for a component now, idle or busy; empty if nothing is known to
    be missing. Processors do not count."""
    facts, has = site.facts, site.facts.resources
    if component.sites and site.name not in component.sites:
        return f"is none of its sites ({', '.join(component.sites)})"
    if may_have_gpus(component, site):
        return "has not told its GPUs yet"
    if (component.gpus or 0) > has.gpus:
        return f"has {has.gpus} GPUs" if has.gpus else "has no GPUs"
    tasks = component.processors // (component.cpus_per_task or 1)
    if has.host_gpus and (component.gpus or 0) > has.host_gpus * tasks:
        return f"has {has.host_gpus} GPUs on a host, for each process"
    if component.gpu_type and component.gpu_type not in has.gpu_types:
        return f"has no GPUs of type {component.gpu_type} ({_list(has.gpu_types)})"
    for name in ("constraint", "licenses", "reservation"):
        if getattr(component, name) and name not in facts.honours:
            return f"takes no {name}"
    if beyond := _beyond_limits(component, facts) or _missing_reservation(component, site):
        return beyond
    if not has.is_complete:
        return ""
    return (
        _missing_feature(component, facts)
        or _missing_license(component, facts)
        or _missing_queue(component, facts)
        or _missing_memory(component, facts)
    )


def _missing_feature(component: ComponentSpec, facts: SiteFacts) -> str:
    constraint, known = component.constraint or "", facts.resources.features
    features = constraint.split("&") if _FEATURES.fullmatch(constraint) else []
    missing = next((feature for feature in features if feature not in known), "")
    return f"has no hosts with {missing} ({_list(known)})" if missing else ""


def _missing_reservation(component: ComponentSpec, site: Site) -> str:
    known = None if site.reservations is None else dict(site.reservations)
    if not component.reservation or known is None or component.reservation in known:
        return ""
    return f"has no reservation {component.reservation} ({_list(known)})"


def _missing_license(component: ComponentSpec, facts: SiteFacts) -> str:
    known = dict(facts.resources.licenses)
    for name, count in component.licenses:
        if count > known.get(name, 0):
            return f"has {known.get(name, 0)} licences of {name}"
    return ""


def _missing_queue(component: ComponentSpec, facts: SiteFacts) -> str:
    known = [queue.name for queue in facts.resources.queues]
    names = component.queue.split(",") if component.queue and "queue" in facts.honours else []
    if not names or any(name in known for name in names):
        return ""
    return f"has no queue {component.queue} ({_list(known)})"


def _missing_memory(component: ComponentSpec, facts: SiteFacts) -> str:
    most = facts.resources.host_memory_mb
    if "minMemory" in facts.honours and most and (component.memory_min_mb or 0) > most:
        return f"has at most {most} MB on a host"
    return ""


def _beyond_limits(component: ComponentSpec, facts: SiteFacts) -> str:
    """Describe the limit that every queue open to a component sets below what it asks for."""
    why = ""
    for queue in queues_of(component, facts.resources.queues, honours=facts.honours):
        why = _beyond(component, queue)
        if not why:
            return ""
    return why


def _beyond(component: ComponentSpec, queue: Queue) -> str:
    asked_s, hosts = component.wall_time_s or 0.0, component.hosts or 0
    if queue.longest_s and asked_s > queue.longest_s:
        most = f"allows {limit_text(queue.longest_s)} at most in {queue.name}"
        return f"{most} (asked {limit_text(asked_s)})"
    if queue.processors and component.processors > queue.processors:
        most = f"allows {queue.processors} processors a job at most in {queue.name}"
        return f"{most} (asked {component.processors})"
    if queue.hosts and hosts > queue.hosts:
        return f"allows {queue.hosts} hosts a job at most in {queue.name} (asked {hosts})"
    return ""


def largest_part(component: ComponentSpec, facts: SiteFacts) -> float:
    """Return the processors of the largest component that a site's queues allow, of those that
    allow the rest of what this one asks for."""
    queues = queues_of(component, facts.resources.queues, honours=facts.honours)
    limits = [queue.processors or float("inf") for queue in queues if not _beyond(component, queue)]
    return max(limits, default=float("inf"))


def site_times(component: ComponentSpec, site: Site) -> Times:
    """Return the times that a component's batch job may have at a site."""
    return times_of(component, site.facts.resources.queues, honours=site.facts.honours)


def describe_cut(component: ComponentSpec, site: Site, hold_s: float) -> str:
    """Describe a queue whose longest time is too short for the hold and the run; empty if it is
    long enough."""
    times = site_times(component, site)
    wall_s = component.wall_time_s
    if hold_s + (wall_s or RUN_MIN_S) + END_S <= times.longest_s:
        return ""
    room_s = hold_room_s(wall_s, times)
    run = f"its {limit_text(wall_s)}" if wall_s else "a program without a time limit of its own"
    return (
        f"{site.name} allows {limit_text(times.longest_s)} at most: {run} and the time that it is"
        f" held before the start ({limit_text(min(hold_s, room_s))} at most) share them"
    )


def _list(names: Iterable[str]) -> str:
    return "it has " + (", ".join(names) or "none")


def describe_needs(component: ComponentSpec) -> str:
    """Describe what a component asks for that sites may lack."""
    kind = f" of type {component.gpu_type}" if component.gpu_type else ""
    gpus = f"{component.gpus} GPU{'s' if component.gpus != 1 else ''}{kind}"
    licenses = ", ".join(f"{count} of {name}" for name, count in component.licenses)
    words = (
        f"one of the sites {', '.join(component.sites)}" if component.sites else "",
        gpus if component.gpus else "",
        f"constraint {component.constraint}" if component.constraint else "",
        f"licences: {licenses}" if licenses else "",
        f"queue {component.queue}" if component.queue else "",
        f"reservation {component.reservation}" if component.reservation else "",
        f"{component.memory_min_mb} MB for a process" if component.memory_min_mb else "",
    )
    return ", ".join(filter(None, words))


def able_sites(
    component: ComponentSpec, sites: Mapping[SiteName, Site], user: UserName
) -> dict[SiteName, Site]:
    """Return the sites of a user that lack nothing for a component."""
    return {
        name: site
        for name, site in sites.items()
        if site.facts.admits(user) and not describe_missing(component, site)
    }


def describe_lack(component: ComponentSpec, sites: Iterable[Site]) -> str:
    """Describe a component's needs, and what each of these sites lacks for it."""
    words = [f"{site.name} {describe_missing(component, site)}" for site in sites]
    more = ", ..." if len(words) > SITES_NAMED else ""
    needs = describe_needs(component)
    return (
        f"{f'needs {needs};' if needs else 'finds no site:'} {', '.join(words[:SITES_NAMED])}{more}"
    )


def respecting_resources(
    place: PlacementPolicy, spec: JobSpec, sites: Mapping[SiteName, Site]
) -> PlacementPolicy:
    """Make a policy that puts components only where nothing is missing for them and enough GPUs
    are idle: the given one is asked for one part at a time."""

    def place_able(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
        trial = view.copy()
        assignments: list[Assignment] = []
        for part in sorted(request.parts, key=lambda part: _rank(part, spec)):
            component = spec.components[part.component]
            if part.processors != component.processors:  # one by which a job grows
                component = replace(component, processors=part.processors)
            gpus = component.gpus or 0
            able = able_sites(component, sites, request.user)
            taken = {name: occupied(component, site.facts) for name, site in able.items()}
            seen = trial.copy()
            seen.close(
                s.name
                for s in trial.sites
                if s.name not in able
                or trial.gpus_at(s.name) < gpus
                or trial.room_at(s.name, component.reservation) < taken[s.name]
            )
            beside = (*request.beside, *(a.site for a in assignments))
            answer = place(replace(request, parts=(part,), beside=beside), seen)
            if isinstance(answer, Unplaceable):
                reason = _why_not(component, part.site, able, sites, trial, request.user)
                return replace(answer, reason=reason or answer.reason)
            (a,) = answer.assignments
            trial.take(a.site, taken[a.site], gpus, reservation=component.reservation)
            trial.book(a)
            assignments.append(a)
        return Placement(
            assignments=tuple(sorted(assignments, key=lambda assignment: assignment.component))
        )

    return place_able


def _rank(part: Part, spec: JobSpec) -> tuple[bool, int, int, int]:
    """Sort key of parts: those with a fixed site, those with most GPUs, the largest."""
    gpus = spec.components[part.component].gpus or 0
    return part.site is None, -gpus, -part.processors, part.component


def _why_not(
    component: ComponentSpec,
    fixed: SiteName | None,
    able: Mapping[SiteName, Site],
    sites: Mapping[SiteName, Site],
    view: GridView,
    user: UserName,
) -> str:
    """Explain which resource beside processors is missing; empty if none is."""
    seen = [site.name for site in view.sites if site.admits(user) and fixed in (None, site.name)]
    here = [name for name in seen if name in able]
    if not here:
        return describe_lack(component, [sites[name] for name in seen]) if seen else ""
    gpus = component.gpus or 0
    idle = {name: view.gpus_at(name) for name in here}
    if not gpus or any(count >= gpus for count in idle.values()):
        idle = {name: view.room_at(name, component.reservation) for name in here}
        if not component.reservation or max(idle.values()) >= component.processors:
            return ""
    here.sort(key=lambda name: -idle[name])
    words = [f"{name} has {idle[name]} idle" for name in here[:SITES_NAMED]]
    more = ", ..." if len(here) > SITES_NAMED else ""
    return f"needs {describe_needs(component)}; {', '.join(words)}{more}"
