"""Progress control of running jobs: reports in, corrections of a policy out (SQ 4).

Live, a component's weight is the share of the time that it may run, admitted as 1. The rest belongs
to its dummy: its starter pauses the program for that time. A report that leads neither to a
correction nor to a point of the skew over time changes nothing, and is not journaled.
"""

from __future__ import annotations

from math import inf, isfinite

from koala.core.model import events as ev
from koala.core.model.actions import PaceClaim
from koala.core.model.job import Attempt, Job, Member, Running
from koala.core.model.progress_reports import (
    SHARE_CHANGE_LEAST,
    SHARE_LEAST,
    Correction,
    MemberProgress,
    MemberReport,
    ProgressHistory,
    ProgressQuestion,
)
from koala.core.model.values import Instant, Seconds
from koala.core.queries import claim_of, live_attempt
from koala.core.state import State

ASYNCHRONY_S = 1.0
"""Default asynchrony window of a job."""
QUANTA_A_CYCLE = 4.0
"""Deviation, in cycles, at which a whole weight moves. The paper's 100 s are ten of its cycles, for
tasks of half an hour; a job of a minute would be over before that converges."""


STEADY_CYCLES = 1200
REST_MAX = 8
"""Longest interval, in cycles, between two questions to the policy. It is asked in every cycle at
first, later in every second, fourth and eighth: a job of days must not journal a correction every
quarter of a second, and late drift is slow."""


def cycles_between_questions(cycle: int) -> int:
    """Interval, in cycles, between two questions to the policy at this age of the job."""
    cycles, every = STEADY_CYCLES, 1
    while cycle >= cycles and every < REST_MAX:
        cycles, every = 4 * cycles, 2 * every
    return every


def on_progress(state: State, event: ev.ProgressReported, now: Instant) -> None:
    """Handle the progress reports of all components: correct those that drift apart."""
    state.is_changed = False
    attempt = live_attempt(state, event.job, event.attempt)
    if attempt is None:
        return
    job = state.jobs[event.job]
    policy = state.policies.progress.get(job.spec.progress or "")
    running = {member.component: member for member in controlled_members(attempt)}
    reports = [report for report in event.members if report.component in running]
    if not reports or not isinstance(job.phase, Running):
        return
    history = job.course
    if history is None or history.attempt != event.attempt:
        history = ProgressHistory(attempt=event.attempt, policy=job.spec.progress or "")
    question = progress_question(state, job, history, event.cycle, reports)
    shares: dict[int, float] = {}
    if event.cycle % cycles_between_questions(event.cycle) == 0:
        recorded = state.recorder.ask(lambda: () if policy is None else policy(question))
        assert isinstance(recorded, tuple), recorded
        able = {report.component for report in reports if report.can_pace}
        shares = large_changes(history, [c for c in recorded if c.component in able])
    if not shares and not history.is_due(event.cycle):
        return
    state.is_changed = True
    job.course = history
    virtual_s = [member.virtual_s for member in question.members]
    history.add(event.cycle, question.real_s, max(virtual_s) - min(virtual_s))
    for component, share in shares.items():
        history.corrections += 1
        pace(state, running[component], history, share)


def controlled_members(attempt: Attempt) -> list[Member]:
    """Return the members whose progress counts: those that passed the barrier and still run."""
    return [member for member in attempt.at_barrier if member.passed_at is not None]


def progress_question(
    state: State, job: Job, history: ProgressHistory, cycle: int, reports: list[MemberReport]
) -> ProgressQuestion:
    """Make the policy's question from the reports of a cycle and the shares in force."""
    cycle_s = state.parameters.progress_cycle_s
    spec = job.spec
    members = []
    for report in reports:
        share = history.shares.get(report.component, 1.0)
        members.append(
            MemberProgress(
                component=report.component,
                virtual_s=virtual_s(job, report),
                weight=share,
                admitted=1.0,
                spare=1.0 - share,
            )
        )
    return ProgressQuestion(
        real_s=cycle * cycle_s,
        members=tuple(members),
        asynchrony_s=ASYNCHRONY_S if spec.asynchrony_s is None else spec.asynchrony_s,
        deviation_s=inf if spec.deviation_s is None else spec.deviation_s,
        quanta=QUANTA_A_CYCLE * cycle_s * cycles_between_questions(cycle),
    )


def virtual_s(job: Job, report: MemberReport) -> Seconds:
    """Convert the work done to seconds of the agreed rate. Without an agreed rate, it is that of
    all processors of the component; work reported by the program then counts as seconds.
    """
    component = job.spec.components[report.component]
    unsaid = 1.0 if report.is_told else float(component.processors)
    return report.work / (component.rate or unsaid)


def large_changes(history: ProgressHistory, corrections: list[Correction]) -> dict[int, float]:
    """Return the new shares of the components whose change is large enough to send."""
    shares: dict[int, float] = {}
    for correction in corrections:
        if not isfinite(correction.weight):
            continue
        before = history.shares.get(correction.component, 1.0)
        after = round(min(1.0, max(SHARE_LEAST, before + correction.weight)), 6)
        if abs(after - before) >= SHARE_CHANGE_LEAST * before or (after == 1.0 != before):
            shares[correction.component] = after
    return shares


def pace(state: State, member: Member, history: ProgressHistory, share: float) -> None:
    """Set a component's share of the time, and tell its site."""
    if share < 1.0:
        history.shares[member.component] = share
    else:
        history.shares.pop(member.component, None)
    claim = claim_of(state, member)
    if claim is not None:
        state.actions.append(PaceClaim(claim=claim.id, site=claim.site, share=share))


def restore_full_speed(state: State, attempt: Attempt) -> None:
    """Let the other components run at full speed after one has ended. They may have been slowed
    down for it alone, and no correction speeds up components that advance evenly."""
    history = state.jobs[attempt.job].course
    for component in current_shares(state, attempt):
        if history is not None and component in history.shares:
            pace(state, attempt.members[component], history, 1.0)


def current_shares(state: State, attempt: Attempt) -> dict[int, float]:
    """Return the shares of a controlled job by component; empty before its first report."""
    history = state.jobs[attempt.job].course
    if history is None or history.attempt != attempt.number:
        return {}
    return {
        member.component: history.shares.get(member.component, 1.0)
        for member in controlled_members(attempt)
    }
