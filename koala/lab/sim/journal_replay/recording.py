"""Inputs of a simulation from a recorded run: outside events, and the answers of the world.

*By instant* means: the nearest observation in time at that site or on that link (`nearest`). Run
times belong to the component and go with it wherever and whenever it runs. Unobserved values are
guessed by a rule, and counted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from statistics import median
from typing import TypeAlias

from koala.core.model.events import Event, JobSubmitted, ParametersChanged
from koala.core.model.job import ClaimEnd, EndKind
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import Instant, JobId, Seconds, SiteName
from koala.lab.sim.journal_replay.inferred_load import (
    REPORTED_S,
    Steps,
    is_unexplained_refusal,
    other_load,
)
from koala.lab.sim.journal_replay.nearest import Nearest, Observation
from koala.lab.sim.journal_replay.run_history import ClaimNote, RunHistory, SiteNote

LATENCY_S: Seconds = 0.05
"""Latency of an answer of a kind that is absent from the journal."""
RUN_S: Seconds = 60.0
"""Run time of a component without a record in the journal or its description."""
LOST = (EndKind.VANISHED, EndKind.SITE, EndKind.LEASE, EndKind.UNKNOWN, EndKind.FAILED)
"""Ends of granted claims that came from the site, at their instant."""

Part: TypeAlias = tuple[JobId, int]
"""A component of a job."""
Link: TypeAlias = tuple[SiteName, SiteName]


class AnswerKind(StrEnum):
    """A site's kind of answer to a claim for which it has enough idle processors."""

    GRANTED = "granted"
    FAILED = "failed"
    REFUSED = "refused"  # in spite of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A site's answer to a claim, and its latency."""

    kind: AnswerKind
    after_s: Seconds
    end: ClaimEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Delay of a starter's pass of the barrier, and the instant of its report."""

    late_s: Seconds
    report_s: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A link's copy performance: bytes a second plus overhead; or its failure."""

    bytes_per_s: float
    beside_s: Seconds
    failed_after_s: Seconds | None = None
    failed_at: SiteName | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramRun:
    """A component's program: from its pass to its end, and to the report of the end."""

    run_s: Seconds
    report_s: Seconds
    end: ClaimEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Site-caused end of a granted claim. `is_own`: the site's other claims are not affected."""

    at: Instant
    part: Part
    end: ClaimEnd
    is_own: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Down:
    """Downtime of the daemon between its last event and its start. The instant of its crash is
    unknown: leases ran out only if one did (`is_long`)."""

    since: Instant
    until: Instant
    is_long: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRecording:
    """A site's facts and answers, by instant."""

    load: Steps
    local: Steps  # of which local jobs ran
    rtt: Nearest[Seconds]
    answers: Nearest[Answer]
    arms: Nearest[Seconds]
    passes: Nearest[Pass]
    stops: Nearest[Seconds]
    frees: Nearest[Seconds]  # from the end of a claim to the report that shows it
    losses: tuple[Loss, ...]


@dataclass(slots=True, kw_only=True)
class Recording:
    """The whole recording. `guessed` counts, by rule, the values that are missing in the
    journal."""

    first_at: Instant
    last_at: Instant
    outside: list[tuple[Instant, Event]]
    down: list[Down]
    sites: dict[SiteName, SiteRecording]
    links: dict[Link, Nearest[Copy]]
    policies: dict[str, str]  # in force at the end; empty when the journal does not name them
    runs: dict[Part, list[ProgramRun]]
    ran_s: dict[Part, Seconds]  # of programs that did not come to their own end: at least so long
    grant_s: Seconds
    arm_s: Seconds
    pass_: Pass
    stop_s: Seconds
    run_s: Seconds
    specs: dict[JobId, JobSpec]
    guessed: Counter[str] = field(default_factory=Counter)

    def run(self, part: Part, n: int) -> ProgramRun:
        """Return the n-th run (from 0) of a component to the end of its program; the last one
        recorded stands for all after it.

        Without any record, in this order: the run time of the other components of its job, its
        wall-time limit, the journal's mean; never less than it was seen to run.
        """
        known = self.runs.get(part)
        if known:
            return known[min(n, len(known) - 1)]
        job, component = part
        spec = self.specs[job]
        others = [
            self.runs[job, other][-1].run_s
            for other in range(len(spec.components))
            if self.runs.get((job, other))
        ]
        wall_s = spec.component(component).wall_time_s
        if others:
            rule, run_s = "the run time of its job's other components", sum(others) / len(others)
        elif wall_s is not None:
            rule, run_s = "its wall-time limit", wall_s
        elif self.runs:
            rule, run_s = "the mean run time of all components", self.run_s
        else:
            rule, run_s = f"{RUN_S:g} s", RUN_S
        self.guessed[rule] += 1
        statuses = (0,) * spec.component(component).processes
        end = ClaimEnd(kind=EndKind.EXITED, statuses=statuses)
        run_s = max(run_s, self.ran_s.get(part, 0.0))
        return ProgramRun(run_s=run_s, report_s=LATENCY_S, end=end)


