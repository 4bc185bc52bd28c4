"""Text output of `koala replay`: a story, its figures, and a comparison of runs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from koala.cli.render.documents import moment, processor_seconds, seconds
from koala.cli.render.table import NOTHING, Screen, clean, column, columns, table
from koala.lab.sim.journal_replay.story import StoryEvent
from koala.lab.sim.journal_replay.whatif import COLUMNS

Document = Mapping[str, Any]
JOBS_SHOWN = 40


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _held(value: float) -> str:
    return f"{value:,.1f} p*s"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("jobs", "jobs", _count),
    ("started", "started", _count),
    ("finished", "finished", _count),
    ("failed", "failed", _count),
    ("cancelled", "cancelled", _count),
    ("open", "not over", _count),
    ("response_s", "mean response", seconds),
    ("wait_s", "mean wait until the start", seconds),
    ("wait_median_s", "median wait", seconds),
    ("start_delay_s", "mean start delay", seconds),
    ("start_skew_s", "mean start skew", seconds),
    ("attempts", "attempts", _count),
    ("placement_tries", "placement tries", _count),
    ("claiming_tries", "claiming tries", _count),
    ("claims", "claims", _count),
    ("refused", "claims refused", _count),
    ("errors", "errors of sites", _count),
    ("held_processor_s", "held before the start", _held),
    ("run_processor_s", "running", _held),
    ("utilization", "utilization by these jobs", _percent),
)
"""Figures of a run: key, label, and format of the value."""

TITLES = {"recorded": "AS IT WAS", "simulated": "SIMULATED", "what_if": "WHAT IF"}


def head_text(head: Document) -> str:
    """Format the head: the journal, its events and its period."""
    begin, end = moment(head["first_at"]), moment(head["last_at"])
    lines = [f"{head['journal']}: {head['events']:,} events from {begin} to {end}"]
    if not head["is_marked"]:
        lines.append("There is no mark beside it: events lost at its end would not be noticed.")
    return "\n".join(lines)


def event_text(event: StoryEvent, *, first_at: float, day: str) -> tuple[str, str]:
    """Format one event with its consequences; return the text and its date.

    The date is printed first if it differs from `day`.
    """
    at = datetime.fromtimestamp(event.at).astimezone()
    lines = [f"{at:%Y-%m-%d}"] if f"{at:%Y-%m-%d}" != day else []
    since = f"{event.at - first_at:+.3f}"
    what = clean(f"{event.who}  {event.what}" if event.who else event.what)
    lines.append(f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} {since:>11}  {what}")
    indent = " " * 26
    lines += [
        f"{indent}-> {clean(who)}{'  ' if who else ''}{clean(text)}" for who, text in event.came
    ]
    return "\n".join(lines), f"{at:%Y-%m-%d}"


def run_text(document: Document, screen: Screen, *, first_at: float) -> str:
    """Format the summary of a run: jobs, sites, and total figures."""
    return "\n\n".join(
        [
            _jobs(document["jobs"], first_at, screen),
            table(SITES, document["sites"], screen),
            "\n".join(
                f"{words:<26} {_written(document['figures'][name], form)}"
                for name, words, form in FIGURES
            ),
        ]
    )


def comparison_text(document: Document, screen: Screen, *, first_at: float) -> str:
    """Compare three runs: figures, then the jobs whose starts differ most."""
    parts = [_changes(document), _figures(document["figures"], screen), _fidelity(document)]
    parts.append(_compared_jobs(document["jobs"], first_at, screen))
    return "\n\n".join(parts)


def job_comparison_text(document: Document, screen: Screen, *, first_at: float) -> str:
    """Compare one job in the three runs."""
    rows = []
    names = [name for name in document["jobs"][0]["recorded"] if name != "job"]
    for name in names:
        cells = [document["jobs"][0][column][name] for column in COLUMNS]
        rows.append([name, *(_cell(name, cell, first_at) for cell in cells)])
    heads = columns("FIGURE", *(f">{TITLES[column]}" for column in COLUMNS))
    return f"{_changes(document)}\n\n{table(heads, rows, screen)}"


def alternatives_text(figures: Mapping[str, Document], screen: Screen) -> str:
    """Compare runs in several ways: waits, and what was held."""
    rows = [
        [TITLES.get(name, name), *(_written(of[key], form) for _, key, form in ALTERNATIVES)]
        for name, of in figures.items()
    ]
    heads = columns("RUN", *(f">{head}" for head, _, _ in ALTERNATIVES))
    note = "WAIT is the time until the start, of the jobs that started."
    return f"{table(heads, rows, screen)}\n{note}"


ALTERNATIVES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("STARTED", "started", _count),
    ("MEDIAN WAIT", "wait_median_s", seconds),
    ("MEAN WAIT", "wait_s", seconds),
    ("HELD", "held_processor_s", _held),
    ("RUNNING", "run_processor_s", _held),
    ("CLAIMS", "claims", _count),
)
"""Figures by which several changes are compared: head, key, and format of the value."""


def _jobs(jobs: Sequence[Document], first_at: float, screen: Screen) -> str:
    def since(key: str) -> Callable[[Document], str]:
        return lambda job: _since(job[key], first_at)

    heads = (
        column("JOB", "job"),
        column("PHASE", "phase"),
        column("SITES", lambda job: " ".join(job["sites"]), rank=1),
        *(column(f">{key.removesuffix('_at').upper()}", since(key), rank=2) for key in POINTS),
        column(
            ">TRIES",
            lambda job: f"{job['attempts']}/{job['placement_tries']}/{job['claiming_tries']}",
            rank=3,
        ),
        column(">DELAY", lambda job: seconds(job["start_delay_s"]), rank=4),
        column(">SKEW", lambda job: seconds(job["start_skew_s"]), rank=4),
        column(">HELD P*S", lambda job: f"{job['held_processor_s']:,.1f}", rank=4),
        column("REASON", lambda job: job["reason"] or " "),
    )
    note = "Instants in seconds from the journal's begin; TRIES: attempts/placement/claiming tries."
    return f"{table(heads, jobs, screen)}\n{note}"


POINTS = ("submitted_at", "placed_at", "claimed_at", "started_at", "ended_at")


SITES = (
    column("SITE", "site"),
    *(
        column(f">{key.upper()}", key)
        for key in ("processors", "claims", "granted", "refused", "errors")
    ),
    column(">HELD P*S", lambda site: f"{site['held_processor_s']:,.1f}"),
    column(">RUN P*S", lambda site: f"{site['run_processor_s']:,.1f}"),
    column(">OURS", lambda site: _percent(site["utilization"])),
)


def _changes(document: Document) -> str:
    was = ", ".join(f"{slot} {name}" for slot, name in document["policies"]["recorded"].items())
    assumed = "" if document["policies"]["are_recorded"] else " (assumed: the journal has no names)"
    changed = ", ".join(
        f"{key} = {value} (was {document['changed_from'][key]})"
        for key, value in document["changes"].items()
    )
    return f"as it was: {was}{assumed}\nwhat if:   {changed}"


def _figures(figures: Document, screen: Screen) -> str:
    rows = []
    for name, words, form in FIGURES:
        cells = [_written(figures[column][name], form) for column in COLUMNS]
        difference = figures["difference"][name]
        sign = "+" if difference is not None and difference > 0 else ""
        rows.append([words, *cells, f"{sign}{_written(difference, form)}"])
    heads = columns("FIGURE", *(f">{TITLES[column]}" for column in COLUMNS), ">DIFFERENCE")
    note = "DIFFERENCE is between the simulations: what if less simulated."
    return f"{table(heads, rows, screen)}\n{note}"


def _fidelity(document: Document) -> str:
    """Format the fidelity of the simulation: its differences from the recorded run."""
    found = document["fidelity"]
    off = found["start_off_s"]
    lines = [
        f"Simulated without changes, {found['same_sites']} of {found['jobs']} jobs have their last"
        f" attempt on the same sites; starts are off by {seconds(off['median'])} (median),"
        f" {seconds(off['max'])} at most."
    ]
    for run in COLUMNS[1:]:
        for rule, count in document["guessed"][run].items():
            lines.append(f"{TITLES[run].lower()}: {count} run times guessed as {rule}.")
    return "\n".join(lines)


def _compared_jobs(jobs: Sequence[Document], first_at: float, screen: Screen) -> str:
    ordered = sorted(jobs, key=_moved_s, reverse=True)[:JOBS_SHOWN]
    shown = [job for job in jobs if job in ordered] if len(jobs) > JOBS_SHOWN else list(jobs)
    rows = [
        [job["job"], *(_start(job[column], first_at) for column in COLUMNS), _change(job)]
        for job in shown
    ]
    heads = columns("JOB", *(TITLES[column] for column in COLUMNS), ">START CHANGES BY")
    left = len(jobs) - len(shown)
    note = "Sites and start of the last attempt, in seconds from the journal's begin."
    if left:
        note += f" Not shown are {left} whose start changes less; --json has all."
    return f"{table(heads, rows, screen)}\n{note}"


def _start(job: Document | None, first_at: float) -> str:
    if job is None:
        return NOTHING
    words = [" ".join(job["sites"]), _since(job["started_at"], first_at)]
    words += [job["phase"]] if job["phase"] != "Finished" else []
    return " ".join(word for word in words if word not in ("", NOTHING)) or job["phase"]


def _change(job: Document) -> str:
    one, other = job["what_if"], job["simulated"]
    if one is None or other is None or one["started_at"] is None or other["started_at"] is None:
        return NOTHING
    return f"{one['started_at'] - other['started_at']:+.3f} s"


def _moved_s(job: Document) -> float:
    starts = [job[column]["started_at"] for column in COLUMNS[1:] if job[column] is not None]
    if len(starts) < len(COLUMNS[1:]):
        return float("inf")
    if starts[0] is None or starts[1] is None:
        return 0.0 if starts[0] is starts[1] else float("inf")
    return abs(float(starts[1] - starts[0]))


def _cell(name: str, value: object, first_at: float) -> str:
    match value:
        case None:
            return NOTHING
        case float() if name.endswith("_at"):
            return _since(value, first_at)
        case float() if name.endswith("processor_s"):
            return processor_seconds(value)
        case float():
            return seconds(value)
        case list():
            return " ".join(map(str, value)) or NOTHING
        case _:
            return clean(str(value)) or NOTHING


def _written(value: float | None, form: Callable[[float], str]) -> str:
    return NOTHING if value is None else form(value)


def _since(at: float | None, first_at: float) -> str:
    return NOTHING if at is None else f"{at - first_at:+.3f}"
