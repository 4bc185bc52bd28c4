"""`koala sweep`: run the settings of a file with the same seeds, here or on many machines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import examples, file, json_option, option
from koala.cli.extras import needs_sim
from koala.errors import ConfigError
from koala.lab.commands import simulation_options as shared
from koala.lab.commands.options import Place, campaign_options, given, share_of
from koala.views.units import counted

if TYPE_CHECKING:
    from koala.lab.rows import Rows
    from koala.lab.sweep_files import SweepFile
    from koala.lab.sweeps import Sweep, Task

VERSION = 1
SHOWN_METRICS = 4
USUAL_METRICS = ("wait.mean", "response.mean", "bounded_slowdown.mean", "utilization")
"""Metrics that are shown of replays and grids, if the file names none."""


@examples(
    "koala sweep --dry-run sweep.toml",
    "koala sweep --part 1/4 sweep.toml",
)
@click.command
@click.argument("source", type=file, metavar="FILE.toml", help="The sweep (docs/guides/sweeps.md).")
@given("reps", default=None, help="Replications of each setting.", unset="the file's")
@given("seed", default=None, help="Seed of the first replication.", unset="the file's")
@option("--out", type=file, metavar="DIR", help="Output folder.", unset="the file's name")
@option("--dry-run", is_flag=True, help="List the runs and make none.")
@given("part", "merge")
@campaign_options
@json_option
@needs_sim
def sweep(
    *,
    source: Path,
    reps: int | None,
    seed: int | None,
    out: Path | None,
    dry_run: bool,
    part: str | None,
    merge: tuple[Path, ...],
    place: Place,
) -> None:
    """Run many settings with the same seeds, and compare them.

    The file names a simulation, a replay of a log, or jobs on a grid, and the settings: all
    combinations of lists, or one by one. Writes runs.jsonl and runs.csv with a line for each run,
    means.csv, comparisons.csv and provenance.json. Finished runs are stored: after Ctrl-C the same
    command makes the other runs.
    """
    from koala.lab.sim.campaign.parts import read_parts
    from koala.lab.sweep_files import read_sweep
    from koala.lab.sweeps import Sweep, work_of

    found = read_sweep(source, reps=reps, seed=seed)
    work, name = share_of(work_of(found.points, found.seeds), found.name, part)
    if dry_run:
        _list(found, work.items)
        return
    if merge and part:
        raise ConfigError(f"--part {part}: not allowed with --merge")
    folder = place.make_out(out or Path(name))
    parts = read_parts(merge) if merge else ()
    campaign = work.merged(parts) if merge else place.execute(work)
    work.save(
        campaign,
        folder,
        lambda task: {**dict(found.points[task.place].labels), "seed": task.seed},
        options=found.options(),
        wanted=len(found.points) * found.reps,
        merged=parts,
        command=f"koala sweep {source.name} --seed {found.seed} --reps {found.reps}",
        part=part,
        **place.facts(),
    )
    swept = Sweep(found.points, found.seeds, campaign)
    if part is None:
        _report(found, swept, folder)
    else:
        count = len(campaign.finished)
        summary = {"version": VERSION, "part": part, "folder": str(folder), "runs": count}
        shared.show(summary, lambda: f"{counted(count, 'run')}\n{folder}")
    for row in swept.stopped:
        print(", ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr)
    if campaign.is_interrupted:
        shared.leave(f": {len(campaign.finished)} of {len(work.items)} runs")


def _list(found: SweepFile, tasks: tuple[Task, ...]) -> None:
    """Print the runs."""
    from koala.lab.rows import Rows

    rows = Rows({**dict(found.points[task.place].labels), "seed": task.seed} for task in tasks)
    counts = f"{counted(len(rows), 'run')} of {counted(len(found.points), 'setting')}"
    document = {"version": VERSION, "settings": len(found.points), "runs": list(rows)}
    shared.show(document, lambda: f"{_table(rows)}\n{counts}")


def _report(found: SweepFile, made: Sweep, folder: Path) -> None:
    """Write and print means and comparisons."""
    from koala.lab.rows import Rows

    for name in (*found.metrics, *((found.compare.metric,) if found.compare else ())):
        if name not in made.metrics and made.metrics:
            raise ConfigError(f"{name}: no such metric; there are {', '.join(made.metrics)}")
    means = made.means()
    compared = Rows(())
    if found.compare is not None and made.metrics:
        wanted = found.compare
        compared = made.compare(wanted.metric, over=wanted.over, baseline=wanted.baseline)
        compared.to_csv(folder / "comparisons.csv")
    made.rows().to_csv(folder / "runs.csv")
    means.to_csv(folder / "means.csv")
    usual = tuple(name for name in USUAL_METRICS if name in made.metrics)
    shown = found.metrics or usual or made.metrics[:SHOWN_METRICS]
    document = {
        "version": VERSION,
        "folder": str(folder),
        "runs": {"finished": len(made.made.finished), "stored": made.made.stored},
        "interrupted": made.is_interrupted,
        "means": shared.plain_rows(means),
        "comparisons": shared.plain_rows(compared),
    }

    def text() -> str:
        tables = [_table(_means(made, shown)) if made.metrics else "no run finished"]
        if len(compared):
            assert found.compare is not None
            tables.append(f"{found.compare.metric}, paired differences\n{_table(compared)}")
        return "\n\n".join([*tables, str(folder)])

    shared.show(document, text)


def _means(made: Sweep, names: Sequence[str]) -> Rows:
    """Return the means of metrics; without intervals where there is one replication."""
    from koala.lab.rows import INTERVAL, Rows

    rows = made.means(*names)
    if len(made.seeds) > 1:
        return rows
    kept = [name for name in rows.columns if not name.endswith(INTERVAL)]
    return Rows(({name: row.get(name) for name in kept} for row in rows), kept)


def _table(rows: Rows) -> str:
    from koala.cli.render.table import columns, table
    from koala.lab.rows import text

    cells = [[text(value) for value in row] for row in rows.cells()]
    return table(columns(*(name.upper() for name in rows.columns)), cells)
