"""`make demo-slurm`: two Slurm clusters and a Grid Engine cell on this machine, and jobs over all.

The batch systems are real ones, brought up for the demo by the scripts beside this one; so are the
daemon and the agents in front of them. Each component is a batch job, which squeue and qstat show.
At the end, or at Ctrl-C, all of it is ended and removed. Without root there is no cell.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from koala.cli.output import say
from koala.errors import KoalaError
from koala.local.demo_run import DemoRun
from koala.local.demo_scenario import PlannedJob
from koala.local.demo_summary import summary_text
from koala.local.folders import shipped, state_folder
from koala.local.grid_file import ANY_PORT, lay_out, parse_grid
from koala.local.grid_session import InterruptedRunError, run_grid

HERE = Path(__file__).parent
CLUSTERS = {"alpha": 16, "beta": 32}
CELL = {"gamma": 16}
PACKAGES = {
    "slurmctld": "slurm-wlm slurm-client",
    "sge_qmaster": "gridengine-master gridengine-exec gridengine-client",
}
ROUNDS = 3

GRID = """
[parameters]
hold_s = 60.0
hold_lease_s = 20.0
run_lease_s = 60.0
kill_s = 2.0
"""
SITE = """
[sites.{name}]
site = {{ processors = {processors}, grace_s = 10.0 }}
lrm = {{ {lrm}, poll_s = 0.5, commands_per_minute = 600, environment = {{ {environment} }} }}
files = {{ serve = "127.0.0.1:0" }}
"""
LRM = {
    "slurm": 'kind = "slurm"',
    "gridengine": 'kind = "gridengine", parallel_environment = "grid"',
}
CELL_VARIABLES = ("SGE_ROOT", "SGE_CELL", "SGE_ARCH", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "PATH")


def main() -> int:
    """The command; answers its exit status."""
    os.environ["PATH"] = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C: all is ended and removed
    if not has("slurmctld"):
        return 1
    sizes = dict(CLUSTERS)
    if os.geteuid() != 0:
        say("demo-slurm: without root there is no Grid Engine cell: its daemon sets user ids")
    elif has("sge_qmaster"):
        sizes |= CELL
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="koala-dev-")))
            say(f"demo-slurm: bringing up {', '.join(sizes)} in {folder}")
            environments = {
                name: {"SLURM_CONF": str(folder / "slurm" / name / "slurm.conf")}
                for name in CLUSTERS
            }
            stack.enter_context(up("slurm-clusters.sh", folder / "slurm"))
            if CELL.keys() <= sizes.keys():
                stack.enter_context(up("gridengine-cells.sh", folder / "cell"))
                environments |= {n: settings(folder / "cell" / n / "settings.sh") for n in CELL}
            return show(sizes, environments)
    except KeyboardInterrupt:
        say("demo-slurm: interrupted; everything was stopped")
        return 130


def has(program: str) -> bool:
    """Return True when a program is installed; else say what is needed."""
    if shutil.which(program) is None:
        say(f"demo-slurm: {program} is not installed (Debian: apt install {PACKAGES[program]})")
        return False
    return True


@contextmanager
def up(script: str, folder: Path) -> Iterator[None]:
    """Batch systems for as long as the block lasts."""
    folder.mkdir()
    try:
        with unbroken():
            call(script, "up", folder)
        yield
    finally:
        say(f"demo-slurm: stopping what {script} has started")
        with unbroken():
            call(script, "down", folder)


def call(script: str, verb: str, folder: Path) -> None:
    """In a session of its own, which a Ctrl-C of the terminal does not reach."""
    command: list[str | Path] = [HERE / script, verb, folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, start_new_session=True)


@contextmanager
def unbroken() -> Iterator[None]:
    """Puts a Ctrl-C off to the end of the block: half a cluster is harder to remove."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    came: list[int] = []
    before = [signal.signal(number, lambda sent, _frame: came.append(sent)) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def settings(path: Path) -> dict[str, str]:
    """The variables that a cell's settings set."""
    words = " ".join(f'"${name}"' for name in CELL_VARIABLES)
    command = f". {path}; printf '%s\\n' {words}"
    done = subprocess.run(["bash", "-c", command], check=True, capture_output=True, text=True)
    return dict(zip(CELL_VARIABLES, done.stdout.splitlines(), strict=True))


def show(sizes: Mapping[str, int], environments: Mapping[str, Mapping[str, str]]) -> int:
    """Daemon, agents and jobs; answers the exit status."""
    text = GRID + "".join(
        SITE.format(
            name=name,
            processors=processors,
            lrm=LRM["gridengine" if name in CELL else "slurm"],
            environment=", ".join(f'{k} = "{v}"' for k, v in environments[name].items()),
        )
        for name, processors in sizes.items()
    )
    with state_folder(None, prefix="koala-demo-") as place:
        grid = parse_grid(text, source="demo-slurm", folder=place.path)
        folder = lay_out(grid, place.path, address=ANY_PORT)
        demo = DemoRun(plan(tuple(sizes)), is_live=sys.stdin.isatty() and sys.stdout.isatty())
        try:
            jobs = run_grid(folder, demo.run)
        except InterruptedRunError as end:
            say(f"demo-slurm: {end}")
            return 130
        except KoalaError as error:
            place.keep(say)
            say(f"demo-slurm: {error}")
            return 1
        sys.stdout.write(f"{summary_text(jobs)}\n")
        if all(job.phase == "Finished" for job in jobs):
            return 0
        place.keep(say)
        return 1


def plan(sites: tuple[str, ...]) -> list[PlannedJob]:
    """Jobs over all sites, over several machines of one, and one that trains over two clusters."""
    everywhere = component("sleep 2; echo rank $RANK of $WORLD_SIZE", count=2)
    wide = component("sleep 1; echo node $NODE_RANK of $NNODES", count=12)
    planned = []
    for number in range(ROUNDS):
        planned.append(job(f"everywhere {number + 1}", *(everywhere.format(site=s) for s in sites)))
        planned.append(
            job(
                f"two nodes {number + 1}",
                wide.format(site="alpha"),
                everywhere.format(site="beta"),
            )
        )
    if importlib.util.find_spec("numpy") is not None:
        program = shipped("examples") / "allreduce" / "allreduce.py"
        step = (
            f'(&(executable="{sys.executable}")(arguments="{program}" "--steps" "20")(count=4)'
            "(environment=(OPENBLAS_NUM_THREADS 1))(maxWallTime=5)(label=at-{site})"
            "(resourceManagerContact={site}))"
        )
        planned.append(job("all-reduce", *(step.format(site=site) for site in ("alpha", "beta"))))
    return planned


def component(script: str, *, count: int) -> str:
    """The description of a component, for any site."""
    return (
        f'(&(executable=/bin/sh)(arguments="-c" "{script}")(count={count})(maxWallTime=5)'
        "(label=at-{site})(resourceManagerContact={site}))"
    )


def job(name: str, *components: str) -> PlannedJob:
    """A job that is submitted as soon as there is room."""
    counts = [int(text.partition("(count=")[2].partition(")")[0]) for text in components]
    return PlannedJob(name=name, text="+" + "".join(components), processes=sum(counts), gap_s=0.5)


if __name__ == "__main__":
    sys.exit(main())
