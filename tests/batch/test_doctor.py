"""`koala-agent doctor --probe` in front of real batch systems: the job runs, and calls back."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from koala_agent.config import read_config
from tests.agent.live.agent_process import COMMAND, environment
from tests.batch.conftest import ONE_OF_EACH, cleared
from tests.batch.systems.system import GPUS, System
from tests.harness.moments import until

pytestmark = pytest.mark.lrm

TEST_S = 600.0


@pytest.fixture(params=[*ONE_OF_EACH, "slurm by age"])
def system(request: pytest.FixtureRequest) -> Iterator[System]:
    """One of each kind, and a Slurm whose priorities grow with the age of jobs."""
    by_age = {"slurm by age": ("slurm_by_age", "zeta")}
    yield from cleared(request, *{**ONE_OF_EACH, **by_age}[request.param])


async def test_a_probe_job_goes_through_the_queue_and_the_gate_is_tried(
    system: System, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    config = tmp_path / "agent.toml"
    config.write_text(
        f'[agent]\nplain = true\nsite = "a"\ndaemon = "127.0.0.1:1"\nstate_dir = "{state}"\n'
        f'[accounts]\nmode = "anyone"\n[site]\nprocessors = {system.processors}\n'
        f"{system.lrm_table('DOCTOR=1')}",
        encoding="utf-8",
    )
    run = await asyncio.to_thread(
        subprocess.run,
        [*COMMAND, "doctor", str(config), "--probe", "--json"],
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    checks = {one["check"]: one for one in json.loads(run.stdout)["checks"]}
    assert checks["batch system"]["result"] == "ok", checks
    assert checks["account"]["result"] == "ok", checks
    assert checks["probe job"]["result"] == "ok", checks
    assert "reached 127.0.0.1 with Python 3." in checks["probe job"]["text"]
    assert checks["gate"]["result"] == "ok", checks
    assert "did not start in" in checks["gate"]["text"]
    if system.kind == "slurm":
        assert checks["gate"]["text"].endswith(" stayed")
    await until(lambda: system.numbers("koala-") == [])


def test_init_asks_the_batch_system_and_writes_what_it_has(system: System, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    run = subprocess.run(
        [sys.executable, "-m", "koala.cli", "init", system.kind, str(path)],
        env={**os.environ, **system.environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert run.returncode == 0, run.stderr
    config, text = read_config(path), path.read_text(encoding="utf-8")
    assert config.site.processors == system.processors, text
    assert f"# all that {config.system.title} has" in text
    assert config.lrm.environment["PATH"]
    if system.kind == "gridengine":
        assert 'parallel_environment = "grid"  ' in text
        assert config.site.gpus == GPUS
    elif system.kind == "slurm":
        assert "# there are: batch (default)" in text
        assert f"lists {GPUS} (a100) by itself" in text
