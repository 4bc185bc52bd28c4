"""The state machine: events in, actions out. The only place where a job's phase is assigned.

    submitted -> Delayed | Placing      place -> Claiming      all granted -> Starting
    all armed -> Releasing              all passed -> Running   all ended well -> Finished
    trouble -> Stopping -> Placing      own failure, limits -> Failed          cancel -> Cancelled

Two rules carry the rest. *Release is a decision*: `Releasing` is entered in the handling of the
event that brought the last Armed, so it is durable before any Release leaves. *Stop is owed*: a
claim leaves the ledger only by `ClaimGone` or `ClaimFenced`, and a job whose attempt was released
is not placed again before all its claims have left.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koala.core import events as ev
from koala.core.actions import (
    AcknowledgeClaim,
    Action,
    Announce,
    ArmClaim,
    CancelTransfer,
    ClaimProcessors,
    Peer,
    PublishOutputs,
    ReleaseClaim,
    StartTransfer,
    StopClaim,
    Wanted,
)
from koala.core.budget import Budget
from koala.core.files import Files, Transfer
from koala.core.grid import (
    Assignment,
    GridView,
    Part,
    Placement,
    PlacementRequest,
    Replica,
    Site,
    SiteView,
)
from koala.core.health import ended_well, erred
from koala.core.job import (
    SITE_FAULTS,
    TERMINAL,
    TRANSITIONS,
    Arming,
    ArmNumber,
    Attempt,
    Cancelled,
    Claim,
    ClaimEnd,
    Claiming,
    ClaimPhase,
    Delayed,
    EndKind,
    Failed,
    Finished,
    InputMode,
    Job,
    Member,
    Phase,
    Placing,
    Releasing,
    Running,
    Starting,
    StartType,
    Stopping,
)
from koala.core.parameters import Parameters
from koala.core.queues import Queues
from koala.core.sites import is_usable, note_ask, note_report, view
from koala.core.slots import (
    ClaimPlan,
    ClaimQuestion,
    PendingPart,
    Policies,
    Recorder,
    Victim,
)
from koala.core.timeline import (
    chunk,
    first_claim_at,
    lead_s,
    lowered_fraction,
    next_claim_at,
)
from koala.core.timers import Bell, Timer, Timers
from koala.core.values import (
    ClaimId,
    FileName,
    Instant,
    JobId,
    Priority,
    SiteName,
    UserName,
    claim_id,
    transfer_id,
)

STORY_LINES_MAX = 60
ENDED_PHASES = (EndKind.STOPPED, EndKind.EXITED)


class Scheduler:
    """`handle(event, now)` is the only call that changes scheduling state; `wake_at` the only
    timer.

    The rest are readings: `jobs`, `ledger`, `sites`, `replicas`, `wanted(site)`.
    """

    def __init__(self, parameters: Parameters, policies: Policies) -> None:
        self.parameters = parameters
        self.policies = policies
        self.epoch = 0
        self.started_at: Instant = 0.0
        self.jobs: dict[JobId, Job] = {}
        self.ledger: dict[ClaimId, Claim] = {}
        self.sites: dict[SiteName, Site] = {}
        self.keys: dict[str, tuple[JobId, str]] = {}
        self.queues = Queues()
        self.files = Files()
        self.user_budgets: dict[UserName, Budget] = {}
        self.site_budgets: dict[SiteName, Budget] = {}
        self.placed: dict[JobId, Job] = {}  # jobs with an attempt that is not over
        self.arms = 0
        self._recorder = Recorder()
        self._timers = Timers()
        self._scan_asked = False
        self._scan_is_set = False
        self._actions: list[Action] = []

    # --- the three calls of a driver ---

    def handle(self, event: ev.Event, now: Instant) -> list[Action]:
        """Take in what happened; what is to be done, in order, once the event is durable."""
        return self._handle(event, now, None)

    def replay(self, event: ev.Event, now: Instant, answers: list[Any]) -> list[Action]:
        """As `handle`, with the policies' recorded answers in their place."""
        return self._handle(event, now, answers)

    @property
    def answers(self) -> list[Any]:
        """The policies' answers in the last `handle`, to be recorded with the event."""
        return self._recorder.answers

    @property
    def wake_at(self) -> Instant | None:
        """The next instant at which the core wants a Woken event."""
        return self._timers.next_at

    @property
    def has_room(self) -> bool:
        """Whether a submission now enters its placement queue rather than being delayed."""
        return not self.queues.delayed and len(self.queues) < self.parameters.queue_jobs_max

    @property
    def replicas(self) -> dict[FileName, Replica]:
        """The replica catalogue."""
        return self.files.replicas

    def _handle(self, event: ev.Event, now: Instant, answers: list[Any] | None) -> list[Action]:
        self._recorder.begin(answers)
        self._actions = []
        self._dispatch(event, now)
        if self._scan_asked and not self._scan_is_set:
            self._scan_is_set = True
            self._timers.set(now, Bell.SCAN)
        self._scan_asked = False
        return self._actions

    def _dispatch(self, event: ev.Event, now: Instant) -> None:  # noqa: C901 - one line a kind of event
        match event:
            case ev.Woken():
                self._on_woken(now)
            case ev.JobSubmitted():
                self._on_submitted(event, now)
            case ev.JobCancelRequested():
                self._on_cancel(event, now)
            case ev.ClaimGranted():
                self._on_granted(event, now)
            case ev.ClaimArmed():
                self._on_armed(event, now)
            case ev.ClaimPassed():
                self._on_passed(event, now)
            case ev.ClaimGone():
                self._on_gone(event.claim, event.end, now)
            case ev.ClaimFenced():
                self._on_fenced(event, now)
            case ev.TransferFinished():
                self._on_transfer_finished(event, now)
            case ev.TransferFailed():
                self._on_transfer_failed(event, now)
            case ev.SiteReported():
                self._on_reported(event)
            case ev.SiteRegistered():
                self._on_registered(event, now)
            case ev.SiteDisconnected():
                self._on_disconnected(event.site, now)
            case ev.SiteDrained():
                self._on_drained(event, now)
            case ev.SiteResumed():
                self._on_resumed(event, now)
            case ev.SiteDeclaredLost():
                self._on_declared_lost(event, now)
            case ev.ReplicaAdded():
                self.files.add(
                    event.file, event.site, size_bytes=event.size_bytes, checksum=event.checksum
                )
                self._ask_scan()
            case ev.ReplicaRemoved():
                self.files.remove(event.file, event.site)
            case ev.DaemonStarted():
                self._on_daemon_started(event, now)
            case ev.ParametersChanged():
                self.parameters = event.parameters
                for source, target, bandwidth in event.links:
                    self.files.bandwidth.setdefault((source, target), bandwidth)
                self._ask_scan()

    # --- time ---

    def _on_daemon_started(self, event: ev.DaemonStarted, now: Instant) -> None:
        self.epoch = event.epoch
        self.started_at = now
        self.arms = 0
        for site in self.sites.values():
            if site.is_connected:
                self._on_disconnected(site.name, now)
        if self._is_paced:
            self._timers.set(now + self.parameters.scan_interval_s, Bell.SCAN)
        self._ask_scan()

    @property
    def _is_paced(self) -> bool:
        return self.parameters.scan == "interval"

    def _on_woken(self, now: Instant) -> None:
        while timer := self._timers.due(now):
            self._ring(timer, now)

    def _ring(self, timer: Timer, now: Instant) -> None:
        match timer.bell:
            case Bell.SCAN:
                self._on_scan_due(now)
            case Bell.SILENT:
                self._on_silent(SiteName(timer.key), timer.at, now)
            case Bell.PROBE:
                self._on_rested(SiteName(timer.key), now)
            case Bell.CLAIM | Bell.JUDGE | Bell.ARM | Bell.RELEASE:
                job = self.placed.get(JobId(timer.key))
                if job is not None:
                    self._on_job_due(job, timer.bell, now)

    def _on_job_due(self, job: Job, bell: Bell, now: Instant) -> None:
        """A job's timer rang; the phase says whether it still means anything."""
        match job.phase:
            case Claiming(claim_at=None) if bell is Bell.JUDGE:
                self._judge_when_due(job, now)
            case Claiming(claim_at=at) if at is not None and at <= now and bell is Bell.CLAIM:
                self._claim_when_answered(job, now)
            case Starting():
                self._advance_start(job, now)
            case _:
                pass

    # --- queue ---

    def _on_submitted(self, event: ev.JobSubmitted, now: Instant) -> None:
        if event.job in self.jobs:
            return
        has_room = self.has_room
        job = Job(
            id=event.job,
            spec=event.spec,
            submitted_at=now,
            phase=Placing(queued_at=now) if has_room else Delayed(),
            claim_fraction=self.parameters.claim_fraction,
        )
        self.jobs[job.id] = job
        if event.key:
            self.keys[event.key] = (job.id, event.digest)
        if not has_room:
            self.queues.delayed[job.id] = job
            self._tell(job, "delayed: the placement queues are full", now)
            return
        self._tell(job, f"submitted, {event.spec.priority.value} priority", now)
        self.queues.append(job)
        if self._is_paced:  # tried at once, then at each scan (KOALA 3.1)
            self._try_to_place(job, self._view(now), now)
        self._ask_scan()

    def _enqueue(self, job: Job, text: str, now: Instant) -> None:
        self._enter(job, Placing(queued_at=now), text, now)
        self.queues.append(job)
        self._ask_scan()

    def _admit(self, now: Instant) -> None:
        """Let delayed submissions in, in order, while there is room."""
        delayed = self.queues.delayed
        while delayed and len(self.queues) < self.parameters.queue_jobs_max:
            job = delayed.pop(next(iter(delayed)))
            self._enqueue(job, "admitted to its placement queue", now)

    def _ask_scan(self) -> None:
        """Something changed that may let a job be placed. The paper's setting waits for its
        interval.
        """
        self._scan_asked = not self._is_paced

    def _on_scan_due(self, now: Instant) -> None:
        if self._is_paced:
            self._timers.set(now + self.parameters.scan_interval_s, Bell.SCAN)
            self._scan(now)
            return
        self._scan_is_set = False
        idle_scans = 0
        while len(self.queues) and idle_scans <= self.parameters.high_scans_per_low:
            idle_scans = 0 if self._scan(now) else idle_scans + 1

    def _scan(self, now: Instant) -> int:
        """One scan of the queue whose turn it is, jobs that have aged first; how many were
        placed.
        """
        priority = self.policies.turn(self.queues.scans, self.parameters.high_scans_per_low)
        self.queues.scans += 1
        picture = self._view(now)
        aged = self.queues.aged(now, self.parameters.ageing_s)
        placed = 0
        for job in aged:
            if self._try_to_place(job, picture, now):
                placed += 1
            elif self._holds_the_door(job, now):
                return placed
        for job in self.queues.queue(priority):
            if job not in aged and self._try_to_place(job, picture, now):
                placed += 1
        self._admit(now)
        return placed

    def _holds_the_door(self, job: Job, now: Instant) -> bool:
        """An aged job that the empty grid could take lets nobody pass, every second half of an
        ageing period: processors gather for it, and if other users take them all, the others are
        not starved in turn."""
        assert isinstance(job.phase, Placing)
        period_s = max(self.parameters.ageing_s / 2, 1.0)
        waited_s = now - job.phase.queued_at - self.parameters.ageing_s
        if int(waited_s // period_s) % 2:
            return False
        views = [
            SiteView(name=s.name, processors=s.facts.processors, idle=s.facts.processors)
            for s in self.sites.values()
            if is_usable(s, now) and s.facts.owner in (None, job.spec.owner)
        ]
        empty = GridView(
            views,
            replicas=self.files.replicas,
            bandwidth=self.files.bandwidth,
            bandwidth_default=self.parameters.bandwidth_default_bps,
        )
        return self._ask_placement(self._whole_request(job), empty) is not None

    def _view(self, now: Instant) -> GridView:
        return view(
            self.sites,
            self.files,
            self.parameters,
            now=now,
            placed=self._placed_processors() if self.parameters.count_placed else {},
            busy=self.ledger.values(),
        )

    def _placed_processors(self) -> dict[SiteName, int]:
        """Processors placed and not yet claimed, by site (the option `count_placed`)."""
        counts: dict[SiteName, int] = {}
        for job in self.placed.values():
            if not isinstance(job.phase, Claiming) or job.attempt is None:
                continue
            for member in job.attempt.present:
                if member.claim is None and member.site is not None:
                    processors = job.spec.components[member.component].processors
                    counts[member.site] = counts.get(member.site, 0) + processors
        return counts

    # --- place ---

    def _try_to_place(self, job: Job, picture: GridView, now: Instant) -> bool:
        """A placement try (KOALA 3.1)."""
        job.placement_tries += 1
        needed = self._needed(job)
        if needed == len(job.spec.components) and job.spec.largest > picture.idle_max:
            placement = None  # needs no policy: long queues are scanned often
        else:
            placement = self._find_placement(job, picture, needed)
        if placement is not None:
            self._place(job, placement, picture, now)
            return True
        limit = self.parameters.placement_tries_max
        if limit and job.placement_tries >= limit:
            self._fail(job, f"not placed in {limit} placement tries", now)
        return False

    def _needed(self, job: Job) -> int:
        """How many components a placement must have: those of the quorum, or all but the loose
        ones.
        """
        spec = job.spec
        if spec.quorum is not None:
            return min(spec.quorum, len(spec.components))
        optional = sum(c.start_type is not StartType.STRICT for c in spec.components)
        return max(1, len(spec.components) - optional)

    def _find_placement(self, job: Job, picture: GridView, needed: int) -> Placement | None:
        """All components if possible, else as many as the job can start with, left out from the
        largest on.
        """
        request = self._whole_request(job)
        answer = self._ask_placement(request, picture)
        if answer is not None or needed == len(request.parts):
            return answer
        found: list[Assignment] = []
        trial = _Trial(picture)
        for part in sorted(
            request.parts, key=lambda p: (self._is_optional(job, p.component), -p.processors)
        ):
            one = self._ask_placement(replace(request, parts=(part,)), picture)
            if one is not None:
                found.append(one.assignments[0])
                trial.take(one.assignments[0].site, part.processors)
            elif not self._is_optional(job, part.component):
                break
        trial.undo()
        is_enough = len(found) >= needed and all(
            self._is_optional(job, index) or any(a.component == index for a in found)
            for index in range(len(job.spec.components))
        )
        return Placement(assignments=tuple(found)) if is_enough else None

    def _is_optional(self, job: Job, component: int) -> bool:
        """The job can start without this component."""
        if job.spec.quorum is not None:
            return True
        return job.spec.components[component].start_type is not StartType.STRICT

    def _whole_request(self, job: Job) -> PlacementRequest:
        return PlacementRequest(
            parts=tuple(
                Part(
                    component=index,
                    processors=component.processors,
                    site=component.site,
                    size_bytes=self._part_of_file(job, index)[1],
                )
                for index, component in enumerate(job.spec.components)
            ),
            user=job.spec.owner,
            file=job.spec.input_file.name if job.spec.input_file else None,
        )

    def _part_of_file(self, job: Job, component: int) -> tuple[int, int]:
        """Offset and size of what a component reads of the job's input file."""
        file = job.spec.input_file
        if file is None:
            return 0, 0
        replica = self.files.replicas.get(file.name)
        size_bytes = replica.size_bytes if replica is not None else file.size_bytes or 0
        if job.spec.input_mode is InputMode.WHOLE:
            return 0, size_bytes
        return chunk([c.processors for c in job.spec.components], component, size_bytes)

    def _ask_placement(self, request: PlacementRequest, picture: GridView) -> Placement | None:
        def ask() -> Placement | None:
            answer = self.policies.place(request, picture)
            return answer if isinstance(answer, Placement) else None

        answer = self._recorder.ask(ask)
        assert answer is None or isinstance(answer, Placement), answer
        return answer

    def _place(self, job: Job, placement: Placement, picture: GridView, now: Instant) -> None:
        """The job leaves its queue: transfers start, and it is to be claimed (KOALA 3.2)."""
        by_component = {assignment.component: assignment for assignment in placement.assignments}
        transfer_s = max(a.transfer_s for a in placement.assignments)
        job.attempts += 1
        attempt = Attempt(
            number=job.attempts,
            placed_at=now,
            transfer_s=transfer_s,
            start_at=now + transfer_s,
            members=[
                Member(component=index, site=None) for index in range(len(job.spec.components))
            ],
        )
        job.attempt = attempt
        if job.first_start_at is None:
            job.first_start_at = attempt.start_at
        self.placed[job.id] = job
        self.queues.remove(job)
        for member in attempt.members:
            assignment = by_component.get(member.component)
            if assignment is not None:
                picture.take(assignment.site, job.spec.components[member.component].processors)
                self._settle_member(job, member, assignment, now)
        claim_at = first_claim_at(
            now, transfer_s, fraction=job.claim_fraction, hold_max_s=self._hold_max_s(job)
        )
        sites = ", ".join(str(m.site or "nowhere yet") for m in attempt.members)
        self._enter(job, Claiming(claim_at=claim_at), f"placed on {sites}", now)
        if claim_at <= now:
            self._try_to_claim(job, now)
        else:
            self._timers.set(claim_at, Bell.CLAIM, job.id)

    def _hold_max_s(self, job: Job) -> float:
        return self.parameters.hold_s if job.spec.max_hold_s is None else job.spec.max_hold_s

    def _settle_member(
        self, job: Job, member: Member, assignment: Assignment, now: Instant
    ) -> None:
        """Give a member its execution site and file site; its transfer starts at once."""
        attempt = job.attempt
        assert attempt is not None
        self._drop_transfer(attempt, member)
        member.site = assignment.site
        member.source = assignment.source
        member.is_fetched = assignment.source is None
        if assignment.source is None or job.spec.input_file is None:
            member.is_fetched = True
            return
        offset, size_bytes = self._part_of_file(job, member.component)
        for other in attempt.present:  # the whole file is fetched once a site
            shared = self.files.transfers.get(other.transfer) if other.transfer else None
            if shared and (shared.target, shared.offset, shared.size_bytes) == (
                assignment.site,
                offset,
                size_bytes,
            ):
                member.transfer = shared.id
                return
        attempt.transfers += 1
        file = job.spec.input_file.name
        transfer = Transfer(
            id=transfer_id(job.id, attempt=attempt.number, n=attempt.transfers),
            job=job.id,
            attempt=attempt.number,
            file=file,
            source=assignment.source,
            target=assignment.site,
            offset=offset,
            size_bytes=size_bytes,
            checksum=self.files.replicas[file].checksum,
            started_at=now,
        )
        self.files.transfers[transfer.id] = transfer
        member.transfer = transfer.id
        self._actions.append(_start(transfer))

    def _drop_transfer(self, attempt: Attempt, member: Member) -> None:
        """The member does not want its file here any more; the copy stops when nobody else does."""
        wanted, member.transfer = member.transfer, None
        if wanted is None or any(other.transfer == wanted for other in attempt.present):
            return
        self._cancel_transfer(wanted)

    def _cancel_transfer(self, wanted: Any) -> None:
        transfer = self.files.transfers.pop(wanted, None)
        if transfer is not None:
            self._actions.append(
                CancelTransfer(transfer=transfer.id, source=transfer.source, target=transfer.target)
            )

    # --- claim ---

    def _claim_when_answered(self, job: Job, now: Instant) -> None:
        """A claiming try is due when the answers of the last are in; the one at the JST does not
        wait for them.
        """
        assert job.attempt is not None
        if not self._unanswered(job) or now >= job.attempt.start_at:
            self._try_to_claim(job, now)

    def _unanswered(self, job: Job) -> list[Claim]:
        assert job.attempt is not None
        claims = [self.ledger.get(m.claim) for m in job.attempt.present if m.claim is not None]
        return [claim for claim in claims if claim is not None and claim.phase is ClaimPhase.ASKED]

    def _try_to_claim(self, job: Job, now: Instant) -> None:
        """A claiming try (KOALA 3.2, 3.3): ask the policy, do as it says, set the next JCT."""
        attempt = job.attempt
        assert attempt is not None
        limit = self.parameters.claiming_tries_max
        if limit and job.claiming_tries >= limit:
            self._fail(job, f"not claimed in {limit} claiming tries", now)
            return
        job.claiming_tries += 1
        attempt.tries += 1
        is_last = now >= attempt.start_at
        picture = self._view(now)
        question = self._claim_question(job, now)
        plan = self._recorder.ask(
            lambda: self.policies.claim(question, picture, self.policies.place)
        )
        assert isinstance(plan, ClaimPlan), plan
        self._carry_out(job, plan, now)
        if not isinstance(job.phase, Claiming) or job.attempt is not attempt:
            return
        step_min_s = max(
            self.parameters.claiming_step_min_s,
            *(self.sites[m.site].facts.grace_s for m in attempt.present if m.site is not None),
            0.0,
        )
        claim_at = None
        if not is_last:
            claim_at = next_claim_at(
                now, attempt.start_at, fraction=job.claim_fraction, step_min_s=step_min_s
            )
            self._timers.set(claim_at, Bell.CLAIM, job.id)
        self._enter(job, Claiming(claim_at=claim_at), "", now)
        if claim_at is None:
            self._judge_when_due(job, now)
        else:
            self._start_if_held(job, now)

    def _claim_question(self, job: Job, now: Instant) -> ClaimQuestion:
        attempt = job.attempt
        assert attempt is not None
        present = attempt.present
        pending = tuple(
            PendingPart(
                component=m.component,
                processors=job.spec.components[m.component].processors,
                site=m.site,
                fixed=job.spec.components[m.component].site,
                size_bytes=self._part_of_file(job, m.component)[1],
            )
            for m in present
            if m.claim is None and m.end is None
        )
        is_high = job.spec.priority is Priority.HIGH and self.parameters.preempt != "none"
        return ClaimQuestion(
            components=len(present),
            held=len(present) - len(pending),
            pending=pending,
            user=job.spec.owner,
            priority=job.spec.priority,
            file=job.spec.input_file.name if job.spec.input_file else None,
            remaining_s=max(0.0, attempt.start_at - now),
            threshold=self.parameters.claim_threshold,
            preempt=self.parameters.preempt,
            victims=self._victims() if is_high else (),
            preemptible=tuple(
                site.name
                for site in self.sites.values()
                if is_high
                and site.facts.starts_after_stop
                and is_usable(site, now)
                and now >= site.no_preempt_until
            ),
        )

    def _victims(self) -> tuple[Victim, ...]:
        """Low-priority jobs that hold processors and are not in Releasing, latest JST first."""
        victims = []
        for job in self.placed.values():
            is_open = isinstance(job.phase, Claiming | Starting | Running)
            if job.spec.priority is not Priority.LOW or not is_open or job.attempt is None:
                continue
            held: dict[SiteName, int] = {}
            for member in job.attempt.present:
                claim = self.ledger.get(member.claim) if member.claim else None
                if claim is not None and claim.phase is not ClaimPhase.ASKED:
                    held[claim.site] = held.get(claim.site, 0) + claim.processors
            if held:
                victims.append(
                    Victim(job=job.id, start_at=job.attempt.start_at, held=tuple(held.items()))
                )
        return tuple(sorted(victims, key=lambda victim: -victim.start_at))

    def _carry_out(self, job: Job, plan: ClaimPlan, now: Instant) -> None:
        """Claim where the components are, move and claim the others, queue a claim before its
        victims are stopped.
        """
        attempt = job.attempt
        assert attempt is not None
        members = {member.component: member for member in attempt.members}
        for component in plan.claims:
            self._claim(job, members[component], now)
        for move in plan.moves:
            member = members[move.component]
            text = f"component {job.spec.label(move.component)} moves from {member.site} to {move.site}"
            self._tell(job, text, now)
            self._settle_member(job, member, move, now)
            self._claim(job, member, now)
        for component in plan.preempting:
            self._claim(job, members[component], now, is_preempting=True)
        for victim in plan.victims:
            other = self.placed.get(victim)
            if other is not None:
                self._set_back(other, f"preempted by {job.id}", now)

    def _claim(
        self, job: Job, member: Member, now: Instant, *, is_preempting: bool = False
    ) -> None:
        """Make one claim, unless it is over the hold budget."""
        attempt = job.attempt
        assert attempt is not None
        assert member.site is not None
        site = self.sites[member.site]
        component = job.spec.components[member.component]
        identity = claim_id(
            job.id, attempt=attempt.number, component=member.component, n=member.claims + 1
        )
        hold_s = self._hold_max_s(job)
        if not self._charge(job, site, identity, component.processors * hold_s, now):
            member.refusal = "the hold budget is used up"
            return
        member.claims += 1
        member.claim = identity
        member.claimed_at = None
        claim = Claim(
            id=identity,
            job=job.id,
            attempt=attempt.number,
            component=member.component,
            site=site.name,
            processors=component.processors,
            start_type=component.start_type,
            asked_at=now,
            ask_number=note_ask(site, identity, component.processors),
            hold_s=hold_s,
            grace_until=now + site.facts.grace_s,
            is_preempting=is_preempting,
        )
        if component.start_type is StartType.NONE:
            claim.released = True  # it runs from check-in on, without a Release
            attempt.may_run = True
        self.ledger[identity] = claim
        self._actions.append(self._hold(claim))

    def _charge(
        self, job: Job, site: Site, claim: ClaimId, processor_s: float, now: Instant
    ) -> bool:
        user = self.user_budgets.setdefault(job.spec.owner, Budget())
        place = self.site_budgets.setdefault(site.name, Budget())
        limits = self.parameters
        if not user.allows(processor_s, limit_s=limits.hold_budget_user_s, now=now):
            return False
        if not place.allows(processor_s, limit_s=limits.hold_budget_site_s, now=now):
            return False
        user.charge(claim, processor_s, now)
        place.charge(claim, processor_s, now)
        return True

    def _on_granted(self, event: ev.ClaimGranted, now: Instant) -> None:
        claim = self.ledger.get(event.claim)
        if claim is None or claim.phase is not ClaimPhase.ASKED:
            return
        claim.phase = ClaimPhase.GRANTED
        claim.nonce = event.nonce
        claim.granted_at = now
        found = self._member(claim)
        if found is None:
            return
        job, member = found
        member.claimed_at = now
        assert job.attempt is not None
        job.gained_s += claim.processors * (now - job.attempt.placed_at)
        self._after_answer(job, now)

    def _after_answer(self, job: Job, now: Instant) -> None:
        """An answer to a claim came: everything may be held, or the next try may be due, or the
        last one decided.
        """
        if not isinstance(job.phase, Claiming):
            return
        if job.phase.claim_at is None:
            self._judge_when_due(job, now)
        elif not self._start_if_held(job, now):
            if job.phase.claim_at <= now:
                self._claim_when_answered(job, now)

    def _start_if_held(self, job: Job, now: Instant) -> bool:
        """Every component is claimed: the job leaves the claiming queue."""
        assert job.attempt is not None
        if not all(self._is_held(member) for member in job.attempt.present):
            return False
        job.attempt.granted_at = now
        self._enter(job, Starting(), "all components claimed", now)
        self._advance_start(job, now)
        return True

    def _is_held(self, member: Member) -> bool:
        claim = self.ledger.get(member.claim) if member.claim is not None else None
        is_over = member.end is not None
        return is_over or (claim is not None and claim.phase is not ClaimPhase.ASKED)

    def _judge_when_due(self, job: Job, now: Instant) -> None:
        """The try at the JST is judged when answered, at JST + grace at the latest."""
        assert job.attempt is not None
        if self._start_if_held(job, now):
            return
        waiting = self._unanswered(job)
        due_at = max((claim.grace_until for claim in waiting), default=now)
        if due_at > now:
            self._timers.set(due_at, Bell.JUDGE, job.id)
        else:
            self._judge(job, now)

    def _judge(self, job: Job, now: Instant) -> None:
        """The end of the claiming tries: start with those that are held if the job can, else give
        all back.
        """
        attempt = job.attempt
        assert attempt is not None
        missing = [member for member in attempt.present if not self._is_held(member)]
        held = len(attempt.present) - len(missing)
        strict = [m for m in missing if not self._is_optional(job, m.component)]
        if strict or held < self._needed(job) or held == 0:
            names = ", ".join(self._describe(job, member) for member in strict or missing)
            self._set_back(job, f"not claimed by its start time: {names}", now)
            return
        for member in missing:
            self._drop_member(job, member, "not claimed by the start time", now)
        self._start_if_held(job, now)

    def _describe(self, job: Job, member: Member) -> str:
        why = f" ({member.refusal})" if member.refusal else ""
        return f"{job.spec.label(member.component)} at {member.site or 'no site'}{why}"

    def _drop_member(self, job: Job, member: Member, reason: str, now: Instant) -> None:
        assert job.attempt is not None
        member.is_dropped = True
        self._stop_member(member)
        self._drop_transfer(job.attempt, member)
        self._tell(job, f"goes on without {self._describe(job, member)}: {reason}", now)

    # --- start ---

    def _barrier_members(self, job: Job) -> list[Member]:
        assert job.attempt is not None
        components = job.spec.components
        return [
            member
            for member in job.attempt.present
            if components[member.component].start_type is not StartType.NONE and member.end is None
        ]

    def _advance_start(self, job: Job, now: Instant) -> None:
        """All are held. When the files are there and the JST is near: arm."""
        attempt = job.attempt
        assert attempt is not None
        members = self._barrier_members(job)
        if not members:
            self._enter(job, Running(since=now), "running without a barrier", now)
            self._finish_if_over(job, now)
            return
        if not all(member.is_fetched for member in attempt.present):
            return
        rtt_s = max((self.sites[m.site].rtt_s for m in members if m.site is not None), default=0.0)
        lead = lead_s(
            rtt_s,
            arms=attempt.arms,
            lead_min_s=self.parameters.lead_min_s,
            lead_max_s=self.parameters.lead_max_s,
        )
        if now < attempt.start_at - lead:
            self._timers.set(attempt.start_at - lead, Bell.ARM, job.id)
        elif attempt.arming is None or now >= attempt.arming.release_at:
            self._arm(job, members, max(attempt.start_at, now + lead), now)

    def _arm(self, job: Job, members: list[Member], release_at: Instant, now: Instant) -> None:
        """Ask every member to promise to wait for a release at `release_at` (design: Arm)."""
        attempt = job.attempt
        assert attempt is not None
        if attempt.arms >= self.parameters.arms_max:
            self._set_back(job, f"not all components armed in {attempt.arms} rounds", now)
            return
        attempt.arms += 1
        self.arms += 1
        number = ArmNumber(epoch=self.epoch, counter=self.arms)
        claims = [self.ledger[member.claim] for member in members if member.claim is not None]
        attempt.arming = Arming(
            number=number, release_at=release_at, waiting=[claim.id for claim in claims]
        )
        late_s = release_at - now + self.parameters.late_max_s
        peers = self._peers(job)
        for claim in claims:
            self._actions.append(
                ArmClaim(
                    claim=claim.id,
                    site=claim.site,
                    number=number,
                    release_at=release_at,
                    late_s=late_s,
                    peers=peers,
                )
            )
        self._timers.set(release_at, Bell.RELEASE, job.id)

    def _peers(self, job: Job) -> tuple[Peer, ...]:
        assert job.attempt is not None
        peers = []
        for member in job.attempt.present:
            if member.site is None or member.claim is None:
                continue
            component = job.spec.components[member.component]
            peers.append(
                Peer(
                    component=member.component,
                    label=job.spec.label(member.component),
                    site=member.site,
                    processors=component.processors,
                    processes=component.processes,
                    address=self.sites[member.site].facts.address,
                    claim=member.claim,
                )
            )
        return tuple(peers)

    def _on_armed(self, event: ev.ClaimArmed, now: Instant) -> None:
        claim = self.ledger.get(event.claim)
        found = self._member(claim) if claim is not None else None
        if claim is None or found is None:
            return
        job = found[0]
        arming = job.attempt.arming if job.attempt is not None else None
        if not isinstance(job.phase, Starting) or arming is None or arming.number != event.number:
            return
        if claim.id not in arming.waiting:
            return
        claim.phase = ClaimPhase.ARMED
        arming.waiting.remove(claim.id)
        if not arming.waiting and now < arming.release_at:
            self._release(job, arming, now)

    def _release(self, job: Job, arming: Arming, now: Instant) -> None:
        """All members have armed under one number and T is ahead: the one Release of this attempt
        (promise 3).
        """
        attempt = job.attempt
        assert attempt is not None
        assert attempt.released is None, f"{job.id}/{attempt.number} is released already"
        attempt.released = arming.number
        attempt.release_at = arming.release_at
        attempt.arming = None
        attempt.may_run = True
        for member in self._barrier_members(job):
            assert member.claim is not None
            claim = self.ledger[member.claim]
            assert claim.phase is ClaimPhase.ARMED, f"{claim.id} is {claim.phase}"
            claim.phase = ClaimPhase.RELEASED
            claim.released = True
            self._actions.append(_release_claim(claim, arming.number, arming.release_at))
        self._enter(job, Releasing(), "released", now)

    def _on_passed(self, event: ev.ClaimPassed, now: Instant) -> None:
        claim = self.ledger.get(event.claim)
        if claim is None or claim.passed_at is not None:
            return
        claim.passed_at = event.passed_at
        if claim.phase is not ClaimPhase.STOPPING:
            claim.phase = ClaimPhase.PASSED
        self._settle_hold(claim, now)
        found = self._member(claim)
        if found is None:
            return
        job, member = found
        member.passed_at = event.passed_at
        self._run_if_passed(job, now)

    def _run_if_passed(self, job: Job, now: Instant) -> None:
        assert job.attempt is not None
        if not isinstance(job.phase, Releasing):
            return
        components = job.spec.components
        barrier = [
            m
            for m in job.attempt.present
            if components[m.component].start_type is not StartType.NONE
        ]
        if all(member.passed_at is not None for member in barrier):
            self._enter(job, Running(since=now), "all components passed the barrier", now)

    # --- end ---

    def _on_fenced(self, event: ev.ClaimFenced, now: Instant) -> None:
        end = ClaimEnd(kind=EndKind.FENCED, reason="silent past its lease", ended_at=now)
        self._on_gone(event.claim, end, now)

    def _on_gone(self, identity: ClaimId, end: ClaimEnd, now: Instant) -> None:
        """Nothing is left of a claim: it leaves the ledger, and its job hears how it ended."""
        claim = self.ledger.pop(identity, None)
        if claim is None:
            return
        self._settle_hold(claim, now)
        if claim.passed_at is not None:
            job = self.jobs[claim.job]
            job.ran_s += claim.processors * max(0.0, (end.ended_at or now) - claim.passed_at)
        site = self.sites[claim.site]
        site.unreported.pop(identity, None)
        if end.kind is not EndKind.FENCED:
            self._actions.append(AcknowledgeClaim(claim=identity, site=claim.site))
        self._judge_site(site, claim, end, now)
        self._ask_scan()
        found = self._member(claim)
        if found is not None:
            self._member_gone(*found, claim, end, now)

    def _settle_hold(self, claim: Claim, now: Instant) -> None:
        """The hold ends with the pass, or with the claim: what was not used goes back to the
        budgets.
        """
        job = self.jobs[claim.job]
        if claim.id not in self.user_budgets[job.spec.owner]:
            return
        until = claim.passed_at if claim.passed_at is not None else now
        held_s = 0.0
        if claim.granted_at is not None:
            held_s = claim.processors * max(0.0, until - claim.granted_at)
            job.wasted_s += held_s
        self.user_budgets[job.spec.owner].settle(claim.id, held_s)
        self.site_budgets[claim.site].settle(claim.id, held_s)

    def _judge_site(self, site: Site, claim: Claim, end: ClaimEnd, now: Instant) -> None:
        """Count the end for or against its site (design: Failure)."""
        if end.is_well:
            if ended_well(site):
                self._tell_site(site, "usable again: a component ended well", now)
            return
        # A lease ends for the daemon's own absence too, which is no error of a site.
        is_ours = end.kind is EndKind.LEASE and now - self.started_at < self.parameters.run_lease_s
        if end.kind in SITE_FAULTS and not is_ours:
            self._count_error(site, end.describe(), now)
        elif end.kind is EndKind.REFUSED and claim.is_preempting:
            site.no_preempt_until = now + self.parameters.preempt_rest_s

    def _count_error(self, site: Site, reason: str, now: Instant) -> None:
        if erred(site, self.parameters, now):
            text = f"unusable after {site.errors} consecutive errors; the last: {reason}"
            self._tell_site(site, text, now)
            assert site.unusable_until is not None
            self._timers.set(site.unusable_until, Bell.PROBE, site.name)

    def _member(self, claim: Claim) -> tuple[Job, Member] | None:
        """The job and member that a claim stands for, unless the attempt or the claim is
        history.
        """
        job = self.placed.get(claim.job)
        if job is None or job.attempt is None or job.attempt.number != claim.attempt:
            return None
        member = job.attempt.members[claim.component]
        return (job, member) if member.claim == claim.id else None

    def _member_gone(
        self, job: Job, member: Member, claim: Claim, end: ClaimEnd, now: Instant
    ) -> None:
        attempt = job.attempt
        assert attempt is not None
        member.claim = None
        if isinstance(job.phase, Stopping):
            member.end = end
            self._requeue_if_fenced(job, now)
        elif member.is_dropped:
            self._finish_if_over(job, now)
        elif end.kind is EndKind.REFUSED and isinstance(job.phase, Claiming):
            member.refusal = end.reason or "refused: not started within the grace time"
            self._after_answer(job, now)
        elif end.is_well or (attempt.is_stopped and end.kind is EndKind.STOPPED):
            member.end = end
            self._after_answer(job, now)
            self._finish_if_over(job, now)
        elif end.is_program and job.spec.quorum is None:
            member.end = end
            self._program_failed(job, member, end, now)
        else:
            self._lose_member(job, member, end, now)

    def _lose_member(self, job: Job, member: Member, end: ClaimEnd, now: Instant) -> None:
        """A component is lost by its site's fault, or one of a quorum by its own: go on without it,
        or not.
        """
        attempt = job.attempt
        assert attempt is not None
        member.end = end
        text = f"{self._describe(job, member)}: {end.describe()}"
        left = len(attempt.present) - 1
        is_optional = self._is_optional(job, member.component) and attempt.released is None
        if (is_optional or job.spec.quorum is not None) and left >= self._needed(job):
            self._drop_member(job, member, end.describe(), now)
            attempt.arming = None
            self._go_on(job, now)
        elif end.is_program:
            self._program_failed(job, member, end, now)
        elif isinstance(job.phase, Releasing) and any(m.passed_at for m in attempt.members):
            self._set_back(job, f"partial start: {text}", now)
        else:
            self._set_back(job, text, now)

    def _go_on(self, job: Job, now: Instant) -> None:
        """A member was dropped: what the others waited for may be there."""
        match job.phase:
            case Claiming():
                self._after_answer(job, now)
            case Starting():
                self._advance_start(job, now)
            case Releasing():
                self._run_if_passed(job, now)
                self._finish_if_over(job, now)
            case Running():
                self._finish_if_over(job, now)
            case _:
                pass

    def _program_failed(self, job: Job, member: Member, end: ClaimEnd, now: Instant) -> None:
        """The program's own end: no error of the site; `retry` sends the job back, else it has
        Failed.
        """
        text = f"component {self._describe(job, member)}: {end.describe()}"
        if job.retries < job.spec.retries:
            job.retries += 1
            self._set_back(job, f"{text}; retry {job.retries} of {job.spec.retries}", now)
        else:
            self._fail(job, text, now, status=end.status)

    def _finish_if_over(self, job: Job, now: Instant) -> None:
        """All with a barrier ended well: those without end now, too; then the job is Finished."""
        attempt = job.attempt
        if attempt is None or not isinstance(job.phase, Releasing | Running):
            return
        components = job.spec.components
        leading = [
            m for m in attempt.present if components[m.component].start_type is not StartType.NONE
        ] or attempt.present
        if any(member.end is None for member in leading):
            return
        running = [member for member in attempt.present if member.end is None]
        if running:
            attempt.is_stopped = True
            for member in running:
                self._stop_member(member)
            return
        self._end(job, Finished(at=now), "finished", now)
        self._actions.append(PublishOutputs(job=job.id, attempt=attempt.number))

    def _fail(self, job: Job, reason: str, now: Instant, *, status: int | None = None) -> None:
        self._end(job, Failed(at=now, reason=reason, status=status), f"failed: {reason}", now)

    def _on_cancel(self, event: ev.JobCancelRequested, now: Instant) -> None:
        job = self.jobs.get(event.job)
        if job is None or job.is_over:
            return
        reason = f"cancelled by {event.by or 'somebody without a name'}"
        self._end(job, Cancelled(at=now, reason=reason), reason, now)

    def _end(self, job: Job, phase: Phase, text: str, now: Instant) -> None:
        """A terminal phase: the job is over; what its claims still hold is owed a Stop in the
        ledger.
        """
        assert isinstance(phase, TERMINAL)
        self.queues.remove(job)
        self._stop_attempt(job)
        self.placed.pop(job.id, None)
        self._enter(job, phase, text, now)
        self._admit(now)
        self._ask_scan()

    # --- set back ---

    def _set_back(self, job: Job, reason: str, now: Instant) -> None:
        """Give everything back and place the job again: at once if nothing was released, else after
        the fence.
        """
        self._enter(job, Stopping(reason=reason), reason, now)
        self._stop_attempt(job)
        job.claim_fraction = lowered_fraction(
            job.claim_fraction,
            step=self.parameters.claim_fraction_step,
            fraction_min=min(self.parameters.claim_fraction_min, job.claim_fraction),
        )
        self._requeue_if_fenced(job, now)

    def _stop_attempt(self, job: Job) -> None:
        attempt = job.attempt
        if attempt is None or job.id not in self.placed:
            return
        attempt.arming = None
        for member in attempt.members:
            self._stop_member(member)
            if member.transfer is not None:
                self._cancel_transfer(member.transfer)

    def _stop_member(self, member: Member) -> None:
        claim = self.ledger.get(member.claim) if member.claim is not None else None
        if claim is not None and claim.phase is not ClaimPhase.STOPPING:
            claim.phase = ClaimPhase.STOPPING
            self._actions.append(StopClaim(claim=claim.id, site=claim.site))

    def _requeue_if_fenced(self, job: Job, now: Instant) -> None:
        """The fence (design, 8): a released attempt must be wholly gone before the next."""
        attempt = job.attempt
        assert attempt is not None
        alive = any(member.claim in self.ledger for member in attempt.members if member.claim)
        if attempt.may_run and alive:
            return
        assert isinstance(job.phase, Stopping)
        reason = job.phase.reason
        del self.placed[job.id]
        job.attempt = None
        if not job.spec.rerun and any(_may_have_run(member) for member in attempt.members):
            self._fail(job, f"rerun=no, and it had started: {reason}", now)
        else:
            self._enqueue(job, f"back in its placement queue: {reason}", now)

    # --- files ---

    def _on_transfer_finished(self, event: ev.TransferFinished, now: Instant) -> None:
        transfer = self.files.transfers.get(event.transfer)
        if transfer is None:
            return
        self.files.learn(transfer, size_bytes=event.size_bytes, took_s=event.took_s)
        del self.files.transfers[event.transfer]
        job = self.placed.get(transfer.job)
        if job is None or job.attempt is None or job.attempt.number != transfer.attempt:
            return
        attempt = job.attempt
        attempt.fetch_bytes += event.size_bytes
        attempt.fetch_s = max(attempt.fetch_s, now - transfer.started_at)
        for member in attempt.members:
            if member.transfer == event.transfer:
                member.is_fetched = True
        if all(member.is_fetched for member in attempt.present):
            attempt.fetched_at = now
            self._tell(job, "input files are there", now)
        if isinstance(job.phase, Starting):
            self._advance_start(job, now)

    def _on_transfer_failed(self, event: ev.TransferFailed, now: Instant) -> None:
        transfer = self.files.transfers.pop(event.transfer, None)
        if transfer is None:
            return
        text = f"transfer of {transfer.file} from {transfer.source} to {transfer.target} failed: {event.reason}"
        site = self.sites.get(event.at) if event.at is not None else None
        if site is not None:
            self._count_error(site, text, now)
        job = self.placed.get(transfer.job)
        if job is not None and isinstance(job.phase, Claiming | Starting):
            self._set_back(job, text, now)

    # --- sites ---

    def _on_registered(self, event: ev.SiteRegistered, now: Instant) -> None:
        site = self.sites.get(event.site)
        if site is None:
            site = Site(name=event.site, facts=event.facts)
            self.sites[event.site] = site
            self.sites = dict(sorted(self.sites.items()))
        site.facts = event.facts
        site.is_connected = True
        site.reported_idle = event.idle
        self._tell_site(site, f"connected with {event.facts.processors} processors", now)
        self._ask_scan()

    def _on_disconnected(self, name: SiteName, now: Instant) -> None:
        site = self.sites.get(name)
        if site is None or not site.is_connected:
            return
        site.is_connected = False
        site.disconnected_at = now
        self._tell_site(site, "disconnected", now)
        self._timers.set(now + self.parameters.hold_fence_s, Bell.SILENT, name)

    def _on_silent(self, name: SiteName, rung_at: Instant, now: Instant) -> None:
        """The site has been away for longer than a hold lease: what was not released there is
        certainly dead.
        """
        site = self.sites[name]
        if site.is_connected or site.disconnected_at + self.parameters.hold_fence_s > rung_at:
            return
        for job in tuple(self.placed.values()):
            if not isinstance(job.phase, Claiming | Starting) or job.attempt is None:
                continue
            claims = [self.ledger.get(m.claim) for m in job.attempt.present if m.claim]
            if any(claim is not None and claim.site == name for claim in claims):
                self._set_back(job, f"{name} has been silent past the hold lease", now)

    def _on_reported(self, event: ev.SiteReported) -> None:
        site = self.sites.get(event.site)
        if site is None or not site.is_connected:
            return
        site.rtt_s = event.rtt_s
        if note_report(site, idle=event.idle, through=event.through):
            self._ask_scan()

    def _on_drained(self, event: ev.SiteDrained, now: Instant) -> None:
        site = self.sites.get(event.site)
        if site is not None and not site.is_drained:
            site.is_drained = True
            self._tell_site(site, f"drained by {event.by or 'an operator'}", now)

    def _on_resumed(self, event: ev.SiteResumed, now: Instant) -> None:
        site = self.sites.get(event.site)
        if site is None:
            return
        site.is_drained = False
        ended_well(site)
        self._tell_site(site, f"resumed by {event.by or 'an operator'}", now)
        self._ask_scan()

    def _on_declared_lost(self, event: ev.SiteDeclaredLost, now: Instant) -> None:
        site = self.sites.get(event.site)
        if site is None:
            return
        self._tell_site(site, f"declared lost by {event.by or 'an operator'}", now)
        end = ClaimEnd(kind=EndKind.FENCED, reason="its site was declared lost", ended_at=now)
        for claim in [c.id for c in self.ledger.values() if c.site == event.site]:
            self._on_gone(claim, end, now)

    def _on_rested(self, name: SiteName, now: Instant) -> None:
        site = self.sites[name]
        is_due = site.unusable_until is not None and site.unusable_until <= now
        if is_due and not site.is_probing:
            site.is_probing = True
            self._tell_site(site, "rested; the next claim is a probe", now)
            self._ask_scan()

    # --- what a site must know ---

    def wanted(self, site: SiteName) -> Wanted:
        """All claims and transfers that the site must know of, as a function of the state (design:
        wanted).
        """
        holds: list[ClaimProcessors] = []
        releases: list[ReleaseClaim] = []
        stops: list[StopClaim] = []
        for claim in self.ledger.values():
            if claim.site != site:
                continue
            if claim.phase is ClaimPhase.STOPPING:
                stops.append(StopClaim(claim=claim.id, site=site))
                continue
            holds.append(self._hold(claim))
            attempt = self.jobs[claim.job].attempt
            if attempt is not None and attempt.released and attempt.release_at is not None:
                if claim.start_type is not StartType.NONE:
                    releases.append(_release_claim(claim, attempt.released, attempt.release_at))
        transfers = self.files.transfers.values()
        return Wanted(
            holds=tuple(holds),
            releases=tuple(releases),
            stops=tuple(stops),
            fetches=tuple(_start(t) for t in transfers if t.target == site),
            serves=tuple(_start(t) for t in transfers if t.source == site),
        )

    def _hold(self, claim: Claim) -> ClaimProcessors:
        job = self.jobs[claim.job]
        assert job.attempt is not None
        member = job.attempt.members[claim.component]
        file = job.spec.input_file
        is_local = file is not None and member.source is None
        return ClaimProcessors(
            claim=claim.id,
            site=claim.site,
            ask_number=claim.ask_number,
            is_granted=claim.phase is not ClaimPhase.ASKED,
            owner=job.spec.owner,
            processors=claim.processors,
            hold_s=claim.hold_s,
            start_type=claim.start_type,
            component=job.spec.components[claim.component],
            label=job.spec.label(claim.component),
            inputs=(member.transfer,) if member.transfer is not None else (),
            local_input=file.name if file is not None and is_local else None,
            chunk=self._part_of_file(job, claim.component)
            if is_local and job.spec.input_mode is InputMode.CHUNK
            else None,
        )

    # --- telling ---

    def _enter(self, job: Job, phase: Phase, text: str, now: Instant) -> None:
        """The only assignment of a phase, along TRANSITIONS (promise 2)."""
        before, after = job.phase_name, type(phase).__name__
        assert after in TRANSITIONS[before], f"{job.id}: {before} -> {after}; {job.story}"
        job.phase = phase
        if before != after:
            self._tell(job, text, now, phase=after)

    def _tell(self, job: Job, text: str, now: Instant, *, phase: str = "") -> None:
        job.story.append((now, f"{phase}: {text}" if phase else text))
        if len(job.story) > STORY_LINES_MAX:
            del job.story[1]  # the submission stays
        self._actions.append(Announce(at=now, text=text, job=job.id, phase=phase or job.phase_name))

    def _tell_site(self, site: Site, text: str, now: Instant) -> None:
        self._actions.append(Announce(at=now, text=text, site=site.name))


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


def _may_have_run(member: Member) -> bool:
    """It passed the barrier, or nobody will ever know."""
    is_unknown = member.end is not None and member.end.kind is EndKind.FENCED
    return member.passed_at is not None or is_unknown


def _start(transfer: Transfer) -> StartTransfer:
    return StartTransfer(
        transfer=transfer.id,
        file=transfer.file,
        source=transfer.source,
        target=transfer.target,
        offset=transfer.offset,
        size_bytes=transfer.size_bytes,
        checksum=transfer.checksum,
    )


def _release_claim(claim: Claim, number: ArmNumber, release_at: Instant) -> ReleaseClaim:
    return ReleaseClaim(claim=claim.id, site=claim.site, number=number, release_at=release_at)
