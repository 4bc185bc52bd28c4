"""A campaign: `python -m tests.fuzz.campaign --cases 1000000 --only rsl [--seed S] [--first K]`.

A case is a function of its target, the seed and its number. One that does harm, or takes longer
than `LIMIT_S` of processor time, is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import logging
import resource
import secrets
import signal
import sys
import traceback
from collections.abc import Iterator
from random import Random

import structlog

from tests.fuzz import batches, descriptions, lines, links
from tests.fuzz.target import Target

MODULES = (descriptions, links, lines, batches)
TARGETS = {target.name: target for module in MODULES for target in module.TARGETS}
LIMIT_S = 5.0
"""Seconds of processor time for one case; most take less than a thousandth of it."""
MEMORY_MAX_BYTES = 4 * 2**30


def a_case(target: Target, seed: int, number: int) -> object:
    """The case with this number."""
    return target.make(Random(f"{target.name} {seed} {number}"))


def harm(name: str, seed: int, numbers: range, *, limit_s: float = 0.0) -> Iterator[str]:
    """Check the cases of a target; tell of each that does harm. A signal ends one that takes longer
    than the limit."""
    target = TARGETS[name]
    for number in numbers:
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        case: object = "not made yet"
        try:
            case = a_case(target, seed, number)
            target.check(case)
        except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
            again = f"--only {name} --seed {seed} --first {number} --cases 1"
            yield (
                f"{repr(case)[:2_000]}\n{traceback.format_exc(limit=-4)}"
                f"repeat with: python -m tests.fuzz.campaign {again}\n"
            )
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def limit() -> None:
    """Make errors of a case that takes too long and of one that takes too much memory."""

    def too_long(_number: int, _frame: object) -> None:
        raise TimeoutError(f"more than {LIMIT_S:g} s of processor time")

    signal.signal(signal.SIGPROF, too_long)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; return 1 when a case did harm."""
    parser = argparse.ArgumentParser(prog="tests.fuzz.campaign", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="of each target")
    parser.add_argument("--only", action="append", choices=sorted(TARGETS), help="these")
    parser.add_argument("--seed", type=int, help="drawn when it is not given")
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    limit()
    harmful = 0
    for name in options.only or TARGETS:
        numbers = range(options.first, options.first + options.cases)
        before = harmful
        for story in harm(name, seed, numbers, limit_s=LIMIT_S):
            harmful += 1
            print(story, flush=True)
        print(f"{name:<16} {options.cases} cases, {harmful - before} harmful", flush=True)
    print(f"seed {seed}")
    return 1 if harmful else 0


if __name__ == "__main__":
    sys.exit(main())
