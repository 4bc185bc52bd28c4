"""What goes over the wire: generated messages in `v1`, and the only code that knows them.

PROTOCOL is the newest version of the link and of the clients' calls that this side speaks,
PROTOCOL_MIN the oldest. A field or a kind of message more is no new version; what an old side would
misunderstand is. The two sides of a session use the highest that both speak.
"""

PROTOCOL = 1
PROTOCOL_MIN = 1


def common(newest: int, oldest: int) -> int | None:
    """The version to speak with a side that speaks from `oldest` to `newest`; None: there is
    none."""
    best = min(newest, PROTOCOL)
    return best if best >= max(oldest, PROTOCOL_MIN) else None
