"""A host that asks for a key and a code: a person logs in once, and the agent never tries twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from koala.common.runtime import clock
from koala.errors import LocalManagerError
from koala_agent.transport.interface import Command
from koala_agent.transport.ssh_connection import LOOK_S
from tests.agent.transport.servers import (
    a_settings,
    a_transport,
    answer_of,
    kill_holder,
    trouble_of,
)
from tests.cli.top.terminal import Terminal, terminal
from tests.harness.moments import moment, until
from tests.harness.second_factor import PROMPT, Codes, a_server_that_asks, attempts
from tests.harness.ssh_server import HOST, SSHServer

pytestmark = [pytest.mark.live, pytest.mark.long, pytest.mark.root]

TRUE = Command(argv=("true",))
RESTS = f"ssh to {HOST} needs you: koala site login {HOST} ("


@pytest.fixture
def asking() -> Iterator[tuple[SSHServer, Codes]]:
    with a_server_that_asks() as asking:
        yield asking


def config_of(server: SSHServer) -> Path:
    """Write the file of the agent of the site behind the server."""
    words = ", ".join(f'"{word}"' for word in server.options)
    config = server.folder / "agent.toml"
    config.write_text(
        f'[agent]\nplain = true\nsite = "{HOST}"\ndaemon = "127.0.0.1:1"\n'
        f'state_dir = "{server.folder}/state"\n[accounts]\nmode = "anyone"\n'
        '[site]\nprocessors = 4\n[lrm]\nkind = "slurm"\n'
        f'[transport]\nkind = "ssh"\nhost = "{HOST}"\noptions = [{words}]\n',
        encoding="utf-8",
    )
    return config


def a_terminal(server: SSHServer, *options: str) -> AbstractContextManager[Terminal]:
    """`koala site login` in a terminal that is closed with the block."""
    return terminal("site", "login", str(config_of(server)), *options)


@contextmanager
def a_login(server: SSHServer, *options: str) -> Iterator[Terminal]:
    """The same, when it asks for a code."""
    with a_terminal(server, *options) as person:
        person.wait_for(PROMPT)
        yield person


def log_in(server: SSHServer, code: str) -> None:
    """Type this code, which is the right one; the terminal is closed afterwards."""
    with a_login(server) as person:
        person.press(f"{code}\n")
        assert person.end() == 0, person.text
        assert f"ssh to {HOST} is open" in person.text


async def test_a_code_is_typed_once_and_serves_until_the_connection_is_killed(
    asking: tuple[SSHServer, Codes],
) -> None:
    """The agent tries by itself once at its start and once after the loss, and not again."""
    server, codes = asking
    settings = a_settings(server)
    async with a_transport(server) as transport:
        assert (await trouble_of(transport)).startswith(RESTS)
        await asyncio.to_thread(log_in, server, codes.next())
        for _ in range(5):
            assert (await answer_of(transport, TRUE)).status == 0
        port = transport.agent_endpoint.port
        assert attempts(server) == 2

        kill_holder(settings)
        assert (await trouble_of(transport)).startswith((RESTS, f"ssh to {HOST}: connection lost"))
        await until(lambda: transport.trouble.startswith(RESTS))
        begun = clock.now()
        while clock.now() < begun + 4 * LOOK_S:
            with pytest.raises(LocalManagerError, match="needs you"):
                await transport.run(TRUE)
            await moment()
        assert attempts(server) == 3

        await asyncio.to_thread(log_in, server, codes.next())
        assert (await answer_of(transport, TRUE)).status == 0
        assert transport.agent_endpoint.port == port
        assert attempts(server) == 4


async def test_a_wrong_code_is_told_and_leaves_the_site_at_rest(
    asking: tuple[SSHServer, Codes],
) -> None:
    server, codes = asking
    wrong = f"{(int(codes.next()) + 1) % 10**6:06}\n"
    with a_login(server) as person:
        for prompts in (2, 3):
            person.press(wrong)
            await asyncio.to_thread(person.wait, partial(asks, prompts), "the next question")
        person.press(wrong)
        assert await asyncio.to_thread(person.end) == 3, person.text
        assert "Permission denied" in person.text
        assert f"ssh to {HOST} ended with status 255" in person.text
    async with a_transport(server) as transport:
        assert (await trouble_of(transport)).startswith(RESTS)
        await asyncio.to_thread(log_in, server, codes.next())
        assert (await answer_of(transport, TRUE)).status == 0


def asks(prompts: int, text: str) -> bool:
    """True when ssh has asked so many times."""
    return text.count(PROMPT) == prompts
