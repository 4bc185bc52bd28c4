"""Claims that wait in local queues, in records and in words, with what their sites tell of them.

All that is shown of a wait (`koala why`, lists, pages) is worded here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from koala.common.protocol.messages import Outlook, SiteFigures, Wait
from koala.core.allowances import excess_of
from koala.core.model.claim import Asked, Claim
from koala.core.model.grid import Site
from koala.core.model.job import Attempt, Claiming, Job, Member, Placing, Queued
from koala.core.model.values import FOREVER, ClaimId, Instant, Seconds, SiteName, UserName
from koala.core.sites import is_usable
from koala.core.state import State
from koala.core.stated_starts import stated_interval, usual_interval
from koala.views.records import jobs
from koala.views.records.base import Moment, moment_of
from koala.views.units import counted

DAY_S = 86_400.0
PAST = "past waits at the site"
BOOKED = "booked"
"""Source of a start that is known because it was booked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteQueue:
    """Local queue of a site by its newest report; `system` is the name of its batch system."""

    system: str = ""
    gate_tried: str = ""
    waits: Mapping[ClaimId, Wait] = field(default_factory=dict)
    outlook: tuple[Outlook, ...] = ()

    @classmethod
    def of(cls, figures: SiteFigures, *, system: str) -> SiteQueue:
        """Make it of the figures of a site."""
        waits = {wait.claim: wait for wait in figures.waits}
        tried = figures.gate_tried
        return cls(system=system, gate_tried=tried, waits=waits, outlook=figures.outlook)


NO_QUEUE = SiteQueue()
SiteQueues = Callable[[SiteName], SiteQueue]


def no_queues(_: SiteName) -> SiteQueue:
    """Tell nothing, for jobs that are over."""
    return NO_QUEUE


# --- records --------------------------------------------------------------------------------------


def waiting_claims(state: State, attempt: Attempt, component: int) -> Iterator[Claim]:
    """Yield the claims of a component that wait in local queues, the oldest first."""
    member = attempt.members[component]
    for name in (member.claim, *member.tickets):
        claim = None if name is None else state.ledger.get(name)
        if claim is not None and isinstance(claim.phase, Asked):
            yield claim


def waits_of(
    state: State, job: Job, component: int, queues: SiteQueues, now: Instant
) -> tuple[jobs.QueueWait, ...]:
    """Make the records of a component's waiting claims."""
    if job.has_ended or job.attempt is None:
        return ()
    claims = waiting_claims(state, job.attempt, component)
    return tuple(_wait(state, claim, queues(claim.site), now) for claim in claims)


def _wait(state: State, claim: Claim, queue: SiteQueue, now: Instant) -> jobs.QueueWait:
    told = queue.waits.get(claim.id)
    site = state.sites[claim.site]
    source = "" if told is None else told.source
    between: tuple[Seconds, Seconds] | None
    if claim.begins_at:
        between, source = None, BOOKED
    elif claim.start_at is not None:
        between = stated_interval(site, max(0.0, claim.start_at - now))
    else:
        between = usual_interval(site, claim, now)
        source = PAST if between is not None else source
    return jobs.QueueWait(
        claim=claim.id,
        site=claim.site,
        system=queue.system,
        batch_job="" if told is None else told.number,
        reason="" if told is None else told.reason.removeprefix(f"{queue.system}: "),
        asked_at=Moment.of(claim.asked_at),
        is_gated=claim.is_gated,
        start_at=moment_of(claim.start_at),
        earliest_at=None if between is None else Moment.of(now + between[0]),
        latest_at=None if between is None else Moment.of(now + between[1]),
        source=source,
        withdrawn_at=None if claim.grace_until == FOREVER else Moment.of(claim.grace_until),
    )


# --- words ----------------------------------------------------------------------------------------


