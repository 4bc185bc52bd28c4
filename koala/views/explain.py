"""Explanations of a job's current phase for people (`koala why`)."""

from __future__ import annotations

from koala.core.allowances import excess_of
from koala.core.feasibility import (
    capacities_of,
    components_per_site_max,
    describe_misfit,
    may_fit,
    requirements_of,
)
from koala.core.model.charges import Refusal, Trouble
from koala.core.model.grid import Site, Unplaceable
from koala.core.model.job import (
    Attempt,
    Cancelled,
    Claiming,
    Delayed,
    Failed,
    Finished,
    Job,
    Member,
    Placing,
    Queued,
    Releasing,
    Running,
    Starting,
    Stopping,
    Terminal,
    Waiting,
)
from koala.core.model.placement_queues import local_site
from koala.core.model.replicas import Transfer
from koala.core.model.values import FOREVER, FileName, Instant, JobId, SiteName
from koala.core.pipeline.claiming_schedule import tries_left
from koala.core.pipeline.placement_requests import whole_request
from koala.core.pipeline.placing import empty_grid_view
from koala.core.pipeline.refusals import avoided_sites, sites_closed_to, without_closed_sites
from koala.core.pipeline.start_barrier import untried_members
from koala.core.pipeline.tickets.eligibility import why_not_queued
from koala.core.queries import (
    claim_of,
    claims_of,
    grid_view_of,
    is_held,
    placement_policy,
    starts_early,
    view_for,
)
from koala.core.resources import describe_cut, describe_lack, describe_missing
from koala.core.sites import is_usable
from koala.core.splitting import describe_unsplit, empty_rooms, most_of
from koala.core.state import State
from koala.views.expected import expected_start, missed_deadline
from koala.views.ports import describe_routes, port_ways
from koala.views.resizes import job_size
from koala.views.units import counted, size
from koala.views.waiting import (
    BOOKED,
    SiteQueues,
    component_at,
    no_queues,
    span,
    wait_of_member,
    waits_of,
)


def why(state: State, job_id: JobId, now: Instant, queues: SiteQueues = no_queues) -> list[str]:
    """Explain why the job waits, or how it ended; `queues` has what sites tell of their local
    queues. Raises KeyError for an unknown job."""
    job = state.jobs[job_id]
    lines = _why(state, job, now, queues)
    if isinstance(job.phase, Placing | Claiming | Queued):
        attempt = job.attempt
        placed = [m.site for m in attempt.present if m.site] if attempt is not None else []
        lines += filter(None, [describe_routes(job.spec, state, placed)])
    return lines


def _why(  # noqa: C901 - one line a phase
    state: State, job: Job, now: Instant, queues: SiteQueues
) -> list[str]:
    match job.phase:
        case Waiting(on=on):
            return [_awaited(state, job, before) for before in on]
        case Delayed():
            return [_delayed(state, job), *filter(None, [_misfit(state, job)])]
        case Placing():
            return _placing(state, job, queues, now)
        case Claiming() as claiming:
            claimed = _claiming(state, job, claiming, queues, now)
            return [*claimed, *_placed(state, job, claiming.attempt)]
        case Queued() as queued:
            waiting = _queued(state, job, queued, queues, now)
            return [*waiting, *_placed(state, job, queued.attempt)]
        case Starting() as starting:
            started = _starting(state, job, starting, now)
            return [*started, *_placed(state, job, starting.attempt)]
        case Releasing():
            return ["released; waits for all components to tell that they passed the barrier"]
        case Running(since=since, attempt=attempt):
            running = [f"running for {span(now - since)}", _running(job, attempt)]
            sizes = job_size(job)
            if sizes is not None:
                left = avoided_sites(state, job, now)
                running += [*sizes.words, *(_left(name, left[name], now) for name in left)]
            running += [way.words for way in port_ways(job, attempt)]
            return [*running, *_placed(state, job, attempt)]
        case Stopping(reason=reason, attempt=attempt):
            return [f"being stopped: {reason}", *_fence(state, attempt)]
        case Finished() | Failed() | Cancelled() as phase:
            return _over(state, job, phase)


