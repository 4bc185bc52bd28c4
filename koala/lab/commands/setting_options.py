"""Command line of a simulation, made of the options that it declares.

`@simulation(SIMULATION, reps=5)` makes a command of a function that gets the setting and a `Runs`:
how often to run it, and what to do with the results. The function's docstring is the help text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from koala.cli.arguments import Number, Whole, Words, file, option
from koala.cli.extras import needs_sim
from koala.lab.commands.simulation_options import (
    Runs,
    check_distinct,
    jobs_out_option,
    json_option,
    on_option,
    plot_option,
    seed_option,
    workers_option,
)
from koala.lab.papers.options import Declared
from koala.lab.sim.options import Option, option_name

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def simulation(
    declared: Declared, *, reps: int
) -> Callable[[Callable[[Any, Runs], None]], click.Command]:
    """Decorate the function of a simulation: make its command."""
    options = declared.options

    def decorate(function: Callable[[Any, Runs], None]) -> click.Command:
        @needs_sim
        def run(**given: Any) -> None:  # noqa: ANN401
            values = declared.values(given)
            runs = Runs(**{name: value for name, value in given.items() if name not in options})
            read = [values[name] for name, one in options.items() if one.kind == "file"]
            check_distinct(read, {"jobs-out": runs.jobs_out, "plot": runs.plot})
            function(declared.make(**values), runs)

        run.__doc__ = function.__doc__
        shared = (
            seed_option,
            option(
                "--reps",
                type=Whole(1),
                default=reps,
                help="Replications, with seeds SEED, SEED + 1, ...",
            ),
            workers_option,
            on_option,
            json_option,
            jobs_out_option,
            plot_option,
        )
        own = (_click_option(name, one) for name, one in options.items())
        decorators: list[Decorator] = [*own, *shared]
        command: Callable[..., None] = run
        for decorator in reversed(decorators):
            command = decorator(command)
        return click.command(function.__name__)(command)

    return decorate


def _click_option(name: str, one: Option) -> Decorator:
    kinds: dict[str, Any] = {
        "whole": {"type": Whole.within(one.bounds)},
        "number": {"type": Number.within(one.bounds)},
        "flag": {"is_flag": True},
        "file": {"type": file},
        "choice": {"type": Words(one.words)},
        "text": {"words": one.words},
    }
    metavar = one.metavar
    if metavar is None and one.kind == "number" and name.endswith("_s"):
        metavar = "SECONDS"
    return option(
        f"--{option_name(name, one)}",
        name,
        default=one.default,
        help=one.help,
        unset=one.unset,
        **({} if metavar is None else {"metavar": metavar}),
        **kinds[one.kind],
    )
