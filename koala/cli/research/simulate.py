"""`koala simulate`: the group of simulations, one module each.

A command checks its options, passes a setting to the simulation, and prints the result. It computes
no numbers itself.
"""

from __future__ import annotations

from koala.cli.lazy_group import LazyGroup

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

simulate = LazyGroup(
    "simulate",
    {"": SIMULATIONS},
    help="Simulate the papers' experiments; replay traces.",
)
