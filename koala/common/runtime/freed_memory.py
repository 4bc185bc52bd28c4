"""Set what GNU's C library does with large buffers that are freed. Others have no such settings.

By itself it raises the size from which a buffer has memory of its own to that of the largest one
that was freed, to 32 MB at most, and returns what is free at the end of its heap.
"""

from __future__ import annotations

import ctypes
from functools import cache

LARGE_BYTES = 256 * 1024
KEPT_BYTES = 8 * 1024 * 1024
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)


def map_large_buffers() -> None:
    """Give each large buffer memory of its own, which is returned as soon as it is freed.

    Else each thread keeps as much for its next one: texts of saved states left 50 MB.
    """
    _set(_MMAP_THRESHOLD, LARGE_BYTES)


@cache
def keep_buffers() -> None:
    """Keep some freed memory for the next buffers.

    A stream of bytes else takes memory from the kernel for each of its blocks, and returns it: a
    quarter of its time.
    """
    _set(_TRIM_THRESHOLD, KEPT_BYTES)
    _set(_MMAP_THRESHOLD, KEPT_BYTES)


def _set(option: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(option, value)
