"""Versions of the protocol between daemon, agents and clients.

A new field or kind of message needs no new version. A change that an old side would misread does.
"""

PROTOCOL = 1
"""Newest version that this release speaks."""
PROTOCOL_MIN = 1
"""Oldest version that this release speaks."""


def common(newest: int, oldest: int) -> int | None:
    """Return the highest version shared with a side that speaks `oldest` to `newest`, or None."""
    best = min(newest, PROTOCOL)
    return best if best >= max(oldest, PROTOCOL_MIN) else None
