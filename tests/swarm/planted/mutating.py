"""Patch the product's code for the length of a block, to plant a bug. This is the only place that
patches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.swarm import oracle

Patches = Iterator[None]
MUTANTS: dict[str, Callable[[], Any]] = {}


def mutant(make: Callable[[], Patches]) -> Callable[[], Any]:
    """Register a mutant; its docstring describes the bug."""
    made = contextmanager(make)
    MUTANTS[make.__name__] = made
    return made


@contextmanager
def replaced(*places: tuple[Any, str], by: Any) -> Patches:
    real = [(place, name, getattr(place, name)) for place, name in places]
    try:
        for place, name in places:
            setattr(place, name, by)
        yield
    finally:
        for place, name, value in real:
            setattr(place, name, value)


@contextmanager
def unchecked() -> Patches:
    """Disable the core's own invariants: the oracle is under test here."""
    with replaced((oracle, "check"), by=lambda _state, _now: None):
        yield
