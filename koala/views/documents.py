"""Builders of the records of jobs, sites and files, from the state (docs/api.md).

Their order is deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

from msgspec.structs import asdict, replace

from koala.common.protocol.messages import Queue, SiteResources
from koala.core.model.grid import Site
from koala.core.model.job import (
    Attempt,
    Cancelled,
    ClaimEnd,
    Claiming,
    Failed,
    Finished,
    Job,
    Member,
    Queued,
    Stopping,
    Waiting,
)
from koala.core.model.placement_queues import queue_label
from koala.core.model.replicas import Transfer
from koala.core.model.values import FOREVER, Instant, JobId, Seconds, SiteName
from koala.core.pipeline.claiming_schedule import tries_left
from koala.core.queries import claim_of
from koala.core.sites import is_resting
from koala.core.state import State
from koala.views.accounting import claim_costs
from koala.views.expected import expected_start
from koala.views.ports import port_ways
from koala.views.records import grid, jobs
from koala.views.records.base import Moment, moment_of
from koala.views.records.phases import Phase
from koala.views.resizes import job_size
from koala.views.waiting import ShortReasons, SiteQueues, no_queues, wait_of_member, waits_of

CHARGES_SHOWN = 60
"""Limit of claims in a job's details; a report has them all."""
CHARGES_DRAWN = 1_000
"""Limit of claims in a timeline."""
AWAITED_SHOWN = 5


def phase_of(job: Job) -> Phase:
    """Return the name of a job's phase."""
    return cast(Phase, job.phase_name)


def listed(
    state: State, chosen: Iterable[Job], queues: SiteQueues, now: Instant
) -> list[jobs.JobSummary]:
    """Make the summaries of jobs of the state for a list."""
    reasons = ShortReasons(state, queues, now)
    return [
        replace(
            brief := summary(job),
            copying=copying(state, job, now),
            reason=brief.reason or reasons.of(job),
        )
        for job in chosen
    ]


def summary(job: Job) -> jobs.JobSummary:
    """Make the summary of a job, without its copies and what it waits for."""
    attempt = job.attempt
    members = () if attempt is None else attempt.present
    started_at, ended_at = _run_time(job)
    is_malleable = job.spec.is_malleable
    return jobs.JobSummary(
        job=job.id,
        name=job.spec.name,
        owner=job.spec.owner,
        phase=phase_of(job),
        priority=job.spec.priority.value,
        processors=attempt.processors if attempt and is_malleable else job.spec.processors,
        components=len(members) if is_malleable and members else len(job.spec.components),
        sites=tuple(member.site for member in members if member.site is not None),
        programs=tuple(dict.fromkeys(component.executable for component in job.spec.components)),
        submitted_at=Moment.of(job.submitted_at),
        started_at=moment_of(started_at),
        ended_at=moment_of(ended_at),
        attempts=job.attempts,
        reason=_reason(job),
    )


def copying(state: State, job: Job, now: Instant) -> jobs.Copying | None:
    """Sum up the copies under way for a job, by their last reports; None if there are none."""
    attempt = None if job.has_ended else job.attempt
    members = () if attempt is None else attempt.present
    wanted = dict.fromkeys(transfer_id for member in members for transfer_id in member.transfers)
    copies = [
        state.files.transfers[transfer_id]
        for transfer_id in wanted
        if transfer_id in state.files.transfers
    ]
    if all(transfer.is_done for transfer in copies):
        return None
    left_s = max(transfer.expected_at for transfer in copies) - now
    return jobs.Copying(
        moved_bytes=sum(transfer.moved_bytes for transfer in copies),
        size_bytes=sum(transfer.size_bytes for transfer in copies),
        left_s=left_s if 0 <= left_s < FOREVER else None,
    )


def whole_document(
    state: State, job_id: JobId, now: Instant, queues: SiteQueues = no_queues
) -> jobs.JobDetails:
    """Make the details of a job, with its costs so far (living claims count) and what `queues` tell
    of its waits. Raises KeyError if there is no such job.
    """
    job = state.jobs[job_id]
    details = job_document(state, job_id)
    held_s, run_s = _of_living_claims(state, job, now)
    times = details.timeline
    return replace(
        details,
        copying=copying(state, job, now),
        reason=details.reason or ShortReasons(state, queues, now).of(job),
        parts=tuple(_waiting_part(state, job, part, queues, now) for part in details.parts),
        expected=expected_start(state, job, queues, now),
        timeline=replace(
            times,
            processor_wasted_s=times.processor_wasted_s + held_s,
            processor_run_s=times.processor_run_s + run_s,
        ),
        transfers=_transfers(state, job, now),
        ports=port_ways(job, job.attempt),
        charges=tuple(claim_costs(state, job, now)[-CHARGES_SHOWN:]),
    )


