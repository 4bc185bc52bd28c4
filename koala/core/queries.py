"""Read-only queries of the state, shared by several steps of the pipeline."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from koala.common.protocol.queue_limits import END_S, hold_room_s, limit_of
from koala.core.model.claim import Asked, Claim
from koala.core.model.grid import (
    Demand,
    GridView,
    Link,
    Placement,
    PlacementRequest,
    Site,
    Unplaceable,
)
from koala.core.model.job import Attempt, Claiming, Job, Member
from koala.core.model.job_spec import InputFile, InputMode, JobSpec, StartType
from koala.core.model.parameters import Parameters
from koala.core.model.placement_queues import local_site
from koala.core.model.replicas import Transfer
from koala.core.model.timeline import chunk
from koala.core.model.values import FOREVER, Instant, JobId, SiteName, TransferId
from koala.core.policy_api import PlacementPolicy, on_distinct_sites
from koala.core.resources import (
    needs_resources,
    occupied,
    respecting_resources,
    site_times,
    takes_more,
)
from koala.core.sites import site_views
from koala.core.splitting import within_rooms
from koala.core.state import State


def fixed_site(job: Job, component: int) -> SiteName | None:
    """Return the only site where the component may run: the one it asks for, or that of the local
    queue which a job of one component has joined (Multiple queues 2.5)."""
    asked = job.spec.components[component].site
    if asked is None and job.spec.is_single:
        return local_site(job.queue)
    return asked


def is_optional_member(job: Job, component: int) -> bool:
    """Return True if the job can start without this component."""
    if job.spec.quorum is not None or job.spec.is_malleable:
        return True
    return job.spec.components[component].start_type is not StartType.STRICT


def is_enough(job: Job, members: Sequence[Member]) -> bool:
    """Return True if a job can start, or go on, with these members: those of a malleable one have
    its least processors together."""
    if job.spec.split is not None and job.spec.is_malleable:
        sizes = [job.spec.components[member.component].processors for member in members]
        return sum(sizes) >= job.spec.split.least
    return len(members) >= job.needed


def placement_policy(state: State, job: Job) -> PlacementPolicy:
    """Return the placement policy for a job."""
    place = state.policies.place
    sites = state.sites.values()
    if needs_resources(job.spec.components, sites) or takes_more(job.spec, sites):
        place = respecting_resources(place, job.spec, state.sites)
    if job.spec.distinct:
        place = on_distinct_sites(place)
    if job.spec.split is None:
        return place
    split = within_rooms(state.policies.split, job.spec, state.sites)

    def place_any(request: PlacementRequest, view: GridView) -> Placement | Unplaceable:
        return (place if request.split is None else split)(request, view)

    return place_any


def part_of_file(state: State, job: Job, component: int) -> tuple[int, int]:
    """Return the offset and size of the part of the input files that a component reads."""
    size_bytes = sum([_size_of(state, file) for file in job.spec.inputs_of(component)])
    if job.spec.input_mode is InputMode.WHOLE:
        return 0, size_bytes
    return chunk([c.processors for c in job.spec.components], component, size_bytes)


def _size_of(state: State, file: InputFile) -> int:
    replica = state.files.replicas.get(file.name)
    return replica.size_bytes if replica is not None else file.size_bytes or 0


def demand_of(spec: JobSpec, parameters: Parameters) -> Demand:
    """Return the demand of a job on processors and links, completed by the parameters."""
    preferred = parameters.preferred_mips if spec.preferred_mips is None else spec.preferred_mips
    hint = spec.hint
    deviation = None if hint is None else hint.deviation
    return Demand(
        preferred_mips=preferred,
        length_mi=spec.length_mi or 0.0,
        hint="" if hint is None else hint.kind,
        deviation=parameters.hint_deviation if deviation is None else deviation,
    )


def booked_bandwidth(state: State) -> dict[Link, float]:
    """Return the bytes a second that are booked on each link: by copies until they are done, and on
    a site's own link by members that read there, until the attempt is over."""
    sums: dict[Link, float] = {}
    for transfer in state.files.transfers.values():
        if transfer.booked_bps and not transfer.is_done:
            link = (transfer.source, transfer.target)
            sums[link] = sums.get(link, 0.0) + transfer.booked_bps
    for attempt in state.placed.values():
        for member in attempt.present:
            if member.booked_bps and member.site is not None:
                link = (member.site, member.site)
                sums[link] = sums.get(link, 0.0) + member.booked_bps
    return sums


def free_bandwidth(state: State) -> dict[Link, float]:
    """Return the bandwidth that is still free on each bookable link."""
    if not state.files.bookable:
        return {}
    sums = booked_bandwidth(state)
    return {link: max(0.0, bps - sums.get(link, 0.0)) for link, bps in state.files.bookable.items()}


