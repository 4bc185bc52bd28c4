"""A starter and its helpers on other machines: who is let in, and what of it others may hear."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from koala_agent.claims.bundle import build_bundle
from koala_agent.starter.challenge_response import helper_name
from koala_agent.starter.connection import Connection, JsonSocket, Watch
from koala_agent.starter.events import Connected, Disconnected, NodeLost, Received
from koala_agent.starter.node.remote_nodes import RemoteNodes
from koala_agent.starter.program import ClaimProgram
from tests.agent.starter.test_batch_rules import peer, spec

SECRET = "0123456789abcdef"
TURNS_MAX = 500


class Stage:
    """A starter that waits for its helper, and all that is said by anybody."""

    def __init__(self, nodes: RemoteNodes, watch: Watch, said: list[str]) -> None:
        self.nodes, self.watch, self.said = nodes, watch, said
        self.own = Watch()
        assert nodes._listener is not None
        self.port = nodes._listener.getsockname()[1]

    def helper(self, secret: str, machine: int = 1) -> Connection:
        """A helper's line, dialled."""
        address = ("127.0.0.1", self.port)
        line = Connection([address], self.own, identity=(helper_name(machine), secret))
        line.dial()
        self.until(line, Connected)
        return line

    def until(self, line: Connection, kind: type[Any]) -> Any:
        """The next event of this kind on a line."""
        for _ in range(TURNS_MAX):
            self.watch.wait(0.01)
            self.own.wait(0.01)
            found = [event for event in line.events if isinstance(event, kind)]
            if found:
                line.events.clear()
                return found[0]
        raise AssertionError(f"no {kind.__name__}: {line.events}")


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "a[1-2]")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "2(x2)")
    said: list[str] = []
    send = JsonSocket.send

    def recorded(wire: JsonSocket, message: dict[str, object]) -> None:
        said.append(json.dumps(message))
        send(wire, message)

    monkeypatch.setattr(JsonSocket, "send", recorded)
    with opened(tmp_path) as (nodes, watch):
        yield Stage(nodes, watch, said)


@contextmanager
def opened(folder: Path) -> Iterator[tuple[RemoteNodes, Watch]]:
    itself = peer(0, 4)
    given: dict[str, Any] = {
        **spec("multiple", 4, "slurm"),
        **dict.fromkeys(("directory", "stdin", "stdout", "stderr"), ""),
        "claim": itself.claim,
        "secret": SECRET,
        "folder": str(folder),
        "executable": "/bin/true",
        "arguments": [],
        "environment": [],
        "cpu_time_s": 0,
        "memory_max_mb": 0,
        "kill_s": 5.0,
        "bundle": build_bundle(itself.claim, (itself,)),
    }
    watch = Watch()
    nodes = RemoteNodes(given, ClaimProgram(given), watch, nonce="n1")
    assert nodes.left == 0, "an end before the adoption would wait for what never started"
    nodes._listen()
    assert nodes.left == 2
    try:
        yield nodes, watch
    finally:
        nodes.close()


def test_a_helper_that_knows_the_secret_is_let_in_and_no_secret_is_said(stage: Stage) -> None:
    secret = stage.nodes._secret
    line = stage.helper(secret)
    line.send({"kind": "hello", "secret": secret, "machine": 1})
    begin = stage.until(line, Received).message
    assert begin["kind"] == "begin"
    assert begin["machine"] == 1
    assert "secret" not in begin["spec"]
    assert stage.nodes.present == 1
    transcript = "".join(stage.said)
    assert "proof" in transcript
    assert secret not in transcript, "whoever listens could pass for a helper"
    assert SECRET not in transcript, "whoever listens could pass for the starter"
    line.close()
    lost: list[NodeLost] = []
    for _ in range(TURNS_MAX):
        stage.watch.wait(0.01)
        lost += [event for event in stage.nodes.gather() if isinstance(event, NodeLost)]
        if lost:
            return
    raise AssertionError("the right one is not missed when it goes")


@pytest.mark.parametrize(
    "hello",
    [
        {"kind": "hello", "secret": "guessed", "machine": 1},
        {"kind": "hello", "proof": "0" * 64, "machine": 1},
        {"kind": "hello", "machine": 1},
        {"kind": "hello", "machine": 7},
        {"kind": "begin"},
    ],
)
def test_a_stranger_is_hung_up_on(stage: Stage, hello: dict[str, object]) -> None:
    line = stage.helper("guessed")
    line.send(hello)
    assert stage.until(line, Disconnected) is not None
    with socket.create_connection(("127.0.0.1", stage.port)) as stranger:
        stranger.settimeout(0.01)
        stranger.sendall(json.dumps(hello).encode() + b"\n")  # without asking for a challenge
        for _ in range(TURNS_MAX):
            stage.watch.wait(0.01)
            try:
                assert stranger.recv(100) == b""
                break
            except TimeoutError:
                continue
            except ConnectionResetError:
                break
        else:
            raise AssertionError("nobody hung up")
    assert stage.nodes.present == 0
    assert stage.nodes.gather() == [], "the machine is still waited for"


def test_a_proof_is_good_for_one_challenge_and_one_machine(stage: Stage) -> None:
    secret = stage.nodes._secret
    line = stage.helper(secret, machine=2)
    line.send({"kind": "hello", "secret": secret, "machine": 1})
    stage.until(line, Disconnected)
    said = json.loads(stage.said[-1])
    again = stage.helper(secret)
    again.send(said)
    stage.until(again, Disconnected)
    assert stage.nodes.present == 0
