"""The connection of a starter over real sockets: look-ups of names, and inherited connections."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from koala_agent.starter import light
from koala_agent.starter.connection import Connection, Watch
from koala_agent.starter.events import Connected, Disconnected, Received

LIMIT_S = 60.0


class Names:
    """The resolver: what it knows, and what it was asked."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.asked: list[str] = []
        self._real = light.socket.getaddrinfo

    def __call__(self, host: bytes, port: int, **how: int) -> object:
        name = host.decode()
        self.asked.append(name)
        if name not in self.known:
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return self._real(self.known[name], port, **how)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(light.socket, "getaddrinfo", names)
    return names


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        yield server


def events_of(line: Connection, watch: Watch, kind: type) -> None:
    """Waits for an event of this kind, and forgets it with all before."""
    until = time.monotonic() + LIMIT_S
    while not any(isinstance(event, kind) for event in line.events):
        assert time.monotonic() < until, line.events
        watch.wait(0.05)
    line.events.clear()


def test_no_name_is_looked_up_after_an_order_came(names: Names, agent: socket.socket) -> None:
    port = agent.getsockname()[1]
    names.known = {"login": "127.0.0.1"}
    watch = Watch()
    line = Connection([("login", port), ("away", port)], watch)
    line.resolve()
    assert names.asked == ["login", "away"]
    line.dial()
    events_of(line, watch, Connected)
    connection, _address = agent.accept()
    connection.sendall(json.dumps({"kind": "adopted"}).encode() + b"\n")
    events_of(line, watch, Received)
    connection.close()
    events_of(line, watch, Disconnected)

    names.asked.clear()
    names.known.clear()
    line.dial()  # the turn of the name that was never found
    events_of(line, watch, Disconnected)
    line.dial()
    events_of(line, watch, Connected)
    line.close()
    assert names.asked == []


def test_a_name_that_is_not_found_at_first_is_looked_up_again(
    names: Names, agent: socket.socket
) -> None:
    watch = Watch()
    line = Connection([("login", agent.getsockname()[1])], watch)
    line.resolve()
    line.dial()
    events_of(line, watch, Disconnected)
    names.known = {"login": "127.0.0.1"}
    line.dial()
    events_of(line, watch, Connected)
    line.close()


def test_an_inherited_line_comes_first_and_then_the_agents_port_with_a_proof(
    agent: socket.socket,
) -> None:
    """Nobody else has the other end of an inherited line; anybody may have the agent's port."""
    ours, theirs = socket.socketpair()
    ours.settimeout(LIMIT_S)
    watch = Watch()
    line = Connection([agent.getsockname()], watch, identity=("j/1/0/1", "s1"), inherited=theirs)
    line.resolve()
    line.dial()
    events_of(line, watch, Connected)
    line.send({"kind": "hello", "secret": "s1"})
    assert json.loads(ours.recv(4096)) == {"kind": "hello", "secret": "s1"}
    ours.sendall(json.dumps({"kind": "adopted"}).encode() + b"\n")
    events_of(line, watch, Received)
    ours.close()
    events_of(line, watch, Disconnected)

    line.dial()
    connection, _address = agent.accept()
    connection.settimeout(LIMIT_S)
    watch.wait(LIMIT_S)  # connected
    question = json.loads(connection.recv(4096))
    assert (question["kind"], question["claim"]) == ("prove", "j/1/0/1")
    assert "secret" not in question
    connection.close()
    line.close()


def test_an_inherited_line_that_was_never_used_is_closed() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(LIMIT_S)
    Connection([], Watch(), inherited=theirs).close()
    assert ours.recv(1) == b""
    ours.close()