def _over(state: State, job: Job, phase: Terminal) -> list[str]:
    refused = [way.words for way in port_ways(job, job.attempt) if way.refused]
    if isinstance(phase, Finished):
        return [_finished(job, phase.attempt), *refused]
    return [_given_up(phase), *_unconfirmed(state, job), *refused]


def _finished(job: Job, attempt: Attempt) -> str:
    """Explain a finished job; components may have been left out, dropped, or stopped with it."""
    others = [
        f"component {job.spec.label(member.component)}: {_fate(member)}"
        for member in attempt.members
        if member.end is None or not member.end.succeeded
    ]
    if not others:
        return "finished: every component ended well"
    return f"finished: every other component ended well; {', '.join(others)}"


def _given_up(phase: Failed | Cancelled) -> str:
    if isinstance(phase, Failed):
        return phase.reason
    return f"cancelled {phase.reason}"


def _fate(member: Member) -> str:
    if member.end is None or member.passed_at is None:
        return "never started"
    return member.end.describe()


def _awaited(state: State, job: Job, before: JobId) -> str:
    """Explain the wait for a job; its owner may be another than that of the waiting one."""
    wanted = next(predecessor for predecessor in job.spec.after if predecessor.job == before)
    return f"waits for {wanted.describe()}; {before} is {state.jobs[before].phase_name} now"


def _delayed(state: State, job: Job) -> str:
    ahead = list(state.queues.delayed).index(job.id)
    return (
        f"delayed: the placement queues hold {len(state.queues)} jobs"
        f" (limit {state.parameters.queue_jobs_max}); {ahead} delayed jobs are ahead of it"
    )


def _placing(state: State, job: Job, queues: SiteQueues, now: Instant) -> list[str]:
    if job.deadline_at is not None:
        return _timed(state, job, queues, now)
    lines = state.scanner.explain(state, job, now)
    closed = sites_closed_to(state, job, now)
    view = view_for(state, job, grid_view_of(state), now)
    view = without_closed_sites(state, job, view, now)
    answer = placement_policy(state, job)(whole_request(state, job, now), view)
    misfit = _misfit(state, job)
    tries = counted(job.placement_tries, "placement try", "placement tries")
    excess = excess_of(state, job)
    if now < job.not_before:
        lines.append(f"{_pause(job, now)}; {tries}")
    elif excess:
        lines.append(f"{excess}; it is placed when others have ended")
    elif misfit:
        lines.append(f"{misfit}; {tries}")
    elif isinstance(answer, Unplaceable):
        reason = "no other site can take it now" if closed else answer.reason
        lines.append(f"{_asked(job, answer)}: {reason}; {tries}")
    else:
        lines.append(f"it could be placed now; {tries}")
    if state.is_paced and not misfit and state.timers.next_at is not None:
        lines[-1] += f"; next scan in {span(state.parameters.scan_interval_s)} at the latest"
    if not misfit and not excess and isinstance(answer, Unplaceable):
        lines += _holders(state, job) or _doubts(state, job, now)
    lines += _unqueued(state, job)
    away = [
        f"{s.name} ({_trouble(s, job, now)})"
        for s in state.sites.values()
        if not is_usable(s) and s.facts.admits(job.spec.owner)
    ]
    if away:
        lines.append(f"sites not usable: {', '.join(away)}")
    lines += [_left(site, refusal, now) for site, refusal in avoided_sites(state, job, now).items()]
    last = next((text for _, text in reversed(job.story) if "back in its" in text), "")
    return [*lines, last] if last else lines


def _asked(job: Job, answer: Unplaceable) -> str:
    """Describe what a placement policy has found no place for."""
    if job.spec.split is not None:
        return job.spec.split.describe()
    size = job.spec.components[answer.component].processors
    return f"component {job.spec.label(answer.component)} ({size} processors)"


def _unqueued(state: State, job: Job) -> list[str]:
    """Explain why the job does not wait in local queues, where others do."""
    is_busy = any(site.reported_queued for site in state.sites.values())
    reason = why_not_queued(state, job) if state.has_tickets and is_busy else ""
    return [f"it waits in no local queue: {reason}"] if reason else []


