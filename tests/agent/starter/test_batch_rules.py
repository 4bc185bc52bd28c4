"""A starter reads its allocation from the environment and places its processes on the nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from koala.common.protocol.messages import Peer
from koala.common.protocol.names import ClaimId
from koala_agent.claims.bundle import build_bundle
from koala_agent.lrm.batch_system import find_system
from koala_agent.starter import batch_rules, program

SLURM, GRID_ENGINE, EMULATED = map(find_system, ("slurm", "gridengine", "emulated"))


@pytest.mark.parametrize(
    ("short", "names"),
    [
        ("", []),
        ("alpha", ["alpha"]),
        ("a1,b2", ["a1", "b2"]),
        ("a[1-3,07]", ["a1", "a2", "a3", "a07"]),
        ("n[009-011]-ib,z", ["n009-ib", "n010-ib", "n011-ib", "z"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_slurms_short_form_of_names(short: str, names: list[str]) -> None:
    """As `scontrol show hostnames` writes them out."""
    assert batch_rules.expand_names(short) == names


@pytest.mark.parametrize(
    ("short", "counts"), [("", []), ("4", [4]), ("4(x2),3", [4, 4, 3]), ("1,2(x3)", [1, 2, 2, 2])]
)
def test_slurms_short_form_of_numbers(short: str, counts: list[int]) -> None:
    assert batch_rules.expand_counts(short) == counts


def test_the_machines_of_an_allocation(tmp_path: Path) -> None:
    hostfile = tmp_path / "hosts"
    hostfile.write_text("n7 2 batch@n7 UNDEFINED\nn8 4 batch@n8 UNDEFINED\n")
    environment = {
        "SLURM_JOB_NODELIST": "a[1-2]",
        "SLURM_TASKS_PER_NODE": "8,4",
        "PE_HOSTFILE": str(hostfile),
    }
    assert batch_rules.allocation(SLURM.rules, environment) == (("a1", 8), ("a2", 4))
    assert batch_rules.allocation(GRID_ENGINE.rules, environment) == (("n7", 2), ("n8", 4))
    # An emulated site may itself be in somebody's batch job, whose machines are not its own.
    assert batch_rules.allocation(EMULATED.rules, environment) == ()
    assert (
        batch_rules.allocation(SLURM.rules, {})
        == batch_rules.allocation(GRID_ENGINE.rules, {})
        == ()
    )


def test_a_component_without_a_barrier_knows_its_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bundle was written before they were known, and no Arm ever brings another one."""
    monkeypatch.setenv("SLURM_JOB_NODELIST", "a[1-2]")
    monkeypatch.setenv("SLURM_TASKS_PER_NODE", "2(x2)")
    found = program.ClaimProgram(whole_spec(tmp_path, "/bin/true"))
    assert [len(mains) for mains in found.layout] == [2, 2]
    assert program.rendezvous(found.solo, 3)["NODE_RANK"] == "1"


@pytest.mark.parametrize(
    ("executable", "told"),
    [
        ("/bin/true", ""),
        ("folder", "folder: Is a directory"),
        ("none", "none: No such file or directory"),
        ("text", "text: Permission denied"),
    ],
)
def test_why_a_program_cannot_be_started(tmp_path: Path, executable: str, told: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").touch(mode=0o600)
    path = tmp_path / executable  # an absolute name stays what it is
    problem = program.ClaimProgram(whole_spec(tmp_path, str(path))).problem()
    assert problem == (f"{tmp_path}/{told}" if told else "")


def whole_spec(folder: Path, executable: str) -> dict[str, Any]:
    """Make the specification of one component with four processes."""
    itself = peer(0, 4)
    return {
        **spec("multiple", 4, "slurm"),
        **dict.fromkeys(("directory", "stdout", "stderr"), ""),
        "stdin": "/dev/null",
        "claim": itself.claim,
        "folder": str(folder),
        "executable": executable,
        "arguments": [],
        "environment": [],
        "cpu_time_s": 0,
        "memory_max_mb": 0,
        "bundle": build_bundle(itself.claim, (itself,)),
    }


def spec(job_type: str, processes: int, manager: str) -> dict[str, Any]:
    given = {
        "job_type": job_type,
        "processes": processes,
        "batch": find_system(manager).rules.document(),
    }
    return {**given, "launcher": [], "fetches": False}


TWO = (("a1", 2), ("a2", 2))


def indexes(given: dict[str, Any], hosts: tuple[tuple[str, int], ...]) -> list[list[int]]:
    placed = program.layout(given["job_type"], given["processes"], hosts)
    return [[main.index for main in mains] for mains in placed]


def test_which_machine_has_which_processes() -> None:
    assert indexes(spec("multiple", 4, "slurm"), ()) == [[0, 1, 2, 3]]
    assert indexes(spec("multiple", 2, "slurm"), TWO) == [[0, 1]]
    assert indexes(spec("single", 1, "slurm"), TWO) == [[0]]
    assert indexes(spec("multiple", 4, "slurm"), TWO) == [[0, 1], [2, 3]]
    assert indexes(spec("multiple", 3, "gridengine"), TWO) == [[0, 1], [2]]
    assert indexes(spec("multiple", 5, "slurm"), TWO) == [[0, 1], [2, 3, 4]]


def test_a_launcher_runs_on_the_first_machine_and_a_proxy_on_each() -> None:
    verbs = [[m.verb for m in mains] for mains in program.layout("mpi", 4, TWO)]
    assert verbs == [[("lead",), ("node", "0")], [("node", "1")]]
    assert indexes(spec("mpi", 4, "slurm"), TWO) == [[0, 1], [2]]
    assert indexes(spec("mpi", 4, "emulated"), ()) == [[0, 1]]


def peer(component: int, processes: int, *hosts: tuple[str, int], processors: int = 0) -> Peer:
    return Peer(
        port=20_000,
        component=component,
        label=str(component),
        site="delft",
        processors=processors or processes,
        processes=processes,
        address=f"10.0.0.{component}",
        claim=ClaimId(f"j1/1/{component}/1"),
        hosts=hosts,
    )


def told(process: int, component: int, *peers: Peer) -> list[int]:
    bundle: dict[str, Any] = build_bundle(ClaimId(f"j1/1/{component}/1"), peers)
    variables = program.rendezvous(bundle, process)
    names = ("RANK", "WORLD_SIZE", "NODE_RANK", "NNODES", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return [int(variables[name]) for name in names]


def test_the_bundle_has_the_machines_of_all_members() -> None:
    bundle: Any = build_bundle(ClaimId("j1/1/1/1"), (peer(0, 3, ("a1", 2), ("a2", 1)), peer(1, 2)))
    assert [(m["hosts"], m["slots"]) for m in bundle["members"]] == [
        (["a1", "a2"], [2, 1]),
        (["10.0.0.1"], [2]),
    ]
