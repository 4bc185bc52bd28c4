"""Invariants of the state between two events. A violation is a bug and raises
AssertionError with the job's story.
"""

from __future__ import annotations

from koala.core.allowances import hold_limit_of
from koala.core.model.allowances import Payer, Usage, payers_of, user_payer
from koala.core.model.claim import Asked, Claim, Granted, Held, Passed, Released, Stopped
from koala.core.model.job import (
    Attempt,
    Claiming,
    Delayed,
    Job,
    Member,
    Placed,
    Placing,
    Queued,
    Releasing,
    Running,
    Starting,
    Stopping,
    Waiting,
)
from koala.core.model.job_spec import Split
from koala.core.model.tcp_paths import has_paths
from koala.core.model.values import Instant
from koala.core.queries import booked_bandwidth, claim_of, fixed_site, member_of, ticket_of
from koala.core.state import State, held_by

_ROUNDING = 1e-6


def check(state: State, now: Instant) -> None:
    """Check every invariant of the whole state, in linear time."""
    *lines, delayed = state.queues.order()
    waiting = [*(job for line in lines for job in line), *state.queues.timed]
    queued = [*waiting, *delayed]
    assert len(queued) == len(dict.fromkeys(queued)), f"a job stands in two queues: {queued}"
    for job in state.jobs.values():
        line = state.queues.timed if job.queue is None else state.queues.lines.get(job.queue, {})
        _check_place(state, job, is_queued=job.id in line, now=now)
    assert len(waiting) == sum(isinstance(job.phase, Placing) for job in state.jobs.values())
    for claim in state.ledger.values():
        _check_claim(state, claim)
    _check_one_attempt(state)
    _check_ticket_owners(state)
    _check_waits(state)
    _check_sites(state)
    _check_transfers(state)
    _check_bookings(state)
    _check_usage(state)
    _check_budgets(state)
    is_full = len(waiting) >= state.parameters.queue_jobs_max
    assert is_full or not delayed, f"{delayed[:3]} are delayed though there is room"


def _check_place(state: State, job: Job, *, is_queued: bool, now: Instant) -> None:
    """Check promise 2: a job is in exactly one place, as its phase says."""
    assert is_queued == isinstance(job.phase, Placing), f"{job.id} {job.phase}: {job.story}"
    assert (job.id in state.queues.delayed) == isinstance(job.phase, Delayed), job.id
    attempt = job.phase.attempt if isinstance(job.phase, Placed) else None
    assert state.placed.get(job.id) is attempt, f"{job.id} {job.phase}: {job.story}"
    assert job.submitted_at <= now, f"{job.id} was submitted in the future"
    if job.deadline_at is not None:
        _check_deadline(state, job, job.deadline_at, now)
    lowest = min(state.parameters.claim_fraction_min, state.parameters.claim_fraction)
    assert lowest <= job.claim_fraction <= 1 or job.claim_fraction >= 0, job.claim_fraction
    if attempt is not None:
        _check_attempt(state, job, attempt)


def _check_deadline(state: State, job: Job, deadline_at: Instant, now: Instant) -> None:
    """Check that a job neither starts before its deadline nor waits after it missed it."""
    waits = isinstance(job.phase, Waiting | Delayed | Placing | Claiming | Starting)
    late_s = now - deadline_at - state.parameters.late_max_s
    timer_at = state.timers.next_at
    is_due = timer_at is not None and timer_at <= now  # the core is about to be woken for it
    text = f"{job.id} {job.phase} is late by {late_s}: {job.story}"
    assert late_s <= 0 or not waits or is_due, text
    if job.release is not None:
        early_s = deadline_at - job.release.at
        assert early_s <= 0, f"{job.id} is released {early_s} s before its deadline: {job.story}"