def _misfit(state: State, job: Job) -> str:
    """Explain that the job would not fit even if no other job ran; empty if it would."""
    spec, split = job.spec, job.spec.split
    most = 1 if spec.distinct else components_per_site_max(state.policies.place)
    only_at = local_site(job.queue) if spec.is_single else None
    requirements, needed = requirements_of(spec, only_at), job.needed
    for sites, what in (
        (list(state.sites.values()), "it cannot start before a site grows or another registers"),
        ([s for s in state.sites.values() if is_usable(s)], "it waits for other sites than these"),
    ):
        if split is not None:
            rooms = empty_rooms(spec, sites)
            if not most_of(split, rooms):
                part = spec.components[0]
                is_lacking = all(describe_missing(part, site) for site in sites)
                lack = describe_lack(part, sites) if is_lacking else describe_unsplit(split, rooms)
                return f"{split.describe()}: {lack}; {what}"
            continue
        capacities = capacities_of(sites, spec.owner, most)
        if not may_fit(requirements, needed, capacities):
            return f"{describe_misfit(requirements, needed, capacities)}; {what}"
    return ""


def _doubts(state: State, job: Job, now: Instant) -> list[str]:
    """Explain that the placement policy would refuse the job on an empty grid, too."""
    if job.needed < len(job.spec.components):
        return []
    request = whole_request(state, job, now)
    answer = placement_policy(state, job)(request, empty_grid_view(state, job))
    if not isinstance(answer, Unplaceable):
        return []
    return [
        "the placement policy would find no place for it either if nothing else ran:"
        f" {_asked(job, answer)}: {answer.reason}"
    ]


def _holders(state: State, job: Job) -> list[str]:
    """Name the sites that hold an input file, if none of them is usable now."""
    lines = [_holders_of(state, job, file.name) for file in job.spec.all_inputs]
    return [line for line in lines if line]


def _holders_of(state: State, job: Job, name: FileName) -> str:
    replica = state.files.replicas.get(name)
    if replica is None:
        return ""
    known = [state.sites[name] for name in replica.sites if name in state.sites]
    shown = [site for site in known if site.facts.admits(job.spec.owner)]
    if any(is_usable(site) for site in shown):
        return ""
    if not shown:
        return f"no site that its owner may use holds {name}"
    names = " and ".join(site.name for site in shown)
    return f"{name} is at {names} only; the job waits until one of them can be used again"


def _left(site: SiteName, refusal: Refusal, now: Instant) -> str:
    """Explain the back-off of the job from a site."""
    pause = span(refusal.again_at - now)
    match refusal.trouble:
        case Trouble.REFUSED:
            return f"not tried at {site} for {pause}: it refused the job ({refusal.reason})"
        case Trouble.ERRED:
            return f"not tried at {site} for {pause}: it erred with the job ({refusal.reason})"
        case Trouble.FAILED:
            return f"not tried at {site} for {pause}: its program failed there ({refusal.reason})"
        case Trouble.UNSENT:
            return f"no file is copied from {site} for {pause}: {refusal.reason}"


def _pause(job: Job, now: Instant) -> str:
    """Explain the pause of a queued job."""
    left_s = job.not_before - now
    if job.attempts >= job.attempt_min:
        return f"not tried again for {span(left_s)} after its setback"
    lives = "an attempt of it that a lost part of the journal knew may live"
    if left_s == float("inf"):
        return f"never tried: {lives} (run_lease_s = inf); cancel it and submit it again"
    return f"not tried for {span(left_s)}: {lives}"


def _timed(state: State, job: Job, queues: SiteQueues, now: Instant) -> list[str]:
    late = missed_deadline(state, job.spec, job.deadline_at, queues, now)
    lines = [*_deadline(state, job, now), *filter(None, [late, _misfit(state, job)])]
    lines += _unqueued(state, job)
    if job.spec.all_inputs:
        answer = placement_policy(state, job)(whole_request(state, job, now), grid_view_of(state))
        if isinstance(answer, Unplaceable):
            lines.append(
                f"its input file is not on its way: {_asked(job, answer)}: {answer.reason}"
            )
    return lines


