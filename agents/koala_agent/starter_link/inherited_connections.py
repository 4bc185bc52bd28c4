"""Connections of starters that exist before the starter begins.

A starter of this machine inherits one end of a pair of sockets with the order to serve a claim. So
it neither dials nor exchanges proofs: nobody else can have either end. When the connection is
lost, or none could be had, it dials the agent as others do.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress

LOCAL = "127.0.0.1"
"""Address of the machine of such starters, as its agent knows it."""


class InheritedConnections:
    """Pairs of sockets between the agent and its starters, while somebody takes the agent's ends.

    The local manager opens them, and the listener of starters takes them.
    """

    def __init__(self) -> None:
        self._take: Callable[[socket.socket], None] | None = None

    def begin(self, take: Callable[[socket.socket], None]) -> None:
        """Hand the agent's end of each further connection to `take`."""
        self._take = take

    def end(self) -> None:
        """Open no more connections."""
        self._take = None

    def open(self) -> socket.socket | None:
        """Return the starter's end of a new connection; None while none can be had."""
        if self._take is not None:
            with suppress(OSError):
                ours, theirs = socket.socketpair()
                ours.settimeout(0)
                self._take(ours)
                return theirs
        return None
