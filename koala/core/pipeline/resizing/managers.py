"""When running malleable jobs grow, and when they give way (Buisson et al. 2007).

With precedence to waiting jobs (`resize_first`), what is idle goes to them first. If the first of
them would have a place if malleable jobs gave way, these are asked to, as far as it needs; no job
grows meanwhile. With precedence to running jobs, these grow first, and none gives way.

Who grows by how much, and who gives way, is the answer of a policy for each site. The paper leaves
open how often; here a job is resized at most once in `resize_step_s`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product

from koala.core.allowances import excess_of, room_of
from koala.core.model import events as ev
from koala.core.model.grid import Assignment, GridView, Part, Placement, PlacementRequest
from koala.core.model.job import Attempt, Job, Member, Running
from koala.core.model.values import Instant, Priority, SiteName
from koala.core.pipeline.placement_requests import ask_placement, whole_request
from koala.core.pipeline.refusals import sites_closed_to, without_closed_sites
from koala.core.pipeline.resizing.growth import grow
from koala.core.pipeline.resizing.leaving import ask_to_leave, leaving_members, processors_of
from koala.core.policy_api import MalleableJob, ResizePlan, ResizeQuestion
from koala.core.queries import fixed_site, grid_view_of, part_of_file, rooms_of
from koala.core.resources import describe_missing, occupied
from koala.core.state import State


def resize_before_scan(state: State, now: Instant) -> None:
    """Let running jobs grow before waiting ones are placed, if they have precedence."""
    for attempt in state.malleable.values():
        _keep_within_total(state, attempt, now)
    if state.malleable and state.parameters.resize_first == "running":
        grow_running(state, now)


def resize_after_scan(state: State, now: Instant) -> None:
    """Let running jobs give way to the first waiting one, or grow if that does not help it."""
    if not state.malleable or state.parameters.resize_first == "running":
        return
    if any(leaving_members(attempt) for attempt in state.malleable.values()):
        return  # what they give back is spoken for
    if not _make_room(state, now):
        grow_running(state, now)


def on_resize_requested(state: State, event: ev.JobResizeRequested, now: Instant) -> None:
    """Give a malleable job another total; a running one grows up to it, or gives way."""
    job = state.jobs.get(event.job)
    if job is None or job.has_ended or job.spec.split is None or not job.spec.is_malleable:
        return
    total = max(job.spec.split.least, event.total)
    job.respecify(replace(job.spec, split=replace(job.spec.split, total=total)))
    state.announce(job, f"{event.by or 'an operator'} wants {total} processors", now)
    state.request_scan()


def _keep_within_total(state: State, attempt: Attempt, now: Instant) -> None:
    """Ask components of a running job to give way while it has more processors than its total."""
    job = state.jobs[attempt.job]
    assert job.spec.split is not None
    spare = processors_of(job, attempt.world) - job.spec.split.total
    if spare > 0 and isinstance(job.phase, Running) and attempt.growth is None:
        chosen = _to_leave(job, attempt.world, spare)
        if chosen:
            ask_to_leave(state, attempt, chosen, "the job is to have fewer processors", now)


# --- growth ---


def grow_running(state: State, now: Instant) -> None:
    """Let running malleable jobs grow into what is idle, site by site."""
    able = [attempt for attempt in state.malleable.values() if _may_grow(state, attempt, now)]
    if not able:
        return
    view = grid_view_of(state)
    added: dict[str, list[Assignment]] = {attempt.job: [] for attempt in able}
    reservations = dict.fromkeys(_reservation(state, attempt) for attempt in able)
    for site, reservation in product(view.sites, reservations):
        seen = view
        if reservation is not None:
            rooms = rooms_of(state, state.sites[site.name], {reservation})
            seen = view.within({site.name: rooms}, is_mixed=False)
        idle = max(0, seen.idle_at(site.name))
        jobs = [
            attempt
            for attempt in able
            if idle
            and _reservation(state, attempt) == reservation
            and _is_open_to(state, attempt, site.name, now)
        ]
        question = ResizeQuestion(
            site=site.name,
            processors=idle,
            jobs=tuple([_as_asked(state, a, site.name, added[a.job]) for a in jobs]),
        )
        if not any(job.room for job in question.jobs):
            continue
        for share in _ask(state, question).shares:
            attempt = state.malleable[share.job]
            more = _parts_at(state, attempt, site.name, share.processors, added[share.job], seen)
            added[share.job] += more
    for attempt in able:
        if added[attempt.job]:
            grow(state, attempt, added[attempt.job], now)


def _reservation(state: State, attempt: Attempt) -> str | None:
    """Return the reservation that a malleable job names."""
    return state.jobs[attempt.job].spec.components[0].reservation


def _may_grow(state: State, attempt: Attempt, now: Instant) -> bool:
    """Return True if a job runs, is below its total, and no other resize of it is under way. One
    whose components have begun to end by themselves is about to be over."""
    job = state.jobs[attempt.job]
    if not isinstance(job.phase, Running) or attempt.growth is not None:
        return False
    if any(member.end is not None for member in attempt.present):
        return False
    if leaving_members(attempt) or _room(state, job, attempt) <= 0:
        return False
    return not _is_resting(state, attempt, now)


def _is_resting(state: State, attempt: Attempt, now: Instant) -> bool:
    """Return True if a job was resized just now."""
    again_at = attempt.resized_at + state.parameters.resize_step_s
    return attempt.resized_at > 0 and now < again_at


def _room(state: State, job: Job, attempt: Attempt) -> int:
    """Return the processors by which a job may grow: up to its total, and the limits of its user
    and group."""
    assert job.spec.split is not None
    more = job.spec.split.total - processors_of(job, attempt.world)
    return min(more, room_of(state, job))


def _is_open_to(state: State, attempt: Attempt, site: SiteName, now: Instant) -> bool:
    """Return True if a job may have a component at a site."""
    job, known = state.jobs[attempt.job], state.sites[site]
    part = job.spec.components[0]
    if fixed_site(job, 0) not in (None, site) or not known.facts.admits(job.spec.owner):
        return False
    if job.spec.distinct and any(member.site == site for member in attempt.world):
        return False
    return not describe_missing(part, known) and site not in sites_closed_to(state, job, now)


def _as_asked(
    state: State, attempt: Attempt, site: SiteName, added: Sequence[Assignment] = ()
) -> MalleableJob:
    """Make the description of a job for the policy; `added` is planned for it at other sites."""
    job, world = state.jobs[attempt.job], attempt.world
    split, planned = job.spec.split, sum(assignment.processors for assignment in added)
    assert split is not None
    has = processors_of(job, world) + planned
    passed_at = [member.passed_at for member in attempt.members if member.passed_at is not None]
    return MalleableJob(
        job=job.id,
        started_at=min(passed_at, default=attempt.start_at),
        processors=has,
        least=split.least,
        most=has + max(0, _room(state, job, attempt) - planned),
        here=processors_of(job, [member for member in world if member.site == site]),
        part_min=split.part_min,
    )


def _parts_at(
    state: State,
    attempt: Attempt,
    site: SiteName,
    processors: int,
    added: Sequence[Assignment],
    view: GridView,
) -> list[Assignment]:
    """Cut a share into components, as few as possible, and find the way of their input files."""
    job = state.jobs[attempt.job]
    split, part = job.spec.split, job.spec.components[0]
    assert split is not None
    parts: list[Assignment] = []
    used = len(attempt.world) + len(added)
    while processors >= split.part_min and used + len(parts) < split.parts_max:
        size = min(processors, split.part_max)
        if 0 < processors - size < split.part_min <= size - split.part_min:
            size = processors - split.part_min  # the rest is a component, too
        size -= size % split.step
        if size < split.part_min:
            break
        request = PlacementRequest(
            parts=(
                Part(
                    component=0,
                    processors=size,
                    site=site,
                    size_bytes=part_of_file(state, job, 0)[1],
                    file=job.spec.input_names(0),
                ),
            ),
            user=job.spec.owner,
        )
        has_room = view.has_room(site, processors=size, gpus=part.gpus or 0)
        answer = ask_placement(state, job, request, view) if has_room else None
        if answer is None:
            break
        view.take(site, occupied(part, state.sites[site].facts), part.gpus or 0)
        parts.append(replace(answer.assignments[0], processors=size))
        processors -= size
        if job.spec.distinct:
            break
    return parts


# --- giving way ---


def _make_room(state: State, now: Instant) -> bool:
    """Ask running jobs to give way, if the first waiting job can be placed then; return True if
    they were asked, or gave way just now and their sites may not have told it yet."""
    waiting = _first_waiting(state, now)
    running = [
        attempt
        for attempt in state.malleable.values()
        if isinstance(state.jobs[attempt.job].phase, Running)
        and _reservation(state, attempt) is None  # else others may not have it
    ]
    if waiting is None or not running:
        return False
    if any(_is_resting(state, attempt, now) for attempt in running):
        return True
    view = without_closed_sites(state, waiting, grid_view_of(state), now)
    placement = _place_with_fewest(state, waiting, running, view, now)
    if placement is None:
        return False
    lacking: dict[SiteName, int] = {}
    for assignment in placement.assignments:
        part = waiting.spec.components[assignment.component]
        size = assignment.processors or part.processors
        lacking[assignment.site] = lacking.get(assignment.site, 0) + size
    leaving: dict[str, list[int]] = {attempt.job: [] for attempt in running}
    for site, size in lacking.items():
        wanted = size - view.idle_at(site)
        if wanted > 0 and not _choose(state, running, site, wanted, leaving):
            return False
    for attempt in running:
        if leaving[attempt.job]:
            ask_to_leave(state, attempt, leaving[attempt.job], f"{waiting.id} waits", now)
    return any(leaving.values())


def _place_with_fewest(
    state: State, waiting: Job, running: Iterable[Attempt], view: GridView, now: Instant
) -> Placement | None:
    """Find a place for a waiting job if as few components as possible give way, the newest ones
    first. What a job keeps, it keeps elsewhere than at the sites that the waiting one names."""
    named = {fixed_site(waiting, part) for part in range(len(waiting.spec.components))}
    named.update(*(part.sites for part in waiting.spec.components))
    spare = [
        (member, state.jobs[attempt.job].spec.components[member.component])
        for attempt in running
        for member in _all_to_leave(
            state.jobs[attempt.job], sorted(attempt.world, key=lambda m: m.site in named)
        )
    ]
    spare.sort(key=lambda entry: (-(entry[0].passed_at or 0.0), -entry[0].component))

    def find(count: int) -> Placement | None:
        trial = view.copy()
        for member, part in spare[:count]:
            if member.site is not None:
                trial.give_back(member.site, part.processors, part.gpus or 0)
        return ask_placement(state, waiting, whole_request(state, waiting, now), trial)

    placement = find(len(spare)) if spare else None
    low, high = 0, len(spare)
    while placement is not None and low < high:
        middle = (low + high) // 2
        fewer = find(middle)
        if fewer is None:
            low = middle + 1
        else:
            placement, high = fewer, middle
    return placement


def _choose(
    state: State,
    running: Iterable[Attempt],
    site: SiteName,
    wanted: int,
    leaving: dict[str, list[int]],
) -> bool:
    """Choose who gives back so many processors at a site; return False if they do not suffice."""
    jobs = []
    for attempt in running:
        seen = _as_asked(state, attempt, site)
        job = state.jobs[attempt.job]
        gone = processors_of(job, [attempt.members[n] for n in leaving[attempt.job]])
        jobs.append(replace(seen, processors=seen.processors - gone))
    question = ResizeQuestion(site=site, processors=wanted, jobs=tuple(jobs), wants_back=True)
    freed = 0
    for share in _ask(state, question).shares:
        job, attempt = state.jobs[share.job], state.malleable[share.job]
        left = [m for m in attempt.world if m.component not in leaving[share.job]]
        here = [member for member in left if member.site == site]
        chosen = _to_leave(job, here, share.processors, of=left)
        leaving[share.job] += chosen
        freed += processors_of(job, [attempt.members[component] for component in chosen])
    return freed >= wanted


def _to_leave(
    job: Job,
    candidates: Sequence[Member],
    processors: int,
    of: Sequence[Member] = (),
) -> list[int]:
    """Choose components that give back so many processors, the last ones first, without going
    below the least of the job (`of`: its components, if not all are candidates)."""
    assert job.spec.split is not None
    has = processors_of(job, of or candidates)
    chosen: list[int] = []
    for member in reversed(candidates):
        if processors <= 0:
            break
        size = job.spec.components[member.component].processors
        if has - size >= job.spec.split.least:
            chosen.append(member.component)
            has -= size
            processors -= size
    return chosen


def _all_to_leave(job: Job, world: Sequence[Member]) -> list[Member]:
    """Return all components that could give way together."""
    chosen = _to_leave(job, world, processors_of(job, world))
    return [member for member in world if member.component in chosen]


def _first_waiting(state: State, now: Instant) -> Job | None:
    """Return the first job of the queues, those of high priority first, that may be placed now,
    and could have what others give up: not in a reservation."""
    for is_high in (True, False):
        for line in state.queues.lines.values():
            for job in line.values():
                if (job.spec.priority is Priority.HIGH) is not is_high or now < job.not_before:
                    continue
                is_inside = any(component.reservation for component in job.spec.components)
                if not is_inside and not excess_of(state, job):
                    return job
    return None


def _ask(state: State, question: ResizeQuestion) -> ResizePlan:
    plan = state.recorder.ask(lambda: state.policies.resize(question))
    assert isinstance(plan, ResizePlan), plan
    return plan
