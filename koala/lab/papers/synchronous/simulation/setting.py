"""Parameters of a run of the synchronous-queuing paper's simulation (SQ 5.2)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Literal, get_args

from koala.common.runtime.option_values import Bounds
from koala.core.model.values import Seconds
from koala.errors import ConfigError
from koala.lab.sim.options import (
    JOBS_MAX,
    Declared,
    choice,
    number,
    policy_name,
    require_declared,
    text,
)

QUANTA = 100
"""Quanta of a schedule cycle (SQ 4.2.2)."""
LOCAL, QOS, BEST_EFFORT = range(3)
SHARES = (0.4, 0.4, 0.2)
"""Shares of the three queues (SQ 5.2)."""
Partition = Literal["soft", "hard"]
Test = Literal["corrected", "printed"]
Dummy = Literal["start", "demand"]
Mapping = Literal["least", "fit", "random"]
Release = Literal["real", "agreed"]


def _scheme(option: str, text: str) -> str:
    """Match a scheme in any case, or look up a progress policy. Raises ConfigError."""
    if text.lower() == "qos":
        return "QoS"
    try:
        return policy_name(option, "progress", text)
    except ConfigError as error:
        raise ConfigError(
            str(error).replace("expected one of ", "expected one of QoS, ", 1)
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One point of the experiment. The defaults are the paper's; its ambiguous sentences have a
    field each."""

    scheme: str = text(
        "SQ",
        _scheme,
        "SQ: synchronous queuing; QoS: strict admission control; or another progress policy, as"
        " module:function.",
        metavar="NAME",
        words=("SQ", "QoS"),
    )
    machines: int = number(
        5, "Machines, and the most subtasks of a task.", bounds=Bounds(low=1, high=1_000)
    )
    interarrival_s: Seconds = number(
        10.0,
        "Mean time between tasks of each of the three kinds.",
        bounds=Bounds(above=0, below=inf),
    )  # lambda
    beta: float = number(
        0.05,
        "Over-subscription that SQ admits, as a share of a machine.",
        bounds=Bounds(low=0, below=1),
    )
    quantum_s: Seconds = number(
        0.1,
        "Length of a quantum; a schedule cycle is 100 quanta.",
        bounds=Bounds(above=0, below=inf),
    )
    partition: Partition = choice(
        "soft",
        get_args(Partition),
        "soft: unused time of a queue goes to the others; hard: it is lost.",
    )
    test: Test = choice(
        "corrected",
        get_args(Test),
        "Figure 5: corrected; or printed: all are corrected in every cycle.",
    )
    dummy: Dummy = choice(
        "start",
        get_args(Dummy),
        "start: it holds the unallocated share; demand: slow-downs create it.",
    )
    mapping: Mapping = choice(
        "least",
        get_args(Mapping),
        "least: the least loaded machines; fit: the least loaded with room; random.",
    )
    release: Release = choice(
        "real", get_args(Release), "Weight is released at the real or at the agreed end."
    )
    tasks: int = number(
        1500, "Tasks of each of the three kinds.", bounds=Bounds(low=1, high=JOBS_MAX)
    )
    speed_ghz: tuple[float, float] = (0.1, 0.6)
    demand: tuple[float, float] = (1.0, 5.0)  # m, percent of the standard machine
    relative: tuple[float, float] = (1.0, 5.0)  # r
    duration_s: tuple[Seconds, Seconds] = (1500.0, 2000.0)
    window_s: tuple[Seconds, Seconds] = (100.0, 500.0)  # of SY and OV

    def __post_init__(self) -> None:
        require_declared(self)

    @property
    def cycle_s(self) -> Seconds:
        """Length of a schedule cycle."""
        return QUANTA * self.quantum_s

    @property
    def capacity(self) -> float:
        """Sum of normalised weights that a machine may admit."""
        return 1.0 + (self.beta if self.is_controlled else 0.0)

    @property
    def is_controlled(self) -> bool:
        """True if a progress policy corrects the subtasks of each task."""
        return self.scheme != "QoS"


def utilization(
    machines: int, interarrival_s: Seconds, *, slowdown: float, setting: Setting | None = None
) -> float:
    """Mean value utilisation (8, 9) of the Grid QoS queues, with this mean slowdown."""
    given = setting or Setting()
    demand = sum(given.demand) / 2 / 100
    duration_s = sum(given.duration_s) / 2
    return demand * duration_s * slowdown / (interarrival_s * SHARES[QOS] * machines)


def slowdown_as_printed(setting: Setting | None = None) -> float:
    """100/35: the slowdown of the mean machine, which is what table 2 uses."""
    return 2 / sum((setting or Setting()).speed_ghz)


def slowdown_mean(setting: Setting | None = None) -> float:
    """Mean slowdown of machines whose speed is uniform."""
    low, high = (setting or Setting()).speed_ghz
    return log(high / low) / (high - low)


SIMULATION = Declared.of(Setting)
