"""Figures of a run: per job, per site and in total; and of runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from koala.core.model.job import SITE_FAULTS, TERMINAL_PHASES
from koala.core.model.values import Instant, JobId, SiteName
from koala.core.scheduler import Scheduler
from koala.lab.sim.journal_replay.run_history import ClaimNote, RunHistory
from koala.views.documents import job_document
from koala.views.records.base import seconds_of

Row = Mapping[str, Any]


def job_row(scheduler: Scheduler, job: JobId) -> dict[str, Any]:
    """Compute the figures of a job; None where it did not reach one."""
    found = job_document(scheduler, job)
    times = found.timeline
    submitted_at, ended_at = float(times.submitted_at), seconds_of(times.ended_at)
    return {
        "job": job,
        "phase": found.phase,
        "reason": found.reason,
        "priority": found.priority,
        "processors": found.processors,
        "sites": list(found.sites),
        "submitted_at": submitted_at,
        "placed_at": seconds_of(times.placed_at),
        "claimed_at": seconds_of(times.claimed_at),
        "started_at": seconds_of(times.started_at),
        "ended_at": ended_at,
        "response_s": None
        if ended_at is None or found.phase != "Finished"
        else ended_at - submitted_at,
        "wait_s": times.total_waiting_s,
        "start_delay_s": times.start_delay_s,
        "start_skew_s": times.start_skew_s,
        "attempts": found.attempts,
        "placement_tries": found.placement_tries,
        "claiming_tries": found.claiming_tries,
        "held_processor_s": times.processor_wasted_s,
        "run_processor_s": times.processor_run_s,
    }


def job_rows(scheduler: Scheduler) -> list[dict[str, Any]]:
    """Compute the rows of every job, in order of submission."""
    return [job_row(scheduler, job) for job in scheduler.jobs]


def site_rows(history: RunHistory) -> list[dict[str, Any]]:
    """Compute the rows of every site, in order of name."""
    return [_site_row(history, name) for name in sorted(history.sites)]


def claim_rows(history: RunHistory) -> list[dict[str, Any]]:
    """List every claim with its instants, in order of asking; None where it did not reach one."""
    claims = sorted(history.claims.values(), key=lambda claim: claim.asked_at)
    return [
        {
            "claim": claim.id,
            "job": claim.job,
            "site": claim.site,
            "processors": claim.processors,
            "asked_at": claim.asked_at,
            "granted_at": claim.granted_at,
            "passed_at": claim.passed_at,
            "freed_at": claim.freed_at,
        }
        for claim in claims
    ]


def totals(history: RunHistory, jobs: Sequence[Row], sites: Sequence[Row]) -> dict[str, Any]:
    """Compute the run's totals in one row. Means are over the jobs that have the figure."""
    phases = [job["phase"] for job in jobs]
    processors = sum(site["processors"] for site in sites)
    span_s = history.last_at - history.first_at
    waits = [job["wait_s"] for job in jobs if job["wait_s"] is not None]
    used_s = sum(site["held_processor_s"] + site["run_processor_s"] for site in sites)
    return {
        "jobs": len(jobs),
        "started": sum(job["started_at"] is not None for job in jobs),
        "finished": phases.count("Finished"),
        "failed": phases.count("Failed"),
        "cancelled": phases.count("Cancelled"),
        "open": sum(phase not in TERMINAL_PHASES for phase in phases),
        **{name: _mean(jobs, name) for name in ("response_s", "wait_s")},
        "wait_median_s": median(waits) if waits else None,
        **{name: _mean(jobs, name) for name in ("start_delay_s", "start_skew_s")},
        **{name: _sum(jobs, name) for name in ("attempts", "placement_tries", "claiming_tries")},
        **{name: _sum(sites, name) for name in ("claims", "refused", "errors")},
        "held_processor_s": _sum(jobs, "held_processor_s"),
        "run_processor_s": _sum(jobs, "run_processor_s"),
        "utilization": used_s / (processors * span_s) if processors * span_s > 0 else 0.0,
        "ended_at": max((job["ended_at"] or 0.0 for job in jobs), default=0.0) or None,
    }


def differences(one: Row, other: Row) -> dict[str, float | None]:
    """Return one less other, for every figure that both have."""
    return {
        name: None if one[name] is None or other[name] is None else one[name] - other[name]
        for name in one
    }


def fidelity(recorded: Sequence[Row], simulated: Sequence[Row]) -> dict[str, Any]:
    """Measure the fidelity of the unchanged simulation to the recorded run: same sites, same start,
    same end."""
    again = {job["job"]: job for job in simulated}
    pairs = [(job, again[job["job"]]) for job in recorded]
    late_s = [
        abs(other["started_at"] - job["started_at"])
        for job, other in pairs
        if job["started_at"] is not None and other["started_at"] is not None
    ]
    return {
        "jobs": len(pairs),
        "same_sites": sum(job["sites"] == other["sites"] for job, other in pairs),
        "same_phase": sum(job["phase"] == other["phase"] for job, other in pairs),
        "start_off_s": {
            "median": median(late_s) if late_s else None,
            "max": max(late_s, default=None),
        },
    }


def _site_row(history: RunHistory, name: SiteName) -> dict[str, Any]:
    note = history.sites[name]
    span_s = history.last_at - history.first_at
    held_s = sum(_held_s(claim, history.last_at) for claim in note.claims)
    run_s = sum(_run_s(claim, history.last_at) for claim in note.claims)
    whole_s = note.processors * span_s
    return {
        "site": name,
        "processors": note.processors,
        "claims": len(note.claims),
        "granted": _count(note.claims, lambda claim: claim.granted_at is not None),
        "refused": _count(note.claims, lambda claim: claim.is_refused),
        "errors": _count(
            note.claims, lambda claim: claim.end is not None and claim.end.kind in SITE_FAULTS
        ),
        "held_processor_s": held_s,
        "run_processor_s": run_s,
        "utilization": (held_s + run_s) / whole_s if whole_s > 0 else 0.0,
    }


def _held_s(claim: ClaimNote, last_at: Instant) -> float:
    """Return processor-seconds from the grant to the pass, or to the end without one."""
    if claim.granted_at is None:
        return 0.0
    until = claim.passed_at if claim.passed_at is not None else claim.freed_at
    return claim.processors * max(0.0, (last_at if until is None else until) - claim.granted_at)


def _run_s(claim: ClaimNote, last_at: Instant) -> float:
    """Return processor-seconds from the pass to the end."""
    if claim.passed_at is None:
        return 0.0
    until = claim.freed_at if claim.freed_at is not None else last_at
    return claim.processors * max(0.0, until - claim.passed_at)


def _count(claims: Sequence[ClaimNote], is_so: Callable[[ClaimNote], bool]) -> int:
    return sum(map(is_so, claims))


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return fmean(values) if values else None


def _sum(rows: Sequence[Row], name: str) -> float:
    values: list[float] = [row[name] for row in rows]
    return sum(values)
