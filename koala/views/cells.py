"""Records of the daemon as the texts that the pages show. Pure.

Templates and event streams use the same texts, so a page and its changes cannot differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

import msgspec

from koala.views import units
from koala.views.records.base import Moment, seconds_of
from koala.views.records.grid import SiteStatus
from koala.views.records.jobs import JobSummary
from koala.views.records.phases import PHASES
from koala.views.usage import Use, use_of

NOTHING = "–"

STAGES = {
    "Waiting": "waiting",
    "Delayed": "waiting",
    "Placing": "waiting",
    "Claiming": "claiming",
    "Queued": "claiming",
    "Starting": "barrier",
    "Releasing": "barrier",
    "Running": "running",
    "Stopping": "stopping",
    "Finished": "finished",
    "Failed": "failed",
    "Cancelled": "cancelled",
    "Damaged": "failed",
}
"""The colour of each phase: a class of the style sheet."""
AWAY = ("revoked", "expired")
"""States of an enrolment that keep a site away."""
TONES = {"usable": "good", "probing": "fair", "drained": "fair", "unusable": "bad"}


class JobCells(msgspec.Struct, frozen=True, kw_only=True):
    """Cells of a job's row. Instants are seconds; `wait_until` is the end of its waiting."""

    job: str
    name: str
    owner: str
    phase: str
    stage: str
    size: str
    sites: str
    submitted_at: float
    wait_until: float | None
    started_at: float | None
    ended_at: float | None
    reason: str
    haystack: str
    places: tuple[str, ...]


class SiteCells(msgspec.Struct, frozen=True, kw_only=True):
    """Cells of a site's row, and the widths of its bar in per cent."""

    site: str
    state: str
    tone: str
    is_drained: bool
    processors: str
    running: str
    waiting: str
    others: str
    idle: str
    rtt: str
    trouble: str
    widths: dict[str, str]


class LinkCells(msgspec.Struct, frozen=True, kw_only=True):
    """Cells of a link's row."""

    link: str
    bandwidth: str
    copies: str


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of the pipeline, and how far the job is with it."""

    word: str
    state: Literal["done", "here", "next"]
    stage: str


def stage(phase: str) -> str:
    """Colour of a phase."""
    return STAGES[phase]


def job_cells(job: JobSummary) -> JobCells:
    """Fill the cells of a job's row."""
    programs = [program.rsplit("/", 1)[-1] for program in job.programs]
    places = tuple(dict.fromkeys(job.sites))
    return JobCells(
        job=job.job,
        name=job.name or ", ".join(programs),
        owner=job.owner,
        phase=job.phase,
        stage=stage(job.phase),
        size=f"{job.processors} in {job.components}" if job.components > 1 else str(job.processors),
        sites=", ".join(places) or NOTHING,
        submitted_at=float(job.submitted_at),
        wait_until=seconds_of(job.started_at or job.ended_at),
        started_at=seconds_of(job.started_at),
        ended_at=seconds_of(job.ended_at),
        reason=job.reason,
        haystack=search_text(job),
        places=places,
    )


def search_text(job: JobSummary) -> str:
    """Lower-case text of a job in which the filter of the list looks for words."""
    words = (job.job, job.name or "", job.owner, job.reason)
    return " ".join((*words, *job.sites, *job.programs)).lower()


def site_cells(site: SiteStatus) -> SiteCells:
    """Fill the cells of a site's row."""
    use = use_of(site)
    return SiteCells(
        site=site.site,
        state=site_state(site),
        tone=TONES.get(site.state, "bad"),
        is_drained=site.is_drained,
        processors=str(site.processors),
        running=str(use.running),
        waiting=str(use.waiting),
        others=str(use.others),
        idle=str(use.idle),
        rtt=NOTHING if site.rtt_s is None else f"{site.rtt_s * 1000:.0f} ms",
        trouble=trouble(site),
        widths=widths(use),
    )


def site_state(site: SiteStatus) -> str:
    """Format a site's state, with `drained` added for a drained site that is in another one."""
    state: str = site.state
    if state == "disconnected" and site.enrolment in AWAY:
        state = site.enrolment
    return f"{state}, drained" if site.is_drained and state != "drained" else state