def recorded(history: RunHistory) -> Recording:
    """Extract the recording from the notes of a run."""
    claims = list(history.claims.values())
    runs, ran_s = _runs(claims, history.last_at)
    sites = {name: _site(note) for name, note in sorted(history.sites.items())}
    grants = [
        answer.after_s
        for site in sites.values()
        for answer in site.answers.values()
        if answer.kind is AnswerKind.GRANTED
    ]
    passes = [one for site in sites.values() for one in site.passes.values()]
    lengths = [run.run_s for several in runs.values() for run in several]
    return Recording(
        first_at=history.first_at,
        last_at=history.last_at,
        outside=history.outside,
        down=[_down(since, until, claims) for since, until in history.down],
        sites=sites,
        links=_links(history),
        policies=_policies(history),
        runs=runs,
        ran_s=ran_s,
        grant_s=_typical(grants),
        arm_s=_typical([s for site in sites.values() for s in site.arms.values()]),
        pass_=Pass(
            late_s=_typical([one.late_s for one in passes]),
            report_s=_typical([one.report_s for one in passes]),
        ),
        stop_s=_typical([s for site in sites.values() for s in site.stops.values()]),
        run_s=sum(lengths) / len(lengths) if lengths else RUN_S,
        specs={e.job: e.spec for _, e in history.outside if isinstance(e, JobSubmitted)},
    )


def part_of(claim: ClaimNote) -> Part:
    """Return the component that a claim is for."""
    return claim.job, claim.component


def _typical(seen: list[Seconds]) -> Seconds:
    return median(seen) if seen else LATENCY_S


def _down(since: Instant, until: Instant, claims: list[ClaimNote]) -> Down:
    ended = (c.freed_at for c in claims if c.end is not None and c.end.kind is EndKind.LEASE)
    is_long = any(at is not None and since <= at <= until for at in ended)
    return Down(since=since, until=until, is_long=is_long)


def _policies(history: RunHistory) -> dict[str, str]:
    named: dict[str, str] = {}
    for _, event in history.outside:
        if isinstance(event, ParametersChanged) and event.policies:
            named = dict(event.policies)
    return named


def _runs(
    claims: list[ClaimNote], last_at: Instant
) -> tuple[dict[Part, list[ProgramRun]], dict[Part, Seconds]]:
    runs: dict[Part, list[ProgramRun]] = {}
    ran_s: dict[Part, Seconds] = {}
    for claim in claims:  # in the order of asking and so of attempts
        if claim.passed_at is None:
            continue
        ended_at = claim.freed_at if claim.freed_at is not None else last_at
        run_s = max(0.0, ended_at - claim.passed_at)
        if claim.end is not None and claim.end.is_program and claim.gone_at is not None:
            end = replace(claim.end, ended_at=None)
            run = ProgramRun(run_s=run_s, report_s=claim.gone_at - ended_at, end=end)
            runs.setdefault(part_of(claim), []).append(run)
        else:
            ran_s[part_of(claim)] = max(run_s, ran_s.get(part_of(claim), 0.0))
    return runs, ran_s


