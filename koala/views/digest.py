"""Digest of the state: the facts that a replay must give again.

Each record has a list of the facts of its document that count. A new field of a document is none of
them, so digests in old journals stay valid (tests/daemon/storage/test_formats.py). A new fact of
the state is added where it counts only when it is set.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from koala.core.model.claim import Claim, Stopped
from koala.core.model.grid import MIPS_DEFAULT, Site
from koala.core.model.job import Delayed, Job, Placing, Running, Waiting
from koala.core.model.replicas import Transfer
from koala.core.model.values import JobId
from koala.core.state import State
from koala.views.documents import files_document, job_document, site_document

_JOB = (
    *("job", "owner", "phase", "priority", "processors", "components", "sites", "submitted_at"),
    *("attempts", "reason", "status", "queue", "placement_tries", "claiming_tries", "retries"),
    *("failures", "preemptions", "claim_fraction", "deadline"),
)
_TIMELINE = (
    *("submitted_at", "placed_at", "claim_at", "claimed_at", "start_at", "started_at", "ended_at"),
    *("total_waiting_s", "transfer_estimate_s", "transfer_s", "transfer_bytes"),
    *("processor_gained_s", "processor_wasted_s", "processor_run_s", "extra_claiming_tries"),
    *("start_delay_s", "start_lateness_s", "start_skew_s"),
)
_PART = (
    *("component", "label", "processors", "processes", "executable", "fixed_site", "start_type"),
    *("site", "file_site", "is_fetched", "is_dropped", "claim", "claim_phase", "claims"),
    *("claimed_at", "passed_at", "refusal", "end"),
)
_SITE = (
    *("site", "state", "processors", "idle", "claimed", "errors", "unusable_until", "owner"),
    *("grace_s", "may_kill_local", "local", "rtt_s", "address"),
)
_SITE_IF_SET = ("users", "mips", "slots", "gpus", "idle_gpus", "resources")


def digest(state: State) -> str:
    """Checksum of the whole state, without stories and without details of ended jobs."""
    over = dict(state.forgotten)
    live: list[list[Any]] = []
    refused: list[Job] = []
    for job in state.jobs.values():
        kind = type(job.phase)
        if kind is Placing or kind is Delayed:  # most jobs of a long queue: keep it cheap
            live.append([job.id, kind.__name__, job.placement_tries, job.claiming_tries,
                         job.claim_fraction, job.attempts, job.tried_at])  # fmt: skip
        elif job.is_over:
            over[job.phase_name] = over.get(job.phase_name, 0) + 1
            continue
        elif isinstance(job.phase, Waiting):
            live.append([job.id, job.phase_name, *job.phase.on])
        else:
            since = job.phase.since if isinstance(job.phase, Running) else None
            live.append([_job(state, job.id), since])
        if job.refusals:
            refused.append(job)
    refusals = {
        job.id: [[site, refusal.at, refusal.pause_s] for site, refusal in job.refusals.items()]
        for job in refused
    }
    counts_jobs = state.parameters.errors_counted == "jobs"  # older journals count none
    whole = {
        **({"refusals": refusals} if refusals else {}),
        "epoch": state.epoch,
        "arms": state.arms,
        "scans": state.queues.scans,
        "discipline": state.queues.discipline,
        "disabled": list(state.queues.disabled),
        "departures": state.queues.departures,
        "freed": list(state.queues.freed),
        "over": over,
        "live": live,
        "queues": [
            list(state.queues.lines),
            *state.queues.order(),
            list(state.queues.timed),
        ],
        "ledger": [_claim(claim) for claim in state.ledger.values()],
        "sites": [
            [
                _site(site),
                site.is_drained,
                site.reported_idle,
                site.asks,
                site.unreported,
                site.window,
                *([site.erring] if site.erring and counts_jobs else []),
            ]
            for site in state.sites.values()
        ],
        "files": files_document(state),
        "transfers": sorted(
            [t.id, t.is_done] + ([t.moved_bytes, t.expected_at] if _is_told_of(t) else [])
            for t in state.files.transfers.values()
        ),
        "bandwidth": sorted([*link, value] for link, value in state.files.bandwidth.items()),
        "keys": len(state.keys) + state.keys_forgotten,
        "budgets": [[u, b.spent_s] for u, b in sorted(state.user_budgets.items())],
        "wake_at": state.timers.next_at,
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def _only(found: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: found[name] for name in names}


def _job(state: State, job_id: JobId) -> dict[str, Any]:
    """Facts of a job with an attempt; its story and its name are for people."""
    found = job_document(state, job_id)
    progress = found["progress"]
    return {
        **_only(found, _JOB),
        "claims_owed": 0,  # counted in digests of older journals, and 0 until a job is over
        **({} if progress is None else {"progress": progress}),
        "timeline": _only(found["timeline"], _TIMELINE),
        "parts": [_part(part) for part in found["parts"]],
    }


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if_set = ("mips", "booked_bps") if part["mips"] else ()
    return _only(part, (*_PART, *if_set, *(("gpus",) if part["gpus"] else ())))


def _site(site: Site) -> dict[str, Any]:
    found = site_document(site, 0, 0.0)
    set_ones = [name for name in _SITE_IF_SET if found[name]]
    if found["mips"] == MIPS_DEFAULT:
        set_ones.remove("mips")
    return _only(found, (*_SITE, *set_ones))


def _claim(claim: Claim) -> list[Any]:
    grant = claim.grant
    figures: list[Any] = [
        *(claim.id, claim.phase.name, claim.site, "" if grant is None else grant.nonce),
        *(claim.ask_number, None if grant is None else grant.at, claim.passed_at, claim.may_run),
    ]
    if isinstance(claim.phase, Stopped) and claim.phase.is_silent:
        figures.append("silent")
    if grant is not None and (grant.address or grant.hosts):
        figures += [grant.address, grant.hosts]
    return figures


def _is_told_of(transfer: Transfer) -> bool:
    """Return True if the agent reported this copy while it was under way; early agents did not."""
    return transfer.told_at is not None and not transfer.is_done
