"""Train a small model by DistributedDataParallel, with the processes that torchrun starts.

Each process has samples of its own, of y = 2 a - 3 b + 1. Exit status 0 means that the losses fell,
and that all processes have the same weights.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train, compare the weights of all processes, and print the result once."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=60)
    given = options.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    sites: list[str | None] = [None] * size
    dist.all_gather_object(sites, os.environ["KOALA_SITE"])

    samples = torch.Generator().manual_seed(rank)
    inputs = torch.rand(256, 2, generator=samples)
    wanted = inputs @ torch.tensor([[2.0], [-3.0]]) + 1.0
    model = DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(given.steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everyone = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everyone, weights)
    is_same = all(torch.equal(weights, other) for other in everyone)
    if rank == 0:
        print(f"{size} processes at {', '.join(str(site) for site in sites)}")
        print(f"loss {losses[0]:.3f} at the first step, {losses[-1]:.5f} at the last one")
        print(f"weights {[round(weight, 1) for weight in weights.tolist()]}")
        print(f"the same weights everywhere: {'yes' if is_same else 'no'}")
    dist.destroy_process_group()
    if not is_same or losses[-1] >= losses[0]:
        raise SystemExit("the processes did not learn together")


if __name__ == "__main__":
    main()