def _deadline(state: State, job: Job, now: Instant) -> list[str]:
    """Explain the tries of a job with a deadline; empty for others."""
    if job.deadline_at is None:
        return []
    left = tries_left(state, job)
    text = f"is to start at its deadline, in {span(job.deadline_at - now)}"
    if not left:
        return [f"{text}; no try is left"]
    more = f", {len(left) - 1} more after it" if len(left) > 1 else ", the last one"
    last = ""
    if state.parameters.at_deadline == "kill":
        last = "; at the last one local jobs may be killed where sites allow it"
    return [f"{text}; next try in {span(left[0] - now)}{more}{last}"]


def _trouble(site: Site, job: Job, now: Instant) -> str:
    """Explain an unusable site: the cause, its duration, and what makes the site usable again."""
    resumed = f"until an administrator resumes it (koala resume {site.name})"
    if not site.is_connected:
        also = ", and drained" if site.is_drained else ""
        return f"disconnected{_since(site.disconnected_at, now)}{also}, until its agent connects"
    if site.is_drained:
        return f"drained{_since(site.drained_at, now)}, {resumed}"
    rest_s = (site.unusable_until or now) - now
    until = resumed if rest_s == float("inf") else f"tried again in {span(rest_s)}"
    own = site.erring.get(job.id, 0)
    whose = f", {own} of them with this job" if own > 1 else ""
    return (
        f"unusable{_since(site.unusable_since, now)} after {site.errors} consecutive errors"
        f"{whose}, {until}"
    )


def _since(at: Instant, now: Instant) -> str:
    """Format the time since an instant; empty if the instant is unknown."""
    return f" for {span(now - at)}" if at else ""


def _claiming(
    state: State, job: Job, claiming: Claiming, queues: SiteQueues, now: Instant
) -> list[str]:
    attempt, claim_at = claiming.attempt, claiming.claim_at
    held = sum(is_held(state, member) for member in attempt.present)
    lines = [f"{held} of {len(attempt.present)} components claimed, {job.needed} needed"]
    for member in attempt.present:
        claim = claim_of(state, member)
        label = job.spec.label(member.component)
        if claim is not None:
            words = wait_of_member(state, job, member, queues, now)
            lines += [f"component {label}: {words}"] if words else []
        elif claim is None and member.end is None:
            why_not = member.refusal or "not tried yet"
            lines.append(f"{component_at(label, member.site or 'no site yet')}: {why_not}")
    lines += _deadline(state, job, now)
    if claim_at is not None and job.deadline_at is None:
        lines.append(
            f"next claiming try in {span(claim_at - now)}; {_start_time(state, job, attempt, now)}"
        )
    return [*lines, *_fetching(state, job, attempt, now)]


def _queued(state: State, job: Job, queued: Queued, queues: SiteQueues, now: Instant) -> list[str]:
    """Explain what a job stands in line for: its tickets, what is held, and the expected start."""
    attempt = queued.attempt
    lines = ["waits in the queues of its sites, for all components at one time"]
    expected = expected_start(state, job, queues, now)
    lines += [] if expected is None else expected.words
    for member in attempt.present:
        words = wait_of_member(state, job, member, queues, now)
        waits = waits_of(state, job, member.component, queues, now)
        is_booked = any(wait.source == BOOKED and wait.batch_job for wait in waits)
        why_not = f" ({member.refusal})" if member.refusal and not is_booked else ""
        lines.append(f"component {job.spec.label(member.component)}: {words}{why_not}")
    lines.append(f"the claims are planned again in {span(queued.plan_at - now)}")
    return [*lines, *_fetching(state, job, attempt, now)]


def _start_time(state: State, job: Job, attempt: Attempt, now: Instant) -> str:
    """Explain the start time of a job without a deadline."""
    left = span(attempt.start_at - now)
    if starts_early(state, job):
        return f"starts once all files and claims are there, last try in {left}"
    return f"start time in {left}"


