"""Admission control: reject jobs at submission that could never start on the grid.

Pure. A job is checked against an empty grid of the sites' declared sizes.

- Disconnected sites count: they may come back.
- A configured site that has never registered has an unknown size. A job that fits only with such
  sites is accepted with a warning.
- While there is no site at all, no job is rejected for its size.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import permutations
from operator import attrgetter

from koala.common.runtime.option_values import did_you_mean
from koala.core.feasibility import (
    ANY,
    Capacity,
    capacities_of,
    components_per_site_max,
    describe_misfit,
    empty_view,
    gpu_capacities_of,
    gpu_requirements_of,
    may_fit,
    requirements_of,
)
from koala.core.model.grid import GridView, Part, PlacementRequest, Site, SiteView, Unplaceable
from koala.core.model.job_spec import ComponentSpec, JobSpec, Split, StartType
from koala.core.model.tcp_paths import has_ports
from koala.core.model.values import Instant, SiteName, UserName
from koala.core.policy_api import PlacementPolicy
from koala.core.queries import demand_of
from koala.core.resources import (
    able_sites,
    describe_cut,
    describe_lack,
    may_be_reserved,
    may_have_gpus,
    occupied,
)
from koala.core.scheduler import Scheduler
from koala.core.sites import is_usable
from koala.core.splitting import describe_unsplit, empty_rooms, most_of
from koala.errors import Lack, RejectedError, SpecError
from koala.job_descriptions.attributes import ATTRIBUTES, Treatment
from koala.policies import BUILT_IN
from koala.views.ports import describe_routes


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of checking a job against an empty grid: a reason to reject it, or warnings."""

    refusal: RejectedError | None = None
    warnings: tuple[str, ...] = ()


class Verdicts:
    """Cache of recent verdicts, by shape of the job; a change of the grid invalidates it."""

    def __init__(self) -> None:
        self._grid: list[object] = []
        self._known: dict[Hashable, Verdict] = {}
        self._most = ANY  # components of a job at a site

    def valid(self, scheduler: Scheduler) -> Verdicts:
        """Drop all verdicts on another grid; return these for jobs until the grid may change."""
        grid: list[object] = [scheduler.policies.place, scheduler.parameters]
        for site in scheduler.sites.values():
            told = (site.has_told_resources, tuple(dict(site.reservations or ())))
            grid += (site.name, site.facts, is_usable(site), *told)
        if grid != self._grid or len(self._known) >= VERDICTS_MAX:
            self._grid = grid
            self._known.clear()
            self._most = components_per_site_max(scheduler.policies.place)
        return self

    def of(self, spec: JobSpec, scheduler: Scheduler, unseen: tuple[SiteName, ...]) -> Verdict:
        """Return the verdict on a job; `unseen` are sites that never registered."""
        shape = _shape(spec, unseen)
        verdict = self._known.get(shape)
        if verdict is None:
            verdict = self._known[shape] = _evaluate(
                spec, scheduler, unseen, 1 if spec.distinct else self._most
            )
        return verdict


VERDICTS_MAX = 1000


def _shape(spec: JobSpec, unseen: tuple[SiteName, ...]) -> Hashable:
    """Cache key: the fields of a job that its verdict depends on."""
    return (
        *(unseen, spec.owner, spec.queue, spec.quorum, spec.split),
        *(spec.hint, spec.length_mi, spec.preferred_mips, spec.distinct, spec.max_hold_s),
        tuple(map(_shape_of_component, spec.components)),
    )


_OF_COMMAND = {"executable", "arguments", "directory", "environment", "stdin", "stdout", "stderr"}
_shape_of_component = attrgetter(
    *[field.name for field in fields(ComponentSpec) if field.name not in _OF_COMMAND]
)


def check(
    spec: JobSpec,
    scheduler: Scheduler,
    listed: Mapping[SiteName, UserName | None],
    verdicts: Verdicts | None = None,
) -> tuple[str, ...]:
    """Check that a job can be placed on the known grid; `verdicts` are valid on it. Raises
    RejectedError, SpecError.

    Returns warnings when it needs a disconnected site, or one of unknown size. A SpecError means
    that the description is wrong on every grid.
    """
    _check_progress(spec, scheduler)
    _check_hold(spec, scheduler)
    if not scheduler.sites and not listed:
        return ("no site has registered yet: the job waits for those that will",)
    unseen = tuple(
        name
        for name, owner in listed.items()
        if name not in scheduler.sites and owner in (None, spec.owner)
    )
    verdict = (verdicts or Verdicts().valid(scheduler)).of(spec, scheduler, unseen)
    if verdict.refusal:
        raise RejectedError(str(verdict.refusal), verdict.refusal.lack)
    return verdict.warnings


