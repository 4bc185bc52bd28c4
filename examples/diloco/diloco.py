"""Train one model by DiLoCo over sites that come and go: a malleable job. Nothing is restarted.

Each component trains alone on its own samples for some inner steps. Then the lead, which is the
component that has been there longest, averages what all have learnt, and makes an outer step with
momentum. One that joins takes part from the next outer step on. One that is asked to give way ends
after the outer step under way, and so does one that is lost, without it. All get the lead's whole
state with each outer step, so the next one leads if the lead is gone.

The lead prints each outer step with its number of components and the loss over samples of all
classes, and writes result.json. Exit status: 0 when all steps are done, or this component gave way;
1 when it lost the others.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koala import job

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rendezvous import Channel, KeyValueExchange, PeerLostError, RendezvousError, transfer

CLASSES, FEATURES, SAMPLES, BATCH = 8, 16, 400, 32
SPREAD = 0.9
"""Standard deviation of the samples around the centre of their class."""
INNER_RATE, OUTER_RATE, MOMENTUM = 0.05, 0.5, 0.6
LIMIT_S = 60.0
"""Longest wait for another component in one outer step."""
DONE = "diloco/done"
"""Name in the exchange that gets a value when all outer steps are made."""

Weights = NDArray[np.float64]


@dataclass(slots=True)
class State:
    """State of the training, with which an outer step begins."""

    step: int
    weights: Weights
    momentum: Weights

    def pack(self, kind: str) -> bytes:
        """Make the lead's message of this kind: train, keep or done."""
        return _pack({"kind": kind, "step": self.step}, self.weights, self.momentum)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train until all outer steps are made or this component gives way."""
    options = _options(arguments)
    try:
        return Trainer(options).run()
    except (job.JobError, RendezvousError, OSError) as error:
        sys.stderr.write(f"diloco: {error}\n")
        return 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="DiLoCo over sites that come and go.")
    parser.add_argument("--steps", type=int, default=40, help="outer steps in all (40)")
    parser.add_argument("--inner", type=int, default=10, help="inner steps of each (10)")
    parser.add_argument("--pace", type=float, default=0.5, help="seconds of an outer step (0.5)")
    return parser.parse_args(arguments)


class Trainer:
    """One component: it follows the lead, or is it."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._own = job.world().own
        self._exchange = KeyValueExchange(Path(os.environ["KOALA_KV"]))
        self._task = Task(self._own.component, options.inner)
        blank = np.zeros((FEATURES + 1, CLASSES))
        self._state = State(0, blank, blank)
        self._gone: set[int] = set()

    def run(self) -> int:
        """Follow one lead after the other; lead when no older component is left."""
        while not self._is_done():
            older = [
                part
                for part in job.world().components
                if part.component < self._own.component and part.component not in self._gone
            ]
            lead = min(older, key=lambda part: part.component, default=None)
            if lead is None:
                return self._lead()
            try:
                return self._follow(lead)
            except (RendezvousError, OSError) as error:
                self._say(f"component {lead.component} leads no more: {error}")
                self._gone.add(lead.component)
        return 0

    # Following a lead

    def _follow(self, lead: job.Component) -> int:
        connection = socket.create_connection((lead.address, self._port(lead)), timeout=LIMIT_S)
        channel = Channel(connection, rank=lead.component, peer=f"component {lead.component}")
        transfer(send={channel: _hello(self._own)}, receive=[], timeout_s=LIMIT_S)
        is_new = True
        while True:
            frame = transfer(send={}, receive=[channel], timeout_s=LIMIT_S)[channel.rank]
            head, self._state.weights, self._state.momentum = _unpack(frame)
            self._state.step = head["step"]
            if head["kind"] == "done":
                return 0
            if head["kind"] == "keep":
                continue
            if is_new:
                self._say(f"joins at step {head['step'] + 1}")
                is_new = False
            learnt = self._train()
            is_leaving = job.is_leaving()
            answer = _pack({"is_leaving": is_leaving}, learnt)
            transfer(send={channel: answer}, receive=[], timeout_s=LIMIT_S)
            if is_leaving:
                self._say(f"gives way after step {head['step'] + 1}")
                return 0

    def _port(self, lead: job.Component) -> int:
        """Wait for a lead to say where it listens, as long as it is there and trains."""
        until = time.monotonic() + LIMIT_S
        while True:
            try:
                return int(self._exchange.get(f"diloco/{lead.component}", wait_s=0.5))
            except RendezvousError:
                is_there = lead.component in [part.component for part in job.world().components]
                if not is_there or self._is_done() or time.monotonic() > until:
                    raise

    # Leading

    def _lead(self) -> int:
        listener = _listen(self._own.address)
        self._exchange.put(f"diloco/{self._own.component}", str(listener.getsockname()[1]))
        self._say(f"leads from step {self._state.step + 1} on")
        history: list[dict[str, float]] = []
        others: dict[int, Channel] = {}
        state = self._state
        while state.step < self._options.steps:
            others.update(_callers(listener))
            self._send(others, state.pack("train"))
            learnt = [self._train(), *self._gather(others)]
            mean = np.mean(learnt, axis=0)
            state.momentum = MOMENTUM * state.momentum + mean
            state.weights = state.weights + OUTER_RATE * (mean + MOMENTUM * state.momentum)
            state.step += 1
            loss = self._task.loss(state.weights)
            history.append({"step": state.step, "components": len(learnt), "loss": round(loss, 5)})
            self._say(f"step {state.step} with {len(learnt)} components, loss {loss:.4f}")
            if job.is_leaving():
                self._send(others, state.pack("keep"))
                self._say(f"gives way after step {state.step}")
                return 0
        self._exchange.put(DONE, "yes")
        self._send({**others, **_callers(listener)}, state.pack("done"))
        report = {"history": history, "world": job.world().number}
        Path("result.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        return 0

    def _is_done(self) -> bool:
        """Return True when all steps were made, as before a component that comes late."""
        try:
            return bool(self._exchange.get(DONE, wait_s=0.0))
        except RendezvousError:
            return False

    def _send(self, others: dict[int, Channel], frame: bytes) -> None:
        for number, channel in list(others.items()):
            try:
                transfer(send={channel: frame}, receive=[], timeout_s=LIMIT_S)
            except PeerLostError as error:
                self._lose(others, number, error)

    def _gather(self, others: dict[int, Channel]) -> list[Weights]:
        learnt = []
        for number, channel in list(others.items()):
            try:
                frame = transfer(send={}, receive=[channel], timeout_s=LIMIT_S)[number]
            except PeerLostError as error:
                self._lose(others, number, error)
                continue
            head, weights = _unpack(frame)
            learnt.append(weights)
            if head["is_leaving"]:
                others.pop(number).close()
        return learnt

    def _lose(self, others: dict[int, Channel], number: int, error: PeerLostError) -> None:
        others.pop(number).close()
        self._say(f"goes on: {error}")

    def _train(self) -> Weights:
        time.sleep(self._options.pace)  # stands for the work of a model that is not so small
        return self._task.train(self._state.weights, self._state.step)

    def _say(self, text: str) -> None:
        sys.stdout.write(f"component {self._own.component} at {self._own.site} {text}\n")
        sys.stdout.flush()


class Task:
    """Softmax regression on the samples of one component, half of them of two classes."""

    def __init__(self, component: int, inner: int) -> None:
        self._component = component
        self._inner = inner
        self._centres = np.random.default_rng(1).normal(size=(CLASSES, FEATURES))
        draw = np.random.default_rng([2, component])
        often = [component % CLASSES, (component + 3) % CLASSES]
        classes = draw.integers(CLASSES, size=SAMPLES)
        half = draw.random(SAMPLES) < 0.5
        classes[half] = draw.choice(often, half.sum())
        self._own = self._samples(classes, draw)
        balanced = np.repeat(np.arange(CLASSES), 50)
        self._test = self._samples(balanced, np.random.default_rng(3))

    def train(self, weights: Weights, step: int) -> Weights:
        """Return what some inner steps change."""
        trained = weights.copy()
        draw = np.random.default_rng([4, self._component, step])
        features, classes = self._own
        for _ in range(self._inner):
            batch = draw.integers(SAMPLES, size=BATCH)
            slope = _shares(features[batch] @ trained)
            slope[np.arange(BATCH), classes[batch]] -= 1.0
            trained -= INNER_RATE * features[batch].T @ slope / BATCH
        return trained - weights

    def loss(self, weights: Weights) -> float:
        """Return the mean cross-entropy over samples that no component has."""
        features, classes = self._test
        shares = _shares(features @ weights)[np.arange(len(classes)), classes]
        return float(-np.mean(np.log(shares)))

    def _samples(
        self, classes: NDArray[np.int64], draw: np.random.Generator
    ) -> tuple[Weights, NDArray[np.int64]]:
        noise = draw.normal(scale=SPREAD, size=(len(classes), FEATURES))
        features = np.hstack([self._centres[classes] + noise, np.ones((len(classes), 1))])
        return features, classes


def _shares(scores: Weights) -> Weights:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Weights = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _listen(address: str) -> socket.socket:
    try:
        listener = socket.create_server((address, 0), backlog=64)
    except OSError:  # the address is a router's, which passes connections on
        listener = socket.create_server(("", 0), backlog=64)
    listener.settimeout(0)
    return listener


def _callers(listener: socket.socket) -> dict[int, Channel]:
    """Take the connections of those that have come, by their components."""
    callers: dict[int, Channel] = {}
    while True:
        try:
            connection, origin = listener.accept()
        except BlockingIOError:
            return callers
        channel = Channel(connection, rank=-1, peer=f"caller at {origin[0]}")
        try:
            hello = transfer(send={}, receive=[channel], timeout_s=5.0)[-1]
            channel.rank = int(json.loads(hello)["component"])
        except (RendezvousError, ValueError, KeyError, TypeError):
            channel.close()
            continue
        channel.peer = f"component {channel.rank}"
        callers[channel.rank] = channel


def _hello(own: job.Component) -> bytes:
    return json.dumps({"component": own.component}).encode()


def _pack(head: dict[str, Any], *arrays: Weights) -> bytes:
    return json.dumps(head).encode() + b"\n" + b"".join(array.tobytes() for array in arrays)


def _unpack(frame: bytes) -> tuple[Any, ...]:
    head, _line, content = frame.partition(b"\n")
    size = (FEATURES + 1, CLASSES)
    arrays = np.frombuffer(content).reshape((-1, *size))
    return json.loads(head), *arrays


if __name__ == "__main__":
    sys.exit(main())
