"""Documents of the daemon as the texts that the pages show. Pure.

Templates and event streams use the same texts, so a page and its changes cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from koala.views import units
from koala.views.usage import Use, use_of

Document = Mapping[str, Any]
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
}
"""The colour of each phase: a class of the style sheet."""
TONES = {"usable": "good", "probing": "fair", "drained": "fair", "unusable": "bad"}


def stage(phase: str) -> str:
    """Colour of a phase."""
    return STAGES[phase]


def job_cells(job: Document) -> dict[str, Any]:
    """Cells of a job's row. `since` and `until` bound the time that the row shows."""
    started_at, ended_at = job["started_at"], job["ended_at"]
    programs = [program.rsplit("/", 1)[-1] for program in job.get("programs", ())]
    name = job.get("name") or ", ".join(programs)
    components = job["components"]
    return {
        "job": job["job"],
        "name": name,
        "owner": job["owner"],
        "phase": job["phase"],
        "stage": stage(job["phase"]),
        "size": f"{job['processors']} in {components}"
        if components > 1
        else str(job["processors"]),
        "sites": ", ".join(dict.fromkeys(job["sites"])) or NOTHING,
        "priority": job["priority"],
        "submitted_at": job["submitted_at"],
        "wait_until": started_at if started_at is not None else ended_at,
        "started_at": started_at,
        "ended_at": ended_at,
        "reason": job["reason"],
        "haystack": search_text(job),
        "places": list(dict.fromkeys(job["sites"])),
    }


def search_text(job: Document) -> str:
    """Lower-case text of a job in which the filter of the list looks for words."""
    words = (job["job"], job.get("name", ""), job["owner"], job["reason"])
    return " ".join((*words, *job["sites"], *job.get("programs", ()))).lower()


def site_cells(site: Document) -> dict[str, Any]:
    """Cells of a site's row, and the widths of its bar in per cent."""
    use = use_of(site)
    state = site["state"]
    if state == "disconnected" and site.get("enrolment") in ("revoked", "expired"):
        state = site["enrolment"]
    if site.get("is_drained") and state not in ("drained", "disconnected"):
        state = f"{state}, drained"
    return {
        "site": site["site"],
        "state": state,
        "tone": TONES.get(site["state"], "bad"),
        "is_drained": bool(site.get("is_drained")),
        "processors": str(site["processors"]),
        "running": str(use.running),
        "waiting": str(use.waiting),
        "others": str(use.others),
        "idle": str(use.idle),
        "rtt": NOTHING if site["rtt_s"] is None else f"{site['rtt_s'] * 1000:.0f} ms",
        "trouble": trouble(site),
        "widths": widths(use),
    }


def trouble(site: Document) -> str:
    """Describe the trouble of a site in one line; empty if it has none."""
    if site.get("trouble"):
        return str(site["trouble"])
    if site["errors"]:
        return "one error" if site["errors"] == 1 else f"{site['errors']} errors in a row"
    return ""


def link_cells(sites: Sequence[Document]) -> list[dict[str, str]]:
    """Cells of all links; links with copies under way first."""
    links = [(site["site"], link) for site in sites for link in site["links"]]
    links.sort(key=lambda found: -found[1]["copies"])
    return [
        {
            "link": f"{source} → {link['to']}",
            "bandwidth": bandwidth(link["bytes_per_s"]),
            "copies": str(link["copies"]),
        }
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
    """Format a short time in milliseconds."""
    return NOTHING if seconds is None else f"{seconds * 1000:.1f} ms"


def processor_time(seconds: float | None) -> str:
    """Format processor-seconds; from an hour on in processor-hours."""
    if seconds is None:
        return NOTHING
    return f"{seconds / 3600:,.1f} h" if seconds >= 36_000 else f"{seconds:,.1f} s"


def moment(at: float | None) -> str:
    """Format an instant in UTC; the browser shows it in the time zone of its user."""
    if at is None:
        return NOTHING
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: float) -> str:
    """Format an instant for machines."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def size(size_bytes: float | None) -> str:
    """Format a number of bytes."""
    return NOTHING if size_bytes is None else units.size(size_bytes)


def bandwidth(bytes_per_s: float | None) -> str:
    """Format the bandwidth of a link."""
    return NOTHING if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def steps(job: Document) -> list[dict[str, Any]]:
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
    phase = here.get(job["phase"], job["phase"])
    at = order.index(phase) if phase in order else 4
    return [
        {
            "word": job["phase"] if index == at else word,
            "state": "done" if index < at else "here" if index == at else "next",
            "stage": stage(job["phase"]) if index == at else "",
        }
        for index, word in enumerate(words)
    ]


def filters_of(jobs: Sequence[Document]) -> dict[str, list[str]]:
    """Owners, phases and sites that a filter can offer."""
    owners = {job["owner"] for job in jobs}
    sites = {site for job in jobs for site in job["sites"]}
    phases = {job["phase"] for job in jobs}
    return {
        "owners": sorted(owners),
        "phases": [phase for phase in STAGES if phase in phases],
        "sites": sorted(sites),
    }
