"""Mutants of the core: deliberate bugs that the swarm must find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from koala.core import answer_recorder, leases, scheduler, sites
from koala.core import queries as facts
from koala.core import snapshot as saving
from koala.core.model import tcp_paths, values
from koala.core.model.actions import ReleaseClaim
from koala.core.model.claim import Armed, Stopped
from koala.core.model.job import (
    SITE_FAULTS,
    Attempt,
    EndKind,
    Finished,
    Job,
    Placing,
    Releasing,
    Running,
    Starting,
    Stopping,
)
from koala.core.model.parameters import Parameters
from koala.core.model.timers import TimerKind
from koala.core.model.values import Priority
from koala.core.pipeline import (
    claim_end,
    claiming,
    ending,
    placing,
    queueing,
    refusals,
    requeueing,
    start_barrier,
    wanted,
)
from koala.daemon.files import transfer_tokens
from koala.daemon.loop import action_dispatcher, group_commit
from koala.policies import slots
from tests.swarm.planted.mutating import Patches, mutant, replaced, unchecked


@mutant
def release_before_the_last_armed() -> Patches:
    """The first Armed releases all."""
    real = start_barrier.on_armed

    def on_armed(state: Any, event: Any, now: float) -> None:
        claim = state.ledger.get(event.claim)
        job: Any = state.jobs[claim.job] if claim else None
        arming = job.arming if claim else None
        if arming is not None and arming.number == event.number and now < arming.release_at:
            for waiting in arming.waiting:
                state.ledger[waiting].phase = Armed(grant=state.ledger[waiting].grant)
            last = replace(arming, waiting=(event.claim,))
            state.enter(job, replace(job.phase, arming=last), "", now)
        real(state, event, now)

    with replaced((scheduler, "on_armed"), by=on_armed):
        yield


@mutant
def paths_count_as_open() -> Patches:
    """The barrier is armed regardless of the TCP paths."""

    def is_open(state: Any, starting: Starting, now: float) -> Any:
        return real(state, starting, now) or state.jobs[starting.attempt.job].phase

    real = start_barrier.with_open_paths
    with replaced((start_barrier, "with_open_paths"), by=is_open), unchecked():
        yield


@mutant
def closed_ports_count_as_reached() -> Patches:
    """A component is told the address of a port that it cannot reach."""
    with replaced((tcp_paths, "closed_path"), by=lambda *_port: None):
        yield


@mutant
def sites_that_carry_nothing_are_asked_to() -> Patches:
    """A port is forwarded although one of the sites carries no connections."""
    with replaced((start_barrier, "_port_without_way"), by=lambda *_member: ""):
        yield


@mutant
def one_token_for_all_ports() -> Patches:
    """The token of a port opens those of other jobs."""

    def common(secret: bytes, purpose: Any, _identity: str) -> str:
        return real(secret, purpose, "all")

    real = transfer_tokens.token
    with replaced((action_dispatcher, "token"), by=common):
        yield


@mutant
def any_number_arms() -> Patches:
    """An Armed under an old number counts for the new one."""
    real = start_barrier.on_armed

    def on_armed(state: Any, event: Any, now: float) -> None:
        claim = state.ledger.get(event.claim)
        arming = state.jobs[claim.job].arming if claim else None
        real(state, replace(event, number=arming.number) if arming else event, now)

    with replaced((scheduler, "on_armed"), by=on_armed):
        yield


@mutant
def no_fence() -> Patches:
    """A released attempt is placed again at once, without its fence."""
    real = requeueing.requeue_if_fenced

    def requeue(state: Any, stopping: Stopping, now: float) -> None:
        stopping.attempt.may_run = False
        real(state, stopping, now)

    with (
        replaced((requeueing, "requeue_if_fenced"), (claim_end, "requeue_if_fenced"), by=requeue),
        unchecked(),
    ):
        yield


@mutant
def early_fence() -> Patches:
    """The fence time leaves out the lease."""
    short = property(lambda self: self.kill_s + 0.1)
    with (
        replaced((Parameters, "fence_s"), by=short),
        replaced(
            (leases.Leases, "_alive_until"), by=lambda self, claim, sites, now: claim.asked_at
        ),
    ):
        yield


@mutant
def predecessors_are_ignored() -> Patches:
    """A job that is to wait for others is placed at once."""
    with replaced((queueing, "unfinished_predecessors"), by=lambda _state, _spec: ()):
        yield


@mutant
def fences_are_ignored() -> Patches:
    """A claim that is certainly dead is still waited for."""
    with replaced((scheduler, "on_fenced"), by=lambda state, event, now: None):
        yield


@mutant
def forgotten_stops() -> Patches:
    """A setback stops no claim."""
    with replaced((ending, "stop_member"), by=lambda state, member: None):
        yield


@mutant
def the_same_claim_again() -> Patches:
    """Each claim of a component has the same id."""
    real = values.claim_id

    def claim_id(job: Any, *, attempt: int, component: int, n: int) -> Any:
        return real(job, attempt=1, component=component, n=1)

    with replaced((claiming, "claim_id"), by=claim_id):
        yield


@mutant
def two_releases() -> Patches:
    """A job that has not passed by T is released under another number."""
    real = scheduler.Scheduler._on_attempt_due

    def on_attempt_due(self: Any, attempt: Attempt, kind: TimerKind, now: float) -> None:
        real(self, attempt, kind, now)
        phase = self.jobs[attempt.job].phase
        if isinstance(phase, Releasing) and kind is TimerKind.RELEASE:
            again = replace(phase.release.number, counter=phase.release.number.counter + 1)
            for member in attempt.present:
                if member.claim is not None and member.site is not None:
                    release = ReleaseClaim(
                        claim=member.claim, site=member.site, number=again, release_at=now + 1.0
                    )
                    self.actions.append(release)

    with replaced((scheduler.Scheduler, "_on_attempt_due"), by=on_attempt_due):
        yield


@mutant
def errors_are_never_reset() -> Patches:
    """A component that ends well does not reset the error count."""
    with replaced((refusals, "reset_errors"), by=lambda site: False):
        yield


@mutant
def bad_sites_do_not_rest() -> Patches:
    """A site past its threshold gets claims."""
    with replaced((sites, "is_resting"), by=lambda site: False):
        yield


@mutant
def requeued_to_nowhere() -> Patches:
    """A job that returns is in no queue."""

    def enter_queue(state: Any, job: Job, text: str, now: float) -> None:
        state.enter(job, Placing(queued_at=now), text, now)

    with replaced((requeueing, "enter_queue"), by=enter_queue), unchecked():
        yield


@mutant
def finished_by_the_first() -> Patches:
    """The first component that ends well finishes the job."""

    def finish(state: Any, attempt: Attempt, now: float) -> None:
        if any(member.end is not None for member in attempt.present):
            finished = Finished(at=now, attempt=attempt)
            ending.end(state, state.jobs[attempt.job], finished, "", now)

    with replaced((claim_end, "finish_if_over"), by=finish):
        yield


@mutant
def stops_are_not_pending() -> Patches:
    """A Stop that was lost in a cut is not sent again."""
    real = wanted.wanted

    def without(state: Any, site: Any) -> Any:
        return replace(real(state, site), stops=())

    with replaced((scheduler, "wanted"), by=without):
        yield


@mutant
def unrecorded_answers() -> Patches:
    """The journal records a different answer from the policy's."""
    real = answer_recorder._to_plain

    def to_plain(answer: Any) -> Any:
        return Priority.HIGH.value if isinstance(answer, Priority) else real(answer)

    with replaced((answer_recorder, "_to_plain"), by=to_plain):
        yield


