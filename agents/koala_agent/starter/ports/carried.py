"""Ports and counts, as starter, carrying process and agent know them.

What the carrying processes of both ends send one another are blocks, each with its size before it,
in `HEAD_BYTES`. An empty block is the end of its direction: any other end is a loss. All between
them pass bytes on.
"""

from __future__ import annotations

from koala_agent.starter.compat import dataclass, to_list, to_object, to_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from koala_agent.starter.light import socket

    Counts: TypeAlias = "tuple[tuple[str, str, int, int, float, float, int, str], ...]"
    """Counters of each port: name, claim, connections, bytes, busy seconds, round trip, refused
    connections and the newest reason."""

HEAD_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port of a component as the agent tells it; `claim` is that of its owner. An own one has no
    address if nobody reaches it directly."""

    name: str
    claim: str
    address: str
    port: int
    is_forwarded: bool
    token: str


@dataclass(frozen=True, kw_only=True)
class Carried:
    """Load of the process: own ports, and those of others with the listeners for them.

    `identity` authenticates to the agent, which is at the addresses `agents`. `mark` is on all
    processes of the program.
    """

    agents: list[tuple[str, int]]
    identity: dict[str, str]
    mark: str
    own: list[Port]
    others: list[tuple[Port, socket.socket]]


def ports_of(bundle: dict[str, object]) -> list[Port]:
    """Read the ports of a bundle. Raises ValueError."""
    found = []
    for entry in to_list(bundle.get("ports", [])):
        row = to_object(entry)
        texts = {name: str(row[name]) for name in ("name", "claim", "address", "token")}
        number = to_whole(row, "port")
        found.append(Port(port=number, is_forwarded=bool(row["is_forwarded"]), **texts))
    return found
