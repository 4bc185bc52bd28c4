"""`koala simulate deadlines`: jobs with a required start beside local users (Deadlines 2, 3)."""

from __future__ import annotations

from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import Runs
from koala.lab.papers.deadlines.simulation.counting import Outcome, Summary, summarize
from koala.lab.papers.deadlines.simulation.run import simulate
from koala.lab.papers.deadlines.simulation.setting import SIMULATION, Setting

UNITS = {"local_response": "s"}
WORDS = {
    "success_rate": "deadlines met",
    "local_kill_rate": "local jobs killed",
    "total_load": "busy or claimed",
    "global_load": "busy with global jobs",
    "local_load": "busy with local jobs",
    "wasted": "claimed before the deadline",
    "local_response": "response time of local jobs",
}


@simulation(SIMULATION, reps=5)
def deadlines(setting: Setting, runs: Runs) -> None:
    """Simulate jobs with deadlines on clusters with local users.

    The components of a global job must start together at its deadline. Tries to place and claim
    them come ever closer to it (the Repeated Placement Policy with Lp, Mp and Wait-X). Events in
    the warm-up are not counted. One replication gives batch means. --jobs-out writes the jobs of
    the first replication.
    """
    done = runs.replicate(simulate, setting, columns=Outcome._fields)
    found, count = summarize(setting, done.results), len(done.finished)
    runs.show({**found.document(), "replications": count}, lambda: _table(found, count))
    if runs.plot is not None:
        from koala.lab.papers.deadlines.simulation.drawing import draw

        draw(setting, done.results, runs.plot)
    runs.end(is_interrupted=done.is_interrupted)


def _table(found: Summary, replications: int) -> str:
    lines = [
        f"{words:<28} {found.metrics[name]!s:>20} {UNITS.get(name, '%')}"
        for name, words in WORDS.items()
    ]
    by = f"{replications} replications" if replications > 1 else "batches of one replication"
    lines.append(
        f"{found.deadlines} deadlines and {found.local_jobs} local jobs counted;"
        f" 95 % confidence intervals over {by}"
    )
    if found.is_saturated:
        lines.append("saturated: local queues grow without end, and their figures grow with time")
    return "\n".join(lines)
