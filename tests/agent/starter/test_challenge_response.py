"""A starter and its agent prove to each other that they know the secret, and nobody hears it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from koala.common.protocol.names import ClaimId
from koala_agent.claims.events import CheckedIn, Event
from koala_agent.starter.challenge_response import (
    AGENT,
    STARTER,
    Prover,
    challenge,
    is_proof,
    proof,
)
from koala_agent.starter.connection import Connection, Watch
from koala_agent.starter.events import Received
from koala_agent.starter.ports.encryption import Encryption, starter_context
from koala_agent.starter_link.encryption import agent_context
from koala_agent.starter_link.listener import CarryOrder, StarterListener

CLAIM, SECRET = "j1/1/0/1", "5ec2e7" * 5
HELLO: dict[str, Any] = {
    "kind": "hello", "claim": CLAIM, "secret": SECRET, "nonce": "n1",
    "hosts": [["here", 1]], "armed": None, "passed_at": None, "end": None,
}  # fmt: skip
LIMIT_S = 60.0


def test_a_proof_is_of_all_that_was_said_and_of_nothing_else() -> None:
    right = proof(SECRET, STARTER, CLAIM, "n", "x")
    assert is_proof(right, SECRET, STARTER, CLAIM, "n", "x")
    for wrong in (
        proof(SECRET, AGENT, CLAIM, "n", "x"),
        proof("other", STARTER, CLAIM, "n", "x"),
        proof(SECRET, STARTER, CLAIM, "n", "y"),
        proof(SECRET, STARTER, CLAIM, "nx"),
        right[:-1], right + "0", right.upper(), "", None, 3, "é" * 64,
    ):  # fmt: skip
        assert not is_proof(wrong, SECRET, STARTER, CLAIM, "n", "x")
    assert SECRET not in right
    assert challenge() != challenge()


def test_nothing_is_proved_to_a_stranger() -> None:
    prover = Prover(CLAIM, SECRET)
    assert prover.handle_challenge({"kind": "challenge", "challenge": "y", "proof": "guessed"})
    assert not prover.is_trusted
    sealed = prover.add_proof(HELLO)
    assert "secret" not in sealed
    assert "proof" not in sealed


@asynccontextmanager
async def an_agent(
    secret: str | None = SECRET,
) -> AsyncIterator[tuple[int, list[Event | CarryOrder]]]:
    """The port of an agent that knows one claim, or none; and what it heard."""
    heard: list[Event | CarryOrder] = []
    starters = StarterListener(
        emit=heard.append,
        secret=lambda claim: secret if claim == CLAIM else None,
        carry=lambda *given: heard.append(given[-1]),
    )
    port = await starters.listen("127.0.0.1", 0)
    try:
        yield port, heard
    finally:
        await closed(starters)


async def closed(starters: StarterListener) -> None:
    """Closes the port and waits for its connections, of whose end nobody is told."""
    starters.close()
    async with asyncio.timeout(LIMIT_S):
        while starters._open:  # noqa: ASYNC110 - see above
            await asyncio.sleep(0)


async def say(port: int, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    """Say these, each after an answer to the one before; what was answered until it hung up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    try:
        async with asyncio.timeout(LIMIT_S):
            for line in lines:
                writer.write(json.dumps(line).encode() + b"\n")
                if line["kind"] == "prove":
                    answers.append(json.loads(await reader.readline()))
            writer.write_eof()
            await reader.read()
    finally:
        writer.close()
    return answers


async def test_who_heard_it_all_cannot_say_it_again() -> None:
    """The proof is of the agent's newest challenge; the secret was never said."""
    async with an_agent() as (port, heard):
        prover = Prover(CLAIM, SECRET)
        (answer,) = await say(port, prover.question())
        assert prover.handle_challenge(answer)
        assert prover.is_trusted
        overheard = prover.add_proof(HELLO)
        assert SECRET not in json.dumps([prover.question(), answer, overheard])
        await say(port, overheard)
        await say(port, prover.question(), overheard)
        await say(port, {**overheard, "proof": answer["proof"]})
        assert not any(isinstance(event, CheckedIn) for event in heard)


