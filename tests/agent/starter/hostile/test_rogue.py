"""Hostile peers at the agent's port for starters: a stranger who found it, or a program that read
its claim's secret and speaks as its starter. The site's other claims go on, and what the agent
keeps for the peer is bounded."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from koala.common.protocol.messages import KvAnswer, KvGet, KvPut, Ping
from koala.common.protocol.names import ClaimId
from koala_agent.claims.events import CheckedIn, Event, SendToStarter, StarterSaid
from koala_agent.starter.challenge_response import AGENT, STARTER, is_proof, proof
from koala_agent.starter_link import codec as starter_codec
from koala_agent.starter_link.codec import Message, record_of
from koala_agent.starter_link.listener import (
    LINE_MAX_BYTES,
    PROGRAMS_BURST,
    PROGRAMS_PER_S,
    UNAUTHENTICATED_MAX,
    StarterListener,
)
from tests.agent.claims.table_script import TableScript
from tests.agent.starter.test_challenge_response import LIMIT_S, closed

ROGUE, HONEST, BUSY = ClaimId("j1/1/0/1"), ClaimId("j2/1/0/1"), ClaimId("j3/1/0/1")
SECRETS = {ROGUE: "0" * 32, HONEST: "1" * 32, BUSY: "2" * 32}
END = {"kind": "exited", "reason": "", "statuses": [0], "cpu_s": 1.0, "memory_bytes": 5}


class Port:
    """An agent's port, and what it heard of each claim."""

    def __init__(self, **more: Any) -> None:
        self.heard: list[Event] = []
        self.changed = asyncio.Event()
        self.starters = StarterListener(emit=self._tell, secret=SECRETS.get, **more)
        self.number = 0

    async def __aenter__(self) -> Port:
        self.number = await self.starters.listen("127.0.0.1", 0)
        return self

    async def __aexit__(self, *details: object) -> None:
        await closed(self.starters)

    def _tell(self, event: Event) -> None:
        self.heard.append(event)
        self.changed.set()

    def count(self, claim: ClaimId, kind: type) -> int:
        said = [e.message if isinstance(e, StarterSaid) else e for e in self.heard]
        return sum(isinstance(e, kind) and getattr(e, "claim", "") == claim for e in said)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not is_so():
                self.changed.clear()
                await self.changed.wait()

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.number)

    async def greeted(
        self, claim: ClaimId, kind: str = "hello"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection that has proved itself."""
        reader, writer = await self.dial()
        secret = SECRETS[claim]
        writer.write(line({"kind": "prove", "claim": claim, "challenge": "x"}))
        answer = json.loads(await reader.readline())
        assert is_proof(answer["proof"], secret, AGENT, claim, "x")
        shown = proof(secret, STARTER, claim, "n", answer["challenge"])
        writer.write(line({"kind": kind, "claim": claim, "nonce": "n", "proof": shown}))
        return reader, writer


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


LIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a pass at no instant", {"kind": "passed", "passed_at": 0}),
    ("a pass before time", {"kind": "passed", "passed_at": -5.0}),
    ("a pass beyond numbers", {"kind": "passed", "passed_at": 10**400}),
    ("an instant that is none", {"kind": "ping", "sent_at": float("inf")}),
    ("work undone", {"kind": "progress", "cycle": 1, "work": -1.0}),
    ("a cycle beyond 64 bits", {"kind": "progress", "cycle": 2**64, "work": 1.0}),
    ("a number beyond 64 bits", {"kind": "armed", "number": [1, 2**64]}),
    ("a number below 0", {"kind": "armed", "number": [-1, 1]}),
    ("a request beyond 64 bits", {"kind": "put", "request": 2**70, "name": "a", "value": "b"}),
    ("a wait backwards", {"kind": "get", "request": 1, "name": "a", "wait_s": -1.0}),
    ("an end before time", {"kind": "ended", "end": {**END, "ended_at": -1.0}}),
    ("an end by silence", {"kind": "ended", "end": {**END, "kind": "fenced"}}),
    ("more than all statuses", {"kind": "ended", "end": {**END, "statuses": [0] * 70_000}}),
)


@pytest.mark.parametrize("lie", [lie for _, lie in LIES], ids=[name for name, _ in LIES])
def test_what_the_daemon_would_not_take_is_not_taken_from_a_starter(lie: dict[str, Any]) -> None:
    """Or else the daemon ends the session of the whole site, and again whenever it comes back."""
    with pytest.raises(ValueError, match="expected"):
        starter_codec.decode(ROGUE, "n", lie)


@pytest.mark.parametrize(
    ("passed", "ended"),
    [
        ({"nonce": "n", "passed_at": 0.0}, None),
        ({"nonce": "n", "passed_at": 1e300}, None),
        ({"nonce": "x" * 300, "passed_at": 5.0}, None),
        ({"nonce": "", "passed_at": 5.0}, None),
        ({"passed_at": 5.0}, None),
        (None, {"nonce": "x" * 300, "end": END}),
        (None, {"nonce": ["n"], "end": END}),
    ],
)
def test_a_record_that_a_program_wrote_is_read_as_strictly(
    passed: Message | None, ended: Message | None
) -> None:
    assert record_of(passed, ended) is None


class Stopped:
    """A clock that stands still: whatever has to wait waits for ever."""

    def now(self) -> float:
        return 0.0

    def later(self, _delay_s: float, _call: Callable[[], None]) -> Stopped:
        return self

    def cancel(self) -> None:
        pass


async def test_what_all_programs_of_a_site_cause_is_bounded_and_pings_do_not_wait_for_it() -> None:
    """Else a few programs that poll would look like an agent that floods, and cost it its link."""
    clock = Stopped()
    async with Port(now=clock.now, later=clock.later) as port:

        def gets() -> int:
            return sum(port.count(claim, KvGet) for claim in SECRETS)

        get = line({"kind": "get", "request": 1, "name": "a", "wait_s": 0.0})
        programs = [(await port.greeted(claim))[1] for claim in (ROGUE, BUSY)]
        for writer in programs:
            writer.write(get * PROGRAMS_BURST)
        await port.until(lambda: gets() == PROGRAMS_BURST)
        _, honest = await port.greeted(HONEST)
        honest.write(line({"kind": "ping", "sent_at": 2.0}) + get)
        await port.until(lambda: port.count(HONEST, Ping) == 1)
        assert gets() == PROGRAMS_BURST
        # Nobody waits for turns of connections that are gone.
        again = [(await port.greeted(claim))[1] for claim in SECRETS]
        await port.until(lambda: all(port.count(claim, CheckedIn) == 2 for claim in SECRETS))
        assert port.starters.acquire_turn(HONEST, {"kind": "get"}) == pytest.approx(
            1 / PROGRAMS_PER_S
        )
        for writer in (*programs, honest, *again):
            writer.close()


async def test_a_line_without_an_end_is_cut_and_disturbs_nobody() -> None:
    async with Port() as port:
        reader, rogue = await port.greeted(ROGUE)
        rogue.write(b'{"kind": "ping", "sent_at": ' + b"1" * (2 * LINE_MAX_BYTES))
        async with asyncio.timeout(LIMIT_S):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        _, honest = await port.greeted(HONEST)
        honest.write(line({"kind": "ping", "sent_at": 2.0}))
        await port.until(lambda: port.count(HONEST, Ping) == 1)
        rogue.close()
        honest.close()


async def test_strangers_who_say_nothing_take_no_ones_place() -> None:
    async with Port() as port:
        _, honest = await port.greeted(HONEST)
        strangers = [await port.dial() for _ in range(UNAUTHENTICATED_MAX + 40)]
        _, late = await port.greeted(ROGUE)
        for writer in (honest, late):
            writer.write(line({"kind": "ping", "sent_at": 2.0}))
        await port.until(lambda: all(port.count(claim, Ping) == 1 for claim in (HONEST, ROGUE)))
        assert len(port.starters._unauthenticated) <= UNAUTHENTICATED_MAX
        for _, writer in (*strangers, (None, honest), (None, late)):
            writer.close()


def test_a_claim_puts_and_asks_so_much_and_no_more() -> None:
    """While the daemon is away nothing is answered, and all is kept."""
    script = TableScript()
    script.held()

    def put(number: int) -> list[Any]:
        value = KvPut(claim=ROGUE, request=number, name=f"n{number}", value="v")
        return script.tell(StarterSaid(nonce="n", message=value))

    def get(number: int) -> list[Any]:
        asked = KvGet(claim=ROGUE, request=number, name="x", wait_s=1.0)
        return script.tell(StarterSaid(nonce="n", message=asked))

    for number in range(1_000):
        put(number)
    (told,) = put(1_000)
    assert isinstance(told, SendToStarter)
    assert isinstance(told.message, KvAnswer)
    assert "has put too many values (expected at most 1000)" in told.message.error
    for number in (*range(2_000, 2_024), 2_000):  # who lost its line asks again
        get(number)
    (told,) = get(2_999)
    assert isinstance(told, SendToStarter)
    assert isinstance(told.message, KvAnswer)
    assert "1024 puts and gets of this claim wait" in told.message.error
