"""Options of commands as a table: those that commands share, and those that settings declare.

An `Option` (`koala.lab.sim.options`) is declared once: in the field of a setting, from where sweep
files and `koala.lab` take it too, or in `SHARED`. `@given("seed", "reps")` gives a command some
of the shared ones; `@simulation(SIMULATION, reps=5)` makes a command of a function that gets the
setting and a `Runs`: how often to run it, and what to do with the results. The function's docstring
is the help text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from koala.cli.arguments import Number, OneOf, WholeNumber, file, json_option, option
from koala.cli.extras import needs_sim
from koala.common.runtime import clock
from koala.common.runtime.option_values import Bounds
from koala.common.runtime.progress_bar import progress
from koala.errors import ConfigError, SpecError
from koala.lab.commands.simulation_options import Runs, check_distinct, make_out
from koala.lab.sim.options import Declared, Option, file_option, option_name

if TYPE_CHECKING:
    from koala.lab.sim.campaign.execution import Campaign, StoreChoice
    from koala.lab.sim.campaign.work import Work

Item = TypeVar("Item")
F = TypeVar("F", bound=Callable[..., Any])


def _whole(default: int, low: int, text: str) -> Option:
    """Make an option of a whole number."""
    return Option(default=default, kind="whole", bounds=Bounds(low=low), help=text)


SHARED: dict[str, Option] = {
    "seed": _whole(1, 0, "Seed of all random streams."),
    "reps": _whole(5, 1, "Replications, with seeds SEED, SEED + 1, ..."),
    "workers": _whole(0, 0, "Parallel processes; 0: one a core."),
    "on": Option(
        default="processes",
        metavar="ENGINE",
        help="Where runs are made: processes of this machine; dask://HOST:PORT, a scheduler of"
        " dask.distributed; koala, the sites of your daemon (koala:PYTHON: with that Python"
        " there). The last two need the packages of 'koala-scheduler[sweep]'.",
        words=("processes", "dask://", "koala"),
    ),
    "jobs_out": file_option("FILE.csv", "Write a line for each job to this file."),
    "plot": file_option("FILE.svg", "Draw the result (.svg, .png or .pdf)."),
    "store": file_option(
        "DIR",
        "Keep finished runs there, and make none again.",
        unset="koala/runs in the user's cache folder",
    ),
    "no_store": Option(default=False, kind="flag", help="Make all runs, and keep none."),
    "part": Option(
        default=None,
        metavar="K/N",
        help="Make only part K of N, on this machine; --merge puts the parts together.",
    ),
    "merge": Option(
        default=None,
        kind="file",
        metavar="DIR",
        is_many=True,
        help="Take the runs from the folder of a part, and make none.",
    ),
}


def given(*names: str, **changes: Any) -> Callable[[F], F]:  # noqa: ANN401 - fields of an option
    """Decorate a command with shared options; `changes` are of the last one."""
    table = {name: SHARED[name] for name in names}
    if changes:
        table[names[-1]] = replace(table[names[-1]], **changes)
    return with_options(table)


def with_options(table: Mapping[str, Option]) -> Callable[[F], F]:
    """Decorate a command with the options of a table, in its order."""

    def decorate(command: F) -> F:
        for name, one in reversed([*table.items()]):
            command = _click_option(name, one)(command)
        return command

    return decorate


def _click_option(name: str, one: Option) -> Callable[[F], F]:
    kinds: dict[str, Any] = {
        "whole": {"type": WholeNumber.within(one.bounds)},
        "number": {"type": Number.within(one.bounds)},
        "flag": {"is_flag": True},
        "file": {"type": file},
        "choice": {"type": OneOf(one.words)},
        "text": {"words": one.words},
    }
    more: dict[str, Any] = kinds[one.kind] | ({"multiple": True} if one.is_many else {})
    if one.metavar is not None:
        more["metavar"] = one.metavar
    elif one.kind == "number" and name.endswith("_s"):
        more["metavar"] = "SECONDS"
    if not one.is_many:
        more["default"] = one.default
    return option(f"--{option_name(name, one)}", name, help=one.help, unset=one.unset, **more)


def simulation(
    declared: Declared, *, reps: int
) -> Callable[[Callable[[Any, Runs], None]], click.Command]:
    """Decorate the function of a simulation: make its command."""
    options = declared.options

    def decorate(function: Callable[[Any, Runs], None]) -> click.Command:
        @given("workers", "on")
        @json_option
        @given("jobs_out", "plot")
        @needs_sim
        def run(**values: Any) -> None:  # noqa: ANN401
            read = declared.values(values)
            runs = Runs(**{name: value for name, value in values.items() if name not in options})
            files = [read[name] for name, one in options.items() if one.kind == "file"]
            check_distinct(files, {"jobs-out": runs.jobs_out, "plot": runs.plot})
            function(declared.make(**read), runs)

        run.__doc__ = function.__doc__
        command = with_options(options)(given("seed", "reps", default=reps)(run))
        return click.command(function.__name__)(command)

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Machines that make the runs of a command, and the folder that keeps them."""

    workers: int
    on: str
    folder: Path | None
    is_kept: bool
    begun_at: float = field(default_factory=clock.unix_now)

    @property
    def store(self) -> StoreChoice:
        """Chosen store. Raises SpecError."""
        from koala.lab.sim.campaign.execution import StoreChoice

        if not self.is_kept and self.folder is not None:
            raise SpecError("--store and --no-store cannot be combined")
        return StoreChoice(folder=self.folder, is_used=self.is_kept)

    def for_sweep(self) -> dict[str, Any]:
        """Return the arguments of `koala.lab.sweep`. Raises SpecError."""
        choice = self.store
        store = choice.folder if choice.folder is not None else choice.is_used
        return {"workers": self.workers, "on": self.on, "store": store}

    def make_out(self, folder: Path) -> Path:
        """Make the folder of --out, if runs can be made and kept at all. Raises ConfigError."""
        from koala.lab.engines import engine_of

        _ = self.store, engine_of(self.on, self.workers)
        return make_out(folder)

    def execute(self, work: Work[Item], words: str = "runs") -> Campaign[Item]:
        """Make the runs that are not kept, with a progress bar. Raises ConfigError."""
        from koala.lab.engines import engine_of

        store, engine, count = self.store, engine_of(self.on, self.workers), len(work.items)
        with progress(f"{count} {words}", count) as update:
            return work.execute(store, engine, update)

    def facts(self) -> dict[str, Any]:
        """Return what the provenance of the runs says of place and time."""
        return {
            "begun_at": datetime.fromtimestamp(self.begun_at, UTC).isoformat(timespec="seconds"),
            "elapsed_s": round(clock.unix_now() - self.begun_at, 1),
            "workers": self.workers,
            "on": self.on,
        }


def campaign_options(command: F) -> F:
    """Decorate a command with --workers, --on, --store and --no-store, which it gets as `place`."""

    @wraps(command)
    def with_place(
        *args: Any,  # noqa: ANN401
        workers: int,
        on: str,
        store: Path | None,
        no_store: bool,
        **values: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        place = Place(workers=workers, on=on, folder=store, is_kept=not no_store)
        return command(*args, place=place, **values)

    decorated: Any = given("workers", "on", "store", "no_store")(with_place)
    found: F = decorated
    return found


def share_of(work: Work[Item], name: str, text: str | None) -> tuple[Work[Item], str]:
    """Return the work of `--part K/N`, and the name of its folder. Raises ConfigError."""
    if text is None:
        return work, name
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ConfigError(f"--part {text} (expected K/N with K from 1 to N, for instance 2/3)")
    own, of = int(number), int(count)
    return work.part(own, of), f"{name}-part-{own}-of-{of}"
