"""`koala demo`: run a grid on this machine with co-allocated jobs, and print a summary.

The five sites of the DAS (sizes: KOALA 2.1) and their local users are emulated. The daemon, the
agents, the starters, the programs and the file transfers are real.
"""

from __future__ import annotations

import importlib.util
import sys

import click

from koala.cli.arguments import WholeNumber, json_option, option
from koala.cli.output import is_json, note, print_json, say, screen
from koala.errors import ConfigError, KoalaError

JOBS = 14


class DemoFailedError(KoalaError):
    """Not all jobs of the demo have finished."""


@click.command
@option("--jobs", type=WholeNumber(1, 500), default=JOBS, help="Number of jobs.")
@option("--seed", type=WholeNumber(0), default=1, help="Seed of sites and times.")
@option("--keep", is_flag=True, help="Keep journals, outputs and logs at the end.")
@option("--plain", is_flag=True, help="Print lines instead of the live view, also on a terminal.")
@option("--no-web", is_flag=True, help="Start no web page.")
@json_option
def demo(*, jobs: int, seed: int, keep: bool, plain: bool, no_web: bool) -> None:
    """Run a grid on this machine, with jobs.

    The grid has a daemon, five emulated sites with local users, file transfers, and co-allocated
    jobs from the examples. The demo ends with a summary and stops all its processes.
    """
    from koala.local.demo_run import DemoRun
    from koala.local.demo_scenario import GRID_FILE, fill_stores, plan
    from koala.local.demo_summary import summary_text
    from koala.local.folders import shipped, state_folder
    from koala.local.grid_file import ANY_PORT, lay_out, read_grid
    from koala.local.grid_session import InterruptedRunError, run_grid

    if importlib.util.find_spec("numpy") is None:
        raise ConfigError(
            f"the examples need numpy, which {sys.executable} does not have:"
            " pip install 'koala-scheduler[examples]'"
        )
    planned = plan(shipped("examples"), seed=seed, jobs=jobs)
    grid = read_grid(shipped("deploy") / GRID_FILE)
    with state_folder(None, prefix="koala-demo-") as place:
        folder = lay_out(grid, place.path, address=ANY_PORT)
        fill_stores(folder, seed=seed)
        note(f"starting a daemon and {len(folder.sites)} sites in {folder.state}")
        has_terminal = sys.stdin.isatty() and sys.stdout.isatty()
        run = DemoRun(planned, is_live=has_terminal and not (plain or is_json()))
        try:
            found = run_grid(folder, run.run, web=None if no_web else note)
            if is_json():
                print_json({"jobs": found})
            else:
                print(summary_text(found, screen()))
            if any(job.phase != "Finished" for job in found):
                count = sum(job.phase == "Finished" for job in found)
                raise DemoFailedError(
                    f"{count} of {len(found)} jobs have finished; the logs of daemon and agents are"
                    f" in {folder.state / 'logs'}"
                )
        except InterruptedRunError:
            raise
        except BaseException:
            place.keep(say)
            raise
        if keep:
            place.keep(say)
