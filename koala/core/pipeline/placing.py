"""Placement tries (KOALA 3.1)."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace

from koala.common.protocol.messages import RESOURCES
from koala.core import queries
from koala.core.allowances import excess_of
from koala.core.feasibility import empty_view
from koala.core.model.grid import (
    Assignment,
    GridView,
    Placement,
    Site,
)
from koala.core.model.job import Attempt, Claiming, Job, Member, Placing, Queued
from koala.core.model.job_spec import ComponentSpec
from koala.core.model.placement_queues import queued_at
from koala.core.model.timers import TimerKind
from koala.core.model.values import Instant, SiteName, UserName
from koala.core.model.visiting import is_draining_for_aged
from koala.core.pipeline.claiming import try_to_claim
from koala.core.pipeline.claiming_schedule import first_try_at, tries_left
from koala.core.pipeline.copying import add_site, assign_member
from koala.core.pipeline.ending import fail, stop_attempt
from koala.core.pipeline.placement_requests import (
    ask_placement,
    shaped_request,
    whole_request,
)
from koala.core.pipeline.queue_entry import admit, set_timer
from koala.core.pipeline.refusals import sites_closed_to, without_closed_sites
from koala.core.pipeline.tickets.eligibility import (
    are_others_in_the_way,
    may_wait_in_queues,
    tickets_left,
)
from koala.core.pipeline.tickets.plans import expect_at_once, queue_job
from koala.core.resources import describe_missing, needs_resources, occupied
from koala.core.sites import is_usable
from koala.core.splitting import empty_rooms, most_of
from koala.core.state import State
from koala.core.ticket_sites import (
    by_expected_wait,
    full_queues,
    held_room,
    sites_of,
    stands_in_line,
)


def place_timed(state: State, now: Instant) -> None:
    """Place jobs with a deadline and a file as soon as possible, so that the file is copied early.
    They are claimed no earlier for that.
    """
    waiting = [job for job in state.queues.timed.values() if job.spec.all_inputs]
    if waiting:
        view = queries.grid_view_of(state)
        for job in waiting:
            try_to_place(state, job, view, now)
        admit(state, now)


def on_try_due(state: State, job: Job, now: Instant) -> None:
    """Try a job with a deadline that is not placed yet: its components are placed and claimed
    together, in this try or a later one (Deadlines 2.2).
    """
    left = tries_left(state, job)
    if not isinstance(job.phase, Placing) or not left:
        return
    due_at = left[0]  # grace times or parameters may have changed since the timer was set
    if job.attempts < job.attempt_min:  # an attempt in a lost part of the journal may live
        due_at = max(due_at, job.not_before)
    if due_at > now:
        set_timer(state, job, TimerKind.TRY, due_at, now)
        return
    if excess_of(state, job):
        later = [at for at in left if at > now]
        if later:
            set_timer(state, job, TimerKind.TRY, later[0], now)
        return
    view = queries.grid_view_of(state)
    placement = Placement(assignments=())
    if job.spec.split is not None:  # its components must be known before they are tried
        fit = without_closed_sites(state, job, queries.view_for(state, job, view, now), now)
        placement = ask_placement(state, job, whole_request(state, job, now), fit) or placement
    place(state, job, placement, view, now)
    admit(state, now)


class CapacityCheck:
    """Capacity of the usable sites if all of them were idle."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._sites = {site.name: site for site in state.sites.values() if is_usable(site)}
        self._largest: dict[tuple[UserName, tuple[SiteName, ...]], int] = {}

    def can_take(self, job: Job, closed: tuple[SiteName, ...] = ()) -> bool:
        """Return True if every component that the job needs fits some site that is not closed to
        it, and no limit of its user or group is in the way. A job that waits for a disconnected
        site, or for other jobs of its group, must not block the others."""
        if excess_of(self._state, job):
            return False
        if job.spec.split is not None:
            open_ = [site for name, site in self._sites.items() if name not in closed]
            return most_of(job.spec.split, empty_rooms(job.spec, open_)) > 0
        fitting = 0
        for index, component in enumerate(job.spec.components):
            fixed = queries.fixed_site(job, index)
            owner = job.spec.owner
            shut = closed
            if needs_resources([component], self._sites.values()):
                lacking = [
                    n for n, site in self._sites.items() if describe_missing(component, site)
                ]
                shut = (*closed, *lacking)
            most = self._most(owner, shut) if fixed is None else self._at(fixed, owner, shut)
            if most >= component.processors:
                fitting += 1
            elif not queries.is_optional_member(job, index):
                return False
        return fitting >= job.needed

    def _at(self, name: SiteName, owner: UserName, closed: tuple[SiteName, ...]) -> int:
        site = None if name in closed else self._sites.get(name)
        return site.facts.processors if site is not None and site.facts.admits(owner) else 0

    def _most(self, owner: UserName, closed: tuple[SiteName, ...]) -> int:
        key = (owner, closed)
        if key not in self._largest:
            sizes = (self._at(name, owner, closed) for name in self._sites)
            self._largest[key] = max(sizes, default=0)
        return self._largest[key]


