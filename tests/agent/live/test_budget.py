"""The budget of a component at its agent: messages, commits, forks. Never a time."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from koala.common.protocol.messages import Ping, Report
from koala_agent.lrm.job_table import FILE_NAME
from koala_agent.starter import procfs
from koala_agent.starter.procfs import Stat
from koala_agent.starter.state_machine.keepalive import BURST
from koala_agent.starter_link.listener import StarterConnection, StarterListener
from tests.agent.site import Site, a_shell_hold, a_site, an_arm, own_claim
from tests.harness.moments import until
from tests.lrm.harness import find_by_claim

pytestmark = pytest.mark.live

REPORTS = ["granted", "armed", "passed", "gone"]
ORDERS = {"Hold": 1, "Arm": 1, "Release": 1, "Acknowledge": 1}
PINGS_MAX = BURST + 3 + 3
"""Pings where the agent has not measured the daemon's clock: adopted, armed, released."""
COMMITS_MAX = 7
"""Commits of the claim store: asked, granted, armed, released, passed, ended, gone; those of one
moment are one. That it is forgotten is stored with the next claim's."""
ROWS_MAX = 3
"""Changes of the local manager's job table: the job is started, it runs, it is over."""
COMPONENTS = 4


async def test_a_component_keeps_to_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: Counter[str] = Counter()
    pings = []
    dialled = []
    accept = StarterListener.accept

    def counted_accept(listener: StarterListener) -> StarterConnection:
        dialled.append(listener)
        return accept(listener)

    monkeypatch.setattr(StarterListener, "accept", counted_accept)
    async with a_site(tmp_path) as site:
        order = site.claims.order

        def counted(message: object, **options: str) -> None:
            orders[type(message).__name__] += 1
            order(message, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(site.claims, "order", counted)
        monkeypatch.setattr(site.daemon, "send", counted)
        for number in range(COMPONENTS):
            orders.clear()
            site.daemon.heard.clear()
            site.commits.clear()
            await through(site, own_claim(number))
            heard = site.daemon.heard
            pings.append(orders.pop("Pong"))
            assert orders == ORDERS
            assert [one.state.value for one in heard if isinstance(one, Report)] == REPORTS
            assert sum(isinstance(one, Ping) for one in heard) == pings[-1] <= PINGS_MAX
            assert len(heard) == len(REPORTS) + pings[-1]
            assert len(site.commits) <= COMMITS_MAX
    assert len(dialled) == COMPONENTS
    # A stalled machine measures badly; otherwise all but the first know the daemon's clock.
    assert min(pings[1:]) == 1, pings
    assert changes_of(tmp_path) <= 1 + COMPONENTS * ROWS_MAX  # one is the site's


async def through(site: Site, claim: str) -> None:
    """Take one component through its life."""
    hold = a_shell_hold("exit 0", claim)
    arm = an_arm(hold)
    await site.armed(hold, arm)
    # The starter, a fork of the resident parent, and its own fork that waits to be the program.
    starter, _blocked = sorted(find_by_claim(claim))
    parent = Stat(procfs.read(starter.pid, "stat")).parent
    assert loaded(starter.pid) <= loaded(parent)
    site.release(arm)
    await site.gone(claim)
    await until(lambda: not site.claims.claims)


def loaded(pid: int) -> set[str]:
    """Return the libraries that a process has loaded: what its parent has costs a fork nothing."""
    words = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {each[5] for each in words if len(each) > 5 and ".so" in each[5]}


def changes_of(folder: Path) -> int:
    """Number of all changes of the job table, which its seal counts."""
    with sqlite3.connect(f"file:{folder / 'queue' / FILE_NAME}?mode=ro", uri=True) as database:
        (number,) = database.execute("SELECT number FROM seal").fetchone()
    return int(number)
