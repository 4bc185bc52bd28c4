"""gRPC protocol between daemon, agents and clients: generated messages in `v1`, and their codecs.

PROTOCOL is the newest version of the link and of the clients' calls that this side speaks,
PROTOCOL_MIN the oldest. A new field or kind of message does not make a new version; a change that
an older side would misunderstand does. A session uses the highest version that both sides speak.
"""

PROTOCOL = 1
PROTOCOL_MIN = 1


def common(newest: int, oldest: int) -> int | None:
    """Choose the version for a peer that speaks from `oldest` to `newest`; None: there is none."""
    best = min(newest, PROTOCOL)
    return best if best >= max(oldest, PROTOCOL_MIN) else None
