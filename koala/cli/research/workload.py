"""`koala simulate workload`: generate synthetic logs in the Standard Workload Format."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import Number, Whole, offered, option
from koala.cli.extras import needs_sim
from koala.cli.research import simulation_options as shared
from koala.errors import ConfigError, KoalaError
from koala.sim.options import bounds

if TYPE_CHECKING:
    from random import Random

MODELS = ("lublin", "das")
Job = tuple[int, int, int, int]
"""Submit, processors, run time, queue."""


@click.command
@click.argument(
    "model",
    help="lublin: the model of Lublin and Feitelson; das: the papers' local users, Poisson"
    " arrivals, sizes from D(q), exponential run times.",
    **offered(*MODELS),
)
@option("--jobs", type=Whole(1), default=10_000, help="Number of jobs.")
@option("--processors", type=Whole(2), default=128, help="Processors of the machine.")
@option("--kinds", is_flag=True, help="lublin: separate batch (queue 1) and interactive (0) jobs.")
@option(
    "--stretch", type=Number(), default=1.0, help="lublin: factor of the times between arrivals."
)
@option("--sizes", metavar="LOW:HIGH", help="das: sizes.  [default: 1 to the processors]")
@option("--q", type=Number(), default=0.9, help="das: q of D(q).")
@option("--run", type=Number(), default=600.0, help="das: mean run time, s.")
@option("--utilization", type=Number(), default=0.7, help="das: offered load.")
@option(
    "--overestimate", type=Number(0), default=0.0,
    help="Estimates: run time times 1 to this (uniform); 0: none.",
)  # fmt: skip
@shared.seed_option
@needs_sim
def workload(
    *,
    model: str,
    jobs: int,
    processors: int,
    kinds: bool,
    stretch: float,
    sizes: str | None,
    q: float,
    run: float,
    utilization: float,
    overestimate: float,
    seed: int,
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
        low, high = (1, processors) if sizes is None else bounds("sizes", sizes)
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
