"""The mailbox of a starter: both ends in a real folder, and files that others put there."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from koala.common.protocol.names import ClaimId
from koala_agent.starter.mailbox.client import Mailbox as NodesMailbox
from koala_agent.starter.mailbox.client import MailboxClient
from koala_agent.starter.mailbox.layout import MESSAGE_MAX_BYTES, UP, seal, session_of
from koala_agent.starter_link.mailbox import Mailbox
from koala_agent.transport.local import LocalTransport
from tests.harness.moments import moment, until

CLAIM, SECRET = ClaimId("j1/1/0/1"), "a secret"
LIMIT_S = 60.0


class Line(asyncio.Protocol):
    """A connection of the agent, which keeps what it gets."""

    def __init__(self, lines: list[Line]) -> None:
        self.data = b""
        self.is_lost = False
        self.transport: asyncio.Transport | None = None
        lines.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        assert exc is None
        self.is_lost = True

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


@asynccontextmanager
async def agent_of(
    folder: Path, files: LocalTransport | None = None
) -> AsyncIterator[tuple[Mailbox, list[Line]]]:
    """The agent's end of a mailbox, which has begun or has trouble, and its connections."""
    lines: list[Line] = []
    mailbox = Mailbox(files or LocalTransport(environment={}), str(folder))
    secrets = {CLAIM: SECRET}
    async with asyncio.TaskGroup() as group:
        with capture_logs() as logs:
            running = group.create_task(
                mailbox.run(lambda: Line(lines), secrets.get, changed=lambda: None)
            )
            # Before that it removes all that it finds, also messages of a starter.
            await until(lambda: any(one["event"].startswith("mailbox.") for one in logs))
        try:
            yield mailbox, lines
        finally:
            running.cancel()


def client_of(folder: Path, secret: str = SECRET) -> tuple[MailboxClient, str]:
    """A starter's end, which has begun a session."""
    session = session_of(CLAIM)
    mailbox = NodesMailbox(str(folder), session)
    mailbox.begin()
    return MailboxClient(mailbox, session, secret), session


async def heard(client: MailboxClient, data: bytes) -> None:
    """Wait until the starter's end has received exactly this."""
    found = b""
    async with asyncio.timeout(LIMIT_S):
        while found != data:
            found += client.collect()
            await moment()


async def test_messages_go_both_ways_and_nothing_of_them_is_left(tmp_path: Path) -> None:
    async with agent_of(tmp_path) as (mailbox, lines):
        client, session = client_of(tmp_path)
        for word in (b"one\n", b"two\n", b"half of"):
            client.post(word)
            client.deliver()
        await until(lambda: bool(lines) and lines[0].data == b"one\ntwo\n")
        lines[0].say(b"yes\n")
        lines[0].say(b"no\n")
        await heard(client, b"yes\nno\n")
        assert list((tmp_path / "up").iterdir()) == []
        assert list((tmp_path / "down" / session).iterdir()) == []
        assert lines[0].transport is not None
        lines[0].transport.close()
        await until(lambda: lines[0].is_lost)
        client.collect()
        assert client.is_over
        assert mailbox.trouble == ""


async def test_a_message_counts_once_and_in_its_turn_whenever_it_is_visible(
    tmp_path: Path,
) -> None:
    async with agent_of(tmp_path) as (_mailbox, lines):
        session = session_of(CLAIM)
        NodesMailbox(str(tmp_path), session).begin()
        put(tmp_path, f"{session}.1", seal(SECRET, UP, session, 1, b"two\n"))
        put(tmp_path, f"{session}.0", seal(SECRET, UP, session, 0, b"one\n"))
        await until(lambda: bool(lines) and lines[0].data == b"one\ntwo\n")
        put(tmp_path, f"{session}.0", seal(SECRET, UP, session, 0, b"one\n"))
        put(tmp_path, f"{session}.2", seal(SECRET, UP, session, 2, b"three\n"))
        await until(lambda: not list((tmp_path / "up").iterdir()))
        assert lines[0].data == b"one\ntwo\nthree\n"


