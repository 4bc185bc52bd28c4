"""`koala-agent start` and `stop` of one process that serves two sites behind ssh."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from koala.common.wire.v1 import link_pb2
from koala_agent.background import find
from tests.agent.live.agent_process import command
from tests.agent.live.fake_daemon import FakeDaemon, FakeSession, fake_daemon

pytestmark = [pytest.mark.live, pytest.mark.slow]

SITES = ("delft", "gpus")
NO_HOST = '["-F", "/dev/null", "-o", "ProxyCommand=false"]'
"""Words for ssh that find no host: sites register without one."""


@pytest.fixture
async def daemon() -> AsyncIterator[FakeDaemon]:
    async with fake_daemon() as daemon:
        yield daemon


@pytest.fixture
async def files(tmp_path: Path, daemon: FakeDaemon) -> AsyncIterator[list[str]]:
    """Files of the two sites; what runs of them at the end is killed."""
    paths = [tmp_path / f"{site}.toml" for site in SITES]
    for path, site in zip(paths, SITES, strict=True):
        path.write_text(
            f'[agent]\nplain = true\nsite = "{site}"\ndaemon = "{daemon.target}"\n'
            f'state_dir = "{site}"\n[accounts]\nmode = "anyone"\n[site]\nprocessors = 4\n'
            '[lrm]\nkind = "slurm"\n'
            f'[transport]\nkind = "ssh"\nhost = "atlas"\noptions = {NO_HOST}\n',
            encoding="utf-8",
        )
    yield [str(path) for path in paths]
    for site in SITES:
        if (left := find(tmp_path / site)) is not None:
            with suppress(psutil.NoSuchProcess):
                left.kill()
                left.wait()


async def registering(daemon: FakeDaemon) -> dict[str, FakeSession]:
    """Return the session of each site."""
    sessions = [await daemon.session() for _ in SITES]
    return {session.register.site: session for session in sessions}


def refuse(session: FakeSession) -> None:
    session.say(reject=link_pb2.Reject(reason="not one of mine", is_final=True))


async def test_a_site_that_is_refused_is_told_and_the_other_is_served(
    daemon: FakeDaemon, files: list[str], tmp_path: Path
) -> None:
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(command("start", *files))
        sessions = await registering(daemon)
        refuse(sessions["gpus"])
        sessions["delft"].welcome()
    status, out, error = starting.result()
    assert status == 0, error
    assert f"site delft, daemon {daemon.target}: registered" in out
    assert f"site gpus, daemon {daemon.target}: refused: not one of mine" in out
    assert f"Site gpus is not served. `koala-agent doctor {files[1]}`" in out
    assert f"doctor {files[0]}" not in out
    assert find(tmp_path / "gpus") is None

    status, out, _ = await command("start", *files)
    assert status == 1
    stop = f"koala-agent stop {files[0]}"
    assert f"Nothing was started. To start all: {stop}, then koala-agent start {files[0]} " in out

    status, _, error = await command("stop", files[0])
    assert status == 0, error
    assert find(tmp_path / "delft") is None


async def test_a_process_whose_sites_are_all_refused_ends_with_that_status(
    daemon: FakeDaemon, files: list[str]
) -> None:
    async with asyncio.TaskGroup() as group:
        starting = group.create_task(command("start", *files))
        for session in (await registering(daemon)).values():
            refuse(session)
    status, out, error = starting.result()
    assert (status, "started" in out) == (1, False), out
    assert "refuses site" in error
    assert "not one of mine" in error