def free_slots(state: State) -> dict[SiteName, int]:
    """Return the number of further claims that each site with a limit takes."""
    left = {s.name: s.facts.slots for s in state.sites.values() if s.facts.slots is not None}
    for claim in state.ledger.values() if left else ():
        if claim.site in left:
            left[claim.site] -= 1
    return left


def view_for(state: State, job: Job, view: GridView, now: Instant) -> GridView:
    """Return the view with the processors that are idle for a job: as long as its claims last, and
    in the reservations that it names."""
    names = {component.reservation for component in job.spec.components}
    seen = _view_until_end(state, job, view, now)
    if names == {None}:
        return seen
    slots, full = view.slots(), sites_with_full_window(state)
    reserved = {
        name: rooms
        for name in [site.name for site in view.sites]
        if not state.sites[name].is_probing and slots.get(name, 1) > 0 and name not in full
        if (rooms := rooms_of(state, state.sites[name], names))
    }
    return seen.within(reserved, is_mixed=None in names)


def rooms_of(state: State, site: Site, names: Collection[str | None]) -> dict[str, int]:
    """Return what is idle in reservations of a site, without claims that were asked since."""
    rooms = {name: idle for name, idle in site.reservations or () if name in names}
    for claim in [state.ledger[name] for name in site.unreported if rooms]:
        inside = state.jobs[claim.job].spec.components[claim.component].reservation
        if inside in rooms and not claim.is_ticket:
            rooms[inside] -= claim.processors
    return rooms


def _view_until_end(state: State, job: Job, view: GridView, now: Instant) -> GridView:
    """Return the view with the processors that are idle for as long as a job's claims last: no
    longer than their time limits."""
    if not view.sites_with_holes:
        return view
    hold_s = hold_max_s(state, job)
    ends = {}
    for name in view.sites_with_holes:
        limits_s = []
        for component in job.spec.components:
            times = site_times(component, state.sites[name])
            limit_s = limit_of(hold_s, component.wall_time_s, END_S, times)
            limits_s.append(times.usual_s if limit_s == FOREVER else limit_s)
        ends[name] = now + max(limits_s)
    return view.until(ends)


def hold_max_s(state: State, job: Job) -> float:
    """Return the longest hold of a job's claims: the job's own limit, else the parameter; less
    where a queue's longest time leaves less beside the run."""
    hold_s = state.parameters.hold_s if job.spec.max_hold_s is None else job.spec.max_hold_s
    attempt = state.placed.get(job.id)
    for member in () if attempt is None else attempt.present:
        site = None if member.site is None else state.sites[member.site]
        if site is not None and site.facts.resources.queues:
            component = job.spec.components[member.component]
            room_s = hold_room_s(component.wall_time_s, site_times(component, site))
            hold_s = min(hold_s, room_s)
    return hold_s


def hold_before_start_s(state: State, job: Job) -> float:
    """Return the longest time before its JST at which a job may be claimed. A starter promises to
    wait until D only within its hold, so the rest of the hold at the JST must outlast the
    arming."""
    hold_s = hold_max_s(state, job)
    arming_s = state.parameters.lead_max_s + state.parameters.late_max_s
    return hold_s - min(arming_s, hold_s / 2)


def starts_early(state: State, job: Job) -> bool:
    """Return True if the job starts as soon as all its files and claims are there, and its JST is
    only a limit. A job with a deadline starts at its deadline instead."""
    return state.parameters.start == "early" and job.deadline_at is None


def files_arrive_at(state: State, job: Job, attempt: Attempt) -> Instant:
    """Return the estimated arrival of all input files of a job's attempt; the JST at the latest."""
    lacking = [member for member in attempt.present if member.lacks_file]
    if not lacking:
        there_at = attempt.placed_at if attempt.fetched_at is None else attempt.fetched_at
        return min(there_at, attempt.start_at)
    if job.awaits_files:
        return attempt.start_at
    copies = [
        copy for copy_id in lacking for copy in copies_under_way(state, copy_id, copy_id.site)
    ]
    expected = [copy.expected_at for copy in copies]
    return min(max(expected, default=attempt.start_at), attempt.start_at)


def copies_to(state: State, member: Member, site: SiteName | None) -> tuple[TransferId, ...]:
    """Return the copies that bring a member's input files to one of its sites."""
    known = state.files.transfers
    return tuple(
        [
            copy_id
            for copy_id in member.transfers
            if copy_id not in known or known[copy_id].target == site
        ]
    )


def copies_under_way(state: State, member: Member, site: SiteName | None) -> list[Transfer]:
    """Return those of them that have not arrived."""
    copies = [state.files.transfers.get(copy_id) for copy_id in copies_to(state, member, site)]
    return [copy for copy in copies if copy is not None and not copy.is_done]


