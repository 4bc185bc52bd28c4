"""A site whose account may have no more processes."""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.agent.live.agent_process import a_job, agent_process
from tests.agent.live.claim_steps import passed
from tests.agent.live.fake_daemon import GONE, GRANTED, fake_daemon, hold

ACCOUNT = 61_873
"""An account of nobody else: its processes are counted together. Root has no such limit."""
AS_ACCOUNT = (
    *("setpriv", f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),  # our interpreter's folder
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the account can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        state = Path(name) / "state"
        state.mkdir(mode=0o700)
        os.chown(state, ACCOUNT, ACCOUNT)
        yield Path(name)


def allow(agent: int, processes: int) -> None:
    """Limit the processes of the account, for an agent and the resident parent of its starters."""
    number = "unlimited" if processes == resource.RLIM_INFINITY else processes
    parents = [one.pid for one in psutil.Process(agent).children() if "resident" in one.cmdline()]
    for pid in (agent, *parents):
        words = ("prlimit", f"--pid={pid}", f"--nproc={number}:")
        subprocess.run((*AS_ACCOUNT, *words), check=True)


@pytest.mark.live
@pytest.mark.root
async def test_a_site_without_room_for_a_process_goes_on_when_it_has_some(folder: Path) -> None:
    """Running claims go on and are reported; a claim that cannot be started is the site's fault."""
    job = a_job()
    runs, fails, later = (f"{job}/1/{component}/1" for component in range(3))
    mark = folder / "gate"
    gate = ("-c", f"until [ -e {mark} ]; do :; done; exit 3")
    async with (
        fake_daemon() as daemon,
        agent_process(folder, daemon.target, job=job, prefix=AS_ACCOUNT) as agent,
    ):
        session = await daemon.live(hold(runs, *gate))
        await session.claim(runs, GRANTED)
        await passed(session, runs)
        assert agent.process is not None
        pid = agent.process.pid
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        allow(pid, 1)
        session.want_more(hold(fails, *gate, ask_number=2))
        end = (await session.claim(fails, GONE)).end
        assert end.kind == "failed"
        assert "Resource temporarily unavailable" in end.reason
        mark.touch()
        assert list((await session.claim(runs, GONE)).end.statuses) == [3]
        allow(pid, hard)
        session.want_more(hold(later, *gate, ask_number=3))
        await session.claim(later, GRANTED)
        await passed(session, later)
        assert list((await session.claim(later, GONE)).end.statuses) == [3]
        assert agent.process.returncode is None
    assert "Traceback" not in str(agent)
