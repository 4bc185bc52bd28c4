"""`koala sweep`: settings of a file, the same bytes in parts, errors that name the key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import koala, koala_here

POLICIES = """
simulate = "multiqueue"
reps = 3
metrics = ["response.all"]
[options]
jobs = 400
warmup = 50
[over]
policy = ["LS-DO", "GP"]
utilization = [0.4, 0.6]
[compare]
metric = "response.all"
over = "policy"
baseline = "GP"
"""


def bytes_of(folder: Path) -> dict[str, bytes]:
    names = (path for path in folder.iterdir() if path.name != "provenance.json")
    return {path.name: path.read_bytes() for path in names}


def test_parts_give_the_bytes_of_one_sweep_and_a_repeated_one_makes_no_run(
    tmp_path: Path,
) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES)
    out = {name: tmp_path / name for name in ("whole", "again", "1", "2", "merged")}

    def sweep(name: str, *words: str) -> str:
        # "2" has two workers, which a process without threads forks: pytest's has some.
        run = koala if name == "2" else koala_here
        done = run("sweep", str(file), "--out", str(out[name]), *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    store = ("--store", str(tmp_path / "store"))
    printed = sweep("whole", "--workers", "1", *store)
    assert "response.all, paired differences" in printed
    again = json.loads(sweep("again", *store, "--json"))
    assert again["runs"] == {"finished": 12, "stored": 12}
    assert len(again["means"]) == 4
    assert {row["baseline"] for row in again["comparisons"]} == {"GP"}
    for name in ("1", "2"):
        sweep(name, "--no-store", "--part", f"{name}/2", "--workers", name)
    sweep("merged", "--merge", str(out["2"]), "--merge", str(out["1"]))
    assert bytes_of(out["merged"]) == bytes_of(out["whole"]) == bytes_of(out["again"])
    names = ["comparisons.csv", "means.csv", "runs.csv", "runs.jsonl"]
    assert sorted(bytes_of(out["whole"])) == names
    done = koala_here("sweep", str(file), "--merge", str(out["1"]), "--out", str(tmp_path / "x"))
    assert "6 of 12 runs are missing" in done.stderr


def test_a_dry_run_lists_the_runs(tmp_path: Path) -> None:
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES)
    done = koala_here("sweep", str(file), "--dry-run", "--reps", "2", "--part", "1/4", "--json")
    assert json.loads(done.stdout) == {
        "version": 1,
        "settings": 4,
        "runs": [{"policy": "LS-DO", "utilization": 0.4, "seed": seed} for seed in (1, 2)],
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policies.toml"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "x = 1\ny 2",
            "not TOML: Expected '=' after a key in a key/value pair (at line 2, column 3)",
        ),
        ('simulate = "quake"', "simulate = 'quake' (expected one of koala, multiqueue, deadlines"),
        ('simulate = "sq"\nreps = 0', "reps = 0 (expected int >= 1"),
        ("reps = 1", "toml: simulate is missing"),
        ('simulate = "sq"\nrep = 1', "rep is unknown: did you mean reps? Known are simulate, reps"),
        ('simulate = "sq"\nlog = "x"', "log: not allowed with simulate = 'sq'"),
        (
            'simulate = "sq"\n[over]\nscheme = ["XX"]',
            "over: --scheme XX (expected one of QoS, free",
        ),
        ('simulate = "sq"\n[over]\nscheem = ["SQ"]', "over: scheem: no such option; there are"),
        ('simulate = "sq"\n[over]\nscheme = []', "over.scheme = [] (expected a list with"),
        ('simulate = "sq"\n[options]\ntasks = "x"', "options: tasks = 'x' (expected a number"),
        ('simulate = "grid"', "needs either grid, a file, or [sites]"),
        ('simulate = "grid"\nsites = {a = 4}', "[workload] is missing"),
        (
            'simulate = "grid"\nsites = {a = 4}\nworkload = {job = 4}',
            "workload.job: no such setting; there are model, jobs",
        ),
        ('simulate = "trace"', "log is missing"),
        (
            'simulate = "sq"\ncompare = {metric = "x", over = "y", baseline = 1}',
            "compare.over = 'y': settings differ in none",
        ),
        (
            'simulate = "sq"\n[over]\nscheme = ["SQ", "QoS"]\n[compare]\nmetric = "tasks"\n'
            'over = "scheme"\nbaseline = "Sq"',
            "compare.baseline = 'Sq': values of scheme are SQ, QoS",
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(
    tmp_path: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from koala.cli.main import main

    file = tmp_path / "bad.toml"
    file.write_text(text)
    assert main(["sweep", str(file), "--dry-run"]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"koala sweep: {file}: ")
    assert told in printed