def _check_attempt(state: State, job: Job, attempt: Attempt) -> None:
    assert attempt.number == job.attempts, f"{job.id}/{attempt.number} is not its newest"
    for member in attempt.members:
        allowed = fixed_site(job, member.component) or member.site
        assert member.site in (None, allowed), f"{job.id} is at {member.site}: {job.story}"
    used = [member.site for member in attempt.present if member.site is not None]
    is_apart = not job.spec.distinct or len(set(used)) == len(used)
    assert is_apart, f"{job.id} has two components at one site: {used}"
    if job.spec.split is not None:
        _check_split(job, job.spec.split, attempt)
    phases = [_phase(state, member) for member in attempt.present if member.end is None]
    match job.phase:
        case Claiming(claim_at=claim_at):
            assert claim_at is None or claim_at <= attempt.start_at, f"{job.id}: JCT after JST"
        case Queued():
            _check_tickets(state, job, attempt)
        case Starting() as starting:
            assert all(isinstance(phase, Held) for phase in phases), (
                f"{job.id} {phases}: {job.story}"
            )
            _check_paths(job, starting)
        case Releasing(release=release) | Running(release=release):
            assert release is not None or not attempt.with_barrier, f"{job.id} runs unreleased"
            joining = attempt.joining
            started = [m for m in attempt.at_barrier if m not in joining and m.leave_at is None]
            open_ = [_phase(state, member) for member in started]
            _check_growth(state, job, attempt)
            assert all(isinstance(phase, Released | Passed) for phase in open_), (
                f"{job.id} {open_}: {job.story}"
            )
        case Stopping():
            assert all(phase is None or isinstance(phase, Stopped) for phase in phases), job.story
            assert attempt.may_run, f"{job.id} waits for no fence: {job.story}"
        case _:
            pass


def _check_split(job: Job, split: Split, attempt: Attempt) -> None:
    """Check that a flexible job is split within its bounds."""
    assert len(attempt.members) == len(job.spec.components), f"{job.id} has other components"
    sizes = [job.spec.components[member.component].processors for member in attempt.present]
    text = f"{job.id} is split into {sizes}: {split.describe()}"
    is_within = all(split.part_min <= n <= split.part_max and n % split.step == 0 for n in sizes)
    is_enough = split.least <= sum(sizes) <= split.total and len(sizes) <= split.parts_max
    assert is_within, text
    assert is_enough or split.is_malleable, text  # faults and its owner change what it has


def _check_tickets(state: State, job: Job, attempt: Attempt) -> None:
    """Check that each component holds, or waits with tickets of its own site."""
    budget = state.payer_budgets.get(user_payer(job.spec.owner))
    for member in attempt.present:
        phase = _phase(state, member)
        assert phase is None or isinstance(phase, Granted), f"{job.id} {phase}: {job.story}"
        is_charged = budget is not None and member.claim is not None and member.claim in budget
        assert phase is None or is_charged, f"{member.claim} is held uncharged"
        for name in member.tickets:
            ticket = state.ledger[name]
            assert isinstance(ticket.phase, Asked), f"{name} {ticket.phase}: {job.story}"
            assert ticket.is_ticket, f"{name} is not a ticket: {job.story}"
            sites = (member.site, *member.others)
            assert ticket.site in sites, f"{name} is at {ticket.site}: {job.story}"
        claims = [state.ledger[name] for name in member.tickets]
        booked = [claim for claim in claims if claim.begins_at]
        assert len({claim.site for claim in booked}) == len(booked), f"{job.id} is booked twice"
        assert not any(claim.is_gated for claim in booked), f"a booking of {job.id} is gated"


def _check_growth(state: State, job: Job, attempt: Attempt) -> None:
    """Check that no component joins a running job before all that join are armed, and that a
    malleable job keeps its least processors but for faults."""
    growth = attempt.growth
    if growth is None:
        return
    assert job.spec.is_malleable, f"{job.id} grows: {job.story}"
    for member in attempt.joining:
        phase = _phase(state, member)
        is_open = isinstance(phase, Released | Passed)
        assert not is_open or growth.release is not None, f"{job.id} {phase}: {job.story}"


def _check_paths(job: Job, starting: Starting) -> None:
    """Check that members arm only after they tried the paths that the job needs."""
    if starting.arming is None or not has_paths(job.spec):
        return
    assert starting.tests is not None, f"{job.id} is armed untried: {job.story}"
    untried = set(starting.arming.waiting) & set(starting.tests.waiting)
    assert not untried, f"{untried} are armed before their paths were tried: {job.story}"


