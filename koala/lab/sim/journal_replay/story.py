"""Story of a run in words, for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeAlias

from koala.core.model import actions as act
from koala.core.model import events as ev
from koala.core.model.parameters import NAMES, Parameters
from koala.core.model.values import Instant, JobId
from koala.views.units import counted

TIMER = "a timer"

Line: TypeAlias = tuple[str, str]
"""Subject (a job's id, a site's name, or none) and words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryEvent:
    """One event: `what` happened to `who`, and the lines of its outcome."""

    seq: int
    at: Instant
    kind: str
    who: str
    what: str
    came: tuple[Line, ...]

    def about(self, job: JobId) -> StoryEvent | None:
        """Return the part about a job; None when there is none."""
        came = tuple(line for line in self.came if line[0] == job)
        if self.who != job and not came:
            return None
        return replace(self, came=came)


SiteEvent: TypeAlias = (
    ev.SiteRegistered
    | ev.SiteDisconnected
    | ev.SiteReported
    | ev.SiteDrained
    | ev.SiteResumed
    | ev.SiteDeclaredLost
    | ev.ReplicaAdded
    | ev.ReplicaRemoved
)


class Narrator:
    """Narrator of events in order; keeps the state that it needs to describe changes."""

    def __init__(self) -> None:
        self._parameters = Parameters()
        self._policies: dict[str, str] = {}

    def narrate(
        self, seq: int, at: Instant, event: ev.Event, actions: Sequence[act.Action]
    ) -> StoryEvent:
        """Describe one event and its outcome."""
        who, what = self._event(event)
        return StoryEvent(
            seq=seq,
            at=at,
            kind=type(event).__name__,
            who=who,
            what=what,
            came=tuple(_lines(actions, at)),
        )

    def _event(self, event: ev.Event) -> Line:  # noqa: C901 - a line a kind
        if isinstance(event, SiteEvent):
            return _site_event(event)
        match event:
            case ev.Woken():
                return "", TIMER
            case ev.DaemonStarted(epoch=epoch):
                return "", f"the daemon started, life {epoch}"
            case ev.ParametersChanged():
                return "", self._changed(event)
            case ev.AllowancesSet(allowances=allowances):
                return "", f"{len(allowances)} users and groups have limits"
            case ev.JobSubmitted(job=job, spec=spec):
                parts = [part.processors for part in spec.components]
                owner = f" by {spec.owner}" if spec.owner else ""
                return job, f"submitted{owner}: {_components(parts)}"
            case ev.JobCancelRequested(job=job, by=by):
                return job, f"is to be cancelled, says {by or 'somebody'}"
            case ev.JobResizeRequested(job=job, total=total, by=by):
                return job, f"is to have {total} processors, says {by or 'somebody'}"
            case ev.ClaimGranted() | ev.ClaimArmed() | ev.ClaimPassed() | ev.ClaimGone():
                return _answer(event)
            case ev.PathsTried(claim=claim, problem=problem):
                return _job_of(claim), f"{claim} tried its paths: {problem or 'all are open'}"
            case ev.PortsUsed(claim=claim, ports=ports):
                moved = sum(port.size_bytes for port in ports)
                return _job_of(claim), f"{claim} moved {moved:,} bytes to and from ports of others"
            case ev.ProgressReported(job=job, cycle=cycle, members=members):
                return job, f"{len(members)} components told their progress in cycle {cycle}"
            case ev.ClaimFenced(claim=claim):
                return _job_of(claim), f"{claim} was silent past its lease"
            case ev.TransferProgressed(transfer=name, size_bytes=size, took_s=took_s):
                return _job_of(name), f"{name}: {size:,} bytes so far, in {took_s:.1f} s"
            case ev.TransferFinished(transfer=name, size_bytes=size, took_s=took_s):
                return _job_of(name), f"{name}: {size:,} bytes copied in {took_s:.1f} s"
            case ev.TransferFailed(transfer=name, reason=reason):
                return _job_of(name), f"{name} failed: {reason}"

    def _changed(self, event: ev.ParametersChanged) -> str:
        """List the parameters and policies with another value than before."""
        changed = [
            f"{name} = {getattr(event.parameters, name)}"
            for name in NAMES
            if getattr(event.parameters, name) != getattr(self._parameters, name)
        ]
        policies = dict(event.policies)
        changed += [
            f"{slot} = {name}"
            for slot, name in policies.items()
            if self._policies.get(slot) != name
        ]
        self._parameters, self._policies = event.parameters, policies
        return f"the daemon runs with {', '.join(changed) or 'the parameters as they were'}"


