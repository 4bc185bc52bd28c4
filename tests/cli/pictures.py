"""Records as the daemon gives them, with defaults: a test names only what it is about."""

from __future__ import annotations

from typing import Any

from koala.views.records.accounts import ClaimCost, ReportRow
from koala.views.records.base import Moment
from koala.views.records.grid import SiteStatus
from koala.views.records.jobs import JobDetails, JobTimeline, Part, Timeline
from tests.views.records import record_of


def a_timeline(**changes: Any) -> Timeline:
    """A job submitted at 1000 that has gone its whole way."""
    plain = {
        "submitted_at": 1000.0,
        "placed_at": 1002.1,
        "claim_at": None,
        "claimed_at": 1005.5,
        "start_at": 1006.1,
        "started_at": 1006.2,
        "ended_at": 1019.0,
        "total_waiting_s": 6.2,
        "transfer_estimate_s": 4.0,
        "transfer_s": 3.9,
        "transfer_bytes": 4_000_000,
        "processor_gained_s": 12.0,
        "processor_wasted_s": 8.4,
        "processor_run_s": 150.0,
        "extra_claiming_tries": 1,
        "start_delay_s": 0.0,
        "start_lateness_s": 0.1,
        "start_skew_s": 0.0021,
    }
    return record_of(Timeline, plain | changes)


def a_part(**changes: Any) -> Part:
    """A component that ended well at delft."""
    plain = {
        "component": 0,
        "label": "west",
        "processors": 4,
        "processes": 4,
        "executable": "/bin/true",
        "fixed_site": None,
        "start_type": "strict-barrier",
        "site": "delft",
        "file_site": "vu",
        "is_fetched": True,
        "is_dropped": False,
        "claim": "j1/1/0/1",
        "claim_phase": None,
        "claims": 1,
        "claimed_at": 1005.0,
        "passed_at": 1006.2,
        "refusal": "",
        "end": {
            "kind": "exited",
            "text": "ended well",
            "statuses": [0],
            "ended_at": 1019.0,
            "cpu_s": 1.0,
            "memory_bytes": 1,
        },
    }
    return record_of(Part, plain | changes)


def a_charge(**changes: Any) -> ClaimCost:
    """Return the cost of the job's first claim."""
    plain = {
        "claim": "j1/1/0/1",
        "batch_job": "4711",
        "job": "j1",
        "user": "ann",
        "site": "delft",
        "processors": 4,
        "asked_at": 1004.0,
        "granted_at": 1005.0,
        "passed_at": 1006.2,
        "ended_at": 1019.0,
        "end": "exited",
        "run_s": 51.2,
        "held_s": 4.8,
        "wasted_s": 0.0,
    }
    return record_of(ClaimCost, plain | changes)


def a_report_row(**changes: Any) -> ReportRow:
    """The figures of somebody who ran one job."""
    plain = {
        "jobs_finished": 1,
        "jobs_failed": 0,
        "jobs_cancelled": 0,
        "claims": 2,
        "run_s": 12345.6,
        "held_s": 4.8,
        "wasted_s": 0.0,
        "skew_median_s": 0.0021,
        "skew_max_s": 0.0021,
        "failed_claims": 0,
        "setbacks": 0,
    }
    return record_of(ReportRow, plain | changes)


def a_job(**changes: Any) -> JobDetails:
    """A finished job of two components."""
    plain = {
        "job": "j1",
        "owner": "ann",
        "phase": "Finished",
        "priority": "low",
        "processors": 8,
        "components": 2,
        "name": "",
        "sites": ["delft", "vu"],
        "programs": ["/usr/bin/poisson"],
        "submitted_at": 1000.0,
        "started_at": 1010.0,
        "ended_at": 1019.0,
        "attempts": 1,
        "reason": "",
        "status": None,
        "placement_tries": 1,
        "claiming_tries": 2,
        "retries": 0,
        "failures": 0,
        "preemptions": 0,
        "queue": "low",
        "claim_fraction": 0.75,
        "deadline": None,
        "timeline": a_timeline(),
        "parts": [a_part(), a_part(component=1, label="east", site="vu", file_site=None)],
        "progress": None,
        "claims_stopping": 0,
        "setbacks": [],
        "charges": [a_charge()],
        "story": [[1000.0, "Placing: submitted"], [1019.0, "Finished: every component ended well"]],
    }
    return record_of(JobDetails, plain | changes)


def a_course(now_at: float | None = None, **changes: Any) -> JobTimeline:
    """The timeline of that job."""
    job = a_job(**changes)
    return JobTimeline(
        job=job.job,
        phase=job.phase if job.phase != "Damaged" else "Failed",
        attempts=job.attempts,
        timeline=job.timeline,
        transfers=job.transfers,
        setbacks=job.setbacks,
        story=job.story,
        parts=job.parts,
        charges=job.charges,
        now_at=None if now_at is None else Moment.of(now_at),
    )


def a_site(**changes: Any) -> SiteStatus:
    """A usable site with some idle processors."""
    plain = {
        "site": "delft",
        "state": "usable",
        "processors": 64,
        "idle": 12,
        "claimed": 90,  # those in its queue, too
        "held": 4,
        "running": 20,
        "errors": 0,
        "unusable_until": None,
        "owner": None,
        "users": 0,
        "grace_s": 5.0,
        "rtt_s": 0.0012,
        "address": "127.0.0.1",
        "gpus": 0,
        "idle_gpus": 0,
        "is_drained": False,
    }
    return record_of(SiteStatus, plain | changes)
