"""Options of commands with many runs: workers, engine, store, parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from koala.cli.arguments import file, option
from koala.common.runtime import clock
from koala.common.runtime.progress_bar import progress
from koala.errors import ConfigError, SpecError
from koala.lab.commands.simulation_options import make_out, on_option, workers_option

if TYPE_CHECKING:
    from koala.lab.sim.campaign.execution import Campaign, StoreChoice
    from koala.lab.sim.campaign.work import Work

Item = TypeVar("Item")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Machines that make the runs of a command, and the folder that keeps them."""

    workers: int
    on: str
    folder: Path | None
    is_kept: bool

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

    def facts(self, begin: float) -> dict[str, Any]:
        """Return what the provenance of runs that were begun then says of place and time."""
        return {
            "begun_at": datetime.fromtimestamp(begin, UTC).isoformat(timespec="seconds"),
            "elapsed_s": round(clock.unix_now() - begin, 1),
            "workers": self.workers,
            "on": self.on,
        }


def campaign_options(command: F) -> F:
    """Decorate a command with --workers, --on, --store and --no-store, which it gets as `place`."""
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

    @wraps(command)
    def with_place(
        *args: Any,  # noqa: ANN401
        workers: int,
        on: str,
        store: Path | None,
        no_store: bool,
        **given: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        place = Place(workers=workers, on=on, folder=store, is_kept=not no_store)
        return command(*args, place=place, **given)

    decorated: Any = with_place
    for one in reversed(options):
        decorated = one(decorated)
    found: F = decorated
    return found


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


def part_of(text: str | None) -> tuple[int, int] | None:
    """Parse `--part K/N`. Raises ConfigError."""
    if text is None:
        return None
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ConfigError(f"--part {text} (expected K/N with K from 1 to N, for instance 2/3)")
    return int(number), int(count)