def describe(job: Job, member: Member) -> str:
    """Name a member for people: label, site, and the reason of its last refusal."""
    why = f" ({member.refusal})" if member.refusal else ""
    return f"{job.spec.label(member.component)} at {member.site or 'no site'}{why}"


def live_attempt(state: State, job: JobId, number: int) -> Attempt | None:
    """Return the live attempt of a job, if it has this number."""
    attempt = state.placed.get(job)
    return attempt if attempt is not None and attempt.number == number else None


def member_of(state: State, claim: Claim) -> tuple[Attempt, Member] | None:
    """Return the attempt and member of a claim; None if one of them is not the current one."""
    attempt = live_attempt(state, claim.job, claim.attempt)
    member = attempt.members[claim.component] if attempt is not None else None
    return (attempt, member) if attempt and member and member.claim == claim.id else None


def ticket_of(state: State, claim: Claim) -> tuple[Attempt, Member] | None:
    """Return the attempt and member that a ticket waits for; None if it is not wanted any more."""
    attempt = live_attempt(state, claim.job, claim.attempt)
    member = attempt.members[claim.component] if attempt is not None else None
    return (attempt, member) if attempt and member and claim.id in member.tickets else None


def claim_of(state: State, member: Member) -> Claim | None:
    """Return the newest claim of a member, if it is not gone."""
    return state.ledger.get(member.claim) if member.claim is not None else None


def claims_of(state: State, members: list[Member]) -> list[Claim]:
    """Return the newest claims of members, without those that are gone."""
    claims = [claim_of(state, member) for member in members]
    return [claim for claim in claims if claim is not None]


def unanswered(state: State, attempt: Attempt) -> list[Claim]:
    """Return the claims of an attempt that no site has answered."""
    claims = claims_of(state, attempt.present)
    return [claim for claim in claims if isinstance(claim.phase, Asked)]


def is_held(state: State, member: Member) -> bool:
    """Return True if a member's claim was granted, or if the member has ended."""
    claim = claim_of(state, member)
    has_ended = member.end is not None
    return has_ended or (claim is not None and not isinstance(claim.phase, Asked))


def address_of(state: State, claim: Claim) -> str:
    """Return the address of the claim's programs for other sites: that of its site, else of its
    starter."""
    return state.sites[claim.site].facts.address or (claim.grant.address if claim.grant else "")


def grid_view_of(state: State, asking: Job | None = None) -> GridView:
    """Make the view of the grid for policies. Placements and claims of the asking job itself do not
    count against it.
    """
    own = None if asking is None else asking.id
    views = site_views(
        state.sites,
        placed=placed_processors(state, own) if state.parameters.count_placed else {},
        busy=(claim for claim in state.ledger.values() if claim.job != own),  # seldom looked at
        slots=free_slots(state),
        closed=sites_with_full_window(state) if asking is None else (),
    )
    return GridView(
        views,
        replicas=state.files.replicas,
        bandwidth=state.files.bandwidth,
        bandwidth_default=state.parameters.bandwidth_default_bps,
        free=free_bandwidth(state),
        round_trips=state.files.round_trips,
        known=state.sites,
    )


def sites_with_full_window(state: State) -> list[SiteName]:
    """Return the sites whose window of unanswered claims is full; no job is placed there now.

    A site that gets more claims than it can start within its grace time refuses some, which come
    back as new claims: such a grid could be busy and run nothing. As congestion control, the window
    doubles with each windowful of grants up to `claims_open_max`; a refusal halves it, and from the
    first one on it grows by one for each windowful.
    """
    limit = state.parameters.claims_open_max
    if not limit:
        return []
    asked: dict[SiteName, int] = {}
    for claim in state.ledger.values():
        if claim.grant is None and not claim.may_run and not claim.is_ticket:
            asked[claim.site] = asked.get(claim.site, 0) + 1
    return [
        site
        for site, claims in asked.items()
        if claims >= min(limit, int(state.sites[site].window))
    ]


def placed_processors(state: State, own: JobId | None) -> dict[SiteName, tuple[int, int]]:
    """Return the processors and GPUs that other jobs have placed and not yet claimed, by site
    (option `count_placed`).
    """
    counts: dict[SiteName, tuple[int, int]] = {}
    for attempt in state.placed.values():
        job = state.jobs[attempt.job]
        if not isinstance(job.phase, Claiming) or job.id == own:
            continue
        if job.deadline_at is not None and not job.phase.is_tried:
            continue  # its time has not come
        for member in attempt.present:
            if member.claim is None and member.site is not None:
                component = job.spec.components[member.component]
                processors, gpus = counts.get(member.site, (0, 0))
                gpus += component.gpus or 0
                processors += occupied(component, state.sites[member.site].facts)
                counts[member.site] = (processors, gpus)
    return counts