def timeline_document(state: State, job_id: JobId, now: Instant) -> jobs.JobTimeline:
    """Make a job's timeline, with its claims in all attempts. Raises KeyError if there is no such
    job."""
    job, whole = state.jobs[job_id], whole_document(state, job_id, now)
    return jobs.JobTimeline(
        job=job.id,
        phase=phase_of(job),
        attempts=whole.attempts,
        timeline=whole.timeline,
        transfers=whole.transfers,
        setbacks=whole.setbacks,
        story=whole.story,
        parts=tuple(
            jobs.PartCourse(
                component=part.component,
                label=part.label,
                processors=part.processors,
                site=part.site,
                claims=part.claims,
                asked_at=part.asked_at,
            )
            for part in whole.parts
        ),
        charges=tuple(claim_costs(state, job, now)[-CHARGES_DRAWN:]),
        now_at=None if job.has_ended else Moment.of(now),
    )


def _of_living_claims(state: State, job: Job, now: Instant) -> tuple[Seconds, Seconds]:
    """Processor-seconds of living claims that the job's sums do not have yet: held before the pass,
    and run after it."""
    held_s = run_s = 0.0
    for claim in state.ledger.values():
        if claim.job != job.id or claim.grant is None:
            continue
        if claim.passed_at is None:
            held_s += claim.processors * max(0.0, now - claim.grant.held_from)
        else:
            run_s += claim.processors * max(0.0, now - claim.passed_at)
    return held_s, run_s


def _transfers(state: State, job: Job, now: Instant) -> tuple[jobs.Transfer, ...]:
    """Copies of a job's current or last attempt: finished ones in the order of their ends, then
    those under way."""
    attempt = job.attempt
    if attempt is None:
        return ()
    under_way = [
        transfer
        for transfer in state.files.transfers.values()
        if transfer.job == job.id and transfer.attempt == attempt.number and not transfer.is_done
    ]
    return tuple(
        _transfer(job, attempt, transfer, now) for transfer in (*attempt.copied, *under_way)
    )


def _transfer(job: Job, attempt: Attempt, transfer: Transfer, now: Instant) -> jobs.Transfer:
    """Describe a copy by its last report."""
    left_s = transfer.expected_at - now
    is_overdue = left_s < 0 or left_s == FOREVER
    return jobs.Transfer(
        transfer=transfer.id,
        file=transfer.file,
        source=transfer.source,
        target=transfer.target,
        components=tuple(
            job.spec.label(member.component)
            for member in attempt.members
            if transfer.id in member.transfers
        ),
        size_bytes=transfer.size_bytes,
        moved_bytes=transfer.moved_bytes,
        share=transfer.share,
        rate_bps=transfer.rate_bps or None,
        left_s=0.0 if transfer.is_done else None if is_overdue else left_s,
        started_at=Moment.of(transfer.started_at),
        told_at=moment_of(transfer.told_at),
        is_done=transfer.is_done,
    )


def job_document(state: State, job_id: JobId) -> jobs.JobDetails:
    """Make the details of a job, without its copies and costs. Raises KeyError if there is no such
    job."""
    job = state.jobs[job_id]
    stopping = sum(claim.job == job_id for claim in state.ledger.values()) if job.has_ended else 0
    return jobs.JobDetails(
        **asdict(summary(job)),
        status=job.phase.status if isinstance(job.phase, Failed) else None,
        queue=None if job.queue is None else queue_label(job.queue),
        placement_tries=job.placement_tries,
        claiming_tries=job.claiming_tries,
        retries=job.retries,
        failures=job.failures,
        preemptions=job.preemptions,
        claim_fraction=job.claim_fraction,
        timeline=timeline(job),
        deadline=_deadline(state, job),
        total="" if job.spec.split is None else job.spec.split.describe(),
        parts=tuple(_part(state, job, index) for index in range(len(job.spec.components))),
        progress=_progress(job),
        size=job_size(job),
        claims_stopping=stopping,
        setbacks=_setbacks(job),
        story=tuple(jobs.StoryLine(Moment.of(at), text) for at, text in job.story),
    )


def _setbacks(job: Job) -> tuple[jobs.Setback, ...]:
    """Attempts that were given up. The reason is the story's; the story of a long life keeps its
    newest lines, so old reasons may be empty."""
    texts = dict(reversed(job.story))  # the first line of an instant
    return tuple(
        jobs.Setback(
            attempt=setback.attempt,
            at=Moment.of(setback.at),
            sites=setback.sites,
            reason=texts.get(setback.at, ""),
        )
        for setback in job.setbacks
    )


