"""Reasons why claims of the multiple-queues paper fail, as far as it was found out."""

from __future__ import annotations

REASONS = {
    "2.5-6": "GP, LP and EQ give the same to the last digit in either order. LQ does not: it "
    "compares the lengths of the queues before each start, so that the local queue that is "
    "visited first decides when the global one becomes the longest",
}
