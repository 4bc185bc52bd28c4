"""Claiming tries (KOALA 3.2, 3.3): ask the policy, claim, receive the answers, evaluate at the
JST."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from koala.core import queries
from koala.core.allowances import hold_limit_of
from koala.core.model import events as ev
from koala.core.model.allowances import Payer, payers_of
from koala.core.model.charges import Trouble
from koala.core.model.claim import Asked, Claim, Grant, Granted, Stopped
from koala.core.model.grid import Assignment, GridView, Site
from koala.core.model.hold_budget import Budget
from koala.core.model.job import Attempt, Claiming, Job, Member, Queued, Running, Starting
from koala.core.model.job_spec import InputMode, StartType
from koala.core.model.timers import TimerKind
from koala.core.model.values import (
    FOREVER,
    ClaimId,
    Instant,
    Priority,
    Seconds,
    SiteName,
    claim_id,
)
from koala.core.pipeline.claiming_schedule import (
    deadline_missed_at,
    last_try_at,
    next_try_at,
    rescheduled_try_at,
)
from koala.core.pipeline.copying import assign_member
from koala.core.pipeline.ending import drop_member, fail, on_missed, stop_member
from koala.core.pipeline.placement_requests import ask_placement, whole_request
from koala.core.pipeline.refusals import has_refused, reset_refusals, without_closed_sites
from koala.core.pipeline.requeueing import set_back
from koala.core.pipeline.start_barrier import advance_start
from koala.core.pipeline.wanted import hold
from koala.core.policy_api import ClaimPlan, ClaimQuestion, PendingPart, ReclaimableSite, Victim
from koala.core.resources import needs_resources, occupied
from koala.core.sites import increase_window, is_usable, note_ask
from koala.core.state import State
from koala.core.stated_starts import note_start

BUDGET_IS_USED = "the hold budget is used up"
_Payer = TypeVar("_Payer", Payer, SiteName)
TROUBLE_TEXTS = {
    Trouble.REFUSED: "refused it",
    Trouble.ERRED: "erred with it",
    Trouble.UNSENT: "did not send its input file",
    Trouble.FAILED: "saw its program fail",
}
"""Descriptions of the trouble that a site caused a job, for people."""


def claim_when_answered(state: State, attempt: Attempt, now: Instant) -> None:
    """Make the claiming try once all answers to the last one are in; the try at the JST does not
    wait for them.
    """
    job = state.jobs[attempt.job]
    last_at = last_try_at(state, job, attempt)
    if not queries.unanswered(state, attempt) or now >= last_at:
        try_to_claim(state, attempt, now)
    else:
        state.timers.set(last_at, TimerKind.CLAIM, job.id)


def try_to_claim(state: State, attempt: Attempt, now: Instant) -> None:
    """Make a claiming try (KOALA 3.2, 3.3): ask the policy, apply its plan, set the next JCT."""
    job = state.jobs[attempt.job]
    if now >= deadline_missed_at(state, job):
        on_missed(state, job, now)  # no local job is killed for a job that is too late
        return
    limit = state.parameters.claiming_tries_max
    if limit and job.claiming_tries >= limit:
        refusals = [
            f"; {site} {TROUBLE_TEXTS[refusal.trouble]}: {refusal.reason}"
            for site, refusal in job.refusals.items()
        ]
        fail(state, job, f"not claimed in {limit} claiming tries{''.join(refusals)}", now)
        return
    job.claiming_tries += 1
    job.tried_at = now
    policies = state.policies
    claim = policies.claim if job.deadline_at is None else policies.claim_timed
    view = queries.view_for(state, job, queries.grid_view_of(state, job), now)
    question = claim_question(state, job, attempt, view, now)
    plan = state.recorder.ask(lambda: claim(question, view, queries.placement_policy(state, job)))
    assert isinstance(plan, ClaimPlan), plan
    apply_plan(state, job, attempt, plan, now)
    if not isinstance(job.phase, Claiming) or job.phase.attempt is not attempt:
        return
    split_rest(state, job, attempt, now)
    claim_at = next_try_at(state, job, attempt, now)
    if claim_at is not None:
        state.timers.set(claim_at, TimerKind.CLAIM, job.id)
    state.enter(job, Claiming(attempt=attempt, claim_at=claim_at, is_tried=True), "", now)
    if claim_at is None:
        evaluate_when_due(state, attempt, now)
    else:
        start_if_held(state, attempt, now)


def reschedule_claiming_try(state: State, job: Job, now: Instant) -> None:
    """Reschedule the next claiming try by the new estimate of the files' arrival, so that claims
    are granted when the files are there and not much before. Small changes are ignored.
    """
    claiming = job.phase
    if not queries.starts_early(state, job) or not isinstance(claiming, Claiming):
        return
    before = claiming.claim_at
    if before is None:  # the last one was made
        return
    claim_at = max(now, rescheduled_try_at(state, job, claiming))
    if claim_at > now and abs(claim_at - before) < state.parameters.claiming_step_min_s:
        return
    state.enter(job, replace(claiming, claim_at=claim_at), "", now)
    if claim_at > now:
        state.timers.set(claim_at, TimerKind.CLAIM, job.id)
    else:
        claim_when_answered(state, claiming.attempt, now)


def claim_question(
    state: State, job: Job, attempt: Attempt, view: GridView, now: Instant
) -> ClaimQuestion:
    """Make the policy's question: the unclaimed members, the grid, and the jobs that may be
    preempted."""
    present = attempt.present
    pending = tuple(
        PendingPart(
            component=m.component,
            processors=job.spec.components[m.component].processors,
            site=m.site,
            fixed=queries.fixed_site(job, m.component),
            size_bytes=queries.part_of_file(state, job, m.component)[1],
            file=job.spec.input_names(m.component),
            is_optional=queries.is_optional_member(job, m.component),
            gpus=job.spec.components[m.component].gpus or 0,
        )
        for m in present
        if m.claim is None and m.end is None
    )
    may_preempt = state.parameters.preempt != "none" and not job.spec.is_reserved
    is_high = may_preempt and job.spec.priority is Priority.HIGH
    return ClaimQuestion(
        components=min(len(present), job.needed),  # F is of what the job needs
        held=len(present) - len(pending),
        held_at=tuple(m.site for m in present if m.claim is not None and m.site is not None),
        pending=pending,
        user=job.spec.owner,
        priority=job.spec.priority,
        demand=queries.demand_of(job.spec, state.parameters),
        home=job.spec.queue,
        is_distinct=job.spec.distinct,
        remaining_s=max(0.0, attempt.start_at - now),
        threshold=state.parameters.claim_threshold,
        preempt=state.parameters.preempt,
        victims=preemption_victims(state) if is_high else (),
        preemptible=tuple(
            site.name
            for site in state.sites.values()
            if is_high
            and site.facts.starts_after_stop
            and is_usable(site)
            and now >= site.no_preempt_until
            and not has_refused(state, job, site.name)  # no preemption for another refusal
        ),
        reclaimable=reclaimable(state, job, attempt, view, now),
    )


def reclaimable(
    state: State, job: Job, attempt: Attempt, view: GridView, now: Instant
) -> tuple[ReclaimableSite, ...]:
    """Return the reclaimable sites for the last try before a deadline, at which local jobs may be
    killed. Processors that neither a local job nor a claim holds are idle there, even if queued
    local jobs wait for them. For a job on distinct sites, or with needs beside processors, no local
    job is killed.
    """
    is_last = job.deadline_at is not None and next_try_at(state, job, attempt, now) is None
    if state.parameters.at_deadline != "kill" or not is_last or job.spec.distinct:
        return ()
    if needs_resources(job.spec.components, state.sites.values()):
        return ()
    ours: dict[SiteName, int] = {}
    for claim in state.ledger.values():
        ours[claim.site] = ours.get(claim.site, 0) + claim.processors
    sites = []
    for each in view.sites:
        site = state.sites[each.name]
        if not each.admits(job.spec.owner):
            continue
        idle, local = each.idle, 0
        if site.facts.may_kill_local and not site.is_probing:
            local = site.reported_local
            idle = max(idle, site.facts.processors - local - ours.get(site.name, 0))
        sites.append(ReclaimableSite(site=site.name, idle=idle, local=local))
    return tuple(sites)


def preemption_victims(state: State) -> tuple[Victim, ...]:
    """Return the low-priority jobs that hold processors and are not in Releasing, latest JST
    first."""
    victims = []
    for attempt in state.placed.values():
        job = state.jobs[attempt.job]
        is_open = isinstance(job.phase, Claiming | Queued | Starting | Running)
        if job.spec.priority is not Priority.LOW or not is_open or job.spec.is_reserved:
            continue
        held: dict[SiteName, int] = {}
        gpus: dict[SiteName, int] = {}
        for claim in queries.claims_of(state, attempt.present):
            if not isinstance(claim.phase, Asked):
                held[claim.site] = held.get(claim.site, 0) + claim.processors
                if count := job.spec.components[claim.component].gpus:
                    gpus[claim.site] = gpus.get(claim.site, 0) + count
        if held:
            victims.append(
                Victim(
                    job=job.id,
                    start_at=attempt.start_at,
                    held=tuple(held.items()),
                    held_gpus=tuple(gpus.items()),
                )
            )
    return tuple(sorted(victims, key=lambda victim: -victim.start_at))


def apply_plan(state: State, job: Job, attempt: Attempt, plan: ClaimPlan, now: Instant) -> None:
    """Apply a plan: claim components at their sites, move and claim others, and queue preempting
    claims before their victims are stopped.
    """
    members = attempt.members
    for component in plan.claims:
        make_claim(state, attempt, members[component], now)
    for move in plan.moves:
        member = members[move.component]
        label = job.spec.label(move.component)
        way = f"moves from {member.site}" if member.site is not None else "goes"
        state.announce(job, f"component {label} {way} to {move.site}", now)
        assign_member(state, attempt, member, move, now)
        make_claim(state, attempt, member, now)
    force_claims(state, job, attempt, plan.forced, now)
    others = (*plan.claims, *(move.component for move in plan.moves))
    is_whole = all(members[component].claim for component in others)
    if state.parameters.preempt == "complete" and not is_whole:
        return  # the job cannot start: another claim is over the hold budget
    if not is_affordable(state, job, [members[n] for n in plan.preempting], now):
        # No victim is stopped without need, and no claim is sent that would not start.
        for component in plan.preempting:
            postpone_claim(state, job, members[component], now)
        return
    for component in plan.preempting:
        make_claim(state, attempt, members[component], now, is_preempting=True)
    for victim in plan.victims:
        victim_job = state.placed.get(victim)
        if victim_job is not None:
            state.jobs[victim].preemptions += 1
            set_back(state, victim_job, f"preempted by {job.id}", now)


def force_claims(
    state: State, job: Job, attempt: Attempt, forced: tuple[Assignment, ...], now: Instant
) -> None:
    """Make claims that need local jobs to be killed, unless they are over the hold budgets."""
    if not forced or not is_affordable(state, job, forced, now):
        return
    for assignment in forced:
        member = attempt.members[assignment.component]
        if member.site != assignment.site:
            assign_member(state, attempt, member, assignment, now)
        if state.sites[assignment.site].facts.may_kill_local:
            label = job.spec.label(assignment.component)
            text = f"component {label} may have local jobs of {assignment.site} killed"
            state.announce(job, text, now)
        make_claim(state, attempt, member, now, may_kill=True)


def make_claim(
    state: State,
    attempt: Attempt,
    member: Member,
    now: Instant,
    *,
    is_preempting: bool = False,
    may_kill: bool = False,
) -> None:
    """Make one claim, unless it is over the hold budget."""
    job = state.jobs[attempt.job]
    assert member.site is not None
    site = state.sites[member.site]
    if not is_affordable(state, job, [member], now):
        postpone_claim(state, job, member, now)
        return
    hold_s = queries.hold_max_s(state, job)
    claim = new_claim(state, attempt, member, site, now, hold_s=hold_s)
    claim.wake_s = site.wake_s_for(claim.processors)
    claim.grace_until = now + site.facts.grace_s + claim.wake_s
    claim.grace_until += state.parameters.kill_s if is_preempting else 0.0
    claim.is_preempting = is_preempting
    claim.may_kill = may_kill and site.facts.may_kill_local
    charge_hold(state, job, claim.id, site.name, claim.processors * hold_s, now)
    member.claim = claim.id
    member.claimed_at = None
    if queries.starts_early(
        state, job
    ):  # else a claim that came early would run out before the last try
        attempt.start_at = min(attempt.start_at, now + queries.hold_before_start_s(state, job))
    if claim.start_type is StartType.NONE:
        attempt.may_run = True
    order_claim(state, attempt, claim)


def new_claim(
    state: State, attempt: Attempt, member: Member, site: Site, now: Instant, *, hold_s: Seconds
) -> Claim:
    """Make the next claim of a member, without a grace time; it is to be ordered."""
    member.claims += 1
    component = state.jobs[attempt.job].spec.components[member.component]
    return Claim(
        id=claim_id(
            attempt.job, attempt=attempt.number, component=member.component, n=member.claims
        ),
        job=attempt.job,
        attempt=attempt.number,
        component=member.component,
        site=site.name,
        processors=occupied(component, site.facts),
        start_type=component.start_type,
        asked_at=now,
        ask_number=0,
        hold_s=hold_s,
        grace_until=FOREVER,
        fence_s=state.parameters.fence_s,
    )


def order_claim(state: State, attempt: Attempt, claim: Claim) -> None:
    """Order a new claim from its site. A ticket takes no processors before it starts, and a claim
    in a reservation none that others could have."""
    component = state.jobs[claim.job].spec.components[claim.component]
    site = state.sites[claim.site]
    is_inside = component.reservation in dict(site.reservations or ())
    taken = (0 if is_inside else claim.processors, component.gpus or 0)
    claim.ask_number = note_ask(site, claim.id, *((0, 0) if claim.is_ticket else taken))
    state.ledger[claim.id] = claim
    state.actions.append(hold(state, attempt, claim))


def charge_hold(
    state: State, job: Job, claim: ClaimId, site: SiteName, processor_s: float, now: Instant
) -> None:
    """Charge the hold of a claim to the budgets of its user, its group and its site."""
    payers = [state.payer_budgets[payer] for payer in payers_of(job.spec)]
    for budget in (*payers, state.site_budgets[site]):
        budget.charge(claim, processor_s, now)


def postpone_claim(state: State, job: Job, member: Member, now: Instant) -> None:
    """Postpone the claim of a member, because it would be over a hold budget."""
    member.refusal = BUDGET_IS_USED
    job.not_before = now + state.parameters.scan_interval_s  # a budget comes back slowly


def is_affordable(
    state: State,
    job: Job,
    parts: Sequence[Assignment | Member],
    now: Instant,
    *,
    hold_s: Seconds | None = None,
) -> bool:
    """Return True if the hold budgets allow all of these claims: victims are stopped for all of
    them or for none."""
    hold_s = queries.hold_max_s(state, job) if hold_s is None else hold_s
    sums: dict[SiteName, float] = {}
    for part in parts:
        assert part.site is not None
        processors = occupied(job.spec.components[part.component], state.sites[part.site].facts)
        sums[part.site] = sums.get(part.site, 0.0) + processors * hold_s
    whole_s, site_limit_s = sum(sums.values()), state.parameters.hold_budget_site_s
    asked = [
        (_budget_of(state.payer_budgets, payer), whole_s, hold_limit_of(state, payer))
        for payer in payers_of(job.spec)
    ]
    asked += [(_budget_of(state.site_budgets, site), sums[site], site_limit_s) for site in sums]
    return all(
        budget.allows(wanted_s, limit_s=most_s, now=now) for budget, wanted_s, most_s in asked
    )


def _budget_of(budgets: dict[_Payer, Budget], payer: _Payer) -> Budget:
    """Return the budget of a user, a group or a site; it is made at the first claim."""
    budget = budgets.get(payer)
    if budget is None:
        budget = budgets[payer] = Budget()
    return budget


def split_rest(state: State, job: Job, attempt: Attempt, now: Instant) -> bool:
    """Split what a flexible job could not claim anew over the sites with room, and claim it there,
    so that it keeps what it holds; return True if it was claimed. What a site has not answered in
    its grace time is stopped: the answer may take long, or never come.

    No site that refused a share is asked again, no component is taken away, and a malleable job
    starts without: it can grow. Chunks of files and GPUs depend on the components.
    """
    split, part = job.spec.split, job.spec.components[0]
    lacking = [member for member in attempt.present if _lacks_claim(state, member, now)]
    if split is None or split.is_malleable or not lacking or job.deadline_at is not None:
        return False
    has_chunks = job.spec.all_inputs and job.spec.input_mode is not InputMode.WHOLE
    if has_chunks or part.gpus or now < job.not_before:
        return False
    held_at = [m.site for m in attempt.present if m not in lacking and m.site is not None]
    rest = sum([job.spec.components[member.component].processors for member in lacking])
    request = replace(
        whole_request(state, job, now),
        transfer_s_max=max(0.0, attempt.start_at - now),
        beside=tuple(held_at),
        split=replace(
            split,
            total=rest,
            least=rest,
            part_max=min(split.part_max, rest),
            parts_max=split.parts_max - len(held_at),
        ),
    )
    view = queries.view_for(state, job, queries.grid_view_of(state, job), now)
    seen = without_closed_sites(state, job, view, now).copy()
    seen.close([m.site for m in lacking if m.claims and m.site is not None])
    seen.close(held_at if job.spec.distinct else [])
    answer = ask_placement(state, job, request, seen)
    if answer is None or len(answer.assignments) < len(lacking):
        return False
    for _ in answer.assignments[len(lacking) :]:
        added = Member(component=len(attempt.members), site=None, start_type=part.start_type)
        attempt.members.append(added)
        lacking.append(added)
    sizes = [component.processors for component in job.spec.components]
    sizes += [0] * (len(attempt.members) - len(sizes))
    for member, share in zip(lacking, answer.assignments, strict=True):
        sizes[member.component] = share.processors
    job.respecify(job.spec.shaped(sizes))
    state.recount(job, attempt)
    shares = ", ".join([f"{share.site} ({share.processors})" for share in answer.assignments])
    state.announce(job, f"splits {rest} processors anew: {shares}", now)
    for member, share in zip(lacking, answer.assignments, strict=True):
        stop_member(state, member)
        member.claim = None
        assign_member(state, attempt, member, replace(share, component=member.component), now)
        make_claim(state, attempt, member, now)
    return True


def split_lost(state: State, attempt: Attempt, member: Member, reason: str, now: Instant) -> bool:
    """Split what a member that was lost while its job claims had anew, if others hold theirs;
    return True if it was claimed."""
    job = state.jobs[attempt.job]
    others = [other for other in attempt.present if other is not member]
    if not isinstance(job.phase, Claiming) or not any(queries.is_held(state, m) for m in others):
        return False
    claim, end = member.claim, member.end
    member.claim = member.end = None
    if not split_rest(state, job, attempt, now):
        member.claim, member.end = claim, end
        return False
    state.announce(job, reason, now)
    after_answer(state, attempt, now)
    return True


def _lacks_claim(state: State, member: Member, now: Instant) -> bool:
    """Return True if a member has no claim, or one that was not answered in its grace time."""
    claim = queries.claim_of(state, member)
    is_late = claim is not None and isinstance(claim.phase, Asked) and now >= claim.grace_until
    return member.end is None and (claim is None or is_late)


def on_granted(state: State, event: ev.ClaimGranted, now: Instant) -> None:
    """Bind the claim to the starter that checked in, widen its site's window, and let the job
    proceed."""
    claim = state.ledger.get(event.claim)
    if claim is not None and isinstance(claim.phase, Stopped) and claim.grant is None:
        bind(claim, event, now)  # the Stop came too late: what it holds or runs is charged for
    if claim is None or not isinstance(claim.phase, Asked) or claim.is_ticket:
        return
    if len(state.queues) and claim.site in queries.sites_with_full_window(state):
        state.request_scan()
    increase_window(state.sites[claim.site], limit=state.parameters.claims_open_max)
    note_start(state.sites[claim.site], claim, now)
    bind(claim, event, now)
    current = queries.member_of(state, claim)
    if current is None:
        return
    attempt, member = current
    member.claimed_at = now
    state.jobs[claim.job].gained_s += claim.processors * (now - attempt.placed_at)
    after_answer(state, attempt, now)


def bind(claim: Claim, event: ev.ClaimGranted, now: Instant) -> None:
    """Bind a claim to the starter that checked in, perhaps before its Stop arrived."""
    grant = Grant(
        at=now,
        began_at=event.began_at,
        nonce=event.nonce,
        batch_job=event.batch_job,
        address=event.address,
        hosts=event.hosts,
    )
    match claim.phase:
        case Stopped() as phase:
            claim.phase = replace(phase, grant=grant)
        case _:
            claim.phase = Granted(grant=grant)


def after_answer(state: State, attempt: Attempt, now: Instant) -> None:
    """Proceed after an answer to a claim: start, make the next try, or evaluate the last one."""
    claiming = state.jobs[attempt.job].phase
    if not isinstance(claiming, Claiming):
        return
    if claiming.claim_at is None:
        evaluate_when_due(state, attempt, now)
    elif not start_if_held(state, attempt, now) and claiming.claim_at <= now:
        claim_when_answered(state, attempt, now)


def start_if_held(state: State, attempt: Attempt, now: Instant) -> bool:
    """Enter Starting if every component is claimed; return True if so."""
    for member in attempt.members:
        if not member.is_dropped and not queries.is_held(state, member):
            return False
    job = state.jobs[attempt.job]
    attempt.granted_at = now
    reset_refusals(job)
    starting = Starting(attempt=attempt)
    state.enter(job, starting, "all components claimed", now)
    advance_start(state, starting, now)
    return True


def evaluate_when_due(state: State, attempt: Attempt, now: Instant) -> None:
    """Evaluate the try at the JST once it is answered, at JST + grace time at the latest."""
    if start_if_held(state, attempt, now):
        return
    due_at = max((claim.grace_until for claim in queries.unanswered(state, attempt)), default=now)
    if due_at > now:
        state.timers.set(due_at, TimerKind.EVALUATE, attempt.job)
    else:
        evaluate_try(state, attempt, now)


def evaluate_try(state: State, attempt: Attempt, now: Instant) -> None:
    """Evaluate the last claiming try: start with the held components if they are enough, else set
    the job back.
    """
    job = state.jobs[attempt.job]
    missing = [member for member in attempt.present if not queries.is_held(state, member)]
    held = [member for member in attempt.present if member not in missing]
    strict = [m for m in missing if not queries.is_optional_member(job, m.component)]
    if strict or not held or not queries.is_enough(job, held):
        if held and split_rest(state, job, attempt, now):
            evaluate_when_due(state, attempt, now)
            return
        names = ", ".join(queries.describe(job, member) for member in strict or missing)
        if job.deadline_at is not None:
            text = f"not claimed in {job.claiming_tries} tries before its deadline: {names}"
            fail(state, job, text, now)
            return
        set_back(state, attempt, f"not claimed by its start time: {names}", now)
        return
    for member in missing:
        drop_member(state, attempt, member, "not claimed by the start time", now)
    start_if_held(state, attempt, now)
