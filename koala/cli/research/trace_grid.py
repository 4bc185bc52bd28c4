"""`koala simulate trace FILE --grid GRID.toml`: replay a log of jobs on a multicluster."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.exceptions import Exit

from koala.cli.render.progress_bar import progress
from koala.cli.research import simulation_options as shared

if TYPE_CHECKING:
    from koala.workload.arrivals import Overrun
    from koala.workload.logs import Format


def on_grid(
    file: Path,
    form: Format,
    *,
    grid: Path,
    split: str,
    overrun: Overrun,
    until: int | None,
    jobs_out: Path | None,
    as_json: bool,
) -> None:
    """Replay the log on the sites of a grid file, under its parameters and policies; print the
    result.

    The synthetic local users of a site submit at their own rate (`lrm.speed` applies to real time
    only).
    """
    from koala.lab import Experiment, Log, read_grid

    log = Log(file, form.name, overrun.value)
    experiment = Experiment(
        grid=read_grid(grid),
        workload=log,
        split=split,
        until_s=inf if until is None else float(until),
    )
    shared.check_outputs(jobs_out)
    # A job too large for every site is split. One too large for all together is dropped.
    replay = experiment.replay()
    size = sum(len(columns.numbers) for columns in log.file().columns())
    with shared.on_interrupt(replay.interrupt), progress(file.name, size) as update:
        report = replay.run(progress=update)
    found = {"grid": str(grid), "split": split, **replay.document(report)}
    shared.show(found, as_json=as_json, text=lambda: _text(found))
    if jobs_out is not None:
        from koala.sim.metrics import COLUMNS, row

        shared.write_rows(jobs_out, COLUMNS, (row(job) for job in report.jobs))
    if replay.is_interrupted:
        print(f"interrupted at {report.ended_at:.0f} s", file=sys.stderr)
        raise Exit(shared.INTERRUPTED)


def _text(found: dict[str, Any]) -> str:
    dropped = ", ".join(
        f"{name.replace('_', ' ')} {count}" for name, count in found["dropped"].items() if count
    )
    lines = [
        f"{found['jobs']} jobs on {found['processors']} processors of {len(found['sites'])} sites;"
        f" {found['read']} read{'; dropped: ' + dropped if dropped else ''}",
        f"{found['finished']} finished, {found['failed']} failed, {found['unfinished']} had not"
        f" ended; {found['split_jobs']} split, {found['coallocated']} ran on several sites",
    ]
    for name, words in (
        ("wait", "wait, s"),
        ("wait_split", "wait of split jobs, s"),
        ("response", "response, s"),
        ("bounded_slowdown", "bounded slowdown"),
    ):
        values = found[name]
        if values["mean"] is not None:
            told = ", ".join(f"{key} {value:.6g}" for key, value in values.items())
            lines.append(f"{words:<24} {told}")
    if found["utilization"] is not None:
        lines.append(
            f"{'utilisation':<24} {100 * found['utilization']:.2f} % by these jobs,"
            f" {100 * found['utilization_all_users']:.2f} % by all"
        )
    lines.append(f"{'last event at':<24} {found['makespan']:.0f} s")
    return "\n".join(lines)
