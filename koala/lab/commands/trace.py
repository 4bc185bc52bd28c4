"""`koala simulate trace`: replay a log of jobs on one site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from koala.cli.arguments import OneOf, examples, json_option, option
from koala.cli.arguments import file as path_type
from koala.cli.extras import needs_sim
from koala.common.runtime.foreign.guards import noting_replacements
from koala.common.runtime.progress_bar import progress
from koala.errors import ConfigError
from koala.lab.commands import simulation_options as shared
from koala.lab.commands.options import given, with_options
from koala.lab.sim.log_replay.replay import Replay, ReplaySetting
from koala.lab.sim.options import Declared

if TYPE_CHECKING:
    from koala.lab.sim.log_replay.events import Change
    from koala.lab.workload.logs import Format

FORMATS = ("swf", "gwf")
SIMULATION = Declared.of(ReplaySetting)


@examples(
    "koala simulate trace log.swf --policy easy --plot easy.svg",
    "koala simulate trace log.swf --policy my_policy:small_first",
)
@click.command
@click.argument(
    "file", type=path_type, metavar="FILE|-",
    help="Log of jobs: SWF or GWF, gzipped or not; - is standard input.",
)  # fmt: skip
@with_options(SIMULATION.options)
@option(
    "--format", "log_format", type=OneOf(FORMATS), help="Form of the log.",
    unset="by the file's name",
)  # fmt: skip
@option(
    "--events", type=path_type, metavar="FILE.toml",
    help="Failing processors and breakpoints, by time.",
)  # fmt: skip
@option(
    "--grid", type=path_type, metavar="GRID.toml",
    help="Replay it on all sites of a grid file, under its parameters and policies: the scheduler"
    " places the jobs, and co-allocates those that are too large for one site.",
)  # fmt: skip
@option(
    "--split", metavar="RULE",
    help="With --grid, how such a job is cut: equal (the fewest components as equal as possible),"
    " fill (the largest sites whole), or N (equal, at most N processors each); or flexible: the"
    " scheduler splits each job over what is idle, as a total.", unset="equal",
)  # fmt: skip
@json_option
@given(
    "plot", "jobs_out",
    metavar="FILE",
    help="Write the jobs to this file: *.csv, or *.swf for a log that other tools read.",
)  # fmt: skip
@click.pass_context
@needs_sim
def trace(
    context: click.Context,
    /,
    *,
    file: Path,
    log_format: str | None,
    jobs_out: Path | None,
    events: Path | None,
    grid: Path | None,
    split: str | None,
    plot: Path | None,
    **values: Any,  # noqa: ANN401 - declared options
) -> None:
    """Replay a log of jobs on one site or on several.

    On one site they are local jobs, which the agents' model of a local manager schedules.
    All times are seconds from the first submission.

    --jobs-out lists the jobs in the order of their ends, or as a log in SWF with the waits of the
    replay.
    """
    chosen = SIMULATION.values(values)
    shared.check_distinct((file, events, grid), {"jobs-out": jobs_out, "plot": plot})
    if grid is not None:
        from koala.lab.commands.trace_grid import on_grid

        for name in ("discipline", "processors", "events", "plot"):
            if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = "policy" if name == "discipline" else name
                value = context.params[name]
                raise ConfigError(f"--{option} {value}: not allowed with --grid")
        on_grid(
            context.with_resource(shared.rereadable(file)),
            _format(file, log_format),
            grid=grid,
            split="equal" if split is None else split,
            overrun=chosen["overrun"],
            until=chosen["until"],
            jobs_out=jobs_out,
        )
        return
    if split is not None:
        raise ConfigError(f"--split {split}: needs --grid")
    form = _format(file, log_format)
    changes = _changes(events)
    file = context.with_resource(shared.rereadable(file))
    setting = ReplaySetting(path=file, form=form, changes=changes, **chosen)
    shared.check_outputs(jobs_out, plot)
    series = None
    if plot is not None:
        from koala.lab.sim.log_replay.series import Series

        series = Series()
    replay = Replay(setting, jobs_out=jobs_out, series=series)
    with noting_replacements() as replaced:
        found = _run(replay, file)
    shared.show(found, lambda: _text(found), replaced=replaced)
    if plot is not None and series is not None:
        from koala.lab.sim.log_replay.drawing import draw

        draw(series, found, plot)
    if replay.is_interrupted:
        shared.leave(f" at {found['makespan']} s")


def _format(file: Path, name: str | None) -> Format:
    from koala.lab.workload import gwf, swf

    formats = {"swf": swf.FORMAT, "gwf": gwf.FORMAT}
    if name is not None:
        return formats[name]
    return formats["gwf" if ".gwf" in file.suffixes else "swf"]


def _changes(path: Path | None) -> tuple[Change, ...]:
    if path is None:
        return ()
    from koala.lab.sim.log_replay.event_files import read_events

    return read_events(path)


def _run(replay: Replay, file: Path) -> dict[str, Any]:
    """Run the replay to its end; Ctrl-C stops it between two events."""
    size = file.stat().st_size if file.exists() else 0
    with shared.on_interrupt(replay.interrupt), progress(file.name, size) as update:
        return replay.run(update)


def _text(found: dict[str, Any]) -> str:
    lines = [
        f"{found['jobs']} jobs on {found['processors']} processors ({found['processors_from']})"
        f" under {found['policy']}; {found['read']} read",
    ]
    for words, counts in (("dropped", found["dropped"]), ("changed", found["changed"])):
        if counted := [
            f"{name.replace('_', ' ')} {count}{_EFFECTS.get(name, '')}"
            for name, count in counts.items()
            if count
        ]:
            lines.append(f"{words}: {', '.join(counted)}")
    lines += [
        f"makespan    {found['makespan']} s; utilization {_number(found['utilization'])};"
        f" at most {found['waiting_max']} jobs waited",
        *([_SATURATED] if found["saturated"] else []),
        f"{'':<18}{'mean':>12}" + "".join(f"{name:>12}" for name in _COLUMNS),
    ]
    for name, words in _ROWS.items():
        row = found[name]
        figures = [row["mean"], *(row[column] for column in _COLUMNS)]
        lines.append(f"{words:<18}" + "".join(f"{_number(figure):>12}" for figure in figures))
    if found["killed"] or found["requeued"]:
        lines.append(
            f"processors failed: {found['killed']} jobs killed, {found['requeued']} put back"
        )
    if found["never_started"]:
        lines.append(f"{found['never_started']} jobs never started: too few processors came back")
    for state in (*found["breakpoints"], *filter(None, [found["stopped"]])):
        lines += _state(state)
    return "\n".join(lines)


_COLUMNS = ("p50", "p90", "p95", "p99", "max")
_ROWS = {"wait": "wait, s", "response": "response, s", "bounded_slowdown": "bounded slowdown"}
_SHOWN = 10
_EFFECTS = {
    "run_time_zero": " (1 s was taken)",
    "estimate_missing": " (the run time was taken)",
    "out_of_order": " (sorted)",
}
"""Treatment of jobs that were changed, by the change."""
_SATURATED = "saturated: more and more jobs wait, so waits depend on the length of the log"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}" if value < 1e6 else f"{value:,.0f}"


def _state(state: dict[str, Any]) -> list[str]:
    """Format the state at a stop, shortened; --json has all of it."""
    running, waiting = state["running"], state["waiting"]
    lines = [
        f"at {state['at']} s: {len(running)} jobs run on {state['busy']} of {state['available']}"
        f" processors, {len(waiting)} wait, {state['arrived']} have arrived"
    ]
    lines += [
        f"  runs   {row['job']:>8}  {row['processors']:>6} processors since {row['start']} s"
        for row in running[:_SHOWN]
    ]
    lines += [
        f"  waits  {row['job']:>8}  {row['processors']:>6} processors since {row['submit']} s"
        for row in waiting[:_SHOWN]
    ]
    hidden = max(0, len(running) - _SHOWN) + max(0, len(waiting) - _SHOWN)
    return [*lines, f"  and {hidden} more"] if hidden else lines
