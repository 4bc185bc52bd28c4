"""`koala simulate workload`: generate synthetic logs in the Standard Workload Format."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from koala.cli.research import simulation_options as shared
from koala.errors import ConfigError, KoalaError

if TYPE_CHECKING:
    from random import Random

MODELS = ("lublin", "das")
Job = tuple[int, int, int, int]
"""Submit, processors, run time, queue."""


def workload(
    *,
    model: Annotated[
        str,
        typer.Argument(
            help="lublin: the model of Lublin and Feitelson; das: the papers' local users, Poisson"
            " arrivals, sizes from D(q), exponential run times."
        ),
    ],
    jobs: Annotated[int, typer.Option(help="Number of jobs.", min=1)] = 10_000,
    processors: Annotated[int, typer.Option(help="Processors of the machine.", min=2)] = 128,
    kinds: Annotated[
        bool,
        typer.Option("--kinds", help="lublin: separate batch (queue 1) and interactive (0) jobs."),
    ] = False,
    stretch: Annotated[
        float, typer.Option(help="lublin: factor of the times between arrivals.")
    ] = 1.0,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="das: sizes.  [default: 1 to the processors]"),
    ] = None,
    q: Annotated[float, typer.Option(help="das: q of D(q).")] = 0.9,
    run: Annotated[float, typer.Option(help="das: mean run time, s.")] = 600.0,
    utilization: Annotated[float, typer.Option(help="das: offered load.")] = 0.7,
    overestimate: Annotated[
        float,
        typer.Option(help="Estimates: run time times 1 to this (uniform); 0: none.", min=0),
    ] = 0.0,
    seed: shared.Seed = 1,
) -> None:
    """Write a synthetic log of jobs to standard output.

    The same seed gives the same log. `koala simulate trace` replays it.
    """
    from itertools import islice
    from random import Random

    from koala.workload import swf

    if model not in MODELS:
        raise ConfigError(f"MODEL {model}: allowed are {', '.join(MODELS)}")
    if 0 < overestimate < 1:
        raise ConfigError(f"--overestimate {overestimate}: allowed is 0, or 1 and more")
    random = Random(seed)
    if model == "lublin":
        parameters = f"kinds {kinds}, stretch {stretch:g}"
        stream = _lublin(processors, kinds=kinds, stretch=stretch, random=random)
    else:
        low, high = (1, processors) if sizes is None else shared.bounds("sizes", sizes)
        parameters = f"sizes {low}:{high}, q {q:g}, run {run:g}, utilization {utilization:g}"
        stream = _das(processors, (low, high, q), run, utilization, random)
    estimates = Random(f"{seed} estimates")
    lines = (
        _line(number, job, _estimate(job, overestimate, estimates))
        for number, job in enumerate(islice(stream, jobs), start=1)
    )
    comments = (
        "Version: 2.2",
        f"MaxJobs: {jobs}",
        f"MaxProcs: {processors}",
        f"Note: synthetic: {model}, {parameters}, overestimate {overestimate:g}, seed {seed}",
    )
    try:
        swf.write(sys.stdout, lines, comments=comments)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise KoalaError(f"standard output: cannot be written: {error.strerror}") from error


def _lublin(processors: int, *, kinds: bool, stretch: float, random: Random) -> Iterator[Job]:
    from koala.workload import lublin

    if not stretch > 0:
        raise ConfigError(f"--stretch {stretch}: allowed is more than 0")
    chosen = (lublin.BATCH, lublin.INTERACTIVE) if kinds else (lublin.ALL,)
    drawn = lublin.jobs(*(kind.on(processors) for kind in chosen), random=random)
    return (
        (int(job.submit_at * stretch), job.processors, job.run_s, int(job.is_batch))
        for job in drawn
    )


def _das(
    processors: int,
    sizes: tuple[int, int, float],
    run: float,
    utilization: float,
    random: Random,
) -> Iterator[Job]:
    from koala.workload import papers
    from koala.workload.distributions import SizeDistribution

    if not (run > 0 and utilization > 0):
        raise ConfigError(f"--run {run}, --utilization {utilization}: allowed is more than 0")
    low, high, q = sizes
    if high > processors:
        raise ConfigError(f"--sizes {low}:{high}: at most {processors}, all --processors")
    try:
        distribution = SizeDistribution(low=low, high=high, q=q)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    drawn = papers.jobs(
        distribution,
        processors=processors,
        run_mean_s=run,
        utilization=utilization,
        random=random,
    )
    return ((*job, -1) for job in drawn)


def _estimate(job: Job, overestimate: float, random: Random) -> int:
    return round(job[2] * random.uniform(1, overestimate)) if overestimate else -1


def _line(number: int, job: Job, estimate: int) -> tuple[int, ...]:
    submit, processors, run, queue = job
    known = (number, submit, -1, run, processors, -1, -1, processors, estimate)
    return (*known, -1, 1, -1, -1, -1, queue, -1, -1, -1)
