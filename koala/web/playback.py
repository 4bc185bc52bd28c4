"""Document of `koala replay --json --claims`, as the page Replay shows and plays it back. Pure.

Without changes a document has one run; with changes it has three: as recorded, simulated without
changes, and simulated with them. The playback shows the first and the last of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NewType

from koala.views.cells import NOTHING, duration, milliseconds, processor_time

PastRun = NewType("PastRun", dict[str, Any])
"""What `koala replay --json --claims` printed; the laboratory says what is in it."""

CLAIMS_MAX = 20_000
"""Claims of a run that the playback draws: the newest ones."""
JOBS_SHOWN = 10
RUNS = {"recorded": "as it was", "what_if": "what if"}
"""Runs of the playback, with their words."""
COLUMNS = {"recorded": "As it was", "simulated": "Simulated", "what_if": "What if"}


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("jobs", "Jobs", _count),
    ("finished", "Finished", _count),
    ("failed", "Failed", _count),
    ("cancelled", "Cancelled", _count),
    ("open", "Not over", _count),
    ("wait_s", "Mean wait", duration),
    ("response_s", "Mean response", duration),
    ("start_skew_s", "Mean start skew", milliseconds),
    ("attempts", "Attempts", _count),
    ("claims", "Claims", _count),
    ("refused", "Claims refused", _count),
    ("held_processor_s", "Processor time held", processor_time),
    ("run_processor_s", "Processor time run", processor_time),
    ("utilization", "Utilization by jobs", _percent),
)
"""Figures of a run: name in the document, word, and format."""


def playback_data(document: PastRun) -> dict[str, object]:
    """Return the jobs and claims of each run as rows of instants, for the page's script."""
    runs = {name: _run(document, name) for name in run_names(document)}
    ends = [
        row[-1] or 0.0 for run in runs.values() for kind in ("jobs", "claims") for row in run[kind]
    ]
    return {
        "first_at": document["first_at"],
        "last_at": max(document["last_at"], *ends, document["first_at"]),
        "runs": runs,
    }


def run_names(document: PastRun) -> list[str]:
    """List the runs of the playback."""
    return list(RUNS) if _is_what_if(document) else ["recorded"]


def sites(document: PastRun) -> list[tuple[str, int]]:
    """List the sites with their processors."""
    rows = document["sites"]
    if _is_what_if(document):
        return [(row["site"], row["recorded"]["processors"]) for row in rows]
    return [(row["site"], row["processors"]) for row in rows]


def figure_rows(document: PastRun) -> list[tuple[str, list[str]]]:
    """Format the figures: a word, and a cell for each column."""
    figures = document["figures"]
    if not _is_what_if(document):
        return [(word, [_written(figures[name], form)]) for name, word, form in FIGURES]
    return [
        (
            word,
            [
                *(_written(figures[column][name], form) for column in COLUMNS),
                difference(figures["difference"][name], form),
            ],
        )
        for name, word, form in FIGURES
    ]


def moved_jobs(document: PastRun) -> list[tuple[str, list[str]]]:
    """Format the jobs whose waits differ most between the two simulations: their waits in each
    column, and the difference."""
    found = []
    for row in document["jobs"]:
        waits = [None if row[column] is None else row[column]["wait_s"] for column in COLUMNS]
        _, simulated, what_if = waits
        if simulated is not None and what_if is not None and what_if != simulated:
            found.append((row["job"], waits, what_if - simulated))
    found.sort(key=lambda one: -abs(one[2]))
    return [
        (job, [*map(duration, waits), difference(moved_s, duration)])
        for job, waits, moved_s in found[:JOBS_SHOWN]
    ]


def difference(value: float | None, form: Callable[[float], str]) -> str:
    """Format a difference with its sign."""
    if value is None:
        return NOTHING
    return f"{'+' if value > 0 else '−'}{form(abs(value))}" if value else "0"


def _written(value: float | None, form: Callable[[float], str]) -> str:
    return NOTHING if value is None else form(value)


def _is_what_if(document: PastRun) -> bool:
    return "changes" in document


def _run(document: PastRun, name: str) -> dict[str, list[list[Any]]]:
    jobs, claims = document["jobs"], document["claims"]
    if _is_what_if(document):
        jobs, claims = [row[name] for row in jobs if row[name] is not None], claims[name]
    held = [claim for claim in claims if claim["granted_at"] is not None]
    names = ("site", "processors", "granted_at", "passed_at", "freed_at")
    return {
        "jobs": [[job[at] for at in ("submitted_at", "started_at", "ended_at")] for job in jobs],
        "claims": [[claim[one] for one in names] for claim in held[-CLAIMS_MAX:]],
    }
