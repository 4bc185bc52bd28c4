"""Fit a line by a parameter server: workers at other sites take its weights and give gradients.

Each worker has samples of its own, and goes on at its own pace. The server listens at its port
PARAMETERS. Its key goes to the workers through the exchange of the job.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import sys
from multiprocessing.connection import Client, Listener, wait
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rendezvous import Rendezvous

WANTED = (2.0, -3.0, 1.0)
RATE = 0.05
BATCH = 16
KEY = "parameters/key"
"""The name in the exchange that tells the key of the server."""


def address(variable: str) -> tuple[str, int]:
    """Return host and port that Koala tells."""
    host, _, port = os.environ[variable].rpartition(":")
    return host, int(port)


def serve(world: Rendezvous, workers: int) -> int:
    """Answer each gradient with the newest weights, until all workers have left."""
    key = secrets.token_bytes(32)
    weights = [0.0] * len(WANTED)
    given: dict[str, int] = {}
    losses = []
    with Listener(address("KOALA_LISTEN_PARAMETERS"), backlog=workers, authkey=key) as listener:
        world.exchange.put(KEY, key.hex())
        connections = [listener.accept() for _ in range(workers)]
        for connection in connections:
            connection.send(weights)
        while connections:
            for connection in wait(connections):
                try:
                    site, gradient, loss = connection.recv()
                except EOFError:
                    connections.remove(connection)
                    continue
                weights = [own - RATE * part for own, part in zip(weights, gradient, strict=True)]
                given[site] = given.get(site, 0) + 1
                losses.append(loss)
                connection.send(weights)
    for site, count in sorted(given.items()):
        print(f"{site} gave {count} gradients")
    print(f"loss {losses[0]:.3f} at first, {losses[-1]:.5f} at last")
    print(f"weights {[round(weight, 1) for weight in weights]}")
    return int(losses[-1] > losses[0] / 10)


def work(world: Rendezvous, steps: int) -> int:
    """Give gradients of own samples."""
    key = bytes.fromhex(world.exchange.get(KEY, wait_s=60.0))
    draw = random.Random(world.rank)
    with Client(address("KOALA_ADDRESS_PARAMETERS"), authkey=key) as server:
        for _ in range(steps):
            weights = server.recv()
            gradient, loss = [0.0] * len(weights), 0.0
            for _ in range(BATCH):
                sample = (draw.uniform(-1, 1), draw.uniform(-1, 1), 1.0)
                wanted = sum(a * b for a, b in zip(WANTED, sample, strict=True))
                error = sum(a * b for a, b in zip(weights, sample, strict=True)) - wanted
                loss += error**2 / BATCH
                for place, part in enumerate(sample):
                    gradient[place] += 2 * error * part / BATCH
            server.send((os.environ["KOALA_SITE"], gradient, loss))
        server.recv()
    return 0


def main() -> None:
    """Run the part that the description asks for."""
    options = argparse.ArgumentParser(description=__doc__)
    parts = options.add_subparsers(dest="part", required=True)
    parts.add_parser("server").add_argument("--workers", type=int, required=True)
    parts.add_parser("worker").add_argument("--steps", type=int, default=200)
    given = options.parse_args()
    world = Rendezvous.from_environment("parameters")
    if given.part == "server":
        raise SystemExit(serve(world, given.workers))
    raise SystemExit(work(world, given.steps))


if __name__ == "__main__":
    main()