def _answer(event: ev.ClaimGranted | ev.ClaimArmed | ev.ClaimPassed | ev.ClaimGone) -> Line:
    claim = event.claim
    match event:
        case ev.ClaimGranted():
            return _job_of(claim), f"{claim} granted"
        case ev.ClaimArmed():
            return _job_of(claim), f"{claim} armed"
        case ev.ClaimPassed():
            return _job_of(claim), f"{claim} passed the barrier"
        case ev.ClaimGone(end=end):
            return _job_of(claim), f"{claim} is gone: {end.describe()}"


def _site_event(event: SiteEvent) -> Line:
    match event:
        case ev.SiteRegistered(site=site, facts=facts, idle=idle):
            return site, f"registered: {counted(facts.processors, 'processor')}, {idle} idle"
        case ev.SiteDisconnected(site=site):
            return site, "disconnected"
        case ev.SiteReported(site=site, idle=idle, through=through):
            return site, f"reports {idle} idle, ask {through} included"
        case ev.SiteDrained(site=site, by=by):
            return site, f"drained by {by or 'an operator'}"
        case ev.SiteResumed(site=site, by=by):
            return site, f"resumed by {by or 'an operator'}"
        case ev.SiteDeclaredLost(site=site, by=by):
            return site, f"declared lost by {by or 'an operator'}"
        case ev.ReplicaAdded(file=file, site=site, size_bytes=size):
            return site, f"holds {file}, {size:,} bytes"
        case ev.ReplicaRemoved(file=file, site=site):
            return site, f"holds {file} no more"


def _lines(actions: Sequence[act.Action], now: Instant) -> Iterator[Line]:
    """List the lines of an event: first the notices to people, then the messages to the sites."""
    for action in actions:
        if isinstance(action, act.Announce):
            words = ": ".join(part for part in (action.phase, action.text) if part)
            yield action.job or action.site or "", words
    orders = [line for action in actions if (line := _order(action, now)) is not None]
    yield from sorted(orders, key=itemgetter(0))


def _order(action: act.Action, now: Instant) -> Line | None:  # noqa: C901 - a line a kind
    match action:
        case act.ClaimProcessors(claim=claim, site=site, processors=processors):
            return _job_of(claim), f"asks {site} for {counted(processors, 'processor')}: {claim}"
        case act.TryPaths(claim=claim, site=site):
            return _job_of(claim), f"has {claim} at {site} try its TCP paths"
        case act.ArmClaim(claim=claim, site=site, release_at=at):
            return _job_of(claim), f"arms {claim} at {site} for a start in {at - now:.3f} s"
        case act.ReleaseClaim(claim=claim, site=site, release_at=at):
            return _job_of(claim), f"releases {claim} at {site} for a start in {at - now:.3f} s"
        case act.ResizeClaim(claim=claim, site=site, peers=peers, leave_s=leave_s):
            asks = "" if leave_s is None else f", and asks it to give way within {leave_s:g} s"
            count = counted(len(peers), "component")
            return _job_of(claim), f"tells {claim} at {site} of {count}{asks}"
        case act.PaceClaim(claim=claim, site=site, share=share):
            return _job_of(claim), f"lets {claim} at {site} run {share:.1%} of the time"
        case act.StopClaim(claim=claim, site=site):
            return _job_of(claim), f"stops {claim} at {site}"
        case act.StartTransfer(transfer=name, file=file, source=source, target=target):
            size = action.size_bytes
            return _job_of(name), f"copies {file} from {source} to {target}: {name}, {size:,} bytes"
        case act.CancelTransfer(transfer=name):
            return _job_of(name), f"gives up the copy {name}"
        case act.PublishOutputs(job=job):
            return job, "publishes its outputs"
        case act.AcknowledgeClaim() | act.Announce():
            return None


def _components(sizes: list[int]) -> str:
    if len(sizes) == 1:
        return f"a component of {counted(sizes[0], 'processor')}"
    return f"components of {', '.join(map(str, sizes))} processors"


def _job_of(name: str) -> JobId:
    """Return the job of a claim or transfer: `job/attempt/...`."""
    return JobId(name.partition("/")[0])
