"""What the daemon refuses at submission, because no waiting would help: checks of a job against
the grid.

Pure. The grid is asked as its members declare it, as if nothing ran there. Sites that are away
count: they may come back. A site that the configuration lists and that never registered has a size
that nobody knows. A job that fits only with such sites is accepted with a warning; while there is
no site at all, size refuses nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from koala.core.feasibility import (
    ANY,
    Room,
    describe_misfit,
    empty_view,
    fits,
    most_at_a_site,
    pieces_of,
    rooms_of,
)
from koala.core.model.grid import GridView, Part, PlacementRequest, Site, SiteView, Unplaceable
from koala.core.model.job import JobSpec, StartType
from koala.core.model.values import Instant, SiteName, UserName
from koala.core.policy_api import PlacementPolicy
from koala.core.queries import demand_of_spec
from koala.core.scheduler import Scheduler
from koala.core.site_views import is_usable
from koala.errors import RejectedError, SpecError
from koala.policies import BUILT_IN


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be said of a job on an empty grid: why it is refused, or warnings."""

    refusal: str = ""
    warnings: tuple[str, ...] = ()


class Verdicts:
    """Those of late, as long as the grid stays as it is: most jobs are like one before."""

    def __init__(self) -> None:
        self._grid: list[object] = []
        self._known: dict[Hashable, Verdict] = {}
        self._most = ANY  # components of a job at a site

    def of(self, spec: JobSpec, scheduler: Scheduler, unseen: tuple[SiteName, ...]) -> Verdict:
        """The verdict on a job; `unseen` are sites that never registered."""
        grid: list[object] = [scheduler.policies.place, scheduler.parameters]
        for site in scheduler.sites.values():
            grid += (site.name, site.facts, is_usable(site))
        if grid != self._grid or len(self._known) >= VERDICTS_MAX:
            self._grid = grid
            self._known.clear()
            self._most = most_at_a_site(scheduler.policies.place)
        shape = _shape(spec, unseen)
        verdict = self._known.get(shape)
        if verdict is None:
            verdict = self._known[shape] = _judge(spec, scheduler, unseen, self._most)
        return verdict


VERDICTS_MAX = 1000


def _shape(spec: JobSpec, unseen: tuple[SiteName, ...]) -> Hashable:
    """All of a job that its verdict depends on."""
    return (
        *(unseen, spec.owner, spec.queue, spec.quorum),
        *(spec.hint, spec.length_mi, spec.preferred_mips),
        tuple([(c.processors, c.site, c.start_type, c.label) for c in spec.components]),
    )


def check(
    spec: JobSpec,
    scheduler: Scheduler,
    listed: Mapping[SiteName, UserName | None],
    verdicts: Verdicts | None = None,
) -> tuple[str, ...]:
    """Raises RejectedError when the job could never be placed on the grid as it is known. Warnings,
    when that takes a site that is away, or of which nobody knows how large it is.

    A SpecError is left to what is wrong on every grid: the description, not this daemon's sites.
    """
    _check_progress(spec, scheduler)
    _check_hold(spec, scheduler)
    _check_file(spec, scheduler)
    if not scheduler.sites and not listed:
        return ("no site has registered yet: the job waits for those that will",)
    unseen = tuple(
        name
        for name, owner in listed.items()
        if name not in scheduler.sites and owner in (None, spec.owner)
    )
    verdict = (verdicts or Verdicts()).of(spec, scheduler, unseen)
    if verdict.refusal:
        raise RejectedError(verdict.refusal)
    return verdict.warnings


def _judge(
    spec: JobSpec, scheduler: Scheduler, unseen: tuple[SiteName, ...], most: float
) -> Verdict:
    """The empty grid is asked."""
    sites = {name: site for name, site in scheduler.sites.items() if site.facts.admits(spec.owner)}
    try:
        told = _check_components(spec, sites, set(unseen))
        if spec.quorum is None:
            _check_sums(spec, sites)
        is_whole = spec.needed == len(spec.components)
        if not unseen and is_whole:
            _check_policy(spec, scheduler, sites)
        told += _check_together(spec, sites, unseen, most)
        if not unseen and is_whole:
            told += _doubts(spec, scheduler, sites)
    except RejectedError as error:
        return Verdict(refusal=str(error))
    return Verdict(warnings=tuple(told))