def _site(site: SiteNote) -> SiteRecording:
    claims = site.claims
    return SiteRecording(
        load=other_load(site),
        local=[(report.at, report.local) for report in site.reports],
        rtt=Nearest(Observation(report.at, None, report.rtt_s) for report in site.reports),
        answers=Nearest(
            Observation(claim.asked_at, part_of(claim), answer)
            for claim in claims
            if (answer := _answer(claim, site)) is not None
        ),
        arms=Nearest(
            Observation(arm.asked_at, part_of(claim), arm.answered_at - arm.asked_at)
            for claim in claims
            for arm in claim.arms.values()
            if arm.answered_at is not None
        ),
        passes=Nearest(
            Observation(claim.passed_at, part_of(claim), passed)
            for claim in claims
            if claim.passed_at is not None and (passed := _pass(claim)) is not None
        ),
        stops=Nearest(
            Observation(at, part_of(claim), max(0.0, claim.gone_at - at))
            for claim in claims
            if (at := claim.stopped_at) is not None and claim.gone_at is not None
        ),
        frees=Nearest(_frees(site)),
        losses=tuple(loss for claim in claims if (loss := _loss(claim)) is not None),
    )


def _frees(site: SiteNote) -> Iterator[Observation[Seconds]]:
    """Yield the report delay after each claim's end; the site that reports first gets the next
    job."""
    at = attrgetter("at")
    for claim in site.claims:
        freed_at = claim.freed_at
        if claim.granted_at is None or freed_at is None:
            continue
        place = bisect_right(site.reports, freed_at, key=at)
        soon = site.reports[place : bisect_right(site.reports, freed_at + REPORTED_S, key=at)]
        before = site.reports[place - 1].idle if place else 0
        rise = next((report for report in soon if report.idle > before), None)
        if rise is not None:
            yield Observation(freed_at, part_of(claim), rise.at - freed_at)


def _answer(claim: ClaimNote, site: SiteNote) -> Answer | None:
    """Classify the answer; None where there is none: unanswered, stopped before, or refused for
    lack of processors."""
    if claim.granted_at is not None:
        return Answer(kind=AnswerKind.GRANTED, after_s=claim.granted_at - claim.asked_at)
    if claim.end is None or claim.gone_at is None:
        return None
    after_s, end = claim.gone_at - claim.asked_at, replace(claim.end, ended_at=None)
    if claim.end.kind is EndKind.FAILED:
        return Answer(kind=AnswerKind.FAILED, after_s=after_s, end=end)
    if is_unexplained_refusal(claim, site.reports):
        return Answer(kind=AnswerKind.REFUSED, after_s=after_s, end=end)
    return None


def _pass(claim: ClaimNote) -> Pass | None:
    if claim.passed_at is None or claim.pass_reported_at is None:
        return None
    due_at = claim.release_at if claim.release_at is not None else claim.granted_at
    late_s = 0.0 if due_at is None else max(0.0, claim.passed_at - due_at)
    return Pass(late_s=late_s, report_s=max(0.0, claim.pass_reported_at - claim.passed_at))


def _loss(claim: ClaimNote) -> Loss | None:
    if claim.granted_at is None or claim.end is None or claim.freed_at is None:
        return None
    if claim.end.kind not in LOST:
        return None
    return Loss(
        at=claim.freed_at,
        part=part_of(claim),
        end=replace(claim.end, ended_at=None),
        is_own=claim.end.kind in (EndKind.LEASE, EndKind.UNKNOWN),
    )


def _links(history: RunHistory) -> dict[Link, Nearest[Copy]]:
    seen: dict[Link, list[Observation[Copy]]] = {}
    for copy in history.copies.values():
        order = copy.order
        if copy.ended_at is None:
            continue
        whole_s = copy.ended_at - copy.started_at
        if copy.failure is not None:
            what = Copy(
                bytes_per_s=0.0,
                beside_s=0.0,
                failed_after_s=whole_s,
                failed_at=copy.failure.at,
                reason=copy.failure.reason,
            )
        else:
            took_s = max(copy.took_s, 1e-9)
            what = Copy(bytes_per_s=order.size_bytes / took_s, beside_s=max(0.0, whole_s - took_s))
        one = Observation(copy.started_at, (order.transfer.split("/")[0], order.file), what)
        seen.setdefault((order.source, order.target), []).append(one)
    return {link: Nearest(several) for link, several in sorted(seen.items())}
