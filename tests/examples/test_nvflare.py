"""A federation of NVFlare whose job processes are jobs of Koala; one of them is killed.

`make test-frameworks` installs NVFlare, and runs this.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from koala import Client
from tests.cli.command import environment
from tests.cli.grids import Up, marked_with, up
from tests.documents.blocks import blocks, missing, steps
from tests.examples.stage import EXAMPLES
from tests.tidy.sources import ROOT

PAGE = ROOT / "docs" / "guides" / "lost-sites.md"
FEDERATION = EXAMPLES / "frameworks" / "nvflare" / "federation.py"
PYTHON = ROOT / "build" / "frameworks" / "nvflare" / "bin" / "python"
ROUNDS = 8
LIMIT_S = 300.0


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Up]:
    with up(tmp_path, None) as running:
        yield running
    assert marked_with(str(tmp_path)) == [], "NVFlare has left something"


@pytest.mark.frameworks
@pytest.mark.live
def test_a_killed_job_process_is_started_again_and_no_round_misses_it(
    grid: Up, tmp_path: Path
) -> None:
    folder = tmp_path / "federation"
    folder.mkdir()
    with Client(grid.address, timeout=LIMIT_S) as client, _federation(grid, folder) as process:
        job = _job_of(client, "nvflare-leiden")
        for part in client.logs(job, stream="stdout", follow=True, timeout=LIMIT_S):
            if "round 1: loss" in part.text:
                break
        (started,) = _job_processes(folder, "leiden")
        started.kill()

        said, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, said + errors
        assert client.wait_all([job], timeout=LIMIT_S) == {job: "Finished"}
        jobs = {one.name: one for one in client.list_jobs()}
        assert {name: one.sites for name, one in jobs.items()} == {
            "nvflare-delft": ("delft",),
            "nvflare-leiden": ("leiden",),
        }
        assert {name: one.attempts for name, one in jobs.items()} == {
            "nvflare-delft": 1,
            "nvflare-leiden": 2,
        }
        assert "TOKEN" not in client.show(job).description, "a secret is in the daemon's journal"

    assert f"{ROUNDS} rounds with delft, leiden\n" in said
    losses = re.search(r"^loss (\S+) in the first round, (\S+) in the last", said, re.MULTILINE)
    assert losses, said
    assert float(losses[2]) < 0.001 < float(losses[1]), said
    assert list(folder.rglob("credentials.sh")) == [], "a secret is left"
    session = [block for block in blocks(PAGE) if block.language == "console"][1]
    (step,) = [step for step in steps(session) if step.commands.endswith("federation.py")]
    assert len(step.shown) >= 4
    assert missing(step.shown[1:], said) == [], said  # the first has NVFlare's own name of the job


@contextmanager
def _federation(grid: Up, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the example, which ends its server and clients itself."""
    process = subprocess.Popen(
        [str(PYTHON), str(FEDERATION), "--rounds", str(ROUNDS), "--folder", str(folder)],
        env=environment(KOALA_ADDRESS=grid.address),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def _job_of(client: Client, name: str) -> str:
    """Wait for the job with a name."""
    for _ in client.watch(after=0, timeout=LIMIT_S):
        found = [one.job for one in client.list_jobs() if one.name == name]
        if found:
            return found[0]
    raise AssertionError(f"no job {name}")


def _job_processes(folder: Path, client: str) -> list[psutil.Process]:
    """Find the running processes of NVFlare that train for a client."""
    found = []
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        is_ours = any(word.startswith(str(folder)) for word in words)
        if is_ours and "nvflare.private.fed.app.client.worker_process" in words:
            found += [process] if words[words.index("-c") + 1] == client else []
    return found
