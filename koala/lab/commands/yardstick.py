"""`koala yardstick`: a fixed benchmark of co-allocation, for Koala's policies and others'."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import examples, file, json_option, option
from koala.cli.extras import needs_sim
from koala.errors import ConfigError
from koala.lab.commands import simulation_options as shared
from koala.lab.commands.options import Place, campaign_options, given

if TYPE_CHECKING:
    from koala.lab.rows import Row, Rows

VERSION = 2


@examples(
    "koala yardstick",
    "koala yardstick --policy my_policies:best_fit",
    "koala yardstick --policy queueing=sjf --full --out mine",
)
@click.command
@option(
    "--policy", "policies", multiple=True, metavar="[SLOT=]NAME",
    help="A policy to be measured beside the reference, by its name or as module:function."
    " SLOT is placement (the default), claiming or queueing.",
    unset="all of Koala's",
)  # fmt: skip
@option("--all", "has_all", is_flag=True, help="All of Koala's policies beside those of --policy.")
@option("--full", is_flag=True, help="All 60 cells; otherwise 15 with a third of the jobs.")
@option("--log", type=file, metavar="FILE", help="Take jobs of this log (SWF or GWF) instead.")
@option("--out", type=file, metavar="DIR", help="Write runs.csv, table.csv and table.md there.")
@given("seed")
@campaign_options
@json_option
@needs_sim
def yardstick(
    *,
    policies: tuple[str, ...],
    has_all: bool,
    full: bool,
    log: Path | None,
    out: Path | None,
    seed: int,
    place: Place,
) -> None:
    """Measure policies on a fixed benchmark of co-allocation.

    Five grids, twelve workloads with shares of jobs of several components from 0 to 50 %, and the
    same jobs for every policy. Prints a row for each policy: its slowdowns by those of the
    reference (CF, ICP, koala), below 1 is better, and what it costs others. The page
    docs/yardstick.md has definitions, rules, and the table of Koala's policies.
    """
    from koala.lab import yardstick as benchmark
    from koala.lab.sweeps import Sweep, work_of
    from koala.lab.workloads import Log

    entries = benchmark.entries(policies, has_all=has_all or not policies)
    if log is not None and not log.is_file():
        raise ConfigError(f"--log {log}: no such file")
    settings = benchmark.points(entries, is_full=full, log_file=None if log is None else Log(log))
    work = work_of(settings, [seed])
    if out is not None:
        place.make_out(out)
    campaign = place.execute(work)
    runs = Sweep(settings, [seed], campaign).rows()
    rows = benchmark.table(runs, entries)
    if out is not None:
        _write(rows, runs, out)
    count = len(settings) // len(entries)
    document = {
        "version": VERSION,
        "cells": count,
        "seed": seed,
        "interrupted": campaign.is_interrupted,
        "policies": shared.plain_rows(rows),
    }
    note = f"{count} cells, seed {seed}; ratios to the reference, below 1 is better"
    shared.show(document, lambda: f"{_text(rows)}\n{note}", replaced=campaign.replaced)
    if campaign.is_interrupted:
        shared.leave(f": {len(campaign.finished)} of {len(work.items)} runs")


HEADS = {
    "policy": "POLICY",
    "slowdown_all": "ALL JOBS",
    "slowdown_all_ci95": "95 %",
    "slowdown_single": "ONE COMPONENT",
    "slowdown_multi": "SEVERAL",
    "slowdown_multi_ci95": "95 %",
    "local_wait_mean": "LOCAL WAIT, S",
    "wasted_percent": "WASTED, %",
    "unfinished_percent": "UNFINISHED, %",
}


def _cells(rows: Rows) -> list[list[str]]:
    return [[_cell(row, name) for name in HEADS] for row in rows]


def _cell(row: Row, name: str) -> str:
    from koala.lab.rows import short

    ratio = name.removesuffix("_ci95")
    if ratio != name:
        return f"{short(row[f'{ratio}_low'])} to {short(row[f'{ratio}_high'])}"
    return short(row[name])


def _text(rows: Rows) -> str:
    from koala.cli.render.table import columns, table

    return table(columns(*HEADS.values()), _cells(rows))


def _write(rows: Rows, runs: Rows, out: Path) -> None:
    from koala.common.runtime.atomic_file import write_atomically
    from koala.lab.rows import markdown

    runs.to_csv(out / "runs.csv")
    rows.to_csv(out / "table.csv")
    write_atomically(out / "table.md", markdown(HEADS.values(), _cells(rows)) + "\n")
