"""Mutation test of the swarm: it must find each deliberate bug in core, daemon, agents and
starters.

`python -m tests.swarm.mutants [--seeds 300] [NAME ...]` prints the first seed that finds each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from tests.swarm.focus import is_focused
from tests.swarm.planted import (
    core_mutants,
    outer_mutants,
    resize_mutants,
    split_mutants,
    ticket_mutants,
)
from tests.swarm.planted.mutating import MUTANTS
from tests.swarm.swarm import attempt

__all__ = ["MUTANTS", "found_by"]
MODULES = (core_mutants, outer_mutants, resize_mutants, split_mutants, ticket_mutants)
"""Imported for registration of their mutants."""


UNFIT = ("AttributeError", "NameError", "ImportError", "TypeError")


def found_by(name: str, seeds: Iterable[int]) -> tuple[int, str] | None:
    """Return the first seed that finds a mutant, and its failure; None when none does."""
    with MUTANTS[name]():
        for seed in seeds:
            story = attempt(seed).story
            if story:
                failure = story.strip().rsplit("\n", 1)[1]
                # A mutant that does not fit the code any more finds itself.
                assert not failure.startswith(UNFIT), f"{name} is broken: {failure}"
                return seed, failure
    return None


def main(arguments: list[str] | None = None) -> int:
    """Try the mutants; return 1 when one survives."""
    parser = argparse.ArgumentParser(prog="tests.swarm.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(MUTANTS))
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--focused", action="store_true", help="only seeds that look at one thing")
    options = parser.parse_args(arguments)
    seeds: Iterable[int] = range(options.first, options.first + options.seeds)
    seeds = [seed for seed in seeds if is_focused(seed)] if options.focused else seeds
    survivors = 0
    for name in options.names:
        found = found_by(name, seeds)
        survivors += found is None
        how = "SURVIVES" if found is None else f"seed {found[0]}: {found[1][:110]}"
        print(f"{name:32} {how}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