def _check_components(
    spec: JobSpec, sites: Mapping[SiteName, Site], unseen: set[SiteName]
) -> list[str]:
    """Each by itself; the job can start without an optional one that is too large."""
    if spec.queue is not None and spec.queue not in {*sites, *unseen}:
        known = ", ".join(sorted([*sites, *unseen])) or "none"
        raise RejectedError(f"queue {spec.queue!r} is of no site: known sites are {known}")
    told: list[str] = []
    for index, component in enumerate(spec.components):
        label = spec.label(index)
        try:
            if component.site is None:
                _check_size(label, component.processors, sites, unseen)
            elif component.site not in unseen:
                _require_site(label, component.site, sites, unseen)
                _check_fixed(label, component.processors, sites[component.site])
        except _TooLargeError as error:
            if spec.quorum is None and component.start_type is StartType.STRICT:
                raise RejectedError(str(error)) from error
            told.append(f"{error}: it will not take part")
    return told


class _TooLargeError(Exception):
    """A component is larger than where it may run."""


def _check_together(
    spec: JobSpec, sites: Mapping[SiteName, Site], unseen: tuple[SiteName, ...], most: float
) -> list[str]:
    """All that the job needs, at once: on all sites, on those that ever registered, on those that
    can be used now."""
    pieces, needed = pieces_of(spec), spec.needed
    rooms = rooms_of(sites.values(), spec.owner, most)
    unknown = [Room(name, ANY) for name in unseen]
    if not fits(pieces, needed, [*rooms, *unknown]):
        raise RejectedError(
            f"the job can never start: {describe_misfit(pieces, needed, rooms)}; allowed is what"
            " fits when nothing else runs"
        )
    if unknown and not fits(pieces, needed, rooms):
        return [
            f"{describe_misfit(pieces, needed, rooms)}; the job waits until more registers, and"
            f" nobody knows how large that is: {_few(unseen)}"
        ]
    usable = [room for room in rooms if is_usable(sites[room.name])]
    if len(usable) < len(rooms) and not fits(pieces, needed, usable):
        away = [_state(site) for site in sites.values() if not is_usable(site)]
        return [
            f"{describe_misfit(pieces, needed, usable)}; the job waits for sites that cannot be"
            f" used now: {_few(away)}"
        ]
    return []


def _state(site: Site) -> str:
    """A site that cannot be used, and why."""
    why = "disconnected" if not site.is_connected else "drained" if site.is_drained else "unusable"
    return f"{site.name} ({why}, {site.facts.processors} processors)"


def _few(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


NAMES_MAX = 6


def _doubts(spec: JobSpec, scheduler: Scheduler, sites: Mapping[SiteName, Site]) -> list[str]:
    """Policies do not search for a place as hard as they could: one that finds none on an empty
    grid may find one when some of it is in use, so that is no reason to refuse. Where one site
    could take the whole of a job that asks for nothing else, there is nothing to search for."""
    demand = demand_of_spec(spec, scheduler.parameters)
    largest = max((s.facts.processors for s in sites.values() if s.facts.slots is None), default=0)
    total = sum(component.processors for component in spec.components)
    is_free = all(component.site is None for component in spec.components)
    is_plain = not (demand.preferred_mips or demand.length_mi or demand.hint)
    if is_free and is_plain and total <= largest:
        return []
    request = PlacementRequest(
        parts=tuple(
            Part(component=index, processors=component.processors, site=component.site)
            for index, component in enumerate(spec.components)
        ),
        user=spec.owner,
        demand=demand,
        home=spec.queue,
    )
    place = scheduler.policies.place
    answer = place(request, empty_view(sites.values()))
    if not isinstance(answer, Unplaceable):
        return []
    name = next((name for name, known in BUILT_IN["placement"].items() if known == place), "")
    policy = f"the placement policy in force{', ' + name + ',' if name else ''}"
    return [
        f"{policy} finds no place for the job even when nothing else runs (component"
        f" {spec.label(answer.component)}: {answer.reason}): it may wait for ever. Where its"
        " components run can be said with resourceManagerContact"
    ]


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
        raise _TooLargeError(
            f"component {label} wants {processors} processors: the largest site is {largest.name}"
            f" with {largest.facts.processors}"
        )


def _require_site(
    label: str, name: SiteName, sites: Mapping[SiteName, Site], unseen: set[SiteName]
) -> None:
    if name not in sites:
        known = ", ".join(sorted([*sites, *unseen])) or "none"
        raise RejectedError(f"component {label} wants site {name!r}: known sites are {known}")


def _check_fixed(label: str, processors: int, site: Site) -> None:
    if processors > site.facts.processors:
        raise _TooLargeError(
            f"component {label} wants {processors} processors at {site.name}, which has"
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