def _evaluate(
    spec: JobSpec, scheduler: Scheduler, unseen: tuple[SiteName, ...], most: float
) -> Verdict:
    """Check a job against the empty grid."""
    sites = {name: site for name, site in scheduler.sites.items() if site.facts.admits(spec.owner)}
    try:
        if spec.split is not None:
            return Verdict(warnings=tuple(_check_split(spec, spec.split, scheduler, sites, unseen)))
        concerns = _check_components(spec, sites, set(unseen))
        concerns += _cut_warnings(spec, scheduler, sites)
        if spec.quorum is None:
            _check_sums(spec, sites)
        is_whole = spec.needed == len(spec.components)
        if not unseen and is_whole:
            _check_policy(spec, scheduler, sites)
        concerns += _check_together(spec, sites, unseen, most)
        if not unseen and is_whole:
            concerns += _placement_warnings(spec, scheduler, sites)
    except RejectedError as error:
        return Verdict(refusal=RejectedError(str(error), error.lack))  # without its frames
    return Verdict(warnings=tuple(concerns))


def _check_components(
    spec: JobSpec, sites: Mapping[SiteName, Site], unseen: set[SiteName]
) -> list[str]:
    """Check each component by itself; an optional one that is too large gives a warning."""
    if spec.queue is not None and spec.queue not in {*sites, *unseen}:
        known = ", ".join(sorted([*sites, *unseen])) or "none"
        message = f"queue {spec.queue!r} is of no site: known sites are {known}"
        raise RejectedError(message, Lack(site=spec.queue))
    concerns: list[str] = []
    for index, component in enumerate(spec.components):
        label = spec.label(index)
        try:
            for name in component.sites:
                if name not in unseen:
                    _require_site(label, name, sites, unseen)
            if component.site is None:
                able = _able(label, component, sites, spec.owner, is_known=not unseen)
                concerns += _awaited(label, component, able)
                _check_size(label, component.processors, able, unseen)
            elif component.site not in unseen:
                _require_site(label, component.site, sites, unseen)
                here = {component.site: sites[component.site]}
                able = _able(label, component, here, spec.owner, is_known=True)
                concerns += _awaited(label, component, able)
                _check_fixed(label, component.processors, sites[component.site])
        except _TooLargeError as error:
            if spec.quorum is None and component.start_type is StartType.STRICT:
                raise RejectedError(str(error), error.lack) from error
            concerns.append(f"{error}: it will not take part")
    return concerns


def _cut_warnings(spec: JobSpec, scheduler: Scheduler, sites: Mapping[SiteName, Site]) -> list[str]:
    """Warn of components whose hold and run together are longer than any site allows."""
    hold_s = scheduler.parameters.hold_s if spec.max_hold_s is None else spec.max_hold_s
    concerns = []
    for index, component in enumerate(spec.components):
        able = able_sites(component, sites, spec.owner).values()
        here = [site for site in able if component.site in (None, site.name)]
        cuts = [describe_cut(component, site, hold_s) for site in here]
        if cuts and all(cuts):
            concerns.append(f"component {spec.label(index)}: {'; '.join(cuts[:NAMES_MAX])}")
    return concerns


class _TooLargeError(RejectedError):
    """A component is larger than the sites where it may run, or needs what none of them has."""


def _able(
    label: str,
    component: ComponentSpec,
    sites: Mapping[SiteName, Site],
    owner: UserName,
    *,
    is_known: bool,
) -> Mapping[SiteName, Site]:
    """Return the sites that lack nothing for a component, as far as they have told what they have;
    there must be one if all are known."""
    able = able_sites(component, sites, owner)
    able |= {name: site for name, site in sites.items() if _may_come(component, site)}
    if is_known and sites and not able:
        message = f"component {label} {describe_lack(component, sites.values())}"
        raise _TooLargeError(message, Lack(component=label, site=component.site))
    return able


def _may_come(component: ComponentSpec, site: Site) -> bool:
    """Return True if a site may have soon what it lacks for a component."""
    return may_have_gpus(component, site) or may_be_reserved(component, site)


def _awaited(label: str, component: ComponentSpec, able: Mapping[SiteName, Site]) -> list[str]:
    """Warn of a component that waits for what sites do not have, as far as they have told."""
    if not able or not all(_may_come(component, site) for site in able.values()):
        return []
    lack = describe_lack(component, able.values())
    is_told = not any(may_have_gpus(component, site) for site in able.values())
    report = "another report" if is_told else "the first report"
    return [f"component {label} {lack}: it waits for {report} of its batch system"]