@mutant
def effects_before_the_commit() -> Patches:
    """Actions leave before their event is durable."""
    real = group_commit.GroupCommit._handle

    def handle(self: Any, event: Any, now: float) -> None:
        before = len(self._actions)
        real(self, event, now)
        early = self._actions[before:]
        if self._receiver is not None and early:
            self._receiver.carry_out(early)

    with replaced((group_commit.GroupCommit, "_handle"), by=handle):
        yield


@mutant
def stopped_is_gone() -> Patches:
    """A stopped claim leaves the ledger at once, before its processors are free."""

    def stop_member(state: Any, member: Any) -> None:
        claim = state.ledger.pop(member.claim, None) if member.claim is not None else None
        if claim is not None:
            state.sites[claim.site].unreported.pop(claim.id, None)
            member.claim = None

    with replaced((ending, "stop_member"), by=stop_member):
        yield


@mutant
def deadlines_may_be_missed() -> Patches:
    """Each Arm moves D on."""

    def latest(_state: Any, _job: Job, release_at: float) -> float:
        return release_at + 10.0

    with replaced((start_barrier, "latest_start_at"), by=latest):
        yield


@mutant
def local_jobs_die_without_the_word() -> Patches:
    """`at_deadline = fail` is ignored."""
    real = claiming.reclaimable

    def reclaimable(state: Any, *rest: Any) -> Any:
        kept, state.parameters = state.parameters, replace(state.parameters, at_deadline="kill")
        found = real(state, *rest)
        state.parameters = kept
        return found

    with replaced((claiming, "reclaimable"), by=reclaimable):
        yield