def describe_wait(wait: jobs.QueueWait, now: Instant) -> str:
    """Describe the wait of a claim for people."""
    waited = span(now - float(wait.asked_at))
    words = [f"{_place(wait)}{_reason(wait)}"]
    words[0] += "" if wait.source == BOOKED else f" for {waited}"
    if wait.is_gated:
        words.append("gated, with its place kept")
    if wait.start_at is not None:
        words.append(_start(wait, now))
    elif wait.earliest_at is not None and wait.latest_at is not None:
        between = interval(float(wait.earliest_at) - now, float(wait.latest_at) - now)
        words.append(f"start unknown, in {between} if it waits as claims did before")
    elif wait.source:
        words.append(f"start unknown ({wait.source})")
    if wait.withdrawn_at is not None:
        words.append(f"withdrawn in {span(float(wait.withdrawn_at) - now)}")
    return ", ".join(words)


def _place(wait: jobs.QueueWait) -> str:
    if not (wait.batch_job or wait.reason) and wait.source in ("", PAST):
        return f"waits for the answer of {wait.site}"
    job = f" as {f'{wait.system} job' if wait.system else 'batch job'} {wait.batch_job}"
    if wait.source == BOOKED:
        return (
            f"booked at {wait.site}{job}" if wait.batch_job else f"asks {wait.site} for a booking"
        )
    return f"queued at {wait.site}{job if wait.batch_job else ''}"


def _reason(wait: jobs.QueueWait) -> str:
    return f" ({wait.reason})" if wait.reason else ""


def _start(wait: jobs.QueueWait, now: Instant) -> str:
    """Describe the expected start of a claim, also of a gated one."""
    assert wait.start_at is not None
    if wait.source == BOOKED:
        return f"begins {from_now(float(wait.start_at) - now)}"
    verb = "would start" if wait.is_gated else "estimated start"
    details = [wait.source] if wait.source else []
    if wait.earliest_at is not None and wait.latest_at is not None:
        details.insert(0, interval(float(wait.earliest_at) - now, float(wait.latest_at) - now))
    return f"{verb} {from_now(float(wait.start_at) - now)} ({'; '.join(details)})"


def wait_of_member(state: State, job: Job, member: Member, queues: SiteQueues, now: Instant) -> str:
    """Describe what a component waits for in local queues, or holds meanwhile; empty for one that
    has passed the barrier or ended."""
    claim = _held(state, member)
    if claim is not None:
        return "" if claim.passed_at is not None else describe_hold(claim, now)
    waits = waits_of(state, job, member.component, queues, now)
    if not waits:
        return f"no claim waits at {member.site}" if member.end is None else ""
    first = min(waits, key=start_of)
    others = [wait for wait in waits if wait is not first]
    behind = sum(wait.site == first.site and wait.source != BOOKED for wait in others)
    elsewhere = dict.fromkeys(wait.site for wait in others if wait.site != first.site)
    words = [describe_wait(first, now)]
    words += [f"{counted(behind, 'further claim')} behind it"] if behind else []
    words += [describe_wait(wait, now) for wait in others if wait.source == BOOKED]
    words += [f"also queued at {', '.join(elsewhere)}"] if elsewhere else []
    return "; ".join(words)


def _held(state: State, member: Member) -> Claim | None:
    """Return the claim that has processors for a component."""
    claim = None if member.claim is None else state.ledger.get(member.claim)
    return None if claim is None or isinstance(claim.phase, Asked) else claim


def start_of(wait: jobs.QueueWait) -> tuple[bool, float]:
    """Return the key by which claims are in the order of their expected starts, open ones first."""
    return wait.is_gated, FOREVER if wait.start_at is None else float(wait.start_at)


def describe_hold(claim: Claim, now: Instant) -> str:
    """Describe what a claim holds for the others, and until when at most."""
    assert claim.grant is not None
    for_s = now - claim.grant.held_from
    held = f"holds {counted(claim.processors, 'processor')} at {claim.site}"
    return f"{held} for {span(for_s)}, given back in {span(claim.hold_s - for_s)} at the latest"