def _progress(job: Job) -> jobs.JobProgress | None:
    """Progress history of a controlled job; None if there is none (yet)."""
    history = job.course
    if history is None:
        return None
    return jobs.JobProgress(
        policy=history.policy,
        asynchrony_s=job.spec.asynchrony_s,
        deviation_s=job.spec.deviation_s,
        skew_s=history.points[-1][1],
        largest_skew_s=history.largest_s,
        corrections=history.corrections,
        shares={job.spec.label(index): share for index, share in history.shares.items()},
        skews=tuple(history.points),
    )


def _reason(job: Job) -> str:
    match job.phase:
        case Failed() | Cancelled() | Stopping():
            return job.phase.reason
        case Waiting(on=on):
            return f"waits for {_few(on)}"
        case _:
            return ""


def _few(jobs: Sequence[JobId]) -> str:
    """List a few jobs, and the number of the others."""
    more = len(jobs) - AWAITED_SHOWN
    return ", ".join(jobs[:AWAITED_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _deadline(state: State, job: Job) -> jobs.Deadline | None:
    """Deadline of a job and its next tries; None if it has no deadline."""
    if job.deadline_at is None:
        return None
    left = () if job.has_ended else tries_left(state, job)
    return jobs.Deadline(
        deadline_at=Moment.of(job.deadline_at),
        next_try_at=Moment.of(left[0]) if left else None,
        tries_left=len(left),
    )


def timeline(job: Job) -> jobs.Timeline:
    """Compute the points A to E of the paper's figure 1, and the times between (KOALA 8, 9)."""
    attempt = job.attempt
    passed = [] if attempt is None else attempt.passes
    started_at, ended_at = _run_time(job)
    start_at = None if attempt is None else attempt.start_at
    return jobs.Timeline(
        submitted_at=Moment.of(job.submitted_at),
        placed_at=None if attempt is None else Moment.of(attempt.placed_at),
        claim_at=moment_of(job.phase.claim_at) if isinstance(job.phase, Claiming) else None,
        claimed_at=None if attempt is None else moment_of(attempt.granted_at),
        start_at=moment_of(start_at),
        started_at=moment_of(started_at),
        ended_at=moment_of(ended_at),
        total_waiting_s=None if started_at is None else started_at - job.submitted_at,
        transfer_estimate_s=None if attempt is None else attempt.transfer_s,
        transfer_s=None if attempt is None else attempt.fetch_s,
        transfer_bytes=None if attempt is None else attempt.fetch_bytes,
        processor_gained_s=job.gained_s,
        processor_wasted_s=job.wasted_s,
        processor_run_s=job.ran_s,
        extra_claiming_tries=max(0, job.claiming_tries - 1),
        start_delay_s=_less(start_at, job.first_start_at),
        start_lateness_s=_less(started_at, start_at),
        start_skew_s=max(passed) - min(passed) if passed else None,
    )


def _less(later: Instant | None, earlier: Instant | None) -> Seconds | None:
    """Seconds between two instants; None unless both are known."""
    return None if later is None or earlier is None else later - earlier


def _run_time(job: Job) -> tuple[Instant | None, Instant | None]:
    """Instants of the job's start and end, None if not yet."""
    passed = [] if job.attempt is None else job.attempt.passes
    ended_at = job.phase.at if isinstance(job.phase, Finished | Failed | Cancelled) else None
    return max(passed) if passed else None, ended_at


def _part(state: State, job: Job, index: int) -> jobs.Part:
    component = job.spec.components[index]
    attempt = job.attempt
    member = Member(component=index, site=None) if attempt is None else attempt.members[index]
    claim = claim_of(state, member)
    return jobs.Part(
        component=index,
        label=job.spec.label(index),
        processors=component.processors,
        processes=component.processes,
        gpus=component.gpus or 0,
        executable=component.executable,
        fixed_site=component.site,
        start_type=component.start_type.value,
        site=member.site,
        file_site=member.source,
        mips=member.mips,
        booked_bps=_booked_bps(state, member),
        is_fetched=member.is_fetched,
        is_dropped=member.is_dropped,
        claim=member.claim,
        claim_phase=None if claim is None else claim.phase.name,
        claims=member.claims,
        asked_at=None if claim is None else Moment.of(claim.asked_at),
        claimed_at=moment_of(member.claimed_at),
        passed_at=moment_of(member.passed_at),
        refusal=member.refusal,
        end=None if member.end is None else _end(member.end),
    )


def _waiting_part(
    state: State, job: Job, part: jobs.Part, queues: SiteQueues, now: Instant
) -> jobs.Part:
    """Add what a component waits for in local queues."""
    if job.attempt is None or not isinstance(job.phase, Claiming | Queued):
        return part
    member = job.attempt.members[part.component]
    return replace(
        part,
        waits=waits_of(state, job, part.component, queues, now),
        wait=wait_of_member(state, job, member, queues, now),
    )


def _booked_bps(state: State, member: Member) -> float:
    """Bandwidth now booked for the member: on the link of its copy, or on its site's own link."""
    known = [state.files.transfers.get(transfer_id) for transfer_id in member.transfers]
    transfers = [transfer for transfer in known if transfer is not None]
    if not transfers:
        return member.booked_bps
    return max([0.0 if transfer.is_done else transfer.booked_bps for transfer in transfers])


def _end(end: ClaimEnd) -> jobs.PartEnd:
    return jobs.PartEnd(
        kind=end.kind.value,
        text=end.describe(),
        statuses=end.statuses,
        ended_at=moment_of(end.ended_at),
        cpu_s=end.cpu_s,
        memory_bytes=end.memory_bytes,
    )


def sites_document(state: State, now: Instant = 0.0) -> tuple[grid.SiteStatus, ...]:
    """Describe all sites, in order of name, as far as the state knows them."""
    claimed, held, running = Counter[SiteName](), Counter[SiteName](), Counter[SiteName]()
    for claim in state.ledger.values():
        claimed[claim.site] += claim.processors
        if claim.passed_at is not None:
            running[claim.site] += claim.processors
        elif claim.grant is not None:
            held[claim.site] += claim.processors
    links = _links(state)
    return tuple(
        grid.SiteStatus(
            site=site.name,
            state=_site_state(site),
            processors=site.facts.processors,
            idle=max(0, site.idle()),
            gpus=site.facts.resources.gpus,
            idle_gpus=max(0, site.idle_gpus()),
            resources=_resources(site.facts.resources),
            claimed=claimed[site.name],
            errors=site.errors,
            unusable_until=(
                None if site.unusable_until == FOREVER else moment_of(site.unusable_until)
            ),
            owner=site.facts.owner,
            users=len(site.facts.users),
            grace_s=site.facts.grace_s,
            may_kill_local=site.facts.may_kill_local,
            mips=site.facts.mips,
            slots=site.facts.slots,
            local=site.reported_local,
            rtt_s=site.rtt_s,
            address=site.facts.address,
            held=held[site.name],
            running=running[site.name],
            links=tuple(links.get(site.name, ())),
            is_drained=site.is_drained,
            gate=site.facts.gate,
            books=site.facts.books,
            reservations=None if site.reservations is None else dict(site.reservations),
        )
        for site in state.sites.values()
    )


def _links(state: State) -> dict[SiteName, list[grid.LinkStatus]]:
    """Describe each site's links that have a known bandwidth or a copy under way."""
    copies = Counter(
        (transfer.source, transfer.target)
        for transfer in state.files.transfers.values()
        if not transfer.is_done
    )
    links: dict[SiteName, list[grid.LinkStatus]] = {}
    for source, target in sorted({*state.files.bandwidth, *copies}):
        link = grid.LinkStatus(
            to=target,
            bytes_per_s=state.files.bandwidth.get((source, target)),
            copies=copies[source, target],
        )
        links.setdefault(source, []).append(link)
    return links


def _resources(resources: SiteResources) -> grid.Resources:
    return grid.Resources(
        gpu_types=resources.gpu_types,
        host_gpus=resources.host_gpus,
        features=resources.features,
        licenses=dict(resources.licenses),
        queues=tuple(map(_queue, resources.queues)),
        host_memory_mb=resources.host_memory_mb,
        host_processors=resources.host_processors,
        unit=resources.unit,
    )


def _queue(queue: Queue) -> grid.LocalQueue:
    return grid.LocalQueue(
        name=queue.name,
        is_default=queue.is_default,
        longest_s=queue.longest_s or None,
        usual_s=queue.usual_s or None,
        processors=queue.processors or None,
        hosts=queue.hosts or None,
    )


def _site_state(site: Site) -> grid.SiteState:
    if not site.is_connected:
        return "disconnected"
    if site.is_drained:
        return "drained"
    if is_resting(site) or site.silence:
        return "unusable"
    return "probing" if site.unusable_until is not None else "usable"


def files_document(state: State) -> tuple[grid.ReplicaFile, ...]:
    """List the replica catalogue, in order of logical name."""
    return tuple(
        grid.ReplicaFile(
            file=name,
            size_bytes=replica.size_bytes,
            checksum=replica.checksum,
            sites=replica.sites,
        )
        for name, replica in sorted(state.files.replicas.items())
    )