def reserves_for_aged(state: State, job: Job, now: Instant) -> bool:
    """Return True while an aged job stops backfilling, if an empty grid could take it.

    See `is_draining_for_aged`: the pause alternates, so that other jobs do not starve."""
    if not is_draining_for_aged(now - queued_at(job), state.parameters.ageing_s):
        return False
    if excess_of(state, job):
        return False
    closed = sites_closed_to(state, job, now)
    empty = empty_grid_view(state, job, closed)
    return ask_placement(state, job, whole_request(state, job, now), empty) is not None


def empty_grid_view(state: State, job: Job, closed: Collection[SiteName] = ()) -> GridView:
    """Make the view of the usable sites that the job may see, as if nothing ran there."""
    default = state.parameters.bandwidth_default_bps
    sites = _sites_for(state, job)
    return empty_view(sites, files=state.files, bandwidth_default=default, closed=closed)


def _queues_view(state: State, job: Job, closed: Collection[SiteName]) -> GridView:
    """Make the view of the sites in whose queues a job may wait: processors and links that others
    use come free, bandwidth that is booked does not."""
    return empty_view(
        _sites_for(state, job),
        files=state.files,
        bandwidth_default=state.parameters.bandwidth_default_bps,
        closed=closed,
        room=held_room,
        free=queries.free_bandwidth(state),
    )


def _sites_for(state: State, job: Job) -> list[Site]:
    """Return the usable sites that the job may see."""
    owner = job.spec.owner
    return [site for site in state.sites.values() if is_usable(site) and site.facts.admits(owner)]


def try_to_place(state: State, job: Job, view: GridView, now: Instant) -> bool:
    """Try to place a job (KOALA 3.1); return True if it was placed."""
    if now < job.not_before:
        return False
    state.fresh.pop(job.id, None)
    if excess_of(state, job):
        return False
    job.placement_tries += 1
    fit = queries.view_for(state, job, view, now)
    seen = without_closed_sites(state, job, fit, now) if job.refusals else fit
    needed = job.needed
    is_whole = needed == len(job.spec.components)
    size, of = job.room_min
    if is_whole and not seen.may_take(size, of=of):
        placement = None  # needs no policy: long queues are scanned often
    else:
        placement = find_placement(state, job, seen, needed, now)
    if placement is not None:
        place(state, job, placement, view, now)
        return True
    if may_wait_in_queues(state, job) and place_in_queues(state, job, now):
        return True
    limit = state.parameters.placement_tries_max
    if limit and job.placement_tries >= limit:
        fail(state, job, f"not placed in {limit} placement tries", now)
    return False


def find_placement(
    state: State, job: Job, view: GridView, needed: int, now: Instant
) -> Placement | None:
    """Find sites for all components if possible, else for as many as the job needs to start. The
    largest optional ones are tried first.
    """
    if needed == len(job.spec.components):
        return find_whole_placement(state, job, view, now)
    request = whole_request(state, job, now)
    answer = ask_placement(state, job, request, view)
    if answer is not None:
        return answer
    assignments: list[Assignment] = []
    trial = view.copy()
    for part in sorted(
        request.parts, key=lambda p: (queries.is_optional_member(job, p.component), -p.processors)
    ):
        beside = tuple(assignment.site for assignment in assignments)
        placement = ask_placement(state, job, replace(request, parts=(part,), beside=beside), trial)
        if placement is not None:
            assignments.append(placement.assignments[0])
            take(state, job, placement.assignments[0], trial)
        elif not queries.is_optional_member(job, part.component):
            break
    is_enough = len(assignments) >= needed and all(
        queries.is_optional_member(job, index) or any(a.component == index for a in assignments)
        for index in range(len(job.spec.components))
    )
    return Placement(assignments=tuple(assignments)) if is_enough else None


def find_whole_placement(state: State, job: Job, view: GridView, now: Instant) -> Placement | None:
    """Find sites for all components. If its largest ones cannot all fit, or an equal request was
    refused in this scan, the policy is not asked; the answer is recorded all the same."""
    if job.spec.split is None:
        largest = [
            component for component in job.spec.components if component.processors == job.largest
        ]
        if view.places(job.largest) < len(largest):
            return _refused(state)
    shape = _shape(state, job)
    if view.has_refused(shape):
        return _refused(state)
    answer = ask_placement(state, job, whole_request(state, job, now), view)
    if answer is None and job.deadline_at is None:
        view.refuse(shape)
    return answer


