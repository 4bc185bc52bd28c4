"""What the daemon refuses at submission, because no waiting would help: checks of a job against
the grid.

Pure. Sites that are away count: they may come back. A site that the configuration lists and that
never registered has a size that nobody knows; while there is one, or no site at all, size refuses
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from koala.core.grid import (
    GridView,
    Part,
    PlacementRequest,
    Site,
    SiteView,
    Unplaceable,
)
from koala.core.job import JobSpec, StartType
from koala.core.scheduler import Scheduler
from koala.core.slots import PlacementPolicy
from koala.core.values import Instant, SiteName, UserName
from koala.errors import RejectedError, SpecError
from koala.policies import BUILT_IN


def check(spec: JobSpec, scheduler: Scheduler, listed: Mapping[SiteName, UserName | None]) -> None:
    """Raises RejectedError when the job could never be placed on the grid as it is known.

    A SpecError is left to what is wrong on every grid: the description, not this daemon's sites.
    """
    _check_progress(spec, scheduler)
    _check_hold(spec, scheduler)
    _check_file(spec, scheduler)
    sites = {name: site for name, site in scheduler.sites.items() if site.facts.admits(spec.owner)}
    if not scheduler.sites and not listed:
        return
    unseen = {
        name
        for name, owner in listed.items()
        if name not in scheduler.sites and owner in (None, spec.owner)
    }
    if spec.queue is not None and spec.queue not in {*sites, *unseen}:
        known = ", ".join(sorted([*sites, *unseen])) or "none"
        raise RejectedError(f"queue {spec.queue!r} is of no site: known sites are {known}")
    for index, component in enumerate(spec.components):
        label = spec.label(index)
        if component.site is None:
            _check_size(label, component.processors, sites, unseen)
        elif component.site not in unseen:
            _check_fixed(label, component.site, component.processors, sites, unseen)
    if spec.quorum is None:
        _check_sums(spec, sites)
    if not unseen and spec.needed == len(spec.components):
        _check_policy(spec, scheduler, sites)


def at_queue(spec: JobSpec, site: SiteName) -> JobSpec:
    """The job as it is when it is submitted at this site's local queue. SpecError when it can only
    run at another one."""
    fixed = spec.components[0].site
    if len(spec.components) == 1 and fixed not in (None, site):
        raise SpecError(
            f"queue {site!r}: the job's component runs at {fixed} (resourceManagerContact) and"
            " nowhere else: allowed is that site's queue"
        )
    return spec.in_queue_of(site)


def warnings(
    spec: JobSpec, scheduler: Scheduler, listed: Mapping[SiteName, UserName | None]
) -> tuple[str, ...]:
    """What the job asks of local managers, none of which acts on it where the job may run, and of
    a placement policy that does not heed it."""
    found: dict[str, list[str]] = {}
    for index, component in enumerate(spec.components):
        asked = {
            "hostCount": component.hosts,
            "minMemory": component.memory_min_mb,
            "queue": component.queue,
            "project": component.project,
        }
        names = [name for name, value in asked.items() if value]
        if not names:
            continue
        honoured = _honoured(component.site, spec.owner, scheduler, listed)
        for name in names:
            if honoured is not None and name not in honoured:
                found.setdefault(name, []).append(spec.label(index))
    return tuple(
        f"{name} is ignored: no site where component {', '.join(labels)} may run acts on it"
        for name, labels in found.items()
    ) + tuple(
        f"{name} is ignored: the placement policy in force, {policy}, does not heed it"
        for name, policy in _unheeded(spec, scheduler.policies.place)
    )


def _unheeded(spec: JobSpec, place: PlacementPolicy) -> Iterator[tuple[str, str]]:
    """What of a job's demands (Hints 3.4) a policy of ours leaves aside; of others nobody knows."""
    policy = next((name for name, known in BUILT_IN["placement"].items() if known == place), "")
    heeded = HEEDED.get(policy, ())
    said = {"hint": spec.hint, "length": spec.length_mi, "mips": spec.preferred_mips}
    for name, value in said.items():
        if policy and value is not None and name not in heeded:
            yield name, policy


HEEDED = {
    "NoNetwork": ("mips",),
    "PreferLocal": ("mips", "length"),
    "Service": ("mips", "length", "hint"),
}
"""What placement policies heed of a job's demands."""


def _honoured(
    name: SiteName | None,
    owner: UserName,
    scheduler: Scheduler,
    listed: Mapping[SiteName, UserName | None],
) -> set[str] | None:
    """What the local managers of the sites that a component may use act on; None as long as there
    is one of which nobody knows."""
    seen = {known: s.facts.admits(owner) for known, s in scheduler.sites.items()}
    shown = {**{site: of in (None, owner) for site, of in listed.items()}, **seen}
    usable = [site for site, is_shown in shown.items() if is_shown and name in (None, site)]
    sites = [scheduler.sites.get(site) for site in usable]
    if not sites or None in sites:
        return None
    return {honoured for site in sites if site for honoured in site.facts.honours}