def _phase(state: State, member: Member) -> Asked | Held | Stopped | None:
    claim = claim_of(state, member)
    return None if claim is None else claim.phase


def _check_claim(state: State, claim: Claim) -> None:
    """Check promise 5: a claim has a job that wants it, or a pending Stop."""
    assert claim.site in state.sites, f"{claim.id} is at an unknown site {claim.site}"
    job = state.jobs[claim.job]
    is_wanted = member_of(state, claim) is not None or ticket_of(state, claim) is not None
    assert is_wanted or isinstance(claim.phase, Stopped), f"{claim.id} leaks: {job.story}"
    assert claim.attempt <= job.attempts, f"{claim.id} is of an attempt to come"


def _check_ticket_owners(state: State) -> None:
    """Check that only jobs in Queued have tickets: all others have withdrawn them."""
    for attempt in state.placed.values():
        job = state.jobs[attempt.job]
        left = [name for member in attempt.members for name in member.tickets]
        assert not left or isinstance(job.phase, Queued), f"{job.id} keeps {left}: {job.story}"


def _check_one_attempt(state: State) -> None:
    """Check promise 3: if a claim may run, its job has no newer attempt."""
    for claim in state.ledger.values():
        if claim.may_run:
            job = state.jobs[claim.job]
            story = f"{claim.id} may run while {job.id}/{job.attempts} exists: {job.story}"
            assert claim.attempt == job.attempts, story


def _check_waits(state: State) -> None:
    """Check that a job waits exactly for the live jobs that count it as a successor."""
    waits = [
        (before, job.id)
        for job in state.jobs.values()
        if isinstance(job.phase, Waiting)
        for before in job.phase.on
    ]
    known = [(before, job) for before, jobs in state.successors.items() for job in jobs]
    assert sorted(waits) == sorted(known), f"waits {waits} are known as {known}"
    for before, job in waits:
        assert not state.jobs[before].has_ended, f"{job} waits for {before}, which is over"


def _check_sites(state: State) -> None:
    for site in state.sites.values():
        unknown = [
            claim
            for claim in (*site.unreported, *site.unreported_gpus)
            if claim not in state.ledger
        ]
        assert not unknown, f"{site.name} counts claims that are over: {unknown}"
        assert site.errors >= 0, f"{site.name} has {site.errors} errors"


def _check_bookings(state: State) -> None:
    """Check that no link is booked beyond its bookable bandwidth."""
    for link, bps in booked_bandwidth(state).items():
        most = state.files.bookable.get(link, 0.0)
        assert bps <= most * (1 + _ROUNDING), f"{link} has {most} B/s, and {bps} are booked"


def _check_usage(state: State) -> None:
    """Check that users and groups have what their placed jobs asked for."""
    sums: dict[Payer, Usage] = {}
    for name in state.placed:
        job = state.jobs[name]
        for payer in payers_of(job.spec):
            sums.setdefault(payer, Usage()).add(*held_by(job, state.placed[name]))
    assert sums == state.usage, f"placed jobs have {sums}, and {state.usage} are counted"


def _check_budgets(state: State) -> None:
    """Check that no hold budget is spent beyond its limit."""
    limits = {payer: hold_limit_of(state, payer) for payer in state.payer_budgets}
    of_site_s = state.parameters.hold_budget_site_s
    for payer, budget, limit_s in (
        *[(payer, budget, limits[payer]) for payer, budget in state.payer_budgets.items()],
        *[(site, budget, of_site_s) for site, budget in state.site_budgets.items()],
    ):
        spent_s = budget.spent_s
        assert spent_s <= limit_s + _ROUNDING, f"{payer} holds {spent_s} of {limit_s}"


def _check_transfers(state: State) -> None:
    """Check that a job wants every copy under way."""
    for transfer in state.files.transfers.values():
        attempt = state.placed.get(transfer.job)
        assert attempt is not None, f"{transfer.id} has no job"
        ids = [transfer_id for member in attempt.members for transfer_id in member.transfers]
        story = state.jobs[transfer.job].story
        assert transfer.id in ids, f"{transfer.id} is not wanted: {story}"
