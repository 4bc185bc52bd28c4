"""The papers' simulations, with the options of their commands."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

from koala.common.runtime.foreign.guards import noting_replacements
from koala.common.runtime.plugins import is_of_session, name_of
from koala.errors import ConfigError
from koala.lab.experiments import job_rows, label
from koala.lab.results import Result
from koala.lab.rows import Rows
from koala.lab.sim.options import Declared, option_name

Measured = tuple[Mapping[str, float], bool, Sequence[Any]]
"""Metrics, saturation, records of jobs."""


@dataclass(frozen=True, init=False)
class Model:
    """A simulation of a paper: `Model("koala", jobs=100, local_load=0.4)`.

    The options are those of `koala simulate NAME`, with underscores, in its units and words; lists
    stand for words with commas between, functions for module:function. What is not given has the
    command's default.
    """

    name: str
    options: Mapping[str, Any]
    """Options that were given."""

    def __init__(self, name: str, **options: Any) -> None:  # noqa: ANN401 - of any option
        """Check the options. Raises ConfigError."""
        if name not in KINDS:
            raise ConfigError(f"simulation {name} (expected one of {', '.join(KINDS)})")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "options", options)
        self.setting()

    def setting(self) -> Any:  # noqa: ANN401 - a dataclass of the simulation
        """Return the setting of the simulation. Raises ConfigError."""
        declared = importlib.import_module(f"{KINDS[self.name].package}.setting").SIMULATION
        found = declared.setting(_words(declared, self.options))
        if isinstance(found, tuple):  # of several policies and loads
            if len(found) != 1:
                raise ConfigError(
                    f"{self.name}: {len(found)} settings (expected one policy and one utilization;"
                    " lab.sweep has many)"
                )
            return found[0]
        return found

    def changed(self, **changes: Any) -> Self:  # noqa: ANN401 - values of any option
        """Return the simulation with other options. Raises ConfigError."""
        return type(self)(self.name, **{**self.options, **changes})

    def run(self, seed: int = 1, *, has_jobs: bool = True) -> Result:
        """Run it once: a function of the seed."""
        with noting_replacements() as replaced:
            values, is_saturated, jobs = KINDS[self.name].run(self.setting(), seed, has_jobs)
        rows = job_rows(jobs, ()) if has_jobs else Rows(())
        return Result(
            name=str(self), seed=seed, metrics=dict(values), jobs=rows, is_saturated=is_saturated
        ).noted(replaced)

    def identity(self) -> object:
        """Return what results depend on: the whole setting, defaults included. Raises ConfigError
        for functions of the session, whose names say nothing elsewhere."""
        for name, value in self.options.items():
            if callable(value) and is_of_session(value):
                raise ConfigError(f"{name} = {value!r}: has no name in other sessions")
        return [self.name, self.setting()]

    def __str__(self) -> str:
        given = (f"{name} {label(value)}" for name, value in self.options.items())
        return ", ".join([self.name, *given])


def _words(declared: Declared, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each option as its command would get it. Raises ConfigError."""
    options = declared.options
    known = {option_name(name, one).replace("-", "_"): name for name, one in options.items()}
    found = {name: one.default for name, one in declared.options.items()}
    for name, value in given.items():
        if name not in known:
            raise ConfigError(f"{name}: no such option; there are {', '.join(sorted(known))}")
        option = declared.options[known[name]]
        found[known[name]] = _value(name, option.kind, value)
    return found


def _value(name: str, kind: str, value: Any) -> Any:  # noqa: ANN401
    if kind == "flag":
        if not isinstance(value, bool):
            raise ConfigError(f"{name} = {value!r} (expected True or False)")
        return value
    if kind in ("text", "choice"):
        if callable(value):
            return name_of(value)
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    if kind == "file":
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} = {value!r} (expected a number)")
    if kind == "whole" and value != int(value):
        raise ConfigError(f"{name} = {value!r} (expected a whole number)")
    return int(value) if kind == "whole" else float(value)


@dataclass(frozen=True, slots=True)
class SimulationKind:
    """A simulation: the package of its model, the module of its run there, and the run."""

    package: str
    module: str
    run: Callable[[Any, int, bool], Measured]


def _koala(setting: Any, seed: int, _has_jobs: bool) -> Measured:  # noqa: ANN401, FBT001
    from koala.lab.papers.koala.simulation.run import run  # noqa: PLC0415 - one paper at a time

    found = run(setting, seed)
    return found.values, found.unfinished > 0, found.jobs


def _multiqueue(setting: Any, seed: int, has_jobs: bool) -> Measured:  # noqa: ANN401, FBT001
    from koala.lab.papers.multiqueue.simulation.runs import run  # noqa: PLC0415

    found = run(setting, seed, has_jobs=has_jobs)
    values = {f"response.{kind}": mean for kind, mean in found.response.items()}
    values |= {f"response.queue{number}": mean for number, mean in enumerate(found.queues, start=1)}
    values |= {"measured_utilization": found.utilization, "unserved": found.trend.growth}
    return values, found.is_saturated, found.jobs


def _deadlines(setting: Any, seed: int, has_jobs: bool) -> Measured:  # noqa: ANN401, FBT001
    from koala.lab.papers.deadlines.simulation.counting import Tally, summarize  # noqa: PLC0415
    from koala.lab.papers.deadlines.simulation.run import simulate  # noqa: PLC0415

    jobs: list[Any] = []
    batches = simulate(setting, seed, jobs.append if has_jobs else None)
    values = reduce(Tally.plus, batches).metrics(sum(setting.sites))
    return values, summarize(setting, [batches]).is_saturated, jobs


def _sq(setting: Any, seed: int, has_jobs: bool) -> Measured:  # noqa: ANN401, FBT001
    from koala.lab.papers.synchronous.simulation.run import simulate  # noqa: PLC0415

    tasks: list[Any] = []
    return simulate(setting, seed, tasks.append if has_jobs else None), False, tasks


def _hints(setting: Any, seed: int, _has_jobs: bool) -> Measured:  # noqa: ANN401, FBT001
    from koala.lab.papers.hints.simulation.counting import metrics  # noqa: PLC0415
    from koala.lab.papers.hints.simulation.run import simulate  # noqa: PLC0415

    found = simulate(setting, seed)
    return metrics(setting, found), False, found.jobs


def _malleable(setting: Any, seed: int, _has_jobs: bool) -> Measured:  # noqa: ANN401, FBT001
    from koala.lab.papers.malleable.simulation.run import run  # noqa: PLC0415

    found = run(setting, seed)
    return found.values, False, found.jobs


KINDS: dict[str, SimulationKind] = {
    name: SimulationKind(f"koala.lab.papers.{paper}.simulation", module, run)
    for name, paper, module, run in (
        ("koala", "koala", "run", _koala),
        ("multiqueue", "multiqueue", "runs", _multiqueue),
        ("deadlines", "deadlines", "counting", _deadlines),
        ("sq", "synchronous", "run", _sq),
        ("hints", "hints", "counting", _hints),
        ("malleable", "malleable", "run", _malleable),
    )
}
"""Simulations by name."""