def _refused(state: State) -> Placement | None:
    """Record a refusal that is known without the policy; in a replay, return what was recorded."""
    answer = state.recorder.ask(lambda: None)
    assert answer is None or isinstance(answer, Placement), answer
    return answer


def _shape(state: State, job: Job) -> Hashable:
    """Cache key of a placement request of a job without a deadline, within one scan."""
    spec = job.spec
    return (
        spec.owner,
        spec.queue,
        job.queue,
        spec.input_files,
        spec.input_mode,
        spec.hint,
        spec.length_mi,
        spec.preferred_mips,
        spec.distinct,
        spec.split,
        tuple([(c.processors, c.site, c.inputs, _needs(c, state)) for c in spec.components]),
    )


def _needs(component: ComponentSpec, state: State) -> Hashable:
    """Return the part of a cache key for what a component needs beside processors."""
    is_shared = not component.is_exclusive and not component.hosts
    if is_shared and not needs_resources([component], state.sites.values()):
        return None
    return (
        component.wall_time_s,
        component.sites,
        *[getattr(component, name) for name in RESOURCES],
    )


def place(state: State, job: Job, placement: Placement, view: GridView, now: Instant) -> None:
    """Dequeue a placed job; start its attempt and transfers, schedule claiming (KOALA 3.2)."""
    attempt = begin_attempt(state, job, placement, view, now)
    view.close_probed(a.site for a in placement.assignments)
    claim_at = first_try_at(state, job, attempt)
    sites = ", ".join([_named(job, member) for member in attempt.members])
    text = f"placed on {sites}" if placement.assignments else "its deadline is near"
    state.enter(job, Claiming(attempt=attempt, claim_at=claim_at), text, now)
    if claim_at <= now:
        try_to_claim(state, attempt, now)
        view.close(queries.sites_with_full_window(state))
    else:
        state.timers.set(claim_at, TimerKind.CLAIM, job.id)


def _named(job: Job, member: Member) -> str:
    """Name the site of a component for people, and its share of a flexible job."""
    site = member.site or "nowhere yet"
    if job.spec.split is None:
        return site
    return f"{site} ({job.spec.components[member.component].processors})"


def place_in_queues(state: State, job: Job, now: Instant) -> bool:
    """Place a job at sites that could take it if they were idle, where jobs of others are in the
    way, and queue tickets there; return False if it must wait for a place."""
    closed = {*sites_closed_to(state, job, now), *full_queues(state)}
    placement = _find_queues(state, job, closed, now)
    if placement is None:
        return False
    asked: dict[SiteName, int] = {}
    for assignment in placement.assignments:
        asked[assignment.site] = asked.get(assignment.site, 0) + _size_of(job, assignment)
    is_in_the_way = any(are_others_in_the_way(state, site, asked[site]) for site in asked)
    if not is_in_the_way and not job.spec.is_reserved:
        return False
    view = _queues_view(state, job, closed)
    attempt = begin_attempt(state, job, placement, view, now)
    _add_sites(state, job, attempt, view, now)
    queue_job(state, job, attempt, now)
    return True


def _find_queues(
    state: State, job: Job, closed: Collection[SiteName], now: Instant
) -> Placement | None:
    """Find sites for the components of a job, as if nothing ran there: those with the shortest
    queues at which it fits, beside those that it asks for."""
    every = [site.name for site in by_expected_wait(state, job) if site.name not in closed]
    view = _queues_view(state, job, closed)
    request = whole_request(state, job, now)
    fixed = tuple([part for part in request.parts if part.site is not None])
    free = tuple([part for part in request.parts if part.site is None])
    first: tuple[Assignment, ...] = ()
    if fixed and job.needed == len(request.parts):
        answer = ask_placement(state, job, replace(request, parts=fixed), view)
        if answer is None or not free:
            return answer
        first = answer.assignments
        for assignment in first:
            component = job.spec.components[assignment.component]
            view.take(assignment.site, component.processors, component.gpus or 0)
            view.book(assignment)
        request = replace(
            request, parts=free, beside=tuple([assignment.site for assignment in first])
        )

    def find(count: int) -> Placement | None:
        trial = view.copy()
        trial.close(every[count:])
        if not first:
            answer = find_placement(state, job, trial, job.needed, now)
            is_too_many = answer is not None and len(answer.assignments) > tickets_left(state, job)
            return None if is_too_many else answer
        answer = ask_placement(state, job, request, trial)
        return answer and Placement(assignments=(*first, *answer.assignments))

    low, high = 1, len(every)
    best = find(high)
    while best is not None and low < high:
        middle = (low + high) // 2
        fewer = find(middle)
        if fewer is None or _worth(job, fewer) < _worth(job, best):
            low = middle + 1
        else:
            high, best = middle, fewer
    return best


def _size_of(job: Job, assignment: Assignment) -> int:
    """Return the processors of a component that is to be placed there."""
    return assignment.processors or job.spec.components[assignment.component].processors