@pytest.mark.parametrize(
    "forged", ["other number", "other session", "other way", "no seal", "open"]
)
async def test_what_the_starter_did_not_write_there_is_refused(tmp_path: Path, forged: str) -> None:
    async with agent_of(tmp_path) as (_mailbox, lines):
        client, session = client_of(tmp_path)
        client.post(b"one\n")
        client.deliver()
        await until(lambda: bool(lines) and lines[0].data == b"one\n")
        content = {
            "other number": seal(SECRET, UP, session, 0, b"one\n"),
            "other session": seal(SECRET, UP, session_of(CLAIM), 1, b"two\n"),
            "other way": seal(SECRET, "down", session, 1, b"two\n"),
            "no seal": seal("", UP, session, 1, b"two\n"),
            "open": seal(SECRET, UP, session, 1, b"two\n"),
        }[forged]
        put(tmp_path, f"{session}.1", content, mode=0o666 if forged == "open" else 0o600)
        await until(lambda: not list((tmp_path / "up").iterdir()))
        client.post(b"mine\n")
        client.deliver()
        await until(lambda: lines[0].data == b"one\nmine\n")


async def test_no_link_is_followed(tmp_path: Path) -> None:
    async with agent_of(tmp_path / "box") as (_mailbox, lines):
        client, session = client_of(tmp_path / "box")
        target = tmp_path / "target"
        target.write_bytes(seal(SECRET, UP, session, 0, b"one\n"))
        (tmp_path / "box" / "up" / f"{session}.0").symlink_to(target)
        await until(lambda: not list((tmp_path / "box" / "up").iterdir()))
        assert [line.data for line in lines] == [b""]
        (tmp_path / "box" / "down" / session / "0").symlink_to(target)
        with pytest.raises(OSError, match="symbolic links"):
            client.collect()


async def test_a_forged_answer_is_refused_and_the_agents_own_counts(tmp_path: Path) -> None:
    async with agent_of(tmp_path) as (_mailbox, lines):
        client, session = client_of(tmp_path)
        client.post(b"one\n")
        client.deliver()
        await until(lambda: bool(lines))
        lines[0].say(b"yes\n")
        await heard(client, b"yes\n")
        down = tmp_path / "down" / session / "1"
        for content in (
            seal("", "down", session, 1, b"no\n"),
            seal("guess", "down", session, 1, b"no\n"),
        ):
            down.write_bytes(content)
            down.chmod(0o600)
            assert client.collect() == b""
        lines[0].say(b"well\n")
        await heard(client, b"well\n")


async def test_a_folder_that_others_may_write_is_told_and_not_used(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o777)  # noqa: PTH101 - in a coroutine
    async with agent_of(tmp_path) as (mailbox, _lines):
        assert "mode 0777" in mailbox.trouble
        assert "chmod 700" in mailbox.trouble
        os.chmod(tmp_path, 0o700)  # noqa: PTH101 - see above
        await until(lambda: not mailbox.trouble)
        (tmp_path / "up").chmod(0o770)
        with pytest.raises(PermissionError, match="0770"):
            client_of(tmp_path)


async def test_an_agent_that_is_new_ends_the_sessions_of_the_one_before(tmp_path: Path) -> None:
    async with agent_of(tmp_path):
        client, _session = client_of(tmp_path)
    client.post(b"to nobody\n")
    client.deliver()
    async with agent_of(tmp_path) as (_mailbox, lines):
        await until(lambda: not list((tmp_path / "down").iterdir()))
        with pytest.raises(FileNotFoundError):
            client.collect()
        assert lines == []


async def test_a_line_that_is_too_long_for_a_message_comes_in_parts(tmp_path: Path) -> None:
    long = "ü".encode() * MESSAGE_MAX_BYTES + b"\n"
    async with agent_of(tmp_path) as (_mailbox, lines):
        client, _session = client_of(tmp_path)
        client.post(b"." + long)
        client.deliver()
        await until(lambda: bool(lines) and lines[0].data == b"." + long)
        lines[0].say(b"." + long)
        await heard(client, b"." + long)
        assert not client.is_over


async def test_a_name_that_is_no_message_ends_no_agent(tmp_path: Path) -> None:
    async with agent_of(tmp_path) as (_mailbox, lines):
        client, session = client_of(tmp_path)
        for number in ("²", "-1", "", "9" * 100):
            (tmp_path / "up" / f"{session}.{number}").touch(0o600)
            (tmp_path / "down" / session / (number or "x")).touch(0o600)
        client.post(b"one\n")
        client.deliver()
        await until(lambda: bool(lines) and lines[0].data == b"one\n")
        lines[0].say(b"yes\n")
        await heard(client, b"yes\n")


def put(folder: Path, name: str, content: bytes, *, mode: int = 0o600) -> None:
    """Put a message there as any process of this account can."""
    new = folder / f".{name}"
    new.write_bytes(content)
    new.chmod(mode)
    new.rename(folder / "up" / name)