def _check_together(
    spec: JobSpec, sites: Mapping[SiteName, Site], unseen: tuple[SiteName, ...], most: float
) -> list[str]:
    """Check that all needed components fit at once: on all sites, on the registered ones, and on
    those that are usable now."""
    requirements, needed = requirements_of(spec), spec.needed
    if spec.distinct and needed > len(sites) + len(unseen):
        raise RejectedError(
            f"the job needs {needed} different sites: there are {len(sites) + len(unseen)}"
        )
    capacities = capacities_of(sites.values(), spec.owner, most)
    unknown = [Capacity(name, ANY) for name in unseen]
    if not may_fit(requirements, needed, [*capacities, *unknown]):
        raise RejectedError(
            f"the job can never start: {describe_misfit(requirements, needed, capacities)}"
            " (expected one that fits when nothing else runs)",
            Lack(
                wanted=sum(sorted(need.processors for need in requirements)[:needed]),
                had=int(sum(capacity.processors for capacity in capacities)),
            ),
        )
    if unknown and not may_fit(requirements, needed, capacities):
        return [
            f"{describe_misfit(requirements, needed, capacities)}; the job waits for sites that"
            f" have not registered yet, so their sizes are unknown: {_few(unseen)}"
        ]
    gpus = gpu_requirements_of(spec)
    is_known = not unseen and not any(
        may_have_gpus(component, site)
        for component in spec.components
        if component.gpus
        for site in sites.values()
    )
    if (
        gpus
        and is_known
        and not may_fit(gpus, len(gpus), gpu_capacities := gpu_capacities_of(sites.values()))
    ):
        asked = " + ".join(str(need.processors) for need in gpus)
        each = ", ".join(
            f"{capacity.name} has {capacity.processors:g}" for capacity in gpu_capacities
        )
        raise RejectedError(f"the job can never start: its components need {asked} GPUs; {each}")
    usable = [capacity for capacity in capacities if is_usable(sites[capacity.name])]
    if len(usable) < len(capacities) and not may_fit(requirements, needed, usable):
        away = [_state(site) for site in sites.values() if not is_usable(site)]
        return [
            f"{describe_misfit(requirements, needed, usable)}; the job waits for sites that cannot"
            f" be used now: {_few(away)}"
        ]
    return []


def _check_split(
    spec: JobSpec,
    split: Split,
    scheduler: Scheduler,
    sites: Mapping[SiteName, Site],
    unseen: tuple[SiteName, ...],
) -> list[str]:
    """Check that a flexible job can be split over the grid: the smallest component by itself, then
    all, on the registered sites and on those that are usable now."""
    smallest = spec.shaped((split.part_min,))
    concerns = _check_components(smallest, sites, set(unseen))
    concerns += _cut_warnings(smallest, scheduler, sites)
    rooms = empty_rooms(spec, sites.values())
    asked = f"{split.describe()}: {describe_unsplit(split, rooms)}"
    if not most_of(split, rooms):
        if unseen:
            return [*concerns, f"{asked}; the job waits for sites that have not registered yet"]
        if any(_may_come(smallest.components[0], site) for site in sites.values()):
            return concerns
        raise RejectedError(
            f"the job can never start: {asked} (expected bounds that fit when nothing else runs)",
            Lack(wanted=split.least, had=most_of(replace(split, least=1), rooms)),
        )
    usable = [room for room in rooms if is_usable(sites[room.site])]
    if not most_of(split, usable):
        away = [_state(site) for site in sites.values() if not is_usable(site)]
        concerns.append(
            f"{split.describe()}: {describe_unsplit(split, usable)}; the job waits for sites that"
            f" cannot be used now: {_few(away)}"
        )
    return concerns


def _state(site: Site) -> str:
    """Describe a site that cannot be used, with the reason."""
    why = "disconnected" if not site.is_connected else "drained" if site.is_drained else "unusable"
    return f"{site.name} ({why}, {site.facts.processors} processors)"


def _few(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


NAMES_MAX = 6


def _placement_warnings(
    spec: JobSpec, scheduler: Scheduler, sites: Mapping[SiteName, Site]
) -> list[str]:
    """Warn of a job for which the placement policy finds no place on the empty grid.

    Policies are heuristic: one that finds no place on an empty grid may find one on a busy grid, so
    this does not reject the job. A plain job that fits whole on one site needs no search.
    """
    demand = demand_of(spec, scheduler.parameters)
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
        f" {spec.label(answer.component)}: {answer.reason}): it may wait forever. Where its"
        " components run can be said with resourceManagerContact"
    ]


