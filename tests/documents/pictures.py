"""Draws the pictures of the documents from real runs: `make pictures` writes docs/pictures.

    terminal.svg    a session on the grid of `koala up`
    top.svg         the screen of `koala top` beside running jobs
    timeline.svg    `koala timeline` of a job with an input file
    start.svg       the start of a job with an input file: copies, claims, barrier, run
    queues.svg      response times under three queue disciplines, in simulated time

Times differ from run to run; a test checks that the pictures are whole, not what they show.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from tests.cli.command import PYTHON_PATH, environment
from tests.cli.grids import Up, up
from tests.cli.top.terminal import COLUMNS, terminal
from tests.tidy.sources import ROOT

PICTURES = ROOT / "docs" / "pictures"
SESSION = (
    "koala run --sites 2 -n 2 -- sh -c 'echo process $KOALA_PROCESS'",
    "koala list --format job,phase,processors,sites,elapsed",
)
WIDTH = 78
FONT_FACE = re.compile(r"@font-face \{\{.*?\}\}\n", re.DOTALL)
"""Rich's picture loads its font from a server; the reader's own monospaced font is used instead."""

GRID = """
[parameters]
claim_fraction = 0.35
bandwidth_default_bps = 1_000_000.0
hold_lease_s = 20.0
[sites.delft]
site = { processors = 8, grace_s = 20.0 }
files = { serve = "127.0.0.1:0", rate = 1_000_000 }
[sites.vu]
site = { processors = 8, grace_s = 20.0 }
files = { serve = "127.0.0.1:0", rate = 1_000_000 }
[sites.leiden]
site = { processors = 8, grace_s = 20.0 }
files = { serve = "127.0.0.1:0", rate = 1_000_000 }
"""
JOB = """+(inputFile=ocean.dat)
(&(label=ocean)(resourceManagerContact=delft)(executable=sleep)(arguments=3)(count=2))
(&(label=ice)(resourceManagerContact=leiden)(executable=sleep)(arguments=3)(count=2))
(&(label=air)(resourceManagerContact=vu)(executable=sleep)(arguments=3)(count=2))
"""
FILE_BYTES = 4_000_000
JOBS_OF_TOP = (
    "&(name=forecast)(executable=sleep)(arguments=60)(count=4)",
    "+(name=coupled)(distinct=yes)(&(executable=sleep)(arguments=60)(count=2))"
    "(&(executable=sleep)(arguments=60)(count=2))",
    "&(name=large)(executable=sleep)(arguments=60)(count=140)",
)
PHASES = {
    "copies its input file": "#a6bddb",
    "claim waits in the site's queue": "#fdcc8a",
    "holds its processors at the barrier": "#e34a33",
    "runs": "#31a354",
}


def draw_terminal(path: Path) -> None:
    """Draw a session: each command and all that it prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with up(folder, None) as grid:
            shown = Text()
            for command in SESSION:
                shown.append("$ ", "bold green").append(f"{command}\n", "bold")
                shown.append(_printed(command, grid, folder))
    _save_text(shown, path, WIDTH)


def draw_top(path: Path) -> None:
    """Draw the screen of `koala top` while jobs run and one waits."""
    with tempfile.TemporaryDirectory() as name, up(Path(name), None) as grid:
        ends = [grid.submit(text) for text in JOBS_OF_TOP]
        with terminal("top", "--address", grid.address, COLORTERM="") as screen:
            screen.wait(lambda text: all(f" {job} " in text for job in ends), "all jobs")
            shown = screen.wait_for("Running", "Placing")
        grid.koala("cancel", *ends)
    _save_text(Text(shown), path, COLUMNS)


def draw_timeline(path: Path) -> None:
    """Draw the picture of `koala timeline --svg`."""
    with tempfile.TemporaryDirectory() as name, up(Path(name), GRID) as grid:
        job = _run_job(grid)
        assert grid.koala("timeline", job, "--svg", str(path)).returncode == 0


def _save_text(text: Text, path: Path, width: int) -> None:
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(text, end="")
    form = FONT_FACE.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code", "Menlo, Consolas")
    path.write_text(console.export_svg(title="koala", code_format=form), encoding="utf-8")


def _printed(command: str, grid: Up, folder: Path) -> str:
    run = subprocess.run(
        [sys.executable, "-m", *shlex.split(command.replace("koala", "koala.cli", 1))],
        cwd=folder,
        env=environment(KOALA_ADDRESS=grid.address, COLUMNS=str(WIDTH), PYTHONPATH=PYTHON_PATH),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return run.stdout


def draw_start(path: Path) -> None:
    """Draw when each component of a job copied, waited, held and ran."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with up(folder, GRID) as grid:
            job = _run_job(grid)
            shown = json.loads(grid.koala("show", job, "--json").stdout)
    figure = Figure(figsize=(8.4, 3.0), layout="constrained")
    _draw_components(figure.add_subplot(), shown)
    _save(figure, path)


def _run_job(grid: Up) -> str:
    """Run the job with an input file to its end; return its id."""
    store = Path(grid.said_state()) / "sites" / "delft" / "files"
    store.mkdir(parents=True, exist_ok=True)
    store.joinpath("ocean.dat").write_bytes(bytes(FILE_BYTES))
    while "ocean.dat" not in grid.koala("files", "--json").stdout:
        pass
    return grid.submit(JOB, "--wait").splitlines()[0]


def _draw_components(axes: Axes, job: dict[str, Any]) -> None:
    began_at = job["submitted_at"]
    labels = [part["label"] for part in job["parts"]]
    sites = [part["site"] for part in job["parts"]]
    colours = list(PHASES.values())

    def bar(row: float, start: float, end: float, colour: str, height: float = 0.34) -> None:
        axes.barh(row, end - start, left=start - began_at, height=height, color=colour)

    for copy in job["transfers"]:
        for label in copy["components"]:
            row = labels.index(label)
            bar(row - 0.21, copy["started_at"], copy["told_at"], colours[0], 0.2)
    for claim in job["charges"]:
        row = sites.index(claim["site"])
        bar(row + 0.13, claim["asked_at"], claim["granted_at"], colours[1])
        bar(row + 0.13, claim["granted_at"], claim["passed_at"], colours[2])
        bar(row + 0.13, claim["passed_at"], claim["ended_at"], colours[3])
    axes.axvline(job["started_at"] - began_at, color="black", linewidth=0.8, linestyle="--")
    axes.annotate("release", (job["started_at"] - began_at, -0.62), ha="center", va="bottom")
    axes.set_yticks(range(len(labels)), [f"{a} at {b}" for a, b in zip(labels, sites, strict=True)])
    axes.set_ylim(len(labels) - 0.5, -0.7)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds since the submission")
    axes.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=colour, label=name) for name, colour in PHASES.items()]
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.4, -0.22), ncols=2, frameon=False
    )


def draw_queues(path: Path) -> None:
    """Draw what `koala simulate multiqueue --plot` draws."""
    words = "simulate multiqueue --policy GP,GS,LS-DO --mix 25,25,25,25 --jobs 30000"
    words += " --warmup 3000 --utilization 0.4,0.5,0.6,0.7,0.8 --reps 5 --plot"
    subprocess.run(
        [sys.executable, "-m", "koala.cli", *words.split(), str(path)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _save(figure: Figure, path: Path) -> None:
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "koala", "font.size": 10}):
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    draw_terminal(PICTURES / "terminal.svg")
    draw_top(PICTURES / "top.svg")
    draw_timeline(PICTURES / "timeline.svg")
    draw_start(PICTURES / "start.svg")
    draw_queues(PICTURES / "queues.svg")
