"""`koala simulate workload`: generate synthetic logs in the Standard Workload Format."""

from __future__ import annotations

import sys

import click

from koala.cli.arguments import Number, Whole, Words, examples, option
from koala.cli.extras import needs_sim
from koala.common.runtime.option_values import bounds
from koala.errors import KoalaError
from koala.lab.commands.options import given

MODELS = ("lublin", "das")

Job = tuple[int, int, int, int]
"""Submit, processors, run time, queue."""


@examples(
    "koala simulate workload lublin --jobs 5000 --processors 128 > log.swf",
)
@click.command
@click.argument(
    "model", type=Words(MODELS), metavar="MODEL",
    help="lublin: the model of Lublin and Feitelson; das: the papers' local users, Poisson"
    " arrivals, sizes from D(q), exponential run times.",
)  # fmt: skip
@option("--jobs", type=Whole(1), default=10_000, help="Number of jobs.")
@option("--processors", type=Whole(2), default=128, help="Processors of the machine.")
@option("--kinds", is_flag=True, help="lublin: separate batch (queue 1) and interactive (0) jobs.")
@option(
    "--stretch",
    type=Number(above=0),
    default=1.0,
    help="lublin: factor of the times between arrivals.",
)
@option("--sizes", metavar="LOW:HIGH", help="das: sizes.", unset="1 to the processors")
@option(
    "--q", type=Number(high=1, above=0), default=0.9,
    help="das: q of D(q); the smaller q, the more small sizes.",
)  # fmt: skip
@option("--run", type=Number(above=0), default=600.0, metavar="SECONDS", help="das: mean run time.")
@option(
    "--utilization", type=Number(above=0), default=0.7,
    help="das: offered load; 1 is all processors.",
)  # fmt: skip
@option(
    "--overestimate", type=Number(0), default=0.0,
    help="Estimates: run time times 1 to this (uniform), 1 or more; 0: none.",
)  # fmt: skip
@given("seed")
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
    from koala.lab import Synthetic
    from koala.lab.workload import swf

    between = (1, processors) if sizes is None else bounds("sizes", sizes)
    if model == "lublin":
        parameters = f"kinds {kinds}, stretch {stretch:g}"
    else:
        low, high = between
        parameters = f"sizes {low}:{high}, q {q:g}, run {run:g}, utilization {utilization:g}"
    made = Synthetic(
        model=model,
        jobs=jobs,
        processors=processors,
        overestimate=overestimate,
        stretch=stretch,
        kinds=kinds,
        sizes=between,
        q=q,
        run_mean_s=run,
        utilization=utilization,
    )
    estimate = made.estimates(seed)
    lines = (
        _line(number, job, estimate(job[2]))
        for number, job in enumerate(made.drawn(seed, processors), start=1)
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


def _line(number: int, job: Job, estimate: int) -> tuple[int, ...]:
    submit, processors, run, queue = job
    known = (number, submit, -1, run, processors, -1, -1, processors, estimate)
    return (*known, -1, 1, -1, -1, -1, queue, -1, -1, -1)
