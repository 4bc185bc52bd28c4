"""The placement queues and placement tries (KOALA 3.1)."""

from __future__ import annotations

from dataclasses import replace

from koala.core import events as ev
from koala.core.claiming import settle_member, try_to_claim
from koala.core.ending import admit, fail
from koala.core.facts import (
    hold_before_start_s,
    is_optional_member,
    part_of_file,
    picture_of,
    sites_asked_enough,
)
from koala.core.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    SiteView,
)
from koala.core.job import (
    Attempt,
    Claiming,
    Delayed,
    Job,
    Member,
    Placing,
)
from koala.core.sites import is_usable
from koala.core.state import State
from koala.core.timeline import (
    first_claim_at,
)
from koala.core.timers import Bell
from koala.core.values import (
    Instant,
    Priority,
    SiteName,
)


def on_submitted(state: State, event: ev.JobSubmitted, now: Instant) -> None:
    if event.job in state.jobs:
        return
    has_room = state.has_room
    job = Job(
        id=event.job,
        spec=event.spec,
        submitted_at=now,
        phase=Placing(queued_at=now) if has_room else Delayed(),
        claim_fraction=state.parameters.claim_fraction,
    )
    state.jobs[job.id] = job
    if event.key:
        state.keys[event.key] = (job.id, event.digest)
    if not has_room:
        state.queues.delayed[job.id] = job
        state.tell(job, "delayed: the placement queues are full", now)
        return
    state.tell(job, f"submitted, {event.spec.priority.value} priority", now)
    state.queues.append(job)
    if state.is_paced:  # tried at once, then at each scan (KOALA 3.1)
        try_to_place(state, job, picture_of(state, now), now)
        admit(state, now)
    else:
        state.ask_scan_for(job)


def on_scan_due(state: State, now: Instant) -> None:
    """The paper's pace: one scan an interval. Live: scans until S + 1 in a row placed nothing, and
    again after an interval at the latest, for what changes without an event (ageing, budgets).

    While the grid has not changed, what could not be placed cannot be placed now either: then only
    the jobs queued since are visited: submitting to a long queue costs what a short one does.
    """
    state.is_scan_set = False
    is_overdue = state.rescan_at <= now
    is_whole = state.is_grid_changed or state.is_paced or is_overdue
    state.is_grid_changed = False
    if state.is_paced:
        scan(state, now, is_whole=is_whole)
        return
    idle_scans = 0
    while len(state.queues) and idle_scans <= state.parameters.high_scans_per_low:
        idle_scans = 0 if scan(state, now, is_whole=is_whole) else idle_scans + 1
    if len(state.queues) and is_overdue:
        state.rescan_at = now + state.parameters.scan_interval_s
        state.timers.set(state.rescan_at, Bell.SCAN)


def scan(state: State, now: Instant, *, is_whole: bool) -> int:
    """One scan of the queue whose turn it is, jobs that have aged first; how many were placed.
    Unless it is whole, it visits only jobs that were not tried since they were queued.
    """
    limits, scans = state.parameters, state.queues.scans
    priority = state.recorder.ask(lambda: state.policies.turn(scans, limits.high_scans_per_low))
    assert isinstance(priority, Priority), priority
    state.queues.scans += 1
    picture = picture_of(state, now)
    aged = {job.id: job for job in state.queues.aged(now, limits.ageing_s)}
    placed = 0
    queue = state.queues.queue(priority) if is_whole or aged else tuple(state.fresh.values())
    others = [job for job in queue if job.spec.priority is priority and job.id not in aged]
    for job in (*aged.values(), *others):
        if try_to_place(state, job, picture, now):
            placed += 1
        elif job.id in aged and not job.is_over and holds_the_door(state, job, now):
            break
    admit(state, now)
    return placed