def trouble(site: SiteStatus) -> str:
    """Describe the trouble of a site in one line; empty if it has none."""
    if site.trouble or not site.errors:
        return site.trouble
    return "one error" if site.errors == 1 else f"{site.errors} errors in a row"


def link_cells(sites: Sequence[SiteStatus]) -> list[LinkCells]:
    """Fill the cells of all links; links with copies under way first."""
    links = [(site.site, link) for site in sites for link in site.links]
    links.sort(key=lambda pair: -pair[1].copies)
    return [
        LinkCells(
            link=f"{source} → {link.to}",
            bandwidth=bandwidth(link.bytes_per_s),
            copies=str(link.copies),
        )
        for source, link in links
    ]


def widths(use: Use) -> dict[str, str]:
    """Widths of a stacked bar in per cent, with the place where each part begins."""
    whole = max(1, use.processors)
    parts, at = {}, 0.0
    for name in ("running", "waiting", "others"):
        share = 100 * getattr(use, name) / whole
        parts[f"{name}_at"], parts[name] = f"{at:.2f}%", f"{share:.2f}%"
        at += share
    return parts


def total_cells(use: Use) -> dict[str, str]:
    """Cells of the whole grid."""
    names = ("processors", "running", "waiting", "others", "idle")
    return {name: str(getattr(use, name)) for name in names}


def duration(seconds: float | None) -> str:
    """Format a duration in two units at most."""
    return NOTHING if seconds is None else units.duration(seconds)


def percent(share: float) -> str:
    """Format a share as a place or a width in a picture."""
    return f"{100 * share:.3f}%"


def milliseconds(seconds: float | None) -> str:
    """Format a short time in milliseconds; from ten seconds on as a duration."""
    if seconds is not None and abs(seconds) >= 10:
        return duration(seconds)
    return NOTHING if seconds is None else f"{seconds * 1000:.1f} ms"


def processor_time(seconds: float | None) -> str:
    """Format processor-seconds; from an hour on in processor-hours."""
    if seconds is None:
        return NOTHING
    return f"{seconds / 3600:,.1f} h" if seconds >= 36_000 else f"{seconds:,.1f} s"


def moment(at: Moment | float | None) -> str:
    """Format an instant in UTC; the browser shows it in the time zone of its user."""
    if at is None:
        return NOTHING
    return f"{datetime.fromtimestamp(float(at), UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: Moment | float) -> str:
    """Format an instant for machines."""
    return datetime.fromtimestamp(float(at), UTC).isoformat(timespec="milliseconds")


def size(size_bytes: float | None) -> str:
    """Format a number of bytes."""
    return NOTHING if size_bytes is None else units.size(size_bytes)


def bandwidth(bytes_per_s: float | None) -> str:
    """Format the bandwidth of a link."""
    return NOTHING if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def steps(job: JobSummary) -> list[Step]:
    """Stages of the pipeline in order, with how far the job is."""
    order = ("Placing", "Claiming", "Starting", "Running", "Finished")
    words = ("Placing", "Claiming", "Barrier", "Running", "Ended")
    here = {
        "Waiting": "Placing",
        "Delayed": "Placing",
        "Queued": "Claiming",
        "Releasing": "Starting",
        "Stopping": "Running",
    }
    phase = here.get(job.phase, job.phase)
    at = order.index(phase) if phase in order else 4
    return [
        Step(
            word=job.phase if index == at else word,
            state="done" if index < at else "here" if index == at else "next",
            stage=stage(job.phase) if index == at else "",
        )
        for index, word in enumerate(words)
    ]


def filters_of(jobs: Sequence[JobSummary]) -> dict[str, list[str]]:
    """Owners, phases and sites that a filter can offer."""
    phases = {job.phase for job in jobs}
    return {
        "owners": sorted({job.owner for job in jobs}),
        "phases": [phase for phase in PHASES if phase in phases],
        "sites": sorted({site for job in jobs for site in job.sites}),
    }