def bind_to_queue(spec: JobSpec, site: SiteName) -> JobSpec:
    """Bind a job to a site's local queue. Raises SpecError when it can only run elsewhere."""
    fixed = spec.components[0].site
    if spec.is_single and fixed not in (None, site):
        raise SpecError(
            f"queue {site!r}: the job's component runs at {fixed} (resourceManagerContact) and"
            " nowhere else (expected that site's queue)"
        )
    return spec.in_queue_of(site)


def warnings(
    spec: JobSpec, scheduler: Scheduler, listed: Mapping[SiteName, UserName | None]
) -> tuple[str, ...]:
    """Warn of attributes that no local manager of an eligible site honours, of demands that the
    placement policy ignores, and of routes that were not there."""
    ignored: dict[str, list[str]] = {}
    for index, component in enumerate(spec.components):
        given = _handed_fields(component)
        if not any(given):
            continue
        names = [row.name for row, value in zip(HANDED, given, strict=True) if value]
        honoured = _honoured(component.site, spec.owner, scheduler, listed)
        for name in names:
            if honoured is not None and name not in honoured:
                ignored.setdefault(name, []).append(spec.label(index))
    return (
        tuple(
            f"{name} is ignored: no site where component {', '.join(labels)} may run acts on it"
            for name, labels in ignored.items()
        )
        + tuple(
            f"{name} is ignored: the placement policy in force, {policy}, does not use it"
            for name, policy in _ignored_demands(spec, scheduler.policies.place)
        )
        + tuple(filter(None, [describe_routes(spec, scheduler)]))
        + tuple(_ports_without_way(spec, scheduler))
    )


def _ports_without_way(spec: JobSpec, scheduler: Scheduler) -> Iterator[str]:
    """Yield what the last test of paths between the job's sites has found closed, if it has ports
    that do not go through the grid there."""
    parts = spec.components if has_ports(spec) else ()
    named = {part.site for part in parts if part.site is not None}
    for name, target in permutations(named & scheduler.sites.keys(), 2):
        mute = [end for end in (name, target) if not scheduler.sites[end].facts.forwards]
        if mute and target in scheduler.sites[name].unreached:
            yield (
                f"ports need a route here: nodes of {name} did not reach those of {target} when a"
                f" job tried last, and {mute[0]} carries no connections"
            )


def _ignored_demands(spec: JobSpec, place: PlacementPolicy) -> Iterator[tuple[str, str]]:
    """Yield a job's demands (Hints 3.4) that a built-in policy ignores; plugins are not known."""
    policy = next((name for name, known in BUILT_IN["placement"].items() if known == place), "")
    supported = DEMANDS_SUPPORTED.get(policy, ())
    demands = {"hint": spec.hint, "length": spec.length_mi, "mips": spec.preferred_mips}
    for name, value in demands.items():
        if policy and value is not None and name not in supported:
            yield name, policy


HANDED = tuple(row for row in ATTRIBUTES if row.treatment is Treatment.HANDED)
"""Attributes for the local manager of a site, which may not act on them."""
_handed_fields = attrgetter(*(row.field for row in HANDED))

DEMANDS_SUPPORTED = {
    "NoNetwork": ("mips",),
    "PreferLocal": ("mips", "length"),
    "Service": ("mips", "length", "hint"),
}
"""Demands of a job that each placement policy takes into account."""


def _honoured(
    name: SiteName | None,
    owner: UserName,
    scheduler: Scheduler,
    listed: Mapping[SiteName, UserName | None],
) -> set[str] | None:
    """Return the attributes honoured by the local managers of a component's eligible sites; None
    while any of them is unknown."""
    seen = {known: s.facts.admits(owner) for known, s in scheduler.sites.items()}
    shown = {**{site: of in (None, owner) for site, of in listed.items()}, **seen}
    usable = [site for site, is_shown in shown.items() if is_shown and name in (None, site)]
    sites = [scheduler.sites.get(site) for site in usable]
    if not sites or None in sites:
        return None
    return {honoured for site in sites if site for honoured in site.facts.honours}


def with_progress(spec: JobSpec, scheduler: Scheduler) -> JobSpec:
    """Set the default progress policy on a job that names none."""
    default = scheduler.policies.progress_default
    if spec.progress is not None or default == "free":
        return spec
    return replace(spec, progress=default)


