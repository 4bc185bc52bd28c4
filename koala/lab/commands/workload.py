"""`koala simulate workload`: generate synthetic logs in the Standard Workload Format."""

from __future__ import annotations

import sys
from typing import Any

import click

from koala.cli.arguments import OneOf, examples
from koala.cli.extras import needs_sim
from koala.errors import KoalaError
from koala.lab.commands.options import given, with_options
from koala.lab.sim.options import Declared
from koala.lab.workload import swf
from koala.lab.workloads import MODELS, Synthetic

GENERATOR = Declared.of(Synthetic)

Job = tuple[int, int, int, int]
"""Submit, processors, run time, queue."""


@examples(
    "koala simulate workload lublin --jobs 5000 --processors 128 > log.swf",
)
@click.command
@click.argument(
    "model", type=OneOf(MODELS), metavar="MODEL",
    help="lublin: the model of Lublin and Feitelson; das: the papers' local users, Poisson"
    " arrivals, sizes from D(q), exponential run times.",
)  # fmt: skip
@with_options(GENERATOR.options)
@given("seed")
@needs_sim
def workload(*, model: str, seed: int, **values: Any) -> None:  # noqa: ANN401 - declared options
    """Write a synthetic log of jobs to standard output.

    The same seed gives the same log. `koala simulate trace` replays it.
    """
    jobs = GENERATOR.make(model=model, **GENERATOR.values(values))
    assert isinstance(jobs.processors, int)
    if model == "lublin":
        parameters = f"kinds {jobs.kinds}, stretch {jobs.stretch:g}"
    else:
        low, high = jobs.sizes or (1, jobs.processors)
        parameters = f"sizes {low}:{high}, q {jobs.q:g}, run {jobs.run_mean_s:g}"
        parameters += f", utilization {jobs.utilization:g}"
    estimate = jobs.estimates(seed)
    lines = (
        _line(number, job, estimate(job[2]))
        for number, job in enumerate(jobs.drawn(seed, jobs.processors), start=1)
    )
    comments = (
        "Version: 2.2",
        f"MaxJobs: {jobs.jobs}",
        f"MaxProcs: {jobs.processors}",
        f"Note: synthetic: {model}, {parameters}, overestimate {jobs.overestimate:g}, seed {seed}",
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
