"""An all-reduce over all processes of a job, by the environment that torch.distributed expects.

Rank 0 listens at MASTER_ADDR:MASTER_PORT, the others dial; in every step each process gives a
vector, rank 0 averages them, and all go on with the average, as after a step of data-parallel
training. Only RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK
and NNODES are used, and nothing else of Koala. With torch the whole of `World` is
`torch.distributed.init_process_group("gloo")` and `all_reduce`.

Exit status: 0 when the result is what the formula says, 1 when it is not or a process is lost.
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SIZE = 4096
AGAIN_S = 0.05
Vector = NDArray[np.float64]


class World:
    """All processes of the job, with rank 0 in the middle."""

    def __init__(self, limit_s: float) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        self._others: list[socket.socket] = []
        self._until = time.monotonic() + limit_s
        if self.rank == 0:
            self._gather(address[1])
        else:
            self._master = self._dial(address)
            self._master.sendall(struct.pack("!I", self.rank))

    def average(self, vector: Vector) -> Vector:
        """The mean of what all processes give, the same bits at each."""
        if self.rank:
            self._master.sendall(vector.tobytes())
            return _receive(self._master)
        total = vector.copy()
        for other in self._others:  # in the order of ranks, so that sums do not depend on time
            total += _receive(other)
        total /= self.size
        for other in self._others:
            other.sendall(total.tobytes())
        return total

    def _gather(self, port: int) -> None:
        found: dict[int, socket.socket] = {}
        with socket.create_server(("", port), backlog=self.size) as listener:
            while len(found) < self.size - 1:
                listener.settimeout(max(0.001, self._until - time.monotonic()))
                other, _address = listener.accept()
                other.settimeout(60)
                (rank,) = struct.unpack("!I", _exactly(other, 4))
                found[rank] = other
        self._others = [found[rank] for rank in range(1, self.size)]

    def _dial(self, address: tuple[str, int]) -> socket.socket:
        """Rank 0 may listen a moment later than we dial."""
        while True:
            try:
                return socket.create_connection(address, timeout=60)
            except OSError:
                if time.monotonic() > self._until:
                    raise
                time.sleep(AGAIN_S)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="All-reduce by torch.distributed's environment.")
    parser.add_argument("--steps", type=int, default=20, help="averages to compute (20)")
    parser.add_argument("--timeout", type=float, default=60.0, help="wait for all, in s (60)")
    return parser.parse_args(arguments)


def _receive(connection: socket.socket) -> Vector:
    return np.frombuffer(_exactly(connection, 8 * SIZE), dtype=np.float64)


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise ConnectionError("another process is gone")
        parts += part
    return bytes(parts)


def main() -> int:
    """Average for so many steps; the return value is the exit status."""
    options = _options(None)
    try:
        world = World(options.timeout)
        vector = np.full(SIZE, float(world.rank))
        for step in range(options.steps):
            vector = world.average(vector + step * world.rank)
    except (KeyError, OSError) as error:
        sys.stderr.write(f"allreduce: rank {os.environ.get('RANK', '?')}: {error!r}\n")
        return 1
    mean = (world.size - 1) / 2
    expected = mean * (1 + sum(range(options.steps)))
    node, nodes = os.environ["NODE_RANK"], os.environ["NNODES"]
    local, here = os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"]
    where = f"process {local} of {here} on node {node} of {nodes}"
    sys.stdout.write(f"rank {world.rank} of {world.size}, {where}: {vector[0]:.3f}\n")
    return 0 if np.allclose(vector, expected) else 1


if __name__ == "__main__":
    sys.exit(main())