def _check_progress(spec: JobSpec, scheduler: Scheduler) -> None:
    known = scheduler.policies.progress
    if spec.progress is not None and spec.progress not in known:
        raise SpecError(f"progress = {spec.progress} (expected one of {', '.join(known)})")


def check_deadline(spec: JobSpec, now: Instant) -> None:
    """Check a job's deadline: it is not past, and every component has a barrier to wait at.

    Raises SpecError.
    """
    at = spec.deadline_at(now)
    if at is None:
        return
    if at <= now:
        raise SpecError(f"deadline {_instant(at)} lies in the past; now it is {_instant(now)}")
    for index, component in enumerate(spec.components):
        if component.start_type is StartType.NONE:
            raise SpecError(
                f"component {spec.label(index)} has no barrier, so it would start before the job's"
                f" deadline (expected the start type {StartType.STRICT.value} or"
                f" {StartType.LOOSE.value})"
            )


def _instant(at: Instant) -> str:
    """Format an instant by ISO 8601; seconds since 1970 where the calendar ends."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{at:g} s after 1970"


def _check_hold(spec: JobSpec, scheduler: Scheduler) -> None:
    """Check that maxHold exceeds the least value of D: a starter arms only if its hold outlasts
    D."""
    limits = scheduler.parameters
    least_s = limits.late_max_s + limits.lead_min_s
    if spec.max_hold_s is not None and spec.max_hold_s <= least_s:
        raise RejectedError(
            f"maxHold is {spec.max_hold_s:g} s, in which no start can be agreed on (expected more"
            f" than {least_s:g} s, {least_s / 60:.3g} minutes)"
        )


def _check_size(
    label: str, processors: int, sites: Mapping[SiteName, Site], unseen: set[SiteName]
) -> None:
    if unseen:
        return
    largest = max(sites.values(), key=lambda site: site.facts.processors, default=None)
    if largest is None:
        message = f"component {label}: there is no site that this user may use"
        raise RejectedError(message, Lack(component=label, wanted=processors, had=0))
    if processors > largest.facts.processors:
        raise _TooLargeError(
            f"component {label} wants {processors} processors: the largest site is {largest.name}"
            f" with {largest.facts.processors}",
            Lack(
                component=label,
                site=largest.name,
                wanted=processors,
                had=largest.facts.processors,
            ),
        )


def _require_site(
    label: str, name: SiteName, sites: Mapping[SiteName, Site], unseen: set[SiteName]
) -> None:
    if name not in sites:
        known = sorted([*sites, *unseen])
        raise RejectedError(
            f"component {label} wants site {name!r}: known sites are"
            f" {', '.join(known) or 'none'}{did_you_mean(name, known)}",
            Lack(component=label, site=name),
        )


def _check_fixed(label: str, processors: int, site: Site) -> None:
    if processors > site.facts.processors:
        raise _TooLargeError(
            f"component {label} wants {processors} processors at {site.name}, which has"
            f" {site.facts.processors}",
            Lack(component=label, site=site.name, wanted=processors, had=site.facts.processors),
        )


def _check_policy(spec: JobSpec, scheduler: Scheduler, sites: Mapping[SiteName, Site]) -> None:
    """Check that the policy can place the job on sites of unlimited size.

    With WF-distinct it cannot place a job with more components than there are sites.
    """
    request = PlacementRequest(
        parts=tuple(
            Part(component=index, processors=1, site=component.site)
            for index, component in enumerate(spec.components)
        ),
        user=spec.owner,
    )
    capacity = len(spec.components)
    views = [SiteView(name=name, processors=capacity, idle=capacity) for name in sites]
    grid = GridView(views, replicas={}, bandwidth={}, bandwidth_default=1.0)
    answer = scheduler.policies.place(request, grid)
    if isinstance(answer, Unplaceable):
        label = spec.label(answer.component)
        raise RejectedError(f"component {label}: {answer.reason}", Lack(component=label))


def _check_sums(spec: JobSpec, sites: Mapping[SiteName, Site]) -> None:
    """Check that components which must start together at one site fit there together."""
    sums: dict[SiteName, int] = {}
    for component in spec.components:
        site = component.site
        if site is not None and site in sites and component.start_type is StartType.STRICT:
            sums[site] = sums.get(site, 0) + occupied(component, sites[site].facts)
    for name, processors in sums.items():
        if processors > sites[name].facts.processors:
            raise RejectedError(
                f"{name} has {sites[name].facts.processors} processors; the job wants {processors}"
                " there",
                Lack(site=name, wanted=processors, had=sites[name].facts.processors),
            )
