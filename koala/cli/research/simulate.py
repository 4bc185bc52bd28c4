"""`koala simulate`: the group of simulations, one module each.

A command checks its options, passes a setting to the simulation, and prints the result. It computes
no numbers itself.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from importlib.util import find_spec

import typer

from koala.cli.extras import needs_sim

SIMULATIONS: dict[str, str] = {
    "koala": "koala.papers.koala.command:koala",
    "multiqueue": "koala.papers.multiqueue.command:multiqueue",
    "deadlines": "koala.papers.deadlines.command:deadlines",
    "sq": "koala.papers.synchronous.command:sq",
    "hints": "koala.papers.hints.command:hints",
    "trace": "koala.cli.research.trace:trace",
    "workload": "koala.cli.research.workload:workload",
}
"""Maps each simulation to its function, in the order of the help text."""


def simulate_commands(words: Sequence[str] = ()) -> typer.Typer:
    """Build the group `koala simulate`.

    If `words` begin with a name, the group has that simulation alone: building the options of all
    of them takes longer than some replays.
    """
    group = typer.Typer(
        help="Replay the papers' workloads and real traces in simulated time.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    named = words[0] if words and "_KOALA_COMPLETE" not in os.environ else ""
    for name, place in SIMULATIONS.items():
        if named in SIMULATIONS and name != named:
            continue
        module, _, attribute = place.partition(":")
        if find_spec(module) is None:
            continue
        group.command(name)(needs_sim(getattr(importlib.import_module(module), attribute)))
    return group
