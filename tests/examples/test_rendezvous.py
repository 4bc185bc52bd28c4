"""The helper that the example programs share: finding, meeting and losing one another."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.examples.programs import RENDEZVOUS
from tests.examples.stage import LIMIT_S, Stage

pytestmark = [pytest.mark.live]

transfer = RENDEZVOUS.transfer


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path, [2, 1]) as opened:
        yield opened


def _world(stage: Stage, rank: int, program: str = "test") -> Any:
    index, process = [(0, 0), (0, 1), (1, 0)][rank]
    environment = stage.environment(index, process)
    return RENDEZVOUS.Rendezvous.from_environment(program, environment)


def _pair(first: Any, second: Any) -> tuple[Any, Any]:
    """Channels of two ranks to each other, the first with the lower rank."""
    first.listen()
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(second.connect(first.rank)))
    thread.start()
    channel = first.accept([second.rank], timeout_s=LIMIT_S)
    thread.join()
    return channel, found[0]


def _leave(*parts: Any) -> None:
    for part in parts:
        part.close()


def test_a_process_knows_its_place(stage: Stage) -> None:
    world = _world(stage, 2)
    assert (world.rank, world.world_size, world.member.label, world.process) == (2, 3, "c1", 0)
    assert world.member_of(1).site == "vu"
    assert world.describe(2) == "rank 2 (component 1 'c1' at delft)"
    with pytest.raises(RENDEZVOUS.RendezvousError, match="no rank 3; ranks are 0 to 2"):
        world.member_of(3)
    world.close()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("KOALA_ATTEMPT", "2", "in attempt 1, the environment rank 2 of 3 in attempt 2"),
        ("RANK", "1", "the environment rank 1 of 3"),
        ("KOALA_PROCESS", "1", "process 1 of a component with 1 processes"),
        ("KOALA_BUNDLE", "/nonexistent", "bundle /nonexistent: .*No such file"),
        ("WORLD_SIZE", "many", "environment: .*many"),
    ],
)
def test_a_bundle_that_does_not_fit_is_refused(
    stage: Stage, name: str, value: str, message: str
) -> None:
    environment = stage.environment(1, 0) | {name: value}
    with pytest.raises(RENDEZVOUS.RendezvousError, match=message):
        RENDEZVOUS.Rendezvous.from_environment("test", environment)


def test_a_name_has_one_value(stage: Stage) -> None:
    exchange = _world(stage, 0).exchange
    exchange.put("name", "value")
    exchange.put("name", "value")
    assert exchange.get("name") == "value"
    with pytest.raises(RENDEZVOUS.RendezvousError, match="put 'name': 'name' has another value"):
        exchange.put("name", "other")
    with pytest.raises(RENDEZVOUS.RendezvousError, match="no value for 'nobody'"):
        exchange.get("nobody", wait_s=0.01)
    with pytest.raises(RENDEZVOUS.RendezvousError, match="has 4098 bytes; at most 4096 allowed"):
        exchange.put("long", "é" * 2049)
    exchange.close()


def test_a_silent_peer_is_lost_at_the_limit(stage: Stage) -> None:
    worlds = _world(stage, 0), _world(stage, 2)
    here, there = _pair(*worlds)
    with pytest.raises(RENDEZVOUS.PeerLostError, match=r"lost rank 2 .* silent for 0.02 s"):
        transfer(send={}, receive=[here], timeout_s=0.02)
    _leave(here, there, *worlds)


def test_strangers_are_turned_away(stage: Stage) -> None:
    """Another program, an unexpected rank, and noise knock before the rank that is awaited."""
    world = _world(stage, 0)
    world.listen()
    host, port = stage.exchange.values["test/0"].split(":")
    stage.exchange.values["other/0"] = f"{host}:{port}"
    noise = socket.create_connection((host, int(port)))
    noise.sendall(b"GET / HTTP/1.1\r\n\r\n")
    other, unexpected = _world(stage, 2, "other"), _world(stage, 1)
    strangers = [other._dial(0, timeout_s=LIMIT_S), unexpected._dial(0, timeout_s=LIMIT_S)]
    awaited = _world(stage, 2)
    dialled = awaited._dial(0, timeout_s=LIMIT_S)
    accepted = world.accept([2], timeout_s=LIMIT_S)
    assert accepted.rank == 2
    assert accepted.peer == "rank 2 (component 1 'c1' at delft)"
    for stranger in strangers:
        with pytest.raises(RENDEZVOUS.PeerLostError):
            transfer(send={}, receive=[stranger], timeout_s=LIMIT_S)
    _leave(noise, accepted, dialled, *strangers, other, unexpected, awaited, world)


def test_all_meet_all(stage: Stage) -> None:
    worlds = [_world(stage, rank) for rank in range(3)]
    channels: dict[int, dict[int, Any]] = {}

    def meet(rank: int) -> None:
        channels[rank] = worlds[rank].meet(range(3), timeout_s=LIMIT_S)

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {rank: sorted(peers) for rank, peers in channels.items()} == {
        0: [1, 2],
        1: [0, 2],
        2: [0, 1],
    }
    for rank, peers in channels.items():
        for peer, channel in peers.items():
            transfer(send={channel: f"{rank}>{peer}".encode()}, receive=[], timeout_s=LIMIT_S)
    for rank, peers in channels.items():
        frames = transfer(send={}, receive=list(peers.values()), timeout_s=LIMIT_S)
        assert frames == {peer: f"{peer}>{rank}".encode() for peer in peers}
    _leave(*worlds, *(channel for peers in channels.values() for channel in peers.values()))
