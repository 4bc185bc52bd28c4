"""`koala list` as text: a table of all columns or of chosen ones, or a line of a template. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from koala.cli.render.documents import moment, seconds, size
from koala.cli.render.table import FILE, NOTHING, Column, Screen, clean, column, table
from koala.errors import SpecError
from koala.views.records.jobs import JobSummary

MINUTE = len("2026-11-29 13:20")
"""Characters of an instant to the minute, which is enough in a list."""
Render = Callable[[Sequence[JobSummary], Screen], str]
"""Makes the text of jobs."""


def read_format(option: str, text: str | None, *, now: float) -> Render:
    """Make what formats the list: the columns that are named, or a template. Raises SpecError."""
    if text is not None and "{" in text:
        return lambda jobs, _screen: "\n".join(_line(option, text, job.document) for job in jobs)
    names = [] if text is None else text.lower().split(",")
    known = {head.name: head for head in job_columns()}
    if unknown := [name for name in names if name not in known]:
        raise SpecError(f"{option} {unknown[0]!r} (expected one of {', '.join(known)})")
    return partial(jobs_text, names=names, now=now)


def _line(option: str, template: str, names: Mapping[str, object]) -> str:
    values = {
        name: ",".join(map(str, value)) if isinstance(value, list) else value
        for name, value in names.items()
    }
    try:
        return clean(template.format_map(values))
    except (KeyError, ValueError, IndexError, AttributeError, TypeError) as error:
        raise SpecError(
            f"{option} {template!r}: {error} (expected {', '.join(names)} in braces)"
        ) from None


def jobs_text(
    jobs: Sequence[JobSummary],
    screen: Screen = FILE,
    *,
    names: Sequence[str] = (),
    now: float | None = None,
) -> str:
    """Format `koala list`: one line a job; with `names` only these columns, in this order."""
    known = {head.name: head for head in job_columns(now)}
    chosen = [replace(known[name], is_optional=False) for name in names] or list(known.values())
    return table(chosen, jobs, screen)


def job_columns(now: float | None = None) -> tuple[Column, ...]:
    """Return the columns of `koala list`; `now` is for the time that running jobs have run."""
    return (
        column("JOB", "job"),
        column("NAME", "name", rank=4, is_optional=True),
        column("PHASE", "phase"),
        column("PRIORITY", "priority", rank=9),
        column(">PARTS", "components", rank=7),
        column(">PROCESSORS", "processors", rank=2),
        column("PROGRAM", _programs, rank=6),
        column("SITES", "sites", rank=5),
        column("SUBMITTED", lambda job: moment(job.submitted_at)[:MINUTE], rank=3),
        column(">ELAPSED", lambda job: _elapsed(job, now), rank=1),
        column("USER", "owner", rank=8),
        column("REASON", lambda job: job.reason or copying_text(job) or " "),
    )


def copying_text(job: JobSummary) -> str:
    """Format the progress of the copies that a job waits for."""
    copies = job.copying
    if copies is None:
        return ""
    share = copies.moved_bytes / copies.size_bytes if copies.size_bytes else 0.0
    left = "" if copies.left_s is None else f", {seconds(copies.left_s)} left"
    return f"copies files: {share:.0%} of {size(copies.size_bytes)}{left}"


def _programs(job: JobSummary) -> list[str]:
    return [path.rpartition("/")[2] or path for path in job.programs]


def _elapsed(job: JobSummary, now: float | None) -> str:
    """Format the time since the start of a job, to its end if it has ended, as H:MM:SS."""
    end = now if job.ended_at is None else float(job.ended_at)
    if job.started_at is None or end is None:
        return NOTHING
    minutes, rest = divmod(max(0, round(end - float(job.started_at))), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
