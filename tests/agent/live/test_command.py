"""`koala-agent` as a command: its usage, streams and exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.live.agent_process import a_job, agent_process, command
from tests.agent.live.fake_daemon import fake_daemon

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_an_agent_that_is_started_without_standard_streams_serves(tmp_path: Path) -> None:
    closing = ("/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=a_job(), prefix=closing) as agent,
    ):
        await daemon.session()
        assert await agent.terminate() == 0


async def test_a_second_agent_on_the_same_state_directory_is_refused(tmp_path: Path) -> None:
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=a_job()) as agent,
    ):
        await daemon.session()
        pid = agent.state_dir.joinpath("agent.pid").read_text().strip()
        status, _, error = await command(str(agent.config))
        assert status == 2
        assert error == (
            f"koala-agent: {agent.state_dir}: another agent runs with this state directory"
            f" (pid {pid})\n"
        )


async def test_wrong_usage_and_configuration_end_with_status_2(tmp_path: Path) -> None:
    status, _, error = await command()
    assert status == 2
    assert "CONFIG.toml" in error
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[agent]\nsite = 3\n")
    status, out, error = await command(str(wrong))
    assert (status, out) == (2, "")
    assert error == f"koala-agent: {wrong}: agent.site = 3 (expected str, got int)\n"
    status, out, _ = await command("--version")
    assert status == 0
    assert out.startswith("koala-agent ")
