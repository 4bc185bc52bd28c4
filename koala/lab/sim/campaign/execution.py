"""Engines that make runs, and what they have made: replications, and runs of a campaign."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from koala.common.runtime.foreign.guards import is_replacement, noting_replacements
from koala.lab.sim.campaign.records import FinishedRun, Timed
from koala.lab.sim.campaign.store import Store, open_default
from koala.lab.sim.replication import Each, Progress, Replications, replicate

Item = TypeVar("Item")
Result = TypeVar("Result")
One = TypeVar("One", bound=Timed)
PROCESSES = "processes"
"""Name of the engine that `--on` has unless it is given."""


class Engine(Protocol):
    """Runs items somewhere, and returns what finished: all of them unless interrupted."""

    def __call__(
        self,
        run: Callable[[Item], One],
        items: Sequence[Item],
        *,
        progress: Progress,
        each: Each[Item, One],
    ) -> Replications[Item, One]:
        """Run the items; `each` receives every result when it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processes:
    """Engine of this machine: at most `workers` processes, 0 for one a core."""

    workers: int = 0

    def __call__(
        self,
        run: Callable[[Item], One],
        items: Sequence[Item],
        *,
        progress: Progress,
        each: Each[Item, One],
    ) -> Replications[Item, One]:
        """Run the items in worker processes."""
        return replicate(run, items, workers=self.workers, progress=progress, each=each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign(Generic[Item]):
    """Finished runs of a campaign, in the order of the items; all unless `is_interrupted`."""

    finished: tuple[tuple[Item, FinishedRun], ...]
    is_interrupted: bool = False

    @property
    def cpu_s(self) -> float:
        """Processor time of all runs, also of those that were stored."""
        return sum(made.cpu_s for _, made in self.finished)

    @property
    def replaced(self) -> tuple[str, ...]:
        """Policies of other packages in whose place the default went on in a run."""
        notes = (note for _, made in self.finished for note in made.outcome.notes)
        return tuple(dict.fromkeys(note for note in notes if is_replacement(note)))

    @property
    def stored(self) -> int:
        """Count the runs that did not have to be made."""
        return sum(made.is_stored for _, made in self.finished)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreChoice:
    """Choice of a place for finished runs: `folder`, None for the user's cache; nowhere without
    `is_used`."""

    folder: Path | None = None
    is_used: bool = True

    def open(self, code: str) -> Store | None:
        """Open it for results of this code. Raises ConfigError if a chosen folder is unusable."""
        if not self.is_used:
            return None
        return open_default(code) if self.folder is None else Store(self.folder, code)


NO_STORE = StoreChoice(is_used=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Generic[Result]):
    """Result of any kind, with its processor time and the policies that were replaced."""

    result: Result
    cpu_s: float
    replaced: tuple[str, ...] = ()


def replicate_on(
    engine: Engine,
    run: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Progress | None = None,
) -> Replications[Item, Result]:
    """Run each item by an engine, and store nothing; `run`, items and results must be picklable."""

    def report(done: int) -> None:
        if progress is not None:
            progress(done)

    made = engine(partial(_measured, run), items, progress=report, each=lambda _item, _one: None)
    finished = tuple((item, one.result) for item, one in made.finished)
    texts = dict.fromkeys(text for _, one in made.finished for text in one.replaced)
    return Replications(
        finished=finished, is_interrupted=made.is_interrupted, replaced=tuple(texts)
    )


def recorded(
    simulate: Callable[..., Result], setting: object, first: int | None, seed: int
) -> tuple[Result, list[Any]]:
    """Simulate, with the outcomes of the jobs if the seed is `first`."""
    if seed != first:
        return simulate(setting, seed), []
    jobs: list[Any] = []
    return simulate(setting, seed, jobs.append), jobs


def _measured(run: Callable[[Item], Result], item: Item) -> Measured[Result]:
    begin_s = time.process_time()
    with noting_replacements() as replaced:
        result = run(item)
    cpu_s = time.process_time() - begin_s
    return Measured(result=result, cpu_s=cpu_s, replaced=tuple(replaced))


def measured_task(run: Callable[[Item], Result], task: tuple[int, Item]) -> Measured[Result]:
    """Make the run of a task: the place of an item, and the item."""
    return _measured(run, task[1])
