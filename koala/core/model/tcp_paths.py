"""TCP paths that a job needs between its components, and ports that they may reach another way.

A job declares paths itself. An MPI world over several components adds the path to its launcher.
A port of a component (`ports`) is tried as a path from each other component. Where that is closed,
connections go through the grid: starter, agent, relay, agent, starter.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from koala.common.protocol.messages import PortAddress, PortPath
from koala.core.model.claim import Claim
from koala.core.model.job import Job, Member
from koala.core.model.job_spec import JobSpec, JobType, StartType
from koala.core.model.values import ALL, ClaimId

MASTER_PORTS = (20_000, 32_768)
"""Below the range from which Linux gives ports to clients."""


@dataclass(frozen=True, slots=True)
class TcpPaths:
    """Paths as (source, target, port); None: each component that starts at the barrier."""

    entries: tuple[tuple[int | None, int | None, int], ...]

    def targets(self, source: int, target: int) -> tuple[int, ...]:
        """Return the ports at which `source` must reach `target`. No component connects to
        itself."""
        if source == target:
            return ()
        ports = [port for a, b, port in self.entries if a in (None, source) and b in (None, target)]
        return tuple(dict.fromkeys(ports))

    def listens(self, component: int) -> tuple[int, ...]:
        """Return the ports at which other components must reach this one."""
        ports = [
            port
            for source, target, port in self.entries
            if target in (None, component) and source != component
        ]
        return tuple(dict.fromkeys(ports))


def paths_of(spec: JobSpec) -> TcpPaths:
    """Return the declared paths; submission has checked that they name components."""
    names = names_of(spec)
    return TcpPaths(
        tuple(
            (
                None if path.source == ALL else names[path.source],
                None if path.target == ALL else names[path.target],
                path.port,
            )
            for path in spec.connect
        )
    )


def has_paths(spec: JobSpec) -> bool:
    """Return True if the job has paths to test before its barrier is armed."""
    return bool(spec.connect) or is_one_world(spec) or has_ports(spec)


def has_ports(spec: JobSpec) -> bool:
    """Return True if a component listens at a port that others are told of."""
    return any(component.ports for component in spec.components)


def closed_path(member: Member, owner: ClaimId, port: int) -> PortPath | None:
    """Return the test by which a member does not reach a port of another claim; None if it does."""
    for path in member.paths:
        if path.claim == owner and path.port == port and path.problem:
            return path
    return None


def port_addresses(
    spec: JobSpec, claim: Claim, meeting: list[tuple[Member, Claim, str]]
) -> tuple[PortAddress, ...]:
    """Return the ports of an attempt, as one claim of it is told of them. Members meet with their
    claims and addresses. One's own port is forwarded if any other claim reaches it so, and has an
    address if any reaches it directly.
    """
    own = next(member for member, met, _address in meeting if met.id == claim.id)
    others = [member for member, met, _address in meeting if met.id != claim.id]
    addresses = []
    for _member, owner, address in meeting:
        dialling = others if owner.id == claim.id else [own]
        for name, port in spec.components[owner.component].ports:
            ways = [closed_path(member, owner.id, port) is not None for member in dialling]
            is_hidden = owner.id == claim.id and all(ways)
            addresses.append(
                PortAddress(
                    name=name,
                    claim=owner.id,
                    address="" if is_hidden else address,
                    port=port,
                    is_forwarded=any(ways),
                )
            )
    return tuple(addresses)


def is_one_world(spec: JobSpec) -> bool:
    """Return True if several components form one MPI world. The first one runs the launcher, which
    all others must reach."""
    return (
        sum(
            component.job_type is JobType.MPI and component.start_type is not StartType.NONE
            for component in spec.components
        )
        > 1
    )


def names_of(spec: JobSpec) -> dict[str, int]:
    """Map the names that a path may use to components: label or index. A label that looks like an
    index is a label.
    """
    indices = {str(index): index for index in range(len(spec.components))}
    return indices | {spec.label(index): index for index in range(len(spec.components))}


def connection_count(spec: JobSpec) -> int:
    """Return an upper bound of the connections that pre-flight tries."""
    starting = sum(c.start_type is not StartType.NONE for c in spec.components)
    return sum(
        (starting if path.source == ALL else 1) * (starting if path.target == ALL else 1)
        for path in spec.connect
    )


def master_port(job: Job, attempt: int) -> int:
    """Derive the port where the first component of an attempt may listen, its `MASTER_PORT`.

    Two attempts on one machine rarely share one, also those of jobs of two grids that have the same
    number: these were not submitted at the same instant.
    """
    low, high = MASTER_PORTS
    word = f"{job.id}/{attempt}/{job.submitted_at!r}"
    return low + zlib.crc32(word.encode()) % (high - low)
