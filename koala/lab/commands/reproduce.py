"""`koala reproduce`: run a paper's experiments; draw its figures and evaluate its claims."""

from __future__ import annotations

import importlib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import Number, OneOf, WholeNumber, examples, file, json_option, option
from koala.cli.extras import needs_sim
from koala.common.runtime.progress_bar import progress
from koala.errors import ConfigError, SpecError
from koala.lab.commands import simulation_options as shared
from koala.lab.commands.options import Place, campaign_options, given, share_of

if TYPE_CHECKING:
    from koala.lab.papers.paper import Paper
    from koala.lab.papers.sweep import Plan
    from koala.lab.sim.campaign.execution import Campaign
    from koala.lab.sim.campaign.parts import Part
    from koala.lab.sim.campaign.work import Work
    from koala.lab.sim.runs import Effort, Run

PAPERS: dict[str, str] = {
    "koala": "koala.lab.papers.koala",
    "multiqueue": "koala.lab.papers.multiqueue",
    "deadlines": "koala.lab.papers.deadlines",
    "hints": "koala.lab.papers.hints",
    "sq": "koala.lab.papers.synchronous",
    "malleable": "koala.lab.papers.malleable",
}
"""Maps each paper to the module that defines its PAPER."""


@examples(
    "koala reproduce deadlines --quick",
    "koala reproduce deadlines --figure 3",
)
@click.command
@click.argument("name", type=OneOf(PAPERS), metavar="PAPER", help=f"One of {', '.join(PAPERS)}.")
@option(
    "--figure", type=WholeNumber(1), metavar="N",
    help="Only this figure of the paper and the claims about it.",
    unset="all",
)  # fmt: skip
@option("--full", is_flag=True, help="Publication quality; takes hours.")
@option("--quick", is_flag=True, help="Takes minutes, leaves many claims undecided; the default.")
@option("--out", type=file, metavar="DIR", help="Output folder.", unset="reproduction/PAPER")
@given("seed")
@option(
    "--reps",
    type=WholeNumber(1),
    help="Replications of each setting.",
    unset="those of --quick or --full",
)
@option(
    "--length", type=Number(1),
    help="Length of a run, in the unit of the paper (docs/reproduction.md).",
    unset="that of --quick or --full",
)  # fmt: skip
@given("part", "merge")
@campaign_options
@json_option
@needs_sim
def reproduce(
    *,
    name: str,
    figure: int | None,
    full: bool,
    quick: bool,
    out: Path | None,
    seed: int,
    reps: int | None,
    length: float | None,
    part: str | None,
    merge: tuple[Path, ...],
    place: Place,
) -> None:
    """Reproduce a paper's figures and check its claims.

    Writes every figure as SVG and PNG with 95 % confidence intervals, a CSV behind each, report.md
    with a verdict for each claim of the text, runs.jsonl with the result of each run, and
    provenance.json. Finished runs are stored. Ctrl-C writes their results, without pictures; the
    same command then makes the other runs. --quick and --full set the number and the
    length of the runs; --reps and --length change them.
    """
    if full and quick:
        raise SpecError("--quick and --full cannot be combined")
    if merge:
        options = {
            "--part": part,
            "--figure": figure,
            "--reps": reps,
            "--length": length,
            "--full": full or None,
            "--quick": quick or None,
        }
        if wrong := [name for name, value in options.items() if value is not None]:
            raise SpecError(
                f"--merge and {wrong[0]} cannot be combined: the parts have their options"
            )
        _merge(name, merge, out)
        return
    found = _paper(name)
    effort = _effort(found.efforts["full" if full else "quick"], reps=reps, length=length)
    from koala.lab.papers.sweep import plan

    wanted = plan(found, effort, figure=figure, seed=seed)
    work, last = share_of(wanted.work(), found.name, part)
    folder = place.make_out(out if out is not None else Path("reproduction") / last)
    campaign = place.execute(work)
    if part is None:
        _write(wanted, work, campaign, folder, times=place.facts())
        return
    _save(wanted, work, campaign, folder, part=part, times=place.facts())
    count, of = len(campaign.finished), len(work.items)
    summary = {"part": part, "folder": str(folder), "runs": count, "wanted": of}
    shared.show(summary, lambda: f"{count} runs\n{folder}")
    if campaign.is_interrupted:
        shared.leave(f": {count} of {of} runs")


def _merge(name: str, folders: tuple[Path, ...], out: Path | None) -> None:
    """Report on the runs of all parts."""
    from koala.lab.papers.sweep import plan
    from koala.lab.sim.campaign.parts import read_parts

    found = _paper(name)
    parts = read_parts(folders)
    options = parts[0].options
    if name != options["paper"]:
        raise ConfigError(f"{parts[0].folder}: is of the paper {options['paper']}, not {name}")
    if options["effort"] not in found.efforts:
        raise ConfigError(f"{parts[0].folder}: effort {options['effort']} is unknown")
    effort = _effort(
        found.efforts[options["effort"]], reps=options["reps"], length=options["length"]
    )
    wanted = plan(found, effort, figure=options["figure"], seed=options["seed"])
    folder = shared.make_out(out if out is not None else Path("reproduction") / found.name)
    work = wanted.work()
    _write(wanted, work, work.merged(parts), folder, times={}, merged=parts)


def _write(
    wanted: Plan,
    work: Work[Run],
    made: Campaign[Run],
    folder: Path,
    *,
    times: dict[str, object],
    merged: tuple[Part, ...] = (),
) -> None:
    """Write report and figures."""
    from koala.lab.papers.judgement import report
    from koala.lab.papers.report import draw, summary, write
    from koala.lab.papers.tables import document

    _save(wanted, work, made, folder, times=times, merged=merged)
    written = report(wanted, made)
    write(written, folder)
    text = f"{summary(written)}\n{folder / 'report.md'}"
    shared.show(document(written), lambda: text)
    if made.is_interrupted:
        runs = f"{len(made.finished)} of {len(work.items)} runs"
        shared.leave(f": {runs}; no figure is drawn")
    try:
        figures = len(written.plan.figures)
        with progress(f"{figures} figures", figures) as update:
            draw(written, folder, progress=update)
    except KeyboardInterrupt:
        shared.leave(": not all figures are drawn")


def _save(
    wanted: Plan,
    work: Work[Run],
    made: Campaign[Run],
    folder: Path,
    *,
    times: dict[str, object],
    part: str | None = None,
    merged: tuple[Part, ...] = (),
) -> None:
    """Write the raw runs and their provenance."""
    from koala.lab.papers.markdown import command
    from koala.lab.papers.sweep import head_of

    work.save(
        made,
        folder,
        head_of,
        options=wanted.options(),
        wanted=len(wanted.runs()),
        merged=merged,
        command=command(wanted) + (f" --part {part}" if part else ""),
        part=part,
        **times,
    )


def _paper(name: str) -> Paper:
    known = [name for name, module in PAPERS.items() if find_spec(module) is not None]
    if name not in known:
        raise ConfigError(f"{name} (expected one of {', '.join(known)})")
    found: Paper = importlib.import_module(PAPERS[name]).PAPER
    return found


def _effort(effort: Effort, *, reps: int | None, length: float | None) -> Effort:
    """Override the length or the number of replications of an effort. Raises ConfigError."""
    if length is not None and length < 1:
        raise ConfigError(f"--length {length:g} (expected 1 or more)")
    return replace(
        effort,
        replications=effort.replications if reps is None else reps,
        length=effort.length if length is None else length,
    )