def _worth(job: Job, placement: Placement) -> int:
    """Return how much of a job is placed: components, or processors of a flexible one."""
    placed = placement.assignments
    return len(placed) if job.spec.split is None else sum([a.processors for a in placed])


def _add_sites(state: State, job: Job, attempt: Attempt, view: GridView, now: Instant) -> None:
    """Give components that may run elsewhere further sites, as many as the job asks for, and all
    that they name, the shortest queues first. Whatever they choose in the end fits together."""
    wanted = [max(job.spec.redundancy, len(part.sites)) for part in job.spec.components]
    if max(wanted) < 2:
        return
    request = shaped_request(state, job, now)
    order = [site.name for site in by_expected_wait(state, job)]
    for number in range(1, max(wanted)):
        for member in attempt.members:
            part = request.parts[member.component]
            is_free = part.site is None and number < wanted[member.component]
            if member.site is None or not is_free:
                continue
            used = attempt.members if job.spec.distinct else [member]
            beside = [site for each in used if each.site is not None for site in sites_of(each)]
            for name in order:
                if name in beside:
                    continue
                trial = view.copy()
                trial.close(site for site in order if site != name)
                single = replace(request, parts=(part,), beside=tuple(beside))
                answer = ask_placement(state, job, single, trial)
                if answer is not None:
                    take(state, job, answer.assignments[0], view)
                    add_site(state, attempt, member, answer.assignments[0], now)
                    break


def move_to_idle_sites(state: State, now: Instant) -> None:
    """Place queued jobs that idle processors could take now: the tickets that they have elsewhere
    are withdrawn. One that waits at these sites already only has its tickets opened."""
    waiting = [a for a in state.placed.values() if isinstance(state.jobs[a.job].phase, Queued)]
    if not waiting:
        return
    view = queries.grid_view_of(state)
    for attempt in waiting:
        job = state.jobs[attempt.job]
        fit = queries.view_for(state, job, view, now)
        seen = without_closed_sites(state, job, fit, now) if job.refusals else fit
        again_at = attempt.placed_at + state.parameters.ticket_plan_s
        size, of = job.room_min
        if (job.attempts > 1 and now < again_at) or not seen.may_take(size, of=of):
            continue
        placement = ask_placement(state, job, whole_request(state, job, now), seen)
        if placement is None:
            continue
        sites = [assignment.site for assignment in placement.assignments]
        if _is_placed_so(state, job, attempt, placement):
            for assignment in placement.assignments:
                take(state, job, assignment, view)
            expect_at_once(state, attempt, sites, now)
            continue
        state.announce(job, f"leaves the queues: {', '.join(sites)} can take it now", now)
        stop_attempt(state, attempt, now)
        state.remove_attempt(job)
        place(state, job, placement, view, now)


def _is_placed_so(state: State, job: Job, attempt: Attempt, placement: Placement) -> bool:
    """Return True if the components of a queued job wait where they would be placed now."""
    placed = placement.assignments
    if len(placed) != len(attempt.members):
        return False
    return all(
        stands_in_line(state, attempt.members[a.component], a.site)
        and _size_of(job, a) == job.spec.components[a.component].processors
        for a in placed
    )


def take(state: State, job: Job, assignment: Assignment, view: GridView) -> None:
    """Count what a component that is placed there takes from its site and its link."""
    component = job.spec.components[assignment.component]
    processors = occupied(component, state.sites[assignment.site].facts)
    view.take(assignment.site, processors, component.gpus or 0)
    view.book(assignment)


def begin_attempt(
    state: State, job: Job, placement: Placement, view: GridView, now: Instant
) -> Attempt:
    """Dequeue a placed job and start its attempt with the copies of its files. A flexible job gets
    the components that it was split into."""
    if job.spec.split is not None and placement.assignments:
        job.respecify(job.spec.shaped(tuple([a.processors for a in placement.assignments])))
    by_component = {assignment.component: assignment for assignment in placement.assignments}
    transfer_s = max((a.transfer_s for a in placement.assignments), default=0.0)
    job.attempts = max(job.attempts + 1, job.attempt_min)
    attempt = Attempt(
        job=job.id,
        number=job.attempts,
        placed_at=now,
        transfer_s=transfer_s,
        start_at=now + transfer_s if job.deadline_at is None else job.deadline_at,
        members=[
            Member(component=index, site=None, start_type=component.start_type)
            for index, component in enumerate(job.spec.components)
        ],
    )
    if job.first_start_at is None:
        job.first_start_at = attempt.start_at
    state.add_attempt(job, attempt)
    state.queues.remove(job)
    for member in attempt.members:
        assignment = by_component.get(member.component)
        if assignment is not None:
            take(state, job, assignment, view)
            assign_member(state, attempt, member, assignment, now)
    return attempt
