"""Launchers of MPI programs: they start the processes on other machines, and tell their ends."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from koala.common.protocol.messages import JobType, Peer
from koala.common.protocol.names import ClaimId
from koala_agent.claims.bundle import build_bundle
from koala_agent.lrm.batch_system import find_system
from koala_agent.lrm.claim_processes import SCOPE_VARIABLE
from koala_agent.placeholders.launch_settings import LaunchSettings
from koala_agent.placeholders.starter_installation import install_starter
from koala_agent.starter import mpi_launchers as runners

OWN = ClaimId("j1/1/1/1")
SCOPE = {SCOPE_VARIABLE: "none of those that other tests run"}
"""Else a process is of any local manager of this machine that has a claim of this name."""


def peer(component: int, processes: int, *hosts: tuple[str, int]) -> Peer:
    return Peer(
        port=20_000,
        component=component,
        label=str(component),
        site="delft",
        processors=processes,
        processes=processes,
        address=f"10.0.0.{component}",
        claim=ClaimId(f"j1/1/{component}/1"),
        hosts=hosts,
        job_type=JobType.MPI,
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A claim's state folder; `program` beside it is what runs, as a shell script."""
    folder = tmp_path / ".koala"
    folder.mkdir()
    peers = (peer(0, 3, ("a1", 2), ("a2", 1)), peer(1, 2, ("b1", 1), ("b2", 1)))
    spec = {
        "claim": OWN,
        "folder": str(tmp_path),
        "executable": "/bin/sh",
        "arguments": [str(tmp_path / "program")],
        "environment": [["FLAVOUR", "sweet and sour"]],
        "directory": "",
        "stdin": "",
        "stdout": "",
        "stderr": "",
        "processes": 2,
        "job_type": "mpi",
        "batch": find_system("slurm").rules.document(),
        "launcher": [],
        "cpu_time_s": 0,
        "memory_max_mb": 0,
        "kill_s": 0.3,
        "fetches": False,
        "bundle": {},
    }
    launch = {
        "environment": {"PATH": os.environ["PATH"], "ONLY_THERE": "yes", **SCOPE},
        "path": os.environ["PATH"],
        "kv": "/there/kv",
    }
    for name, content in (
        ("spec", spec),
        ("bundle", build_bundle(OWN, peers)),
        ("launch", launch),
    ):
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def run(
    state: Path, script: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    (state.parent / "program").write_text(script)
    place = LaunchSettings(root=state.parent.parent / "claims", site="delft")
    return subprocess.run(
        [*install_starter(place), "rank", str(state), *arguments],
        env={"PATH": os.environ["PATH"], **SCOPE, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


SAY = 'echo "$RANK $KOALA_PROCESS $LOCAL_RANK $NODE_RANK $FLAVOUR $ONLY_THERE"'


@pytest.mark.parametrize(
    "environment",
    [
        {"SLURM_PROCID": "1"},
        {"SLURM_PROCID": "0", "PMI_RANK": "1"},
        {"OMPI_COMM_WORLD_RANK": "1"},
        {"PMI_RANK": "4", "KOALA_MPI_FIRST": "3"},
    ],
)
def test_a_process_is_what_its_launcher_says(state: Path, environment: dict[str, str]) -> None:
    done = run(state, SAY, **environment)
    assert done.returncode == 0, done.stderr
    assert (state.parent / "stdout.1").read_text() == "4 1 0 3 sweet and sour yes\n"


def test_nothing_outlives_a_process_on_another_machine(state: Path) -> None:
    """Also what left its session, lost its parent and is deaf to TERM."""
    (state.parent / "deaf").write_text(
        "trap '' TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 600; done"
    )
    script = "setsid sh deaf & until test -e pid; do sleep 0.02; done; exit 3"
    done = run(state, script, PMI_RANK="0")
    assert done.returncode == 3, done.stderr
    pid = int((state.parent / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_proxy_dials_the_lead_where_its_own_site_reaches_it() -> None:
    command = ["hydra_pmi_proxy", "--control-port", "a1.inside:4711", "--proxy-id", "2"]
    runners._redirect(command, "10.0.0.1")
    assert command[2] == "10.0.0.1:4711"
