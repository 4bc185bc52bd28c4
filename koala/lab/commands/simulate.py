"""`koala simulate`: the group of simulations, one module each.

A command checks its options, passes a setting to the simulation, and prints the result. It computes
no numbers itself.
"""

from __future__ import annotations

from koala.cli.lazy_group import LazyGroup

SIMULATIONS: dict[str, str] = {
    "koala": "koala.lab.commands.papers.koala:koala",
    "multiqueue": "koala.lab.commands.papers.multiqueue:multiqueue",
    "deadlines": "koala.lab.commands.papers.deadlines:deadlines",
    "sq": "koala.lab.commands.papers.synchronous:sq",
    "hints": "koala.lab.commands.papers.hints:hints",
    "malleable": "koala.lab.commands.papers.malleable:malleable",
    "trace": "koala.lab.commands.trace:trace",
    "backlog": "koala.lab.commands.backlog:backlog",
    "workload": "koala.lab.commands.workload:workload",
}
"""Maps each simulation to its function, in the order of the help text."""

simulate = LazyGroup(
    "simulate",
    {"": SIMULATIONS},
    help="Simulate the papers' experiments; replay traces.",
)
