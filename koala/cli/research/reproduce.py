"""`koala reproduce`: run a paper's experiments; draw its figures and evaluate its claims."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from koala.cli.arguments import Number, Whole, file, offered, option
from koala.cli.extras import needs_sim
from koala.cli.render.progress_bar import progress
from koala.cli.research import simulation_options as shared
from koala.errors import ConfigError, SpecError

if TYPE_CHECKING:
    from koala.papers.paper import Effort, Paper

PAPERS: dict[str, str] = {
    "koala": "koala.papers.koala",
    "multiqueue": "koala.papers.multiqueue",
    "deadlines": "koala.papers.deadlines",
    "hints": "koala.papers.hints",
    "sq": "koala.papers.synchronous",
}
"""Maps each paper to the module that defines its PAPER."""


@click.command
@click.argument("paper", help=", ".join(PAPERS) + ".", **offered(*PAPERS))
@option(
    "--figure", type=Whole(), metavar="N",
    help="Only this figure of the paper and the claims about it.",
)  # fmt: skip
@option("--full", is_flag=True, help="Publication quality; takes hours.")
@option("--quick", is_flag=True, help="Takes minutes, leaves many claims undecided; the default.")
@option("--out", type=file, metavar="DIR", help="Output folder.  [default: reproduction/PAPER]")
@shared.seed_option
@option("--reps", type=Whole(1), help="Replications of each setting.")
@option(
    "--length", type=Number(),
    help="Length of a run, in the unit of the paper (docs/reproduction.md).",
)  # fmt: skip
@shared.workers_option
@shared.json_option
@needs_sim
def reproduce(
    *,
    paper: str,
    figure: int | None,
    full: bool,
    quick: bool,
    out: Path | None,
    seed: int,
    reps: int | None,
    length: float | None,
    workers: int,
    as_json: bool,
) -> None:
    """Reproduce a paper's figures and check its claims.

    Writes every figure as SVG and PNG with 95 % confidence intervals, a CSV behind each, and
    report.md with a verdict for each claim of the text: holds, holds only near saturation,
    undecided, fails. Ctrl-C writes the results of the finished runs, without pictures. --quick and
    --full set the number and the length of the runs; --reps and --length change them.
    """
    from koala.papers.report import document, draw, report, summary, write
    from koala.papers.sweep import plan, sweep

    if full and quick:
        raise SpecError("--quick and --full cannot be combined")
    found = _paper(paper)
    effort = _effort(found.efforts["full" if full else "quick"], reps=reps, length=length)
    wanted = plan(found, effort, figure=figure, seed=seed)
    folder = out if out is not None else Path("reproduction") / found.name
    _make(folder)
    runs = len(wanted.runs())
    with progress(f"{runs} runs", runs) as update:
        swept = sweep(wanted, workers=workers, progress=update)
    written = report(swept)
    write(written, folder)
    text = f"{summary(written)}\n{folder / 'report.md'}"
    shared.show(document(written), as_json=as_json, text=lambda: text)
    if swept.is_interrupted:
        print(f"interrupted: {swept.finished} of {runs} runs; no figure is drawn", file=sys.stderr)
        raise Exit(shared.INTERRUPTED)
    try:
        figures = len(written.plan.figures)
        with progress(f"{figures} figures", figures) as update:
            draw(written, folder, progress=update)
    except KeyboardInterrupt:
        print("interrupted: not all figures are drawn", file=sys.stderr)
        raise Exit(shared.INTERRUPTED) from None


def _paper(name: str) -> Paper:
    known = [name for name, module in PAPERS.items() if find_spec(module) is not None]
    if name not in known:
        raise ConfigError(f"{name}: allowed are {', '.join(known)}")
    found: Paper = importlib.import_module(PAPERS[name]).PAPER
    return found


def _effort(effort: Effort, *, reps: int | None, length: float | None) -> Effort:
    """Override the length or the number of replications of an effort. Raises ConfigError."""
    if length is not None and length < 1:
        raise ConfigError(f"--length {length:g}: allowed is 1 or more")
    return replace(
        effort,
        replications=effort.replications if reps is None else reps,
        length=effort.length if length is None else length,
    )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--out {folder}: {error.strerror}") from None
