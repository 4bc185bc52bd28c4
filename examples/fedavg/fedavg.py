"""Federated averaging: several sites learn one model without moving their samples.

Each component holds the samples of its own site, drawn so that each site sees some classes often
and others hardly ever. In every round the first member sends the weights out, each site trains
them for a few epochs on its own samples, and the first member averages what comes back, weighted by
the number of samples. That works only while all sites run at the same time: it is a job to be
co-allocated.

For comparison each site also trains a model alone, for as many epochs. Exit status: 0 when the
federated model is better on the common test samples than each of the local ones by `--margin`; 1
when it is not, or when a site cannot be reached or is lost; 2 for wrong usage. The first member
writes result.json in its working folder. The same seed gives the same numbers on every run.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rendezvous import Channel, PeerLostError, Rendezvous, RendezvousError, transfer

CLASSES = 8
FEATURES = 16
SAMPLES_PER_CLASS = 240
TEST_SAMPLES_PER_CLASS = 100
SPREAD = 0.9
"""Standard deviation of the samples around the centre of their class, whose own is 1."""
SKEW = 0.2
"""Concentration of the Dirichlet distribution of a class over the sites; small means uneven."""
BATCH = 32

_SUMMARY = struct.Struct("!Qd")
_VERDICT = struct.Struct("!?")
_CENTRES, _SHARES, _TRAINING, _TEST, _ORDER = range(5)

Weights = NDArray[np.float64]


class UnfitError(Exception):
    """The job does not have the form that this program needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Features, one row a sample, with a constant 1 in the last column; and their classes."""

    features: NDArray[np.float64]
    classes: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Report one participant: its samples and what it learns alone."""

    samples: int
    accuracy: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Learn, compare, report; the return value is the exit status."""
    options = _options(arguments)
    rank = "?"
    try:
        world = Rendezvous.from_environment("fedavg")
        rank = str(world.rank)
        return _run(world, options)
    except (RendezvousError, UnfitError, OSError) as error:
        sys.stderr.write(f"fedavg: rank {rank}: {error}\n")
        return 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Federated averaging over several sites.")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of averaging (20)")
    parser.add_argument("--epochs", type=int, default=2, help="epochs a site trains a round (2)")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate (0.1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of samples and order (1)")
    parser.add_argument(
        "--sites", type=int, help="sites that hold samples (as many as take part in the job)"
    )
    parser.add_argument(
        "--sites-min", type=int, help="go on when sites are lost, as long as so many are left"
    )
    parser.add_argument(
        "--margin", type=float, default=0.05, help="least gain over the best local model (0.05)"
    )
    parser.add_argument("--timeout", type=float, default=60.0, help="longest wait in s (60)")
    options = parser.parse_args(arguments)
    for name, least in (("rounds", 0), ("epochs", 1), ("sites", 1), ("sites_min", 1), ("seed", 0)):
        value = getattr(options, name)
        if value is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} {value}: at least {least} is allowed")
    return options


def _run(world: Rendezvous, options: argparse.Namespace) -> int:
    site = world.member.component
    sites = options.sites or len(world.members)
    if site >= sites:
        raise UnfitError(f"component {site} has no samples: --sites says {sites}")
    if any(member.processes != 1 for member in world.members):
        raise UnfitError("one process a component is needed: (jobType=single)")
    if len(world.members) < 2:
        raise UnfitError("at least two components are needed")
    task = Task(site, sites=sites, options=options)
    sys.stdout.write(
        f"{world.describe(world.rank)}: {len(task.own.classes)} samples, "
        f"accuracy alone {task.alone.accuracy:.3f}\n"
    )
    sys.stdout.flush()
    if world.rank == 0:
        return _lead(world, task, options)
    return _follow(world, task, options)


def _lead(world: Rendezvous, task: Task, options: argparse.Namespace) -> int:
    """The first member: average, judge, write the result, tell the others."""
    began_at = time.monotonic()
    others = [rank for rank in range(world.world_size) if rank != 0]
    sites_min = options.sites_min or world.world_size
    circle = Circle(world.meet(others, timeout_s=options.timeout), sites_min, options.timeout)
    sites = {0: task.alone}
    for rank, frame in circle.gather().items():
        samples, accuracy = _SUMMARY.unpack(frame)
        sites[rank] = Site(samples=samples, accuracy=accuracy)
    weights = task.blank()
    history = []
    for turn in range(options.rounds):
        circle.spread(weights.tobytes())
        returned = {0: task.train(weights, turn)}
        for rank, frame in circle.gather().items():
            returned[rank] = np.frombuffer(frame).reshape(weights.shape)
        weights = average([(returned[rank], sites[rank].samples) for rank in sorted(returned)])
        history.append(round(task.accuracy(weights), 4))
    federated = task.accuracy(weights)
    best_alone = max(site.accuracy for site in sites.values())
    is_better = federated >= best_alone + options.margin
    report = {
        "ok": is_better,
        "accuracy": round(federated, 4),
        "accuracy_alone": {
            world.member_of(rank).label: round(sites[rank].accuracy, 4) for rank in sorted(sites)
        },
        "margin": options.margin,
        "history": history,
        "rounds": options.rounds,
        "samples": {world.member_of(rank).label: sites[rank].samples for rank in sorted(sites)},
        "sites": [member.site for member in world.members],
        "lost": [world.member_of(rank).label for rank in circle.lost],
        "seconds": round(time.monotonic() - began_at, 6),
    }
    _write(Path("result.json"), report)
    sys.stdout.write(
        f"accuracy {federated:.3f} together, {best_alone:.3f} at best alone: "
        f"{'better' if is_better else 'NOT BETTER'}\n"
    )
    circle.spread(_VERDICT.pack(is_better))
    return _status(world, is_better=is_better)


def _follow(world: Rendezvous, task: Task, options: argparse.Namespace) -> int:
    """The other members: train what comes, send it back, hear the verdict."""
    leader = world.connect(0, timeout_s=options.timeout)
    summary = _SUMMARY.pack(task.alone.samples, task.alone.accuracy)
    transfer(send={leader: summary}, receive=[], timeout_s=options.timeout)
    for turn in range(options.rounds):
        frame = transfer(send={}, receive=[leader], timeout_s=options.timeout)[0]
        weights = np.frombuffer(frame).reshape(task.blank().shape)
        trained = task.train(weights, turn).tobytes()
        transfer(send={leader: trained}, receive=[], timeout_s=options.timeout)
    frame = transfer(send={}, receive=[leader], timeout_s=options.timeout)[0]
    return _status(world, is_better=_VERDICT.unpack(frame)[0])


def _status(world: Rendezvous, *, is_better: bool) -> int:
    if not is_better:
        sys.stderr.write(
            f"fedavg: rank {world.rank}: the federated model is not better than the local ones\n"
        )
    return 0 if is_better else 1


def _write(path: Path, report: Mapping[str, object]) -> None:
    """Write whole or not at all: the file is collected by somebody else."""
    draft = path.with_suffix(".partial")
    draft.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    draft.replace(path)


class Circle:
    """The leader's channels to the other sites; a lost site leaves while enough are left."""

    def __init__(self, channels: Mapping[int, Channel], sites_min: int, timeout_s: float) -> None:
        self._channels = dict(sorted(channels.items()))
        self._sites_min = sites_min
        self._timeout_s = timeout_s
        self.lost: list[int] = []

    def spread(self, payload: bytes) -> None:
        """Send the same to all."""
        for rank, channel in list(self._channels.items()):
            try:
                transfer(send={channel: payload}, receive=[], timeout_s=self._timeout_s)
            except PeerLostError as error:
                self._leave(rank, error)

    def gather(self) -> dict[int, bytes]:
        """One frame from each, by rank."""
        frames: dict[int, bytes] = {}
        for rank, channel in list(self._channels.items()):
            try:
                frames |= transfer(send={}, receive=[channel], timeout_s=self._timeout_s)
            except PeerLostError as error:
                self._leave(rank, error)
        return frames

    def _leave(self, rank: int, error: PeerLostError) -> None:
        self._channels.pop(rank).close()
        self.lost.append(rank)
        if len(self._channels) + 1 < self._sites_min:
            raise error
        sys.stderr.write(f"fedavg: rank 0: {error}; going on without it\n")


