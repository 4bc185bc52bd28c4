"""Many independent runs over the cores of this machine.

A run is a pure function of its item (a seed, or a setting with its seed). So the place and order of
runs do not change results; these come in the order of the items.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from koala.common.runtime.child_lifetime import interrupts_held, serve
from koala.errors import KoalaError

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[int], None]
"""Called with the number of finished runs, also when it has not changed for long."""
TOLD_EVERY_S = 10.0
Each = Callable[[Item, Result], None]
"""Called with each run when it has finished, in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replications(Generic[Item, Result]):
    """Finished runs, in the order of the items; all of them unless `is_interrupted`. `replaced`
    tells of policies of other packages in whose place the default went on."""

    finished: tuple[tuple[Item, Result], ...]
    is_interrupted: bool = False
    replaced: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[Result, ...]:
        """List the results alone."""
        return tuple(result for _, result in self.finished)

    def has(self, item: Item) -> bool:
        """Return True if this run was finished."""
        return any(item == one for one, _ in self.finished)


def replicate(
    run: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int = 0,
    progress: Progress | None = None,
    each: Each[Item, Result] | None = None,
) -> Replications[Item, Result]:
    """Run each item, in at most `workers` processes (0: one a core); `run`, items and results must
    be picklable. An interrupt (Ctrl-C) ends it and keeps the finished runs; an exception of a run
    is raised here."""
    tell = progress or (lambda _done: None)
    count = min(workers or cores(), len(items))
    if count <= 1:
        return _here(run, items, progress, each)
    done: dict[int, Result] = {}
    # Forked, a worker starts in milliseconds with all modules. Beside threads that could leave it
    # with a lock that nobody opens. Either way it is a child of this very process and thread, with
    # whose end the kernel ends it.
    is_alone = threading.active_count() == 1
    context = multiprocessing.get_context("fork" if is_alone else "spawn")
    before = multiprocessing.active_children()
    pool = ProcessPoolExecutor(
        count, mp_context=context, initializer=_begin_worker, initargs=(os.getpid(),)
    )
    is_interrupted = False
    futures: dict[Future[Result], int] = {}
    try:
        with interrupts_held():  # workers are made here
            for index, item in enumerate(items[:count]):
                futures[pool.submit(run, item)] = index
        for index, item in enumerate(items[count:], start=count):
            futures[pool.submit(run, item)] = index
        for future in _as_completed(futures):
            if future is not None:
                index = futures[future]
                done[index] = future.result()
                if each is not None:
                    each(items[index], done[index])
            tell(len(done))
    except KeyboardInterrupt:
        is_interrupted = True
    except BrokenProcessPool as error:
        raise KoalaError(
            f"a worker was killed from outside, or for want of memory, after {len(done)} of"
            f" {len(items)} runs; fewer workers at once (--workers) need less memory"
        ) from error
    finally:
        if len(done) < len(items):  # results of runs in progress are discarded
            _kill_children_but(before)
        pool.shutdown(wait=True, cancel_futures=True)
    finished = tuple((item, done[index]) for index, item in enumerate(items) if index in done)
    return Replications(finished=finished, is_interrupted=is_interrupted)


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _here(
    run: Callable[[Item], Result],
    items: Sequence[Item],
    progress: Progress | None,
    each: Each[Item, Result] | None,
) -> Replications[Item, Result]:
    finished: list[tuple[Item, Result]] = []
    try:
        for item in items:
            finished.append((item, run(item)))
            if each is not None:
                each(*finished[-1])
            if progress is not None:
                progress(len(finished))
    except KeyboardInterrupt:
        return Replications(finished=tuple(finished), is_interrupted=True)
    return Replications(finished=tuple(finished))


def _as_completed(futures: Iterable[Future[Result]]) -> Iterator[Future[Result] | None]:
    """Yield each future when it is done, and None when none was for long."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, TOLD_EVERY_S, return_when=FIRST_COMPLETED)
        yield from done or (None,)


def _begin_worker(parent: int) -> None:
    serve(parent)
    gc.freeze()  # what is imported lives as long as the worker


def _kill_children_but(kept: Sequence[BaseProcess]) -> None:
    for child in multiprocessing.active_children():
        if child not in kept:
            child.kill()
