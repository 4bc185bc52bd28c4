"""Frameworks over sites whose networks have no route to one another: all goes through the grid.

`make test-frameworks` as root runs these.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala.client import AsyncClient
from koala.views.records.jobs import JobDetails
from tests.examples.stage import EXAMPLES
from tests.examples.test_frameworks import COMPONENTS, ENVIRONMENTS, REQUIREMENTS, check
from tests.harness.namespaces import lonely_sites
from tests.live.conftest import client_of
from tests.live.grid import CALM, Grid, running_at

pytestmark = [pytest.mark.frameworks, pytest.mark.live, pytest.mark.root]

SITES = ("vu", "delft", "leiden")
NVFLARE = EXAMPLES / "frameworks" / "nvflare"
NVFLARE_PYTHON = str(ENVIRONMENTS / "nvflare" / "bin" / "python")


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    with lonely_sites(SITES) as (host, spaces):
        grid = Grid(
            tmp_path_factory.mktemp("apart"),
            sites=dict.fromkeys(SITES, 4),
            parameters={**CALM, "paths_limit_s": 1.0},
            host=host,
            spaces=spaces,
        )
        with running_at(grid, {site: space.address for site, space in spaces.items()}):
            yield grid


@pytest.mark.parametrize("name", ["dask", "flower", "muscle3", "parameter_server"])
async def test_a_framework_runs_where_no_site_reaches_another(name: str, grid: Grid) -> None:
    folder = EXAMPLES / "frameworks"
    text = (folder / f"{name}.rsl").read_text(encoding="utf-8")
    python = sys.executable
    if name in REQUIREMENTS:
        python = str(ENVIRONMENTS / REQUIREMENTS[name] / "bin" / "python")
    async with client_of(grid) as client:
        await grid.ready(client)
        definitions = {"PYTHON": python, "HERE": str(folder)}
        said, shown = await ended(client, text, definitions, COMPONENTS.get(name, "server"))
        if name in COMPONENTS:
            check(name, said)
        else:
            assert len(re.findall(r"^\w+ gave 200 gradients$", said, re.MULTILINE)) == 2, said
            assert "weights [2.0, -3.0, 1.0]\n" in said
        assert all(way.is_forwarded for way in shown.ports), shown.ports
        assert sum(charge.forwarded_bytes for charge in shown.charges) > 10_000


@pytest.fixture
def kits(tmp_path: Path) -> str:
    """The folder with the startup kits of a federation of NVFlare."""
    words = [NVFLARE_PYTHON, str(NVFLARE / "apart.py"), "kits", str(tmp_path), "delft", "leiden"]
    made = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return made.stdout.split()[-1]


async def test_nvflare_learns_where_no_site_reaches_another(grid: Grid, kits: str) -> None:
    definitions = {"PYTHON": NVFLARE_PYTHON, "HERE": str(NVFLARE), "KITS": kits}
    text = (NVFLARE / "apart.rsl").read_text(encoding="utf-8")
    async with client_of(grid) as client:
        await grid.ready(client)
        said, shown = await ended(client, text, definitions, "server")
    assert "4 rounds with delft, leiden\n" in said
    assert "weights [2.0, -3.0, 1.0]\n" in said
    assert all(way.is_forwarded for way in shown.ports), shown.ports


async def ended(
    client: AsyncClient, text: str, definitions: dict[str, str], label: str
) -> tuple[str, JobDetails]:
    """Run a job to its good end; return what a component has printed, and the job."""
    job = (await client.submit(text, definitions=definitions)).job
    phase = await client.wait(job, timeout=240.0)
    parts = [part async for part in client.logs(job)]
    assert phase == "Finished", b"".join(part.data for part in parts).decode()
    said = [part.data for part in parts if (part.label, part.stream) == (label, "stdout")]
    return b"".join(said).decode(), await client.show(job)
