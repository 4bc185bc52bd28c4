"""Runs of the synchronous-queuing paper: points of its figures, and its arithmetic."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean

from koala.core.model.values import Seconds
from koala.lab.papers.synchronous.simulation.counting import Outcome as TaskOutcome
from koala.lab.papers.synchronous.simulation.counting import tally
from koala.lab.papers.synchronous.simulation.run import simulate
from koala.lab.papers.synchronous.simulation.setting import (
    Setting,
    slowdown_as_printed,
    slowdown_mean,
    utilization,
)
from koala.lab.papers.synchronous.simulation.sharing import Flow, QosQueue, picks
from koala.lab.sim.runs import Arithmetic, Level, Outcome, Run, changes
from koala.policies.progress.synchronous import Clocks, normalized_weight

MACHINES = (5, 10, 15, 25)
SCHEMES = ("SQ", "QoS")
DENSE_S, SPARSE_S = 10.0, 500.0
"""Mean interarrival times of the two charts of each figure."""
SWEEP_S = (DENSE_S, 100.0, 200.0, SPARSE_S)
"""Mean interarrival times of table 2."""
DENSE_SHARE = 3
"""Ratio of the numbers of tasks, dense to sparse."""
SEVERAL = ("skew_eq2", "skew_finish", "conforming_tasks", "synchronous_tasks")
"""Metrics that are also taken of the tasks of two and more subtasks alone: one subtask has no
skew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reading of what the paper leaves open; the defaults are ours."""

    partition: str = "soft"
    test: str = "corrected"
    dummy: str = "start"
    mapping: str = "least"
    release: str = "real"
    quantum_s: Seconds = 0.1
    beta: float = 0.05

    def setting(self, scheme: str, machines: int, interarrival_s: Seconds, tasks: int) -> Setting:
        """Return the simulator's setting."""
        return Setting(
            scheme=scheme,
            machines=machines,
            interarrival_s=interarrival_s,
            tasks=tasks,
            **asdict(self),
        )

    def __str__(self) -> str:
        return changes(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLevel(Level):
    """A level, or a reading, at which claims are judged: at these interarrival times and numbers of
    machines."""

    reading: Reading = Reading()
    interarrivals_s: tuple[Seconds, ...] = (DENSE_S, SPARSE_S)
    machines: tuple[int, ...] = MACHINES


OVERLOADED = ReadLevel(name="every 10 s", is_near=True, interarrivals_s=(DENSE_S,))
UNDERLOADED = ReadLevel(name="every 500 s", is_near=True, interarrivals_s=(SPARSE_S,))
LEVELS = (OVERLOADED, UNDERLOADED)


def _reading(name: str, reading: Reading) -> ReadLevel:
    return ReadLevel(name=name, is_near=True, reading=reading, machines=(5, 15))


READINGS = (
    _reading("dummy on demand", Reading(dummy="demand")),
    _reading("hard partition", Reading(partition="hard")),
    _reading("figure 5 as printed", Reading(test="printed")),
    _reading("least loaded with room", Reading(mapping="fit")),
    _reading("random machines", Reading(mapping="random")),
    _reading("quantum of 0.5 s", Reading(quantum_s=0.5)),
    _reading("weight back at the agreed end", Reading(release="agreed")),
    _reading("20 % over-subscription", Reading(beta=0.2)),
)
"""Other readings; each differs from the default only in what it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A scheme with a number of machines and an interarrival time of tasks."""

    scheme: str
    machines: int
    interarrival_s: Seconds
    reading: Reading = Reading()

    def __str__(self) -> str:
        return (
            f"{self.scheme}, {self.machines} machines, every {self.interarrival_s:g} s,"
            f" {self.reading}"
        )


def run(one: Run) -> Outcome:
    """Make one run of either kind."""
    setting = one.setting
    if isinstance(setting, Arithmetic):
        return Outcome(values=arithmetic())
    assert isinstance(setting, Point), setting
    is_dense = setting.interarrival_s == DENSE_S
    tasks = max(1, round(one.effort.length * (DENSE_SHARE if is_dense else 1)))
    asked = setting.reading.setting(setting.scheme, setting.machines, setting.interarrival_s, tasks)
    outcomes: list[TaskOutcome] = []
    values = simulate(asked, one.seed, outcomes.append)
    accepted = [outcome for outcome in outcomes if outcome.is_accepted]
    values["rate"] = values["acceptance_ratio"] / setting.interarrival_s
    values["ahead"] = fmean(_ahead(outcome) for outcome in accepted)
    values["stay"] = fmean(_stay(outcome) for outcome in accepted)
    several = tally([outcome for outcome in outcomes if outcome.subtasks > 1])
    values |= {f"{name}.several": several[name] for name in SEVERAL}
    return Outcome(values=values)


def _ahead(outcome: TaskOutcome) -> float:
    """Share of its duration that the first subtask to end saved."""
    assert outcome.first_end_at is not None
    assert outcome.started_at is not None
    return 1 - (outcome.first_end_at - outcome.started_at) / outcome.duration_s


def _stay(outcome: TaskOutcome) -> float:
    """Time in the system, in durations."""
    assert outcome.last_end_at is not None
    assert outcome.started_at is not None
    return (outcome.last_end_at - outcome.started_at) / outcome.duration_s


def arithmetic() -> dict[str, float]:
    """Compute the worked examples, and the properties of start-time fair queuing that are used."""
    clocks, table = Clocks(), []
    for actual in (2, 3, 1, 1):
        clocks = clocks.after(10.0, agreed=2, actual=actual)
        table.append(clocks.virtual_s)
    loads = [
        (interarrival_s, utilization(machines, interarrival_s, slowdown=slowdown_as_printed()))
        for interarrival_s in SWEEP_S
        for machines in MACHINES
    ]
    counts = picks((0.0, 0.0, 0.0), (True, True, True), 1000).counts
    return {
        "table_1": max(abs(a - b) for a, b in zip(table, (10, 25, 30, 35), strict=True)),
        "weight": normalized_weight(5, 10, 1, relative_sum=10, partition=40),
        "least_overload": min(load for at, load in loads if at == DENSE_S),
        "most_underload": max(load for at, load in loads if at != DENSE_S),
        "first_of_table_2": loads[0][1],
        "slowdown": slowdown_mean() / slowdown_as_printed(),
        "local_share": counts[0] / 1000,
        "qos_share": counts[1] / 1000,
        "best_effort_share": counts[2] / 1000,
        "moved": _served(0.05) - _served(0.0),
    }


def _served(moved: float) -> float:
    """Count the quanta of 1000 that a subtask of weight 0.2 gets when another one moves weight to
    the dummy."""
    queue = QosQueue(is_controlled=True, has_dummy=True)
    one, other = (Flow(n, weight=w, agreed=1, needed=1e9) for n, w in enumerate((0.1, 0.2)))
    for flow in (one, other):
        queue.add(flow)
        queue.update_dummy()
    queue.change(one, one.weight - moved)
    queue.update_dummy()
    queue.serve(1000)
    return float(other.delivered)
