"""Real claims that an agent refuses: limits, users and programs of its site, and its grace time."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.wire.v1 import link_pb2
from tests.agent.live.agent_process import a_job, agent_process
from tests.agent.live.claim_steps import FOREVER
from tests.agent.live.fake_daemon import GONE, GRANTED, fake_daemon, hold

pytestmark = [pytest.mark.live, pytest.mark.slow]


async def test_the_site_s_own_limits_win_over_what_the_daemon_asks(tmp_path: Path) -> None:
    job = a_job()
    large, long = f"{job}/1/0/1", f"{job}/1/1/1"
    limits = "largest_claim = 2\nlongest_hold_s = 30"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest=limits),
    ):
        session = await daemon.live(
            hold(large, *FOREVER, processors=3),
            hold(long, *FOREVER, hold_s=31.0, ask_number=2),
        )
        gone = await session.claim(large, GONE)
        assert gone.end.kind == "refused"
        assert gone.end.reason == "3 processors: site.largest_claim allows 2 here"
        gone = await session.claim(long, GONE)
        assert gone.end.reason == "a hold of 31 s: site.longest_hold_s allows 30 s here"
        await session.next("site", lambda report: report.through == 2 and report.idle == 4)


async def test_another_user_s_claim_is_refused_whatever_the_daemon_asks(tmp_path: Path) -> None:
    job = a_job()
    claim = f"{job}/1/0/1"
    async with fake_daemon() as daemon, agent_process(tmp_path, daemon.target, job=job):
        session = await daemon.live(hold(claim, *FOREVER, owner="bob"))
        facts = session.register.facts
        assert (facts.owner, list(facts.users)) == ("anna", [])
        gone = await session.claim(claim, GONE)
        reason = "a claim of bob: accounts.user allows those of anna here"
        assert (gone.end.kind, gone.end.reason) == ("refused", reason)


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


async def test_what_does_not_start_within_the_grace_time_is_refused(tmp_path: Path) -> None:
    job = a_job()
    first, second = f"{job}/1/0/1", f"{job}/1/1/1"
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=job, rest="grace_s = 60") as agent,
    ):
        session = await daemon.live(hold(first, *FOREVER, processors=4))
        await session.claim(first, GRANTED)
        await agent.kill()
        text = agent.config.read_text().replace("grace_s = 60", "grace_s = 0.3")
        agent.config.write_text(text)
        await agent.start()
        session = await daemon.live(hold(first, *FOREVER, processors=4, is_granted=True))
        session.want_more(hold(second, *FOREVER, processors=1, ask_number=2))
        gone = await session.claim(second, GONE)
        assert gone.end.kind == "refused"
        assert agent.processes(), "the first is left alone"


SLURM = """#!/bin/sh
case $0:$* in
*/squeue:*) test ! -e {away} ;;
*"/scontrol:show config") echo "PriorityType = priority/basic" ;;
*/sinfo:*%N) echo "n[1-2]" ;;
esac
"""


async def test_a_gate_that_is_known_later_is_told_with_the_figures(tmp_path: Path) -> None:
    """The batch system was away when the agent registered."""
    away = tmp_path / "away"
    away.touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "squeue", "scancel", "sinfo", "scontrol"):
        (programs / name).write_text(SLURM.format(away=away), encoding="utf-8")
        (programs / name).chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    keys = 'kind = "slurm"\npoll_s = 0.1\ncommands_per_minute = 1200'
    lrm = f'[lrm]\n{keys}\nenvironment = {{ PATH = "{path}" }}\n'
    async with (
        fake_daemon() as daemon,
        agent_process(tmp_path, daemon.target, job=a_job(), rest=lrm),
    ):
        session = await daemon.live()
        assert session.register.facts.gate == ""
        away.unlink()
        told = await session.next("site", lambda report: report.gate != "")
        assert told.gate == "start time"
