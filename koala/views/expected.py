"""Expected starts: of a job whose claims wait in local queues, and of one that was only described.

All follows from what sites tell: the expected starts of the claims in their queues, and their
outlook for further ones. What they do not tell stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from koala.core.allowances import hold_left_of
from koala.core.model.claim import Claim
from koala.core.model.grid import Site
from koala.core.model.job import Attempt, Claiming, Job, Queued
from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.core.model.values import FOREVER, Instant, Seconds
from koala.core.sites import is_usable
from koala.core.state import State
from koala.views.records import jobs
from koala.views.units import counted
from koala.views.waiting import (
    SiteQueue,
    SiteQueues,
    clock_time,
    component_at,
    from_now,
    interval,
    span,
    start_of,
    waiting_claims,
    waits_of,
)

SOONER_MAX = 4
ENDLESS_S = 1e8
"""Run time that counts for a component without a limit."""
FASTER = 0.8
"""Share of the time within which a change must start, to be told."""


def expected_start(
    state: State, job: Job, queues: SiteQueues, now: Instant
) -> jobs.ExpectedStart | None:
    """Make the record of a job whose claims wait in local queues; None for others."""
    if not isinstance(job.phase, Claiming | Queued):
        return None
    attempt = job.phase.attempt
    firsts: dict[int, jobs.QueueWait] = {}
    claims: list[Claim] = []
    for member in attempt.present:
        claims += waiting_claims(state, attempt, member.component)
        waits = waits_of(state, job, member.component, queues, now)
        if waits and (member.claim is None or member.claim in {wait.claim for wait in waits}):
            firsts[member.component] = min(waits, key=start_of)
    is_queued = isinstance(job.phase, Queued)
    if not firsts or not (is_queued or any(wait.start_at for wait in firsts.values())):
        return None
    slow = max(firsts, key=lambda component: start_of(firsts[component])[1])
    last = firsts[slow]
    held_s = job.wasted_s + sum(
        claim.processors * max(0.0, now - claim.grant.at)
        for claim in state.ledger.values()
        if claim.job == job.id and claim.grant is not None and claim.passed_at is None
    )
    left_s = hold_left_of(state, job)
    round_s = sum({claim.component: claim.processors * claim.hold_s for claim in claims}.values())
    expected = jobs.ExpectedStart(
        start_at=last.start_at,
        earliest_at=last.earliest_at,
        latest_at=last.latest_at,
        component=job.spec.label(slow),
        site=last.site,
        is_place_kept=is_queued
        and all(claim.begins_at or state.sites[claim.site].facts.gate for claim in claims),
        held_s=held_s,
        round_s=round_s,
        budget_left_s=None if left_s == FOREVER else left_s,
        sooner=tuple(_sooner(state, attempt, slow, last, queues, now))[:SOONER_MAX],
    )
    return replace(expected, words=tuple(_words(expected, now)))


def _words(expected: jobs.ExpectedStart, now: Instant) -> Iterator[str]:
    """Say when a job is expected to start, what holding costs, and what would start sooner."""
    yield _describe(expected, now)
    cost = f"holding has cost {expected.held_s:,.0f} processor-seconds so far"
    budget = expected.budget_left_s
    left = "" if budget is None else f"; the hold budget has {budget:,.0f} left today"
    yield f"{cost}, and costs at most {expected.round_s:,.0f} more each time{left}"
    kept = "waits with its place kept: what comes up too early is gated, or given back"
    yield (
        kept if expected.is_place_kept else "its place is not kept: claims end, and are made again"
    )
    yield from (f"would start sooner: {words}" for words in expected.sooner)


def _describe(expected: jobs.ExpectedStart, now: Instant) -> str:
    """Describe the expected start of a job in one sentence."""
    last = f"{component_at(expected.component, expected.site)} is last"
    between = ""
    if expected.earliest_at is not None and expected.latest_at is not None:
        between = interval(float(expected.earliest_at) - now, float(expected.latest_at) - now)
    if expected.start_at is None:
        usual = f"; in {between} if it waits as claims did before" if between else ""
        return f"its start is unknown: {last}, and the site does not tell when{usual}"
    start = f"estimated start {from_now(float(expected.start_at) - now)}"
    return f"{start} ({between}): {last}" if between else f"{start}: {last}"


def expected_of_spec(state: State, spec: JobSpec, queues: SiteQueues, now: Instant) -> str:
    """Say when a job would start if it were submitted now, by what the sites tell."""
    at, words = _earliest(state, spec, queues)
    if at is None:
        return f"its start is unknown: {words}"
    if not at:
        return "it could start now"
    return f"estimated start in {span(at)}, about {clock_time(now + at, now)}: {words}"


def missed_deadline(
    state: State, spec: JobSpec, deadline_at: Instant | None, queues: SiteQueues, now: Instant
) -> str:
    """Say that the expected starts come after the deadline; empty where they do not."""
    if deadline_at is None:
        return ""
    at, words = _earliest(state, spec, queues)
    if at is None or now + at <= deadline_at:
        return ""
    left = span(deadline_at - now)
    return f"the deadline, in {left}, is too early by what the sites tell: {words}, in {span(at)}"


def _earliest(state: State, spec: JobSpec, queues: SiteQueues) -> tuple[Seconds | None, str]:
    """Return the time until the last component could start, each at the site where it would start
    first; None and the component for which no site tells it."""
    last_s, words = 0.0, ""
    for index, component in enumerate(spec.components):
        label = spec.label(index)
        starts = [
            (start_s, site.name)
            for site in _open_sites(state, spec, component)
            if component.site in (None, site.name)
            if (start_s := start_at_site(site, queues(site.name), component)) is not None
        ]
        if not starts:
            return None, f"no site tells when component {label} could start"
        start_s, name = min(starts)
        if start_s >= last_s:
            last_s, words = start_s, f"{component_at(label, name)} is last"
    return last_s, words


def _open_sites(state: State, spec: JobSpec, component: ComponentSpec) -> list[Site]:
    return [
        site
        for site in state.sites.values()
        if is_usable(site)
        and site.facts.admits(spec.owner)
        and site.facts.processors >= component.processors
    ]


def start_at_site(site: Site, queue: SiteQueue, component: ComponentSpec) -> Seconds | None:
    """Return the time until a component would start at a site if it were asked for now; None where
    the site does not tell."""
    return _start_of_size(site, queue, component.processors, component.wall_time_s or ENDLESS_S)


def _start_of_size(site: Site, queue: SiteQueue, processors: int, run_s: Seconds) -> Seconds | None:
    if site.idle() >= processors:
        return 0.0
    starts = [
        row.start_in_s
        for row in queue.outlook
        if row.processors >= processors and row.run_s >= min(run_s, ENDLESS_S)
    ]
    return min(starts, default=None)


def _sooner(
    state: State,
    attempt: Attempt,
    component: int,
    wait: jobs.QueueWait,
    queues: SiteQueues,
    now: Instant,
) -> Iterator[str]:
    """Yield changes to the slowest component with which it would start sooner, as far as its site
    and the others tell."""
    job = state.jobs[attempt.job]
    spec = job.spec.components[component]
    if spec.reservation is not None:  # no site tells an outlook of one
        return
    start_s = FOREVER if wait.start_at is None else max(0.0, float(wait.start_at) - now)
    soon_s = FASTER * start_s
    run_s = spec.wall_time_s or ENDLESS_S
    here = next(site for site in state.sites.values() if site.name == wait.site)
    queue = queues(here.name)
    label = job.spec.label(component)
    taken = {member.site for member in attempt.members}
    for site in _open_sites(state, job.spec, spec):
        there_s = start_at_site(site, queues(site.name), spec)
        if site.name not in taken and there_s is not None and there_s <= soon_s:
            yield f"component {label} at {site.name}, {from_now(there_s)}"
    sizes = {row.processors for row in queue.outlook} | {here.idle()}
    for processors in sorted((size for size in sizes if 0 < size < spec.processors), reverse=True):
        less_s = _start_of_size(here, queue, processors, run_s)
        if less_s is not None and less_s <= soon_s:
            yield f"component {label} with {counted(processors, 'processor')}, {from_now(less_s)}"
            break
    for shorter_s in sorted(
        {row.run_s for row in queue.outlook if row.run_s < run_s}, reverse=True
    ):
        less_s = _start_of_size(here, queue, spec.processors, shorter_s)
        if less_s is not None and less_s <= soon_s:
            yield f"component {label} with a wall time of {span(shorter_s)}, {from_now(less_s)}"
            break
    others = [member for member in attempt.members if member.given_back_at is not None]
    if others and job.spec.max_hold_s is not None:
        yield f"a longer maxHold: {job.spec.label(others[0].component)} was given back too early"
