"""Random streams: one generator for each purpose, all from one seed (common random numbers).

Two settings that differ in one thing then share every draw of the others. Their paired difference
shows that thing and not the luck of the draw.
"""

from __future__ import annotations

from random import Random


def stream(seed: int, purpose: str) -> Random:
    """Return the generator of a purpose. It is the same in any process: the text is hashed by
    Random itself, not by Python's salted `hash`."""
    return Random(f"{seed}/{purpose}")
