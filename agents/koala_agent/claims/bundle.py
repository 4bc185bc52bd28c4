"""Rendezvous bundle of a component: the members of its attempt, and its own index."""

from __future__ import annotations

from koala.common.protocol.messages import Peer, PortAddress
from koala.common.protocol.names import ClaimId


def build_bundle(
    claim: ClaimId, peers: tuple[Peer, ...], ports: tuple[PortAddress, ...] = ()
) -> dict[str, object]:
    """Build the rendezvous bundle that a component reads.

    The daemon tries the master's port for an MPI world (koala.core.model.tcp_paths).
    """
    job, attempt, _component, _number = claim.rsplit("/", 3)
    index = next(i for i, peer in enumerate(peers) if peer.claim == claim)
    members = [
        {
            "index": i,
            "component": peer.component,
            "label": peer.label,
            "site": peer.site,
            "processors": peer.processors,
            "processes": peer.processes,
            "job_type": peer.job_type,
            "hosts": [name for name, _count in peer.hosts] or [peer.address],
            "slots": [count for _name, count in peer.hosts] or [peer.processors],
            "address": peer.address,
            "port": peer.port,
        }
        for i, peer in enumerate(peers)
    ]
    return {
        "version": 1,
        "job": job,
        "attempt": int(attempt),
        "index": index,
        "label": peers[index].label,
        "members": members,
        "master": {"address": peers[0].address, "port": peers[0].port},
        "world_size": sum(peer.processes for peer in peers),
        "ports": [
            {
                "name": port.name,
                "claim": port.claim,
                "address": port.address,
                "port": port.port,
                "is_forwarded": port.is_forwarded,
                "token": port.token,
            }
            for port in ports
        ],
    }