@pytest.mark.parametrize(
    "change", [{"nonce": "n2"}, {"proof": ""}, {"proof": None}, {"secret": "guessed"}]
)
async def test_a_changed_hello_is_not_heard(change: dict[str, Any]) -> None:
    async with an_agent() as (port, heard):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        prover = Prover(CLAIM, SECRET)
        writer.write(json.dumps(prover.question()).encode() + b"\n")
        async with asyncio.timeout(LIMIT_S):
            assert prover.handle_challenge(json.loads(await reader.readline()))
            writer.write(json.dumps({**prover.add_proof(HELLO), **change}).encode() + b"\n")
            assert await reader.read() == b""
        writer.close()
        assert not any(isinstance(event, CheckedIn) for event in heard)


async def test_orders_of_who_took_the_agents_port_are_not_heard() -> None:
    """It cannot answer the challenge, and so say nothing but that the claim is unknown."""
    orders = (
        {"kind": "challenge", "challenge": "y", "proof": "guessed"},
        {"kind": "adopted", "hold_lease_s": 1e9, "run_lease_s": 1e9, "kill_s": 1.0},
        {"kind": "release", "number": [1, 1], "release_at": 0.0},
        {"kind": "stop"},
        {"kind": "dismissed", "reason": "unknown"},
    )

    async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        for order in orders:
            writer.write(json.dumps(order).encode() + b"\n")
        await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        over.set()

    over = asyncio.Event()
    server = await asyncio.start_server(impostor, "127.0.0.1", 0)
    async with asyncio.timeout(LIMIT_S), server:
        watch = Watch()
        port = server.sockets[0].getsockname()[1]
        line = Connection([("127.0.0.1", port)], watch, identity=(CLAIM, SECRET))
        line.dial()
        while not any(isinstance(event, Received) for event in line.events):
            await asyncio.to_thread(watch.wait, 0.05)
        line.close()
        await over.wait()
    kinds = [event.message["kind"] for event in line.events if isinstance(event, Received)]
    assert kinds == ["dismissed"]


async def test_what_carries_is_encrypted_for_the_agent_alone() -> None:
    """The agent's proof is not of the certificate of somebody between the two."""
    order = CarryOrder(claim=ClaimId(CLAIM), port="WORK", token="t", dials=True)
    hello = {**HELLO, "kind": "carry", "port": "WORK", "token": "t", "dials": True}
    async with an_agent() as (port, heard):
        prover, encryption = Prover(CLAIM, SECRET), Encryption(starter_context(), is_server=False)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(json.dumps({**prover.question(), "encrypts": "always"}).encode() + b"\n")
        async with asyncio.timeout(LIMIT_S):
            answer = json.loads(await reader.readline())
            encryption.decrypt()
            while not encryption.is_begun:
                writer.write(encryption.encrypt())
                encryption.keep(await reader.read(65536))
                encryption.decrypt()
            _context, strange = agent_context.__wrapped__()
            for given in ((strange,), ()):
                assert prover.handle_challenge(answer, *given)
                assert not prover.is_trusted
            assert prover.handle_challenge(answer, *encryption.proven)
            writer.write(encryption.encrypt(json.dumps(prover.add_proof(hello)).encode() + b"\n"))
            while heard != [order]:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0)
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        prover = Prover(CLAIM, SECRET)
        writer.write(json.dumps(prover.question()).encode() + b"\n")
        prover.handle_challenge(json.loads(await reader.readline()))
        assert prover.is_trusted
        writer.write(json.dumps(prover.add_proof(hello)).encode() + b"\n")
        assert await reader.read() == b""
        writer.close()
        assert heard == [order]


@pytest.mark.parametrize(
    ("own", "wish", "encrypts"),
    [
        ("127.0.0.1", "unless within this machine", False),
        ("127.0.0.1", "always", True),
        ("127.0.0.2", "unless within this machine", True),  # as if of another machine
    ],
)
async def test_what_carries_is_in_the_clear_only_within_a_machine(
    own: str, wish: str, *, encrypts: bool
) -> None:
    async with an_agent() as (port, _heard):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(own, 0))
        prover = Prover(CLAIM, SECRET)
        writer.write(json.dumps({**prover.question(), "encrypts": wish}).encode() + b"\n")
        async with asyncio.timeout(LIMIT_S):
            answer = json.loads(await reader.readline())
        prover.handle_challenge(answer)
        writer.close()
    assert (answer.get("encrypts") is not False) is encrypts
    assert prover.is_trusted is not encrypts
