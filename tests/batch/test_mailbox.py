"""Compute nodes that can dial nobody: a Slurm cluster in a network namespace without a route.

Its starters reach the agent by files in a folder that both see. A second cluster is behind ssh: its
login node runs no agent either, and the agent's end of the files goes over ssh. It shares the
network of this machine, since the account behind ssh may not enter a namespace.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import pytest

from koala.client import AsyncClient
from koala_agent.config import read_config
from koala_agent.probes.probe_job import run_probe
from tests.batch.systems.jobs import finished, log_of
from tests.batch.systems.slurm import slurm_clusters
from tests.batch.systems.ssh_sites import grid_behind_ssh
from tests.batch.systems.system import System, lonely_network, open_folder
from tests.harness.ssh_server import SSHServer
from tests.live.grid import Grid

pytestmark = pytest.mark.lrm

SKEW_MAX_S = 0.25
FILES = ("iota", "lambda")
"""The clusters whose starters dial nobody; the second one is behind ssh."""


@pytest.fixture(scope="module")
def systems(slurm: object) -> Iterator[dict[str, System]]:
    """iota, which is alone, lambda and alpha."""
    assert isinstance(slurm, dict)
    if os.geteuid() != 0:
        raise SkipTest("network namespaces need root here")
    with (
        lonely_network(f"koala-{os.getpid()}") as network,
        open_folder() as folder,
        slurm_clusters(folder / "alone", "iota:2x4", network=network) as alone,
        slurm_clusters(folder / "far", "lambda:2x4") as far,
    ):
        yield {**alone, **far, "alpha": slurm["alpha"]}


@pytest.fixture
def grid(tmp_path: Path, systems: dict[str, System], server: SSHServer) -> Iterator[Grid]:
    """Daemon and agents in front of the three clusters."""
    by_files = 'line = "files"\n'
    far = {"lambda": f'{by_files}mailbox = "{server.home}/mail"\n'}
    more = {"iota": f"[starter]\n{by_files}"}
    with grid_behind_ssh(tmp_path, systems, server, far, more=more) as grid:
        yield grid


def job(program: str) -> str:
    """Two processes at alpha, six on the two nodes of each of the others."""
    parts = (
        f'(&(executable=/bin/sh)(arguments=-c "{program}")(count={count})(maxWallTime=10)'
        f"(resourceManagerContact={site}))"
        for site, count in (("alpha", 2), *((site, 6) for site in FILES))
    )
    return "+" + "".join(parts)


async def test_a_job_starts_on_nodes_without_a_route_with_one_that_dials(
    grid: Grid, client: AsyncClient
) -> None:
    shown = await finished(client, job("grep -c : /proc/net/dev; echo out"))
    assert shown["attempts"] == 1, shown["story"]
    assert shown["timeline"]["start_skew_s"] < SKEW_MAX_S, shown["timeline"]
    assert (await log_of(client, shown["job"], 1)).splitlines() == ["1", "out"] * 6  # lo alone
    assert (await log_of(client, shown["job"], 2)).splitlines()[1::2] == ["out"] * 6


async def test_the_probe_job_answers_by_files(grid: Grid) -> None:
    """Nothing of a running agent is in its way."""
    said = await run_probe(read_config(grid.config("iota")))
    assert "mailbox" in said
