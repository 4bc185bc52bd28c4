"""Options of commands with many runs: workers, engine, store, parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from koala.cli.arguments import file, option
from koala.errors import ConfigError, SpecError
from koala.lab.commands.simulation_options import on_option, workers_option

if TYPE_CHECKING:
    from koala.lab.sim.campaign.execution import StoreChoice

F = TypeVar("F", bound=Callable[..., Any])


def campaign_options(command: F) -> F:
    """Decorate a command with --workers, --on, --store and --no-store."""
    options = (
        workers_option,
        on_option,
        option(
            "--store", type=file, metavar="DIR",
            help="Keep finished runs there, and make none again.",
            unset="koala/runs in the user's cache folder",
        ),
        option("--no-store", is_flag=True, help="Make all runs, and keep none."),
    )  # fmt: skip
    for one in reversed(options):
        command = one(command)
    return command


def part_options(command: F) -> F:
    """Decorate a command with --part and --merge."""
    options = (
        option(
            "--part", metavar="K/N",
            help="Make only part K of N, on this machine; --merge puts the parts together.",
        ),
        option(
            "--merge", type=file, metavar="DIR", multiple=True,
            help="Take the runs from the folder of a part, and make none.",
        ),
    )  # fmt: skip
    for one in reversed(options):
        command = one(command)
    return command


def store_of(folder: Path | None, *, no_store: bool) -> StoreChoice:
    """Return the chosen store. Raises SpecError."""
    from koala.lab.sim.campaign.execution import StoreChoice

    if no_store and folder is not None:
        raise SpecError("--store and --no-store cannot be combined")
    return StoreChoice(folder=folder, is_used=not no_store)


def store_argument(choice: StoreChoice) -> bool | Path:
    """Return the store as `koala.lab.sweep` takes it."""
    return choice.folder if choice.folder is not None else choice.is_used


def part_of(text: str | None) -> tuple[int, int] | None:
    """Parse `--part K/N`. Raises ConfigError."""
    if text is None:
        return None
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ConfigError(f"--part {text}: allowed is K/N with K from 1 to N, for instance 2/3")
    return int(number), int(count)