def with_progress(spec: JobSpec, scheduler: Scheduler) -> JobSpec:
    """The job with the progress policy that counts for those that name none."""
    default = scheduler.policies.progress_default
    if spec.progress is not None or default == "free":
        return spec
    return replace(spec, progress=default)


def _check_progress(spec: JobSpec, scheduler: Scheduler) -> None:
    known = scheduler.policies.progress
    if spec.progress is not None and spec.progress not in known:
        raise SpecError(f"progress = {spec.progress}: allowed are {', '.join(known)}")


def check_deadline(spec: JobSpec, now: Instant) -> None:
    """Raises SpecError for one that is past, and where a component has no barrier: it could not
    wait for a deadline.
    """
    at = spec.deadline_at(now)
    if at is None:
        return
    if at <= now:
        raise SpecError(f"deadline {_instant(at)} is past: allowed is one after {_instant(now)}")
    for index, component in enumerate(spec.components):
        if component.start_type is StartType.NONE:
            raise SpecError(
                f"component {spec.label(index)} has no barrier, so it would start before the job's"
                f" deadline: allowed are {StartType.STRICT.value} and {StartType.LOOSE.value}"
            )


def _instant(at: Instant) -> str:
    """ISO 8601, as far as calendars go."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{at:g} s after 1970"


def _check_hold(spec: JobSpec, scheduler: Scheduler) -> None:
    """A starter arms only when its hold outlasts D, which has a least value."""
    limits = scheduler.parameters
    least_s = limits.late_max_s + limits.lead_min_s
    if spec.max_hold_s is not None and spec.max_hold_s <= least_s:
        raise RejectedError(
            f"maxHold is {spec.max_hold_s:g} s, in which no start can be agreed on: allowed is more"
            f" than {least_s:g} s ({least_s / 60:.3g} minutes)"
        )


def _check_file(spec: JobSpec, scheduler: Scheduler) -> None:
    file = spec.input_file
    if file is None or file.size_bytes is not None or file.name in scheduler.replicas:
        return
    raise RejectedError(
        f"inputFile {file.name!r} is not in the catalogue: allowed is a known file"
        f" (koala files), or its size with it: (inputFile=({file.name} BYTES))"
    )


def _check_size(
    label: str, processors: int, sites: Mapping[SiteName, Site], unseen: set[SiteName]
) -> None:
    if unseen:
        return
    largest = max(sites.values(), key=lambda site: site.facts.processors, default=None)
    if largest is None:
        raise RejectedError(f"component {label}: there is no site that this user may use")
    if processors > largest.facts.processors:
        raise RejectedError(
            f"component {label} wants {processors} processors: the largest site is {largest.name}"
            f" with {largest.facts.processors}"
        )


def _check_fixed(
    label: str,
    name: SiteName,
    processors: int,
    sites: Mapping[SiteName, Site],
    unseen: set[SiteName],
) -> None:
    site = sites.get(name)
    if site is None:
        known = ", ".join(sorted([*sites, *unseen])) or "none"
        raise RejectedError(f"component {label} wants site {name!r}: known sites are {known}")
    if processors > site.facts.processors:
        raise RejectedError(
            f"component {label} wants {processors} processors at {name}, which has"
            f" {site.facts.processors}"
        )


def _check_policy(spec: JobSpec, scheduler: Scheduler, sites: Mapping[SiteName, Site]) -> None:
    """What the placement policy could place on no sites of these names, however large they were:
    with WF-distinct a job with more components than there are sites."""
    request = PlacementRequest(
        parts=tuple(
            Part(component=index, processors=1, site=component.site)
            for index, component in enumerate(spec.components)
        ),
        user=spec.owner,
    )
    room = len(spec.components)
    views = [SiteView(name=name, processors=room, idle=room) for name in sites]
    grid = GridView(views, replicas={}, bandwidth={}, bandwidth_default=1.0)
    answer = scheduler.policies.place(request, grid)
    if isinstance(answer, Unplaceable):
        raise RejectedError(f"component {spec.label(answer.component)}: {answer.reason}")


def _check_sums(spec: JobSpec, sites: Mapping[SiteName, Site]) -> None:
    """Components that must start together at one site need its processors at the same time."""
    sums: dict[SiteName, int] = {}
    for component in spec.components:
        site = component.site
        if site is not None and site in sites and component.start_type is StartType.STRICT:
            sums[site] = sums.get(site, 0) + component.processors
    for name, processors in sums.items():
        if processors > sites[name].facts.processors:
            raise RejectedError(
                f"the components at {name} want {processors} processors together, which has"
                f" {sites[name].facts.processors}"
            )
