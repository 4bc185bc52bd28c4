"""`koala simulate trace FILE --grid GRID.toml`: replay a log of jobs on a multicluster."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koala.common.runtime.foreign.guards import noting_replacements
from koala.common.runtime.progress_bar import progress
from koala.lab.commands import simulation_options as shared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koala.lab import Log
    from koala.lab.sim.log_replay.job_files import OutcomeLog
    from koala.lab.sim.metrics import JobRecord
    from koala.lab.workload.arrivals import Overrun
    from koala.lab.workload.logs import Format


def on_grid(
    file: Path,
    form: Format,
    *,
    grid: Path,
    split: str,
    overrun: Overrun,
    until: int | None,
    jobs_out: Path | None,
) -> None:
    """Replay the log on the sites of a grid file, under its parameters and policies; print the
    result.

    The synthetic local users of a site submit at their own rate (`lrm.speed` applies to real time
    only).
    """
    from koala.lab import Experiment, Log, read_grid
    from koala.lab.progress import LineListener
    from koala.lab.sim.log_replay.job_files import OutcomeLog, is_log

    log = Log(file, form.name, overrun.value)
    experiment = Experiment(
        grid=read_grid(grid),
        workload=log,
        split=split,
        until_s=inf if until is None else float(until),
    )
    shared.check_outputs(jobs_out)
    outcomes = OutcomeLog() if is_log(jobs_out) else None
    # A job too large for every site is split. One too large for all together is dropped.
    replay = experiment.replay()
    size = sum(len(columns.numbers) for columns in log.file().columns())
    with (
        noting_replacements() as replaced,
        shared.on_interrupt(replay.interrupt),
        progress(file.name, size) as update,
    ):
        report = replay.run(progress=update, listener=LineListener(file.name))
    found = {"grid": str(grid), "split": split, **replay.document(report)}
    shared.show(found, lambda: _text(found), replaced=replaced)
    if jobs_out is not None and outcomes is not None:
        _write_log(outcomes, report.jobs, jobs_out, log, f"grid {grid.name}, split {split}")
    elif jobs_out is not None:
        from koala.lab.sim.metrics import COLUMNS, row

        shared.write_rows(jobs_out, COLUMNS, (row(job) for job in report.jobs))
    for note in (*replay.notes, *(report.waiting if replay.is_stopped else ())):
        print(note, file=sys.stderr)
    if replay.is_interrupted:
        shared.leave(f" at {report.ended_at:.0f} s")


def _write_log(
    outcomes: OutcomeLog, jobs: Iterable[JobRecord], path: Path, log: Log, grid: str
) -> None:
    """Write the jobs that have ended as a log in SWF; a partition is a site, by its number."""
    from koala.lab.sim.log_replay.job_files import JobOutcome

    partitions: dict[str, int] = {}
    for job in jobs:
        if job.waiting_s is None or job.running_s is None:
            continue
        sites = set(job.sites)
        for site in job.sites:
            partitions.setdefault(site, len(partitions) + 1)
        outcome = JobOutcome(
            wait_s=job.waiting_s,
            run_s=job.running_s,
            processors=job.processors,
            is_killed=not job.is_finished,
            partition=partitions[job.sites[0]] if len(sites) == 1 else -1,
        )
        outcomes.note(int(job.job.partition(".")[0]), round(job.submitted_at), outcome)
    named = ", ".join(f"{number} {site}" for site, number in partitions.items())
    notes = [f"replayed by koala simulate trace, {grid}", f"partitions: {named}; -1: several"]
    outcomes.write(path, log.file(), notes, shift_s=log.shift_s())


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
            figures = ", ".join(f"{key} {value:.6g}" for key, value in values.items())
            lines.append(f"{words:<24} {figures}")
    if found["utilization"] is not None:
        lines.append(
            f"{'utilisation':<24} {100 * found['utilization']:.2f} % by these jobs,"
            f" {100 * found['utilization_all_users']:.2f} % by all"
        )
    lines.append(f"{'last event at':<24} {found['makespan']:.0f} s")
    return "\n".join(lines)