def average(parts: Sequence[tuple[Weights, int]]) -> Weights:
    """The mean of models, each weighted by its number of samples."""
    total = sum(samples for _, samples in parts)
    mean = np.zeros_like(parts[0][0])
    for weights, samples in parts:
        mean += weights * (samples / total)
    return mean


class Task:
    """Softmax regression on one site's samples, and the test samples common to all."""

    def __init__(self, site: int, *, sites: int, options: argparse.Namespace) -> None:
        self._site = site
        self._seed = options.seed
        self._epochs = options.epochs
        self._rate = options.rate
        shares = self._random(_SHARES).dirichlet([SKEW] * sites, size=CLASSES)[:, site]
        counts = np.maximum(1, np.rint(shares * SAMPLES_PER_CLASS)).astype(int)
        self.own = self._draw(counts, _TRAINING, site)
        self._test = self._draw(np.full(CLASSES, TEST_SAMPLES_PER_CLASS), _TEST)
        weights = self.blank()
        for turn in range(options.rounds):
            weights = self.train(weights, turn)
        self.alone = Site(samples=len(self.own.classes), accuracy=self.accuracy(weights))

    def blank(self) -> Weights:
        """The model that knows nothing: where all begin."""
        return np.zeros((FEATURES + 1, CLASSES))

    def train(self, weights: Weights, turn: int) -> Weights:
        """Stochastic gradient descent over the own samples, some epochs."""
        weights = weights.copy()
        random = self._random(_ORDER, self._site, turn)
        for _ in range(self._epochs):
            order = random.permutation(len(self.own.classes))
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                features, classes = self.own.features[batch], self.own.classes[batch]
                slope = self._probabilities(features @ weights)
                slope[np.arange(len(batch)), classes] -= 1.0
                weights -= self._rate / len(batch) * (features.T @ slope)
        return weights

    def accuracy(self, weights: Weights) -> float:
        """Share of the test samples whose class is found."""
        found = np.argmax(self._test.features @ weights, axis=1)
        return float(np.mean(found == self._test.classes))

    def _probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: NDArray[np.float64] = powers / powers.sum(axis=1, keepdims=True)
        return shares

    def _draw(self, counts: NDArray[np.int64], *stream: int) -> Samples:
        centres = self._random(_CENTRES).normal(size=(CLASSES, FEATURES))
        classes = np.repeat(np.arange(CLASSES), counts)
        noise = self._random(*stream).normal(scale=SPREAD, size=(len(classes), FEATURES))
        features = np.hstack([centres[classes] + noise, np.ones((len(classes), 1))])
        return Samples(features=features, classes=classes)

    def _random(self, *stream: int) -> np.random.Generator:
        """A generator of its own for each purpose, so no draw depends on another."""
        return np.random.default_rng([self._seed, *stream])


if __name__ == "__main__":
    sys.exit(main())
