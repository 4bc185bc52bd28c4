"""The connection of a starter over real sockets: look-ups of names."""

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
