"""`koala simulate sq`: synchronous queuing against strict admission control (SQ 5)."""

from __future__ import annotations

from koala.lab.commands.options import simulation
from koala.lab.commands.simulation_options import Runs
from koala.lab.papers.synchronous.simulation.counting import Outcome, Summary, summarize
from koala.lab.papers.synchronous.simulation.run import simulate
from koala.lab.papers.synchronous.simulation.setting import SIMULATION, Setting

WORDS = {
    "skew_eq2": ("skew by equation (2), mean over cycles", "s"),
    "skew_eq2_largest": ("  its largest value", "s"),
    "skew_finish": ("difference of finish times", "s"),
    "qos_conformance": ("cycles within the overall deviation", ""),
    "effective_cycles": ("quanta given within the asynchrony", ""),
    "acceptance_ratio": ("tasks accepted", ""),
    "corrections": ("corrections a task", ""),
}


@simulation(SIMULATION, reps=3)
def sq(setting: Setting, runs: Runs) -> None:
    """Simulate subtasks that must advance together.

    The machines have other users. Each machine shares its processor among local tasks, Grid QoS
    subtasks and Grid best-effort tasks, quantum by quantum. SQ watches the subtasks of each task
    and slows down or speeds up those that drift apart; QoS admits tasks strictly and leaves them
    alone. --jobs-out writes the QoS tasks of the first replication.
    """
    done = runs.replicate(simulate, setting, columns=Outcome._fields)
    found, count = summarize(done.results), len(done.finished)
    runs.show({**found.document(), "replications": count}, lambda: _table(found, count))
    if runs.plot is not None:
        from koala.lab.papers.synchronous.simulation.drawing import draw

        draw(done.results, runs.plot)
    runs.end(is_interrupted=done.is_interrupted)


def _table(found: Summary, replications: int) -> str:
    lines = [
        f"{words:<38} {found.metrics[name]!s:>20} {unit}".rstrip()
        for name, (words, unit) in WORDS.items()
    ]
    lines.append(
        f"{found.accepted} of {found.tasks} tasks accepted;"
        f" 95 % confidence intervals over {replications} replications"
    )
    return "\n".join(lines)