def holds_the_door(state: State, job: Job, now: Instant) -> bool:
    """An aged job that the empty grid could take lets nobody pass, every second half of an
    ageing period: processors gather for it, and if other users take them all, the others are
    not starved in turn."""
    assert isinstance(job.phase, Placing)
    period_s = max(state.parameters.ageing_s / 2, 1.0)
    waited_s = now - job.phase.queued_at - state.parameters.ageing_s
    if int(waited_s // period_s) % 2:
        return False
    views = [
        SiteView(name=s.name, processors=s.facts.processors, idle=s.facts.processors)
        for s in state.sites.values()
        if is_usable(s) and s.facts.owner in (None, job.spec.owner)
    ]
    empty = GridView(
        views,
        replicas=state.files.replicas,
        bandwidth=state.files.bandwidth,
        bandwidth_default=state.parameters.bandwidth_default_bps,
    )
    return ask_placement(state, whole_request(state, job), empty) is not None


def try_to_place(state: State, job: Job, picture: GridView, now: Instant) -> bool:
    """A placement try (KOALA 3.1)."""
    if now < job.not_before:
        return False
    state.fresh.pop(job.id, None)
    job.placement_tries += 1
    needed = job.needed
    is_whole = needed == len(job.spec.components)
    if is_whole and (job.largest > picture.idle_max or job.processors > picture.idle_sum):
        placement = None  # needs no policy: long queues are scanned often
    else:
        placement = find_placement(state, job, picture, needed)
    if placement is not None:
        place(state, job, placement, picture, now)
        return True
    limit = state.parameters.placement_tries_max
    if limit and job.placement_tries >= limit:
        fail(state, job, f"not placed in {limit} placement tries", now)
    return False


def find_placement(state: State, job: Job, picture: GridView, needed: int) -> Placement | None:
    """All components if possible, else as many as the job can start with, left out from the
    largest on.
    """
    request = whole_request(state, job)
    answer = ask_placement(state, request, picture)
    if answer is not None or needed == len(request.parts):
        return answer
    found: list[Assignment] = []
    trial = _Trial(picture)
    for part in sorted(
        request.parts, key=lambda p: (is_optional_member(job, p.component), -p.processors)
    ):
        one = ask_placement(state, replace(request, parts=(part,)), picture)
        if one is not None:
            found.append(one.assignments[0])
            trial.take(one.assignments[0].site, part.processors)
        elif not is_optional_member(job, part.component):
            break
    trial.undo()
    is_enough = len(found) >= needed and all(
        is_optional_member(job, index) or any(a.component == index for a in found)
        for index in range(len(job.spec.components))
    )
    return Placement(assignments=tuple(found)) if is_enough else None


def whole_request(state: State, job: Job) -> PlacementRequest:
    return PlacementRequest(
        parts=tuple(
            Part(
                component=index,
                processors=component.processors,
                site=component.site,
                size_bytes=part_of_file(state, job, index)[1],
            )
            for index, component in enumerate(job.spec.components)
        ),
        user=job.spec.owner,
        file=job.spec.input_file.name if job.spec.input_file else None,
    )


def ask_placement(state: State, request: PlacementRequest, picture: GridView) -> Placement | None:
    def ask() -> Placement | None:
        answer = state.policies.place(request, picture)
        return answer if isinstance(answer, Placement) else None

    answer = state.recorder.ask(ask)
    assert answer is None or isinstance(answer, Placement), answer
    return answer


def place(state: State, job: Job, placement: Placement, picture: GridView, now: Instant) -> None:
    """The job leaves its queue: transfers start, and it is to be claimed (KOALA 3.2)."""
    by_component = {assignment.component: assignment for assignment in placement.assignments}
    transfer_s = max(a.transfer_s for a in placement.assignments)
    job.attempts += 1
    attempt = Attempt(
        number=job.attempts,
        placed_at=now,
        transfer_s=transfer_s,
        start_at=now + transfer_s,
        members=[Member(component=index, site=None) for index in range(len(job.spec.components))],
    )
    job.attempt = attempt
    if job.first_start_at is None:
        job.first_start_at = attempt.start_at
    state.placed[job.id] = job
    state.queues.remove(job)
    for member in attempt.members:
        assignment = by_component.get(member.component)
        if assignment is not None:
            picture.take(assignment.site, job.spec.components[member.component].processors)
            settle_member(state, job, member, assignment, now)
    picture.close_probed(a.site for a in placement.assignments)
    claim_at = first_claim_at(
        now, transfer_s, fraction=job.claim_fraction, hold_max_s=hold_before_start_s(state, job)
    )
    sites = ", ".join(str(m.site or "nowhere yet") for m in attempt.members)
    state.enter(job, Claiming(claim_at=claim_at), f"placed on {sites}", now)
    if claim_at <= now:
        try_to_claim(state, job, now)
        picture.close(sites_asked_enough(state))
    else:
        state.timers.set(claim_at, Bell.CLAIM, job.id)


class _Trial:
    """Processors taken for a placement that may come to nothing."""

    def __init__(self, picture: GridView) -> None:
        self._picture = picture
        self._taken: list[tuple[SiteName, int]] = []

    def take(self, site: SiteName, processors: int) -> None:
        self._taken.append((site, self._picture.idle_at(site)))
        self._picture.take(site, processors)

    def undo(self) -> None:
        for site, idle in reversed(self._taken):
            self._picture.give(site, idle - self._picture.idle_at(site))