class ShortReasons:
    """Reasons in a few words, for lists of jobs that wait at an instant."""

    def __init__(self, state: State, queues: SiteQueues, now: Instant) -> None:
        self._state = state
        self._queues = queues
        self._now = now
        self._idlest: dict[UserName, Site | None] = {}  # usable site with most idle processors

    def of(self, job: Job) -> str:
        """Return the words; empty for a job that does not wait."""
        match job.phase:
            case Placing() if self._now < job.not_before:
                return "not tried again yet after a setback"
            case Placing() if job.deadline_at is not None:
                return f"is to start at {clock_time(job.deadline_at, self._now)}"
            case Placing():
                return self._lack(job)
            case Claiming(attempt=attempt) | Queued(attempt=attempt):
                waits = _short_waits(self._state, job, attempt, self._queues, self._now)
                return "; ".join([*waits])
            case _:
                return ""

    def _lack(self, job: Job) -> str:
        """Say which limit of its user or group is in the way, or which site lacks idle processors:
        one that a component names, or the idlest of all for the largest component."""
        if excess := excess_of(self._state, job):
            return excess.partition(", and")[0]
        owner = job.spec.owner
        for component in job.spec.components:
            site = self._state.sites.get(component.site) if component.site else None
            if site is not None and is_usable(site) and site.idle() < component.processors:
                return _idle(site, component.processors)
        if owner not in self._idlest:
            sites = [site for site in self._state.sites.values() if site.facts.admits(owner)]
            usable = filter(is_usable, sites)
            self._idlest[owner] = max(usable, key=lambda site: site.idle(), default=None)
        most = self._idlest[owner]
        if most is None:
            return "no site can be used now"
        return "waits for its turn" if most.idle() >= job.largest else _idle(most, job.largest)


def _idle(site: Site, wanted: int) -> str:
    return f"{site.name}: {max(0, site.idle())} of {counted(wanted, 'processor')} idle"


def _short_waits(
    state: State, job: Job, attempt: Attempt, queues: SiteQueues, now: Instant
) -> Iterator[str]:
    """Yield what is awaited, the last expected first, then what is held meanwhile."""
    waits: list[tuple[float, str]] = []
    held: dict[SiteName, int] = {}
    for member in attempt.present:
        claim = _held(state, member)
        if claim is not None:
            held[claim.site] = held.get(claim.site, 0) + claim.processors
        elif member_waits := waits_of(state, job, member.component, queues, now):
            first = min(member_waits, key=start_of)
            _, at = start_of(first)
            when = "" if at == FOREVER else f"start about {clock_time(max(at, now), now)}"
            waits.append((at, _short(first, when)))
    waits.sort(key=lambda pair: -pair[0])
    yield from (words for _, words in waits[:1])
    if len(waits) > 1:
        yield f"{len(waits) - 1} more wait"
    if waits:
        yield from (f"{site} holds {count}" for site, count in held.items())


def _short(wait: jobs.QueueWait, when: str) -> str:
    """Describe a wait for a list, what matters most first: lists are cut at their width."""
    if not (wait.batch_job or wait.reason):
        return f"{wait.site}: {when}" if when else _place(wait)
    job = f"{f'{wait.system} job' if wait.system else 'batch job'} {wait.batch_job}".rstrip()
    code = wait.reason.partition(":")[0]
    words = [when, f"{job} ({code})" if code else job]
    return f"{wait.site}: {', '.join(filter(None, words))}"


def component_at(label: str, site: str) -> str:
    """Name a component and its site, which is often its label, too."""
    return f"component {label}" if label == site else f"component {label} at {site}"


def from_now(seconds: Seconds) -> str:
    """Format an instant from now on."""
    return "now" if seconds < 1 else f"in {span(seconds)}"


def span(seconds: Seconds) -> str:
    """Format a duration for people."""
    if seconds < 1:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def interval(low_s: Seconds, high_s: Seconds) -> str:
    """Format an interval of durations from now on."""
    return f"up to {span(high_s)}" if low_s < 1 else f"{span(low_s)} to {span(high_s)}"


def clock_time(at: Instant, now: Instant) -> str:
    """Format an instant near now, in UTC."""
    form = "%H:%M UTC" if abs(at - now) < DAY_S / 2 else "%Y-%m-%d %H:%M UTC"
    try:
        return datetime.fromtimestamp(at, UTC).strftime(form)
    except (OverflowError, ValueError, OSError):
        return f"{at:g} s after 1970"
