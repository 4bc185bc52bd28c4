"""`koala simulate multiqueue` as a user and other programs see it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.command import koala_here

SHORT = ("--jobs", "3000", "--warmup", "500", "--workers", "1")


def simulate(*words: str) -> tuple[int, str, str]:
    run = koala_here("simulate", "multiqueue", *SHORT, *words)
    return run.returncode, run.stdout, run.stderr


POINT = (
    "--policy LS-DO --mix 25,25,25,25 --split 40,20,20,20 --sizes 1:8 --q 0.9"
    " --sites 4x32 --utilization 0.8 --seed 1 --reps 3 --json"
)


def test_the_document_has_the_keys_that_others_read() -> None:
    _, out, _ = simulate(*POINT.split())
    found = json.loads(out)
    for kind in ("all", "local", "single", "multi"):
        assert 1 < found["response"][kind]["mean"] < 2
        assert 0 < found["response"][kind]["ci95"] < 1
    assert found["response"]["global"] == {"mean": None, "ci95": None}
    queues = found["response"]["queues"]
    assert len(queues) == 4
    assert queues[0] == max(queues)
    assert found["utilization"] == 0.8
    assert found["saturated"] is False


def test_saturation_is_said() -> None:
    status, out, _ = simulate("--policy", "GP", "--utilization", "1.1", "--reps", "2")
    assert status == 0
    assert "SATURATED" in out


def test_a_sweep_has_a_document_for_each_point(tmp_path: Path) -> None:
    picture = tmp_path / "sweep.svg"
    words = "--policy GS,EQ-GF --utilization 0.4,0.6 --reps 2 --json --plot"
    _, out, _ = simulate(*words.split(), str(picture))
    points = json.loads(out)["points"]
    assert [(point["policy"], point["utilization"]) for point in points] == [
        ("GS", 0.4),
        ("GS", 0.6),
        ("EQ-GF", 0.4),
        ("EQ-GF", 0.6),
    ]
    assert "EQ-GF" in picture.read_text(encoding="utf-8")


def test_every_counted_job_has_a_line(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    _, out, _ = simulate(
        *[
            "--policy",
            "LP-GF",
            "--utilization",
            "0.6",
            "--reps",
            "2",
            "--seed",
            "5",
            "--json",
            "--jobs-out",
        ],
        str(path),
    )
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["job"]) for row in rows] == list(range(501, 3001))
    assert all(float(r["arrival"]) <= float(r["start"]) < float(r["end"]) for r in rows)
    for row in rows:
        assert len(row["sites"].split()) == len(row["sizes"].split()) == int(row["components"])
        assert (row["queue"] == "global") == (row["components"] != "1")
    assert json.loads(out)["response"]["all"]["mean"] > 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--policy", "LS"), "LS-OR"),
        (("--mix", "0,0"), "mix = 0,0"),
        (("--mix", "1,1,1", "--sites", "2x8"), "2 sites"),
        (("--split", "50,50"), "each of the 4 sites"),
        (("--sizes", "1:40"), "1 to 32"),
        (("--q", "1.5"), "--q 1.5 (expected a number more than 0, at most 1"),
        (("--utilization", "0"), "utilization = 0"),
        (("--utilization", "0.5,x"), "--utilization 0.5,x"),
        (("--service-cv", "0.5"), "service-cv = 0.5"),
        (("--service-cv", "1e9"), "1000000000 (expected a number from 0 to 1000"),
        (("--service-cv", "0.5"), "0, and 1 to 1000"),
        (("--mix", "inf,1,1,1"), "--mix inf,1,1,1"),
        (("--warmup", "3000"), "0 to 2999"),
        (("--utilization", "0.5,0.6", "--jobs-out", "x.csv"), "2 points"),
        (("--plot", "x.txt"), "x.txt"),
        (("--jobs-out", "/nowhere/x.csv"), "/nowhere/x.csv"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(words: tuple[str, ...], named: str) -> None:
    status, out, error = simulate(*words)
    assert (status, out) == (2, "")
    assert named in error
