"""A campaign: `python -m tests.fuzz --cases 1000000 --only rsl [--seed S] [--first K] [--jobs 2]`.

A case is a function of its target, the seed and its number. One that does harm, or takes longer
than `LIMIT_S` of processor time, is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import secrets
import signal
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from random import Random
from time import process_time

import structlog

from koala.common.runtime.child_lifetime import serve
from tests.fuzz import batches, descriptions, lines, links
from tests.fuzz.target import Target

MODULES = (descriptions, links, lines, batches)
TARGETS = {target.name: target for module in MODULES for target in module.TARGETS}
LIMIT_S = 5.0
"""Seconds of processor time for one case; most take less than a thousandth of it."""
MEMORY_MAX_BYTES = 4 * 2**30
LOT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Lot:
    """Cases of one target that follow one another, and what came of them."""

    target: str
    seed: int
    first: int
    count: int
    slowest_s: float = 0.0
    memory_bytes: int = 0
    harm: tuple[tuple[int, str], ...] = ()


def a_case(target: Target, seed: int, number: int) -> object:
    """The case with this number."""
    return target.make(Random(f"{target.name} {seed} {number}"))


def run(lot: Lot, *, limit_s: float = 0.0) -> Lot:
    """Checks the cases of a lot; one that takes longer than the limit is ended by a signal."""
    target = TARGETS[lot.target]
    slowest_s, harm = 0.0, []
    for number in range(lot.first, lot.first + lot.count):
        begun_s = process_time()
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        case: object = "not made yet"
        try:
            case = a_case(target, lot.seed, number)
            target.check(case)
        except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
            harm.append((number, f"{repr(case)[:2_000]}\n{traceback.format_exc(limit=-4)}"))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        slowest_s = max(slowest_s, process_time() - begun_s)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Lot(
        target=lot.target, seed=lot.seed, first=lot.first, count=lot.count,
        slowest_s=slowest_s, memory_bytes=used, harm=tuple(harm),
    )  # fmt: skip


def limited(lot: Lot) -> Lot:
    """The same, as a campaign wants it."""
    return run(lot, limit_s=LIMIT_S)


def begin(parent: int) -> None:
    """In each process, which ends with its parent: what takes too long is an error, and so is what
    takes too much."""
    serve(parent)

    def too_long(_number: int, _frame: object) -> None:
        raise TimeoutError(f"more than {LIMIT_S:g} s of processor time")

    signal.signal(signal.SIGPROF, too_long)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))


def lots(names: list[str], seed: int, first: int, cases: int) -> Iterator[Lot]:
    """All lots of a campaign."""
    for name in names:
        for at in range(first, first + cases, LOT):
            count = min(LOT, first + cases - at)
            yield Lot(target=name, seed=seed, first=at, count=count)


def main(arguments: list[str] | None = None) -> int:
    """Runs the campaign; 1 when a case did harm."""
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="of each target")
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), help="these")
    parser.add_argument("--seed", type=int, help="drawn when it is not given")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--stop-after", type=int, default=5, help="harmful cases of a target")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    names = options.only or list(TARGETS)
    harmful: dict[str, int] = dict.fromkeys(names, 0)
    done: dict[str, int] = dict.fromkeys(names, 0)
    slowest: dict[str, float] = dict.fromkeys(names, 0.0)
    memory = 0
    with get_context("spawn").Pool(options.jobs, begin, (os.getpid(),)) as pool:
        for lot in pool.imap_unordered(limited, lots(names, seed, options.first, options.cases)):
            done[lot.target] += lot.count
            slowest[lot.target] = max(slowest[lot.target], lot.slowest_s)
            memory = max(memory, lot.memory_bytes)
            for number, story in lot.harm:
                harmful[lot.target] += 1
                if harmful[lot.target] <= options.stop_after:
                    print(story)
                    again = f"--only {lot.target} --seed {seed} --first {number} --cases 1"
                    print(f"repeat with: python -m tests.fuzz {again}\n", flush=True)
    for name in names:
        figures = f"{done[name]} cases, {harmful[name]} harmful, slowest {slowest[name]:.3f} s"
        print(f"{name:<16} {figures}")
    print(f"seed {seed}, largest process {memory / 2**20:.0f} MB")
    return 1 if any(harmful.values()) else 0
