"""Read the daemon's state for a scrape, on its event loop.

The cost grows with the number of sites, live claims and placed jobs, not with that of queued or
ended jobs: their numbers are the lengths of queues and indexes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from koala.common.metrics import declarations as m
from koala.common.metrics.readings import Readings
from koala.common.runtime.disk_space import DiskSpace
from koala.core.model.claim import Claim
from koala.core.model.grid import Site
from koala.core.model.placement_queues import queue_label, queued_at
from koala.core.model.values import Instant, SiteName
from koala.core.scheduler import Scheduler
from koala.core.sites import is_resting, is_usable
from koala.daemon.agents.connections import SiteSessions
from koala.daemon.agents.registry import AgentRegistry
from koala.daemon.agents.starter_requests import StarterRequests
from koala.daemon.listeners import Listeners
from koala.daemon.loop.event_feed import EventFeed
from koala.daemon.loop.event_loop import EventLoop
from koala.daemon.loop.observers import Observers
from koala.daemon.storage.journal import Journal
from koala.policies.slots import replaced_policies
from koala.views.grid_timeline import LocalHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonParts:
    """Parts of a daemon that metrics and answers are read from, read only, on its event loop."""

    version: str
    event_loop: EventLoop
    observers: Observers
    requests: StarterRequests
    registry: AgentRegistry
    local: LocalHistory
    sessions: SiteSessions
    notices: EventFeed
    disk: DiskSpace
    journal: Journal
    listeners: Listeners


def read_daemon(parts: DaemonParts, scheduler: Scheduler, now: Instant) -> Readings:
    """Read everything for one scrape."""
    readings = Readings()
    _read_process(readings, parts, scheduler)
    read_jobs(readings, scheduler, now)
    read_sites(readings, scheduler)
    for name, record in parts.listeners.enrolled.items():
        if record.serial and not record.revoked_at:
            readings.set(m.SITE_CERTIFICATE, record.expires_at, name)
    return readings


def _read_process(readings: Readings, parts: DaemonParts, scheduler: Scheduler) -> None:
    counters = parts.event_loop.counters
    readings.set(m.BUILD_INFO, 1, parts.version)
    readings.set(m.EPOCH, scheduler.epoch)
    readings.set(m.DISK_FREE, parts.disk.free_bytes)
    readings.set(m.JOURNAL_BYTES, parts.journal.size_bytes)
    readings.set(m.HANDLING_SECONDS, counters.handled_s)
    readings.set(m.INBOX, parts.event_loop.inbox_size)
    readings.set(m.WATCHERS, parts.notices.watchers)
    readings.set(m.LEASE_RENEWALS, parts.requests.renewals)
    readings.set(m.FLOODS, parts.registry.floods)
    readings.set(m.POLICIES_REPLACED, len(replaced_policies(scheduler.policies)))
    for name, errors in parts.observers.errors.items():
        readings.set(m.OBSERVER_ERRORS, errors, name)
    unfinished = [copy for copy in scheduler.files.transfers.values() if not copy.is_done]
    readings.set(m.TRANSFERS, len(unfinished))


# --- jobs -----------------------------------------------------------------------------------------


def read_jobs(readings: Readings, scheduler: Scheduler, now: Instant) -> None:
    """Read the numbers of jobs, queues and claims."""
    queues = scheduler.queues
    counts: Counter[tuple[str, str]] = Counter()
    for identity in scheduler.placed:
        job = scheduler.jobs[identity]
        queue = m.NO_QUEUE if job.queue is None else queue_label(job.queue)
        counts[job.phase_name.lower(), queue] += 1
    for name, line in queues.lines.items():
        counts["placing", queue_label(name)] = len(line)
        head = next(iter(line.values()), None)
        age_s = 0.0 if head is None else max(0.0, now - queued_at(head))
        readings.set(m.QUEUE_AGE, age_s, queue_label(name))
    counts["placing", "deadline"] = len(queues.timed)
    counts["delayed", m.NO_QUEUE] = len(queues.delayed)
    alive = len(scheduler.jobs) - len(scheduler.ended)
    waiting = alive - len(scheduler.placed) - len(queues) - len(queues.delayed)
    counts["waiting", m.NO_QUEUE] = waiting
    for (phase, queue), count in counts.items():
        readings.set(m.JOBS, count, phase, queue)
    phases = Counter(claim.phase.name for claim in scheduler.ledger.values())
    for phase in m.CLAIM_PHASE.values:
        readings.set(m.CLAIMS, phases[phase], phase)


# --- sites ----------------------------------------------------------------------------------------


def read_sites(readings: Readings, scheduler: Scheduler) -> None:
    """Read states and processors of all sites."""
    claimed: defaultdict[SiteName, Counter[str]] = defaultdict(Counter)
    for claim in scheduler.ledger.values():
        claimed[claim.site][_use(claim)] += claim.processors
    states: Counter[str] = Counter()
    for site in scheduler.sites.values():
        states[_state(site)] += 1
        _read_site(readings, site, claimed[site.name])
    for state in m.STATE.values:
        readings.set(m.SITES, states[state], state)


def _read_site(readings: Readings, site: Site, processors: Counter[str]) -> None:
    readings.set(m.SITE_UP, site.is_connected, site.name)
    readings.set(m.SITE_USABLE, is_usable(site), site.name)
    readings.set(m.SITE_DRAINED, site.is_drained, site.name)
    readings.set(m.SITE_CAPACITY, site.facts.processors, site.name)
    readings.set(m.SITE_ERRORS, site.errors, site.name)
    if site.is_connected:
        readings.set(m.SITE_RTT, site.rtt_s, site.name)
        processors["idle"] = max(0, site.idle())
        processors["local"] = site.reported_local
    for use in m.USE.values:
        readings.set(m.SITE_PROCESSORS, processors[use], site.name, use)


def _state(site: Site) -> str:
    """Return the first state that keeps a site from taking claims."""
    if not site.is_connected:
        return "disconnected"
    if site.is_drained:
        return "drained"
    return "resting" if is_resting(site) else "usable"


def _use(claim: Claim) -> str:
    """Return the use of a claim's processors; one that is being stopped still has them."""
    if claim.grant is None:
        return "asked"
    return "held" if claim.passed_at is None else "running"
