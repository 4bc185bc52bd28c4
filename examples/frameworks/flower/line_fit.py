"""Fit y = 2 a - 3 b + 1 by federated averaging; the samples of each site stay there.

flower_parts.py submits this app to the SuperLink of the job.
"""

from __future__ import annotations

import zlib

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords

ANSWER_S = 30.0
"""Longest wait of a round for its answers, in seconds."""

client = ClientApp()
server = ServerApp()


def samples(site: str) -> tuple[np.ndarray, np.ndarray]:
    """Make the samples of a site: inputs with a column of ones, and what they should give."""
    numbers = np.random.default_rng(zlib.crc32(site.encode()))
    inputs = np.column_stack([numbers.random((200, 2)), np.ones(200)])
    return inputs, inputs @ [2.0, -3.0, 1.0]


@client.train()
def train(message: Message, context: Context) -> Message:
    """Improve the weights with the samples of this site; tell the loss before."""
    site = str(context.node_config["site"])
    inputs, wanted = samples(site)
    (weights,) = message.content["arrays"].to_numpy_ndarrays()
    loss = float(np.mean((inputs @ weights - wanted) ** 2))
    for _ in range(50):
        weights = weights - 0.5 * inputs.T @ (inputs @ weights - wanted) / len(inputs)
    print(f"{site} has trained", flush=True)
    answer = {
        "arrays": ArrayRecord([weights]),
        "metrics": MetricRecord({"loss": loss, "num-examples": len(inputs)}),
        "origin": ConfigRecord({"site": site}),
    }
    return Message(RecordDict(answer), reply_to=message)


@server.main()
def lead(grid: Grid, context: Context) -> None:
    """Average the weights of all sites in each round, and print the result."""
    sites: set[str] = set()

    def note_sites(answers: list[RecordDict], weighted_by: str) -> MetricRecord:
        sites.update(str(answer["origin"]["site"]) for answer in answers)
        return aggregate_metricrecords(answers, weighted_by)

    number = int(context.run_config["supernodes"])
    strategy = FedAvg(
        fraction_evaluate=0.0,
        min_train_nodes=number,
        min_available_nodes=number,
        train_metrics_aggr_fn=note_sites,
    )
    rounds = int(context.run_config["rounds"])
    start = ArrayRecord([np.zeros(3)])
    # An answer that is lost with a connection does not come again: the round goes on without it.
    result = strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds, timeout=ANSWER_S)
    (weights,) = result.arrays.to_numpy_ndarrays()
    losses = [metrics["loss"] for _, metrics in sorted(result.train_metrics_clientapp.items())]
    print(f"{len(sites)} SuperNodes at {', '.join(sorted(sites))}")
    print(f"loss {losses[0]:.3f} in the first round, {losses[-1]:.5f} in the last one")
    print(f"weights {[round(float(weight), 1) for weight in weights]}", flush=True)
    if len(sites) != number or losses[-1] >= losses[0]:
        raise RuntimeError("the sites did not learn together")
