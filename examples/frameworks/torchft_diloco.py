"""Train by DiLoCo over sites that may go away and come back, with the lighthouse of torchft.

Each replica group has samples of its own, of y = 2 a - 3 b + 1. It trains alone for some inner
steps; then the groups that are there average what they have learnt, which is one outer step. A
group that comes later gets weights and optimizers from another one, and takes part from then on.

The lighthouse is the first component, at MASTER_ADDR:MASTER_PORT. A group in another job is told
where it is by --lighthouse. In a malleable job all components are groups (`any`), and the oldest
has the lighthouse, too; a group that is asked to give way ends after its outer step.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
from torch.distributed import TCPStore
from torchft import Manager, ProcessGroupGloo
from torchft.coordination import LighthouseServer
from torchft.local_sgd import DiLoCo

from koala import job

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rendezvous import Rendezvous, RendezvousError

LIGHTHOUSE = "torchft/lighthouse"
"""The name in the exchange that gets the address of the lighthouse of a malleable job."""
ENDED = "torchft/ended"
"""The name in the exchange that gets a value when a group has done all outer steps."""
SILENCE_S = 3.0
"""A group that sends no heartbeat for so long is left out of the next outer step."""
JOIN_S = 20.0
"""Longest wait for a group that sends heartbeats, but has not finished its inner steps."""
LIMIT_S = 30.0
"""Longest wait for the other groups in one outer step; then the group fails."""
LINGER_S = 5.0
"""Time that the other groups have to finish their last outer step after the first one has."""
INNER_STEPS = 10
"""Steps that a group makes alone before each outer step."""


def light(groups_min: int) -> LighthouseServer:
    """Start the lighthouse."""
    address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
    lighthouse = LighthouseServer(
        bind=f"[::]:{port}",
        min_replicas=groups_min,
        join_timeout_ms=int(JOIN_S * 1000),  # by default 100, too short for unequal groups
        heartbeat_timeout_ms=int(SILENCE_S * 1000),
    )
    print(f"lighthouse http://{address}:{port}", flush=True)
    return lighthouse


def watch_over(world: Rendezvous, groups_min: int, limit_s: float) -> None:
    """Run the lighthouse until a group of this job has done all its steps."""
    lighthouse = light(groups_min)
    try:
        world.exchange.get(ENDED, wait_s=limit_s)
        time.sleep(LINGER_S)
    finally:
        lighthouse.shutdown()


def samples(group: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Make the samples of a group: inputs, and what they should give."""
    numbers = torch.Generator().manual_seed(sum(group.encode()))
    inputs = torch.rand(256, 2, generator=numbers)
    return inputs, inputs @ torch.tensor([[2.0], [-3.0]]) + 1.0


def train(world: Rendezvous, lighthouse: str, groups_min: int, steps: int, pace_s: float) -> None:
    """Train with the groups that are there until `steps` outer steps are done."""
    site, label = world.member.site, world.member.label
    inputs, wanted = samples(label)
    model = torch.nn.Linear(2, 1)
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.5, nesterov=True)

    def load(state: dict[str, dict[str, object]]) -> None:
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["inner"])

    store = TCPStore(world.member.address, 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=timedelta(seconds=LIMIT_S)),
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "inner": inner.state_dict()},
        min_replica_size=groups_min,
        use_async_quorum=False,
        timeout=timedelta(seconds=LIMIT_S),
        quorum_timeout=timedelta(seconds=LIMIT_S),
        rank=0,
        world_size=1,
        store_addr=world.member.address,
        store_port=store.port,
        lighthouse_addr=lighthouse,
        replica_id=f"{label}-{site}",
        hostname=world.member.address,
    )
    print(f"{label} at {site} is process {os.getpid()}", flush=True)
    done = 0
    with DiLoCo(manager, [model], inner, outer, sync_every=INNER_STEPS):
        while done < steps:
            time.sleep(pace_s)  # stands for the work of a model that is not so small
            for _ in range(INNER_STEPS):
                inner.zero_grad()
                loss = torch.nn.functional.mse_loss(model(inputs), wanted)
                loss.backward()
                inner.step()  # the last one averages with the other groups
            step = manager.current_step()
            if step == done:
                print(f"step {done + 1} failed, and is made again", flush=True)
            elif step > done + 1 and done == 0:
                print(f"healed: continues at step {step}", flush=True)
            if step > done:
                groups = manager.num_participants()
                print(f"step {step} with {groups} groups, loss {loss.item():.5f}", flush=True)
            done = step
            if "KOALA_WORLD" in os.environ and job.is_leaving():
                print(f"gives way after step {step}", flush=True)
                manager.shutdown()
                return
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    print(f"weights {[round(weight, 5) for weight in weights.tolist()]}", flush=True)
    manager.shutdown()
    if loss.item() > 0.01:
        raise SystemExit("the groups did not learn")


def join(world: Rendezvous, groups_min: int, steps: int, pace_s: float) -> None:
    """Train in a malleable job, unless all steps were made before this component came. The oldest
    component has the lighthouse."""
    try:
        world.exchange.get(ENDED, wait_s=0.0)
        return
    except RendezvousError:
        pass
    if job.world().component == 0:
        lighthouse = light(groups_min)
        address, port = os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]
        world.exchange.put(LIGHTHOUSE, f"http://{address}:{port}")
        try:
            train(world, f"http://{address}:{port}", groups_min, steps, pace_s)
            world.exchange.put(ENDED, "yes")
            time.sleep(LINGER_S)
        finally:
            lighthouse.shutdown()
    else:
        where = world.exchange.get(LIGHTHOUSE, wait_s=LIMIT_S)
        train(world, where, groups_min, steps, pace_s)


def main() -> None:
    """Run the part that the description asks for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("part", choices=["lighthouse", "group", "any"])
    options.add_argument("--lighthouse", help="its address; default: the job's first component")
    options.add_argument("--groups-min", type=int, default=2, help="needed for an outer step")
    options.add_argument("--steps", type=int, default=60, help="outer steps in all")
    options.add_argument("--pace", type=float, default=0.5, help="seconds of an outer step")
    options.add_argument("--limit", type=float, default=280, help="seconds that a lighthouse waits")
    given = options.parse_args()
    world = Rendezvous.from_environment("torchft")
    if given.part == "lighthouse":
        watch_over(world, given.groups_min, given.limit)
        return
    if given.part == "any":
        join(world, given.groups_min, given.steps, given.pace)
        return
    default = f"http://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    train(world, given.lighthouse or default, given.groups_min, given.steps, given.pace)
    world.exchange.put(ENDED, "yes")


if __name__ == "__main__":
    main()
