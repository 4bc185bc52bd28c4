"""KOALA's discipline (KOALA 3.1): the high-priority queue is scanned S times for each scan of the
low one.
"""

from __future__ import annotations

from koala.core.model.values import Priority


def turn(scans: int, high_scans_per_low: int) -> Priority:
    """Choose the queue of the scan with this number (from 0): high, ..., high (S times), low, and
    so on.
    """
    return Priority.LOW if scans % (high_scans_per_low + 1) == high_scans_per_low else Priority.HIGH
