"""The record of `koala admin metrics`: counters and gauges by name (docs/api.md)."""

from __future__ import annotations

import resource
from collections import Counter

import psutil

from koala.core.scheduler import Scheduler
from koala.daemon.metrics.gauges import DaemonParts
from koala.policies.slots import replaced_policies
from koala.views.records import grid


def metrics_document(parts: DaemonParts, scheduler: Scheduler) -> grid.Metrics:
    """Read the counters and gauges."""
    phases = Counter(scheduler.forgotten)
    kinds = Counter(type(job.phase) for job in scheduler.jobs.values())
    phases.update({kind.__name__: count for kind, count in kinds.items()})
    counters = parts.event_loop.counters
    memory_bytes = psutil.Process().memory_info().rss
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return grid.Metrics(
        epoch=scheduler.epoch,
        jobs=phases,
        claims=Counter(claim.phase.name for claim in scheduler.ledger.values()),
        sites=grid.SiteCounts(
            known=len(scheduler.sites),
            connected=sum(site.is_connected for site in scheduler.sites.values()),
        ),
        queues=grid.QueueLengths(
            placement=len(scheduler.queues),
            delayed=len(scheduler.queues.delayed),
            transfers=sum(not t.is_done for t in scheduler.files.transfers.values()),
            inbox=parts.event_loop.inbox_size,
        ),
        events=counters.events,
        events_by_kind=dict(sorted(counters.by_kind.items())),
        commits=counters.commits,
        commit_longest_s=round(counters.commit_s, 6),
        handling_s=round(counters.handled_s, 6),
        notices=parts.notices.last,
        watchers=parts.notices.watchers,
        sessions=len(parts.sessions),
        floods=parts.registry.floods,
        replaced_policies=replaced_policies(scheduler.policies),
        disk=grid.DiskSpace(free_bytes=parts.disk.free_bytes, is_low=parts.disk.is_low),
        loop_lag_s=round(parts.requests.lag_s, 6),
        memory_bytes=memory_bytes,
        # The kernel updates its own peak late.
        memory_peak_bytes=max(memory_bytes, peak_kb * 1024),
    )
