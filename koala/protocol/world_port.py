"""Port of an MPI world: a formula that daemon and agents share."""

from __future__ import annotations

import zlib

WORLD_PORTS = (20_000, 32_768)
"""Below the range from which Linux gives ports to clients."""


def world_port(job: str, attempt: int) -> int:
    """Derive the port of the launcher of an attempt's MPI world, the bundle's `MASTER_PORT`.

    It is a function of job and attempt. All sites name the same port, and two jobs on one machine
    rarely share one.
    """
    low, high = WORLD_PORTS
    return low + zlib.crc32(f"{job}/{attempt}".encode()) % (high - low)
