"""`koala simulate trace FILE --grid GRID.toml`: replay a log of jobs on a multicluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.exceptions import Exit

from koala.cli.local.grid_file import configurations, read_grid
from koala.cli.render.progress_bar import progress
from koala.cli.research import simulation_options as shared
from koala.errors import ConfigError

if TYPE_CHECKING:
    from koala.sim.experiment.setting import LocalJob, SiteSetting
    from koala.workload.arrivals import Overrun
    from koala.workload.logs import Format
    from koala_agent.config import Config


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
    from koala.core.model.parameters import simulated
    from koala.core.model.values import FOREVER
    from koala.sim.trace.multicluster import GridReplay, Multicluster, rule
    from koala.workload.arrivals import Arrivals
    from koala.workload.logs import Log

    daemon, agents = configurations(read_grid(grid))
    sites = tuple(_site(name, config) for name, config in sorted(agents.items()))
    setting = Multicluster(
        sites=sites,
        parameters=simulated(daemon.parameters),
        policies=daemon.policies,
        split=rule(split),
        until=FOREVER if until is None else float(until),
    )
    shared.check_outputs(jobs_out)
    log = Log(file, form)
    # A job too large for every site is split. One too large for all together is dropped.
    replay = GridReplay(setting, Arrivals(log, processors=1 << 62, overrun=overrun))
    size = sum(len(columns.numbers) for columns in log.columns())
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


def _site(name: str, config: Config) -> SiteSetting:
    from koala.core.model.grid import SiteFacts
    from koala.core.model.values import SiteName
    from koala.sim.experiment.setting import SiteSetting
    from koala_agent.lrm.model import local_scheduler

    if config.site.owner:
        raise ConfigError(
            f"sites.{name}.site.owner = {config.site.owner!r}: the jobs of a log have no owners, so"
            " that none could run there"
        )
    discipline = config.lrm.discipline if config.lrm.kind == "emulated" else "easy"
    return SiteSetting(
        name=SiteName(name),
        facts=SiteFacts(processors=config.site.processors, grace_s=config.site.grace_s),
        discipline=local_scheduler(discipline),
        local_jobs=_local_jobs(config),
    )


def _local_jobs(config: Config) -> Iterator[LocalJob]:
    import msgspec

    from koala.sim.experiment.setting import LocalJob
    from koala.workload.streams import stream
    from koala_agent.config import largest_local_job
    from koala_agent.lrm.emulated.local_users import LoadParameters, local_jobs

    if config.load.arrivals_per_hour == 0:
        return
    given = {**msgspec.structs.asdict(config.load), "size_max": largest_local_job(config)}
    draws = stream(config.lrm.seed, f"local users at {config.agent.site}")
    for job in local_jobs(LoadParameters(**given), draws):
        yield LocalJob(job.submit_at, job.processors, job.run_s, job.estimate_s)


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
