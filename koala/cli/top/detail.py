"""The views of one job in `koala top`: its course and barrier, why it waits, its logs. Pure."""

from __future__ import annotations

import textwrap

from koala.cli.render.documents import story_lines
from koala.cli.render.gantt import gantt_text
from koala.cli.render.table import Screen, clean, columns, cut, painted, table
from koala.cli.top.scene import TopScene
from koala.views.barrier import Barrier, barrier
from koala.views.cells import milliseconds
from koala.views.gantt import gantt
from koala.views.records.jobs import JobDetails
from koala.views.units import duration

READING = ["reading ..."]


def job_lines(scene: TopScene, width: int, *, coloured: bool) -> list[str]:
    """Draw a job: its phase, its course over the sites, its barrier, and its history."""
    job = scene.job
    if job is None:
        return READING
    name = f" {clean(job.name)}" if job.name else ""
    head = cut(f"{job.phase}  {job.job}{name} of {clean(job.owner)}", width)
    if coloured:
        head = head.replace(job.phase, painted(job.phase), 1)
    chart = gantt(job, scene.now_at)
    lines = [head, "", *gantt_text(chart, Screen(width, coloured)).split("\n"), ""]
    lines += barrier_lines(job, scene.now_at, width)
    return [*lines, "", *(cut(line, width) for line in story_lines(job.story))]


def barrier_lines(job: JobDetails, now_at: float, width: int) -> list[str]:
    """Draw the components that have come to the barrier, and their passes, in milliseconds."""
    state = barrier(job, now_at)
    if state.first_at is None:
        return ["barrier: no component has checked in yet"]
    rows = [
        (
            arrival.label,
            arrival.site,
            arrival.state,
            ""
            if arrival.arrived_at is None
            else f"+{milliseconds(arrival.arrived_at - state.first_at)}",
            arrival.passed_text,
        )
        for arrival in state.arrivals
    ]
    heads = columns("COMPONENT", "SITE", "STATE", "ARRIVED", "PASSED")
    head = f"barrier: {_barrier_words(state, job, now_at)}"
    return [cut(head, width), *table(heads, rows, Screen(width)).split("\n")]


def _barrier_words(state: Barrier, job: JobDetails, now_at: float) -> str:
    if state.skew_s is not None:
        return f"the programs started within {milliseconds(state.skew_s)}"
    if job.ended_at is not None:
        return "it was not passed"
    missing = ", ".join(clean(label) for label in state.missing)
    words = f"waits for {missing}" if missing else "all components are here"
    if state.start_at is None or state.start_at < now_at:
        return words
    return f"{words}; planned start in {duration(state.start_at - now_at)}"


def why_lines(scene: TopScene, width: int) -> list[str]:
    """Wrap the sentences of `koala why`."""
    if scene.why is None:
        return READING
    head = cut(f"{scene.why.job}  {scene.why.phase}", width)
    wrapped = (
        textwrap.wrap(clean(sentence), max(1, width - 2), subsequent_indent="  ")
        for sentence in scene.why.why
    )
    return [head, "", *(line for lines in wrapped for line in lines)]


def log_lines(scene: TopScene, job: str, width: int) -> list[str]:
    """Cut the last lines that the programs wrote."""
    if not scene.log:
        return [f"{job} has not written anything yet"]
    return [cut(clean(line.rstrip("\n")), width) for line in scene.log]
