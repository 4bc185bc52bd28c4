"""Give the memory of large buffers back to the system."""

from __future__ import annotations

import ctypes

LARGE_BYTES = 256 * 1024
_MMAP_THRESHOLD = -3  # of mallopt(3)


def map_large_buffers() -> None:
    """Give each large buffer memory of its own, which is returned as soon as it is freed.

    In GNU's C library the first one that is freed raises the size from which that is so, to 32 MB,
    and each thread keeps as much for its next one: texts of saved states left 50 MB. Other
    libraries have no such setting.
    """
    option = getattr(ctypes.CDLL(None), "mallopt", None)
    if option is not None:
        option(_MMAP_THRESHOLD, LARGE_BYTES)