def _fetching(state: State, job: Job, attempt: Attempt, now: Instant) -> list[str]:
    lines = []
    for member in attempt.present:
        if member.lacks_file:
            label = job.spec.label(member.component)
            copies = [state.files.transfers.get(transfer_id) for transfer_id in member.transfers]
            for transfer in [
                transfer for transfer in copies if transfer is not None and not transfer.is_done
            ]:
                what = transfer.file if len(job.spec.all_inputs) > 1 else "its input file"
                way = f"{what} travels from {transfer.source} to {transfer.target}"
                lines.append(f"component {label}: {way}: {_far(transfer, now)}")
    return lines


def _far(transfer: Transfer, now: Instant) -> str:
    """Format the progress of a copy, by its last report."""
    left_s = transfer.expected_at - now
    left = f"about {span(left_s)} left" if 0 <= left_s < FOREVER else "longer than was expected"
    if transfer.told_at is None:
        return f"{size(transfer.size_bytes)}, {left} by the estimate, nothing told yet"
    moved = f"{size(transfer.moved_bytes)} of {size(transfer.size_bytes)} ({transfer.share:.0%})"
    return f"{moved}, {size(transfer.rate_bps)}/s, {left}, told {span(now - transfer.told_at)} ago"


def _starting(state: State, job: Job, starting: Starting, now: Instant) -> list[str]:
    attempt = starting.attempt
    fetching = _fetching(state, job, attempt, now)
    if fetching:
        return ["all components claimed; the barrier waits for files", *fetching]
    untried = untried_members(starting)
    if untried:
        labels = ", ".join(job.spec.label(member.component) for member in untried)
        return [f"all components claimed; pre-flight: waits until {labels} tried their TCP paths"]
    if starting.arming is None:
        return [f"all components claimed; starts in {span(attempt.start_at - now)}"]
    waiting = ", ".join(starting.arming.waiting)
    prepared = f"all components claimed; the start is prepared (round {starting.arms})"
    return [f"{prepared}: waits for {waiting}", *[way.words for way in port_ways(job, attempt)]]


def _running(job: Job, attempt: Attempt) -> str:
    joining = attempt.joining
    open_ = [m for m in attempt.present if m.end is None and m not in joining]
    names = ", ".join(
        component_at(job.spec.label(m.component), m.site or "").removeprefix("component ")
        for m in open_
    )
    return f"{counted(len(open_), 'component has', 'components have')} not ended: {names}"


def _placed(state: State, job: Job, attempt: Attempt) -> list[str]:
    """Tell what is special at the sites of the components: limits of time that are shorter than
    hold and run, and numbers of batch jobs, known once a starter has checked in."""
    hold_s = state.parameters.hold_s if job.spec.max_hold_s is None else job.spec.max_hold_s
    places = [(m.component, state.sites[m.site]) for m in attempt.present if m.site is not None]
    cuts = [
        f"component {job.spec.label(index)}: {cut}"
        for index, site in places
        if (cut := describe_cut(job.spec.components[index], site, hold_s))
    ]
    return [*cuts, *_batch_jobs(state, job, attempt)]


def _batch_jobs(state: State, job: Job, attempt: Attempt) -> list[str]:
    claims = [claim_of(state, member) for member in attempt.present]
    return [
        f"{component_at(job.spec.label(claim.component), claim.site)} is batch job"
        f" {claim.grant.batch_job}"
        for claim in claims
        if claim is not None and claim.grant is not None and claim.grant.batch_job
    ]


def _fence(state: State, attempt: Attempt) -> list[str]:
    lines = []
    for claim in claims_of(state, attempt.members):
        is_away = not state.sites[claim.site].is_connected
        away = ", which is disconnected: until its lease is over at the latest" if is_away else ""
        lines.append(f"waits until {claim.id} is gone from {claim.site}{away}")
    return lines


def _unconfirmed(state: State, job: Job) -> list[str]:
    claims = [claim for claim in state.ledger.values() if claim.job == job.id]
    return [f"{claim.site} has not confirmed the end of {claim.id}" for claim in claims]
