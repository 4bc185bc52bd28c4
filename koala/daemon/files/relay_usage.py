"""Usage of the relay at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayUsage:
    """Readers, sources that wait for theirs and stores under way; the bytes moved since the start,
    by direction; and the free space of the spool."""

    readers: int
    sources: int
    stores: int
    moved_bytes: Mapping[str, int]
    free_bytes: int
