"""`koala simulate workload`: generate synthetic logs in the Standard Workload Format."""

from __future__ import annotations

import sys
from typing import Any

import click

from koala.cli.arguments import Words, examples
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
    "model", type=Words(MODELS), metavar="MODEL",
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
    made = GENERATOR.make(model=model, **GENERATOR.values(values))
    assert isinstance(made.processors, int)
    if model == "lublin":
        parameters = f"kinds {made.kinds}, stretch {made.stretch:g}"
    else:
        low, high = made.sizes or (1, made.processors)
        parameters = f"sizes {low}:{high}, q {made.q:g}, run {made.run_mean_s:g}"
        parameters += f", utilization {made.utilization:g}"
    estimate = made.estimates(seed)
    lines = (
        _line(number, job, estimate(job[2]))
        for number, job in enumerate(made.drawn(seed, made.processors), start=1)
    )
    comments = (
        "Version: 2.2",
        f"MaxJobs: {made.jobs}",
        f"MaxProcs: {made.processors}",
        f"Note: synthetic: {model}, {parameters}, overestimate {made.overestimate:g}, seed {seed}",
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
