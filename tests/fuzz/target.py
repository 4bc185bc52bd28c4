"""A target of fuzzing: draws cases and checks what must hold for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`make` draws a case from a random source; `check` raises for one that does harm."""

    name: str
    make: Callable[[Random], Any]
    check: Callable[[Any], None]
    share: float = 1.0
    """How many of its cases a short run has, for one that is slow."""


def require_readable(message: str) -> None:
    """A refusal is for a person: it says something, at a length, and nothing to a terminal."""
    assert message.strip(), "a refusal that says nothing"
    assert len(message) < 10_000, f"a refusal of {len(message)} characters: {message[:200]!r}"
    wrong = {c for c in message if not c.isprintable() and c not in "\n "}
    assert not wrong, f"a refusal with {wrong}: {message[:500]!r}"
