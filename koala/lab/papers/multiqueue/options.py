"""Options of the simulation of several queues: policies and loads, of which there may be many."""

from __future__ import annotations

from typing import Any

from koala.common.runtime.option_values import numbers
from koala.core.model.visiting import Discipline
from koala.errors import ConfigError
from koala.lab.papers.multiqueue.simulation.runs import Setting
from koala.lab.sim.options import Declared, Option, policy_name
from koala.policies import named
from koala.policies.queueing.multiqueue import DISCIPLINES

POLICIES = "GS, LS-OR|RD|RO|DO, GP, LP-LF|GF|RD, EQ-LF|GF|RD, LQ"


def _policies(_option: str, text: str) -> tuple[str, ...]:
    names = tuple(DISCIPLINES)
    if text.lower() == "all":
        return names
    return tuple(dict.fromkeys(_policy(word.strip()) for word in text.split(",")))


def _policy(name: str) -> str:
    """Check the name of a discipline: built-in (in any case), of another package, or as
    `module:DISCIPLINE`."""
    found = policy_name("policy", "queueing", name)
    if not isinstance(named("queueing", found), Discipline):
        raise ConfigError(
            f"--policy {name} (expected disciplines for several queues"
            f" ({', '.join(DISCIPLINES)}): this simulation has no other queues)"
        )
    return found


SEVERAL = {
    "policies": Option(
        default="LS-DO",
        name="policy",
        help=f"{POLICIES}, or module:DISCIPLINE; several with commas between, or all.",
        metavar="NAME,...",
        words=(*DISCIPLINES, "all"),
        read=_policies,
    ),
    "loads": Option(
        default="0.5",
        name="utilization",
        help="Offered gross load, 1 is all processors; several with commas.",
        metavar="LOAD,...",
        read=numbers,
    ),
    "split": Option(
        default=None,
        help="Shares of the local queues in the jobs, of any sum.",
        metavar="SHARE,...",
        unset="equal ones",
        read=lambda option, text: numbers(option, text) if text else None,
    ),
}


def _settings(
    *,
    policies: tuple[str, ...],
    loads: tuple[float, ...],
    split: tuple[float, ...] | None,
    **values: Any,  # noqa: ANN401
) -> tuple[Setting, ...]:
    values["split"] = split or (1.0,) * len(values["sites"])
    return tuple(
        Setting(policy=name, utilization=load, **values)
        for name in policies
        for load in dict.fromkeys(loads)
    )


SIMULATION = Declared.of(Setting, make=_settings, more=SEVERAL)
