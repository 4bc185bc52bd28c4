"""`koala simulate` for the papers' simulations: keys that are a contract, files, and refusals."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import koala_here
from tests.cli.test_command import modules_after

BRIEF = {
    "deadlines": ("--time", "20000", "--warmup", "2000"),
    "hints": ("--jobs", "40", "--reps", "2"),
    "koala": ("--jobs", "30", "--local-load", "0.3", "--lost-at", "3000"),
    "malleable": ("--jobs", "20", "--interval", "10", "--reps", "2"),
    "sq": ("--tasks", "60"),
}
GRID = """
vpn_mbps = 3.0

[sites.delft]
mips = 3000
slice_mips = 1500
slots = 4
link_mbps = 20

[sites.leiden]
mips = 4000
slots = 2
link_mbps = 10
storage_mb = 20000

[vpn.leiden]
delft = 5.0
"""


def document(name: str, *words: str) -> dict[str, Any]:
    """Run a simulation; return its document."""
    run = koala_here("simulate", name, *BRIEF[name], "--workers", "1", *words, "--json")
    assert (run.returncode, run.stderr) == (0, "")
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("policy", ["GP", "LP"])
def test_deadlines(policy: str) -> None:
    form = (
        f"--policy {policy} --lp 0.7 --mp 10 --wait inf --local-load 0.3 --global-load 0.2"
        " --lead 1:3599 --sites 4x32 --seed 1 --reps 2"
    )
    found = document("deadlines", *form.split())
    loads = ("total_load", "global_load", "local_load")
    for name in ("success_rate", "local_kill_rate", "wasted", "local_response", *loads):
        assert sorted(found[name]) == ["ci95", "mean"]
    assert 0 < found["success_rate"]["mean"] <= 100
    assert (found["local_kill_rate"]["mean"] > 0) == (policy == "GP")
    assert found["replications"] == 2


@pytest.mark.parametrize("scheme", ["SQ", "QoS"])
def test_synchronous_queuing(scheme: str) -> None:
    form = (
        f"--scheme {scheme} --machines 5 --interarrival 10 --beta 0.05 --quantum 0.1"
        " --partition soft --test corrected --seed 1 --reps 3"
    )
    found = document("sq", *form.split())
    skews = ("skew_eq2", "skew_finish")
    for name in ("qos_conformance", "effective_cycles", "acceptance_ratio", *skews):
        assert sorted(found[name]) == ["ci95", "mean"]
    assert 0 < found["acceptance_ratio"]["mean"] < 1
    assert (found["tasks"], found["replications"]) == (180, 3)


def test_hints() -> None:
    found = document("hints", "--policy", "preferlocal")
    for kind in ("all", "io", "cpu"):
        assert set(found["response"][kind]) == {"mean", "ci95"}
        assert found["response"][kind]["mean"] > 0
    assert found["unplaced"] == 0
    assert 0 < found["link_utilization"] < 1


def test_hints_on_an_own_grid_and_the_files_that_are_written(tmp_path: Path) -> None:
    grid, table, plot = tmp_path / "grid.toml", tmp_path / "jobs.csv", tmp_path / "plot.svg"
    grid.write_text(GRID, encoding="utf-8")
    ran = koala_here(
        "simulate", "hints", "--policy", "Service", *BRIEF["hints"], "--grid", str(grid),
        "--jobs-out", str(table), "--plot", str(plot),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "leiden-delft" in ran.stdout or "delft-leiden" in ran.stdout
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 40
    assert {row["site"] for row in rows} == {"delft", "leiden"}
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


def test_koala() -> None:
    found = document("koala", "--reps", "2")
    assert sorted(found) == [
        "groups", "makespan_s", "ours", "seeds", "setting", "unfinished", "utilization",
    ]  # fmt: skip
    assert found["setting"]["jobs"] == 30
    assert found["setting"]["lost_at_s"] == 3000.0
    assert found["setting"]["claim_fraction"] == 0.75
    assert 30 < found["utilization"]["arrivals"]["busy"]["mean"] <= 100
    groups = {group["group"]: group for group in found["groups"]}
    assert groups["all"]["finished"] == {"mean": 30.0, "ci95": 0.0}
    assert groups["72x8.high"]["components"] == 8


def test_malleable_jobs(tmp_path: Path) -> None:
    table = tmp_path / "jobs.csv"
    words = "--malleable 0.5 --manager egs --first waiting --jobs-out"
    found = document("malleable", *words.split(), str(table))
    assert found["setting"]["manager"] == "EGS"
    assert set(found["size"]) == {"all", "shaped", "rigid", "ft", "gadget"}
    assert found["size"]["rigid"]["mean"] == 2
    assert found["size"]["shaped"]["mean"] > 2
    assert found["unfinished"]["mean"] == 0
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == 20
    assert {row["mean_processors"] for row in rows if row["job"].startswith("rigid")} == {"2.0"}


def test_a_simulation_imports_only_what_it_needs() -> None:
    words = ["simulate", "koala", *BRIEF["koala"], "--workers", "1", "--reps", "1"]
    code = f"from koala.cli.main import main; main({words})"
    heavy = {"grpc", "rich", "structlog", "asyncio", "matplotlib", "numpy"}
    assert heavy & modules_after(code) == set()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("deadlines --policy GS", "--policy GS (expected one of GP, LP"),
        ("deadlines --lp 0", "--lp 0 (expected a number more than 0, at most 1"),
        ("deadlines --lead 3599", "--lead 3599 (expected LOW:HIGH"),
        ("deadlines --sites 1x32", "components = 2:1"),
        ("deadlines --killed saved", "--killed saved (expected one of lost, requeue"),
        ("deadlines --jobs-out /no/such/jobs.csv", "--jobs-out /no/such/jobs.csv: cannot"),
        ("hints --policy Best", "expected one of CF, WF"),
        ("hints --io-fraction 2", "--io-fraction 2 (expected a number from 0 to 1"),
        ("hints --io-job 12", "expected MB:MI"),
        ("hints --grid nowhere.toml", "cannot be read"),
        ("koala --placement BF", "--placement BF (expected one of CF, WF"),
        ("koala --sizes 36,x", "--sizes 36,x (expected numbers"),
        ("koala --components 3.5", "--components 3.5 (expected whole numbers"),
        ("koala --files nan", "--files nan (expected numbers"),
        ("koala --files 4,-8", "file_bytes = (4000000000, -8000000000) (expected sizes of 0"),
        ("koala --run 30", "--run 30 (expected LOW:HIGH"),
        ("koala --preempt all", "--preempt all (expected one of complete, component, none"),
        ("koala --lost-site 9", "lost_site = 9 (expected 1 to 4, or none"),
        ("koala --plot p.txt", "--plot p.txt (expected a file named *.svg, *.png, *.pdf)"),
        ("koala --sites 30 --replicas 1 --lost-site 0", "sizes = 36 (expected what fits"),
        ("koala --plot /no/such/p.svg", "--plot /no/such/p.svg: cannot be written"),
        ("malleable --manager Best", "expected one of FPSMA, EGS"),
        ("malleable --sites 20,20", "expected room for a job of 46 processors"),
        ("malleable --sites 60,1", "expected 2 processors or more of each site"),
        ("sq --scheme RR", "--scheme RR (expected one of QoS, free, SQ, SQ-printed, or a"),
        ("sq --machines 0", "--machines 0 (expected a number from 1 to 1000"),
        ("sq --beta 1", "--beta 1 (expected a number from 0, below 1"),
        ("sq --partition firm", "--partition firm (expected one of soft, hard"),
        ("sq --test right", "--test right (expected one of corrected, printed"),
    ],
)
def test_what_cannot_be_simulated_is_refused_with_what_could(words: str, text: str) -> None:
    name, *rest = words.split()
    run = koala_here("simulate", name, *BRIEF[name], *rest)
    assert (run.returncode, run.stdout) == (2, "")
    assert text in run.stderr
