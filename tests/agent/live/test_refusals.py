"""Real claims that an agent refuses: limits, users and programs of its site, and its grace time."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import a_job, agent_process
from tests.agent.live.claim_steps import FOREVER
from tests.agent.live.fake_daemon import GONE, fake_daemon, hold

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_a_program_that_the_site_does_not_list_is_refused_and_costs_nothing(
    tmp_path: Path,
) -> None:
    job = a_job()
    listed, other, outside, naming = (f"{job}/1/{number}/1" for number in range(4))
    folder = tmp_path / "apps"
    folder.mkdir()
    (folder / "program").write_text("#!/bin/bash\ntest $SEED = 4\n")
    (folder / "program").chmod(0o755)
    rest = f'executables = ["{folder}"]\nvariables = ["SEED"]'
    program = str(folder / "program")
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest=rest) as agent,
    ):
        session = await daemon.live(
            hold(other, *FOREVER),
            hold(
                listed,
                executable=program,
                no_barrier=True,
                ask_number=2,
                environment=[link_pb2.Variable(name="SEED", value="4")],
            ),
            hold(outside, executable=program, stdout=str(tmp_path / "x")),
            hold(
                naming,
                executable=program,
                environment=[link_pb2.Variable(name="BASH_ENV", value=f"$(touch {tmp_path}/x)")],
            ),
        )
        gone = await session.claim(other, GONE)
        assert gone.end.kind == "refused"
        assert f"site.executables allows programs below {folder}" in gone.end.reason
        gone = await session.claim(outside, GONE)
        assert gone.end.kind == "refused"
        assert f"stdout '{tmp_path / 'x'}': allowed with site.executables" in gone.end.reason
        gone = await session.claim(naming, GONE)
        assert gone.end.kind == "refused"
        assert "environment variable 'BASH_ENV': allowed with" in gone.end.reason
        gone = await session.claim(listed, GONE)
        assert (gone.end.kind, list(gone.end.statuses)) == ("exited", [0])
        assert not (tmp_path / "x").exists()
        assert not (agent.state_dir / "claims" / other.replace("/", "-") / ".koala").exists()