@mutant
def release_before_the_last_check_in() -> Patches:
    """A claim that was asked for counts as held, and is not waited for at the barrier."""
    real_arm, real_release = start_barrier.arm, start_barrier.release

    def arm(state: Any, phase: Starting, *rest: Any) -> None:
        real_arm(state, phase, *rest)
        job = state.jobs[phase.attempt.job]
        if job.arming is None:
            return
        there = [one for one in job.arming.waiting if state.ledger[one].grant is not None]
        arming = replace(job.arming, waiting=tuple(there) or job.arming.waiting)
        state.enter(job, replace(job.phase, arming=arming), "", 0.0)

    def release(state: Any, phase: Starting, *rest: Any) -> None:
        for member in phase.attempt.at_barrier:
            claim = state.ledger[member.claim]
            claim.phase = Armed(grant=claim.grant)
        real_release(state, phase, *rest)

    with (
        replaced((facts, "is_held"), by=lambda state, member: member.claim in state.ledger),
        replaced((start_barrier, "arm"), by=arm),
        replaced((start_barrier, "release"), by=release),
        unchecked(),
    ):
        yield


@mutant
def a_drained_site_is_asked() -> Patches:
    """Draining a site is recorded without any effect."""

    def is_usable(site: Any) -> bool:
        return bool(site.is_connected and not sites.is_resting(site))

    with replaced((sites, "is_usable"), (claiming, "is_usable"), by=is_usable):
        yield


@mutant
def a_refusal_is_an_error() -> Patches:
    """A site that was merely full gets an error counted."""
    with replaced((refusals, "SITE_FAULTS"), by=(*SITE_FAULTS, EndKind.REFUSED)):
        yield


@mutant
def one_error_too_many() -> Patches:
    """The site is disabled one error after the threshold of consecutive errors."""
    real = refusals.count_error

    def count_error(state: Any, site: Any, *rest: Any, **named: Any) -> None:
        kept = state.parameters
        more = kept.consecutive_errors_max + 1
        state.parameters = replace(kept, consecutive_errors_max=more)
        real(state, site, *rest, **named)
        state.parameters = kept

    with replaced((refusals, "count_error"), by=count_error):
        yield


@mutant
def a_releasing_job_is_preempted() -> Patches:
    """A component that has armed and was released may still be a victim of preemption."""
    with replaced((claiming, "Running"), by=Running | Releasing):
        yield


@mutant
def a_link_is_booked_twice() -> Patches:
    """Bandwidth that jobs have booked on a link counts as free for the next one."""
    real = facts.free_bandwidth

    def free_bandwidth(state: Any) -> Any:
        return {link: bps for link, bps in state.files.bookable.items() if link in real(state)}

    with replaced((facts, "free_bandwidth"), by=free_bandwidth):
        yield


@mutant
def a_slot_without_a_guard() -> Patches:
    """A claiming policy of another package is called as it is."""
    real = slots.Slot.guarded

    def guarded(slot: Any, policy: Any, name: str, conduct: Any) -> Any:
        return policy if slot.name == "claiming" else real(slot, policy, name, conduct)

    with replaced((slots.Slot, "guarded"), by=guarded):
        yield


@mutant
def plans_that_are_believed() -> Patches:
    """The plan of a claiming policy of another package is not checked."""
    with replaced((slots, "read_plan"), by=lambda answer, **_: answer):
        yield


@mutant
def a_snapshot_without_the_timers() -> Patches:
    """A snapshot omits part of the state: the timers."""
    real = saving.save

    def save(state: Any, *rest: Any) -> Any:
        kept, state.timers = state.timers, type(state.timers)()
        plain = real(state, *rest)
        state.timers = kept
        return plain

    with replaced((group_commit, "save"), by=save):
        yield


@mutant
def limits_of_groups_are_ignored() -> Patches:
    """Jobs are placed beyond the limits of their users and groups."""
    with replaced((placing, "excess_of"), by=lambda _state, _job: ""):
        yield


@mutant
def what_is_held_until_a_stop_comes_is_free() -> Patches:
    """A check-in that is told after the Stop of its claim, or with its end, is in no account."""
    real = claiming.bind

    def bind(claim: Any, *rest: Any) -> None:
        if not isinstance(claim.phase, Stopped):
            real(claim, *rest)

    with replaced((claiming, "bind"), (claim_end, "bind"), by=bind):
        yield
