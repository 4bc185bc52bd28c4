"""A past run as a film: each claim with its instants, for a picture with a slider.

It is read from a journal as `koala replay` reads it, and noted by the same code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from koala.core.model.parameters import Parameters
from koala.core.policy_api import NO_POLICIES
from koala.core.scheduler import Scheduler
from koala.daemon.storage.journal_reader import open_journal, replay
from koala.sim.replay.chronicle import Chronicle, ClaimNote
from koala.sim.replay.figures import job_rows, site_rows, totals

CLAIMS_MAX = 20_000


def film(path: Path) -> dict[str, Any]:
    """Read a journal and return its jobs, sites, totals, and newest claims. Takes long for long
    journals. Raises ConfigError, JournalError."""
    past, chronicle = open_journal(path), Chronicle()
    scheduler = Scheduler(Parameters(), NO_POLICIES)
    for step in replay(past):
        scheduler = step.scheduler
        chronicle.note(step.record.event, step.record.at, step.actions)
    jobs, sites = job_rows(scheduler), site_rows(chronicle)
    claims = [claim for name in sorted(chronicle.sites) for claim in chronicle.sites[name].claims]
    claims.sort(key=lambda claim: claim.asked_at)
    return {
        "first_at": chronicle.first_at,
        "last_at": chronicle.last_at,
        "jobs": jobs,
        "sites": sites,
        "figures": totals(chronicle, jobs, sites),
        "claims": [_claim(claim) for claim in claims[-CLAIMS_MAX:]],
    }


def _claim(claim: ClaimNote) -> dict[str, Any]:
    return {
        "job": claim.job,
        "site": claim.site,
        "processors": claim.processors,
        "asked_at": claim.asked_at,
        "granted_at": claim.granted_at,
        "passed_at": claim.passed_at,
        "freed_at": claim.freed_at,
    }
