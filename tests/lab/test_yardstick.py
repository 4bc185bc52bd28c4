"""The yardstick: its jobs follow its rules, its table the definitions, and own policies join it."""

from __future__ import annotations

import json
from collections import Counter
from math import exp, log
from pathlib import Path
from statistics import fmean

import pytest

from koala.errors import ConfigError
from koala.lab import Log
from koala.lab.yardstick import (
    JOBS,
    KINDS,
    LOAD,
    SHARES,
    Mixed,
    entries,
    points,
    table,
)
from tests.cli.command import koala, koala_here

SITES = (("a", 338), ("b", 128), ("c", 100))
SIZES = [processors for _, processors in SITES]


def test_there_are_five_grids_and_twelve_workloads() -> None:
    cells = {point.labels[:2] for point in points(entries((), has_all=False), is_full=True)}
    assert {len(set(names)) for names in zip(*cells, strict=True)} == {5, 12}
    assert len(cells) == 60


@pytest.mark.parametrize("kind", KINDS)
def test_a_share_changes_the_shape_of_jobs_and_nothing_else(kind: str) -> None:
    drawn = {
        share: Mixed(kind=kind, share=share, jobs=JOBS[kind], sites=SITES)(7) for share in SHARES
    }
    single = drawn[0.0]
    for share, jobs in drawn.items():
        assert [(job.at, job.run_s, job.estimate_s) for job in jobs] == [
            (job.at, job.run_s, job.estimate_s) for job in single
        ]
        several = [len(_parts(job.processors)) > 1 for job in jobs]
        assert abs(sum(several) / len(jobs) - share) < 0.15
        for job, one in zip(jobs, single, strict=True):
            parts, (whole,) = _parts(job.processors), _parts(one.processors)
            assert (
                whole <= sum(parts) < whole + len(parts) or parts[0] == sorted(SIZES)[-len(parts)]
            )
    work = sum(sum(_parts(job.processors)) * job.run_s for job in single)
    assert work / (sum(SIZES) * single[-1].at) == pytest.approx(LOAD, rel=0.15)


def _parts(processors: int | tuple[int, ...]) -> tuple[int, ...]:
    assert isinstance(processors, tuple)
    return processors


def test_half_of_the_jobs_of_one_component_are_submitted_at_a_site_that_holds_them() -> None:
    """Larger sites get more of them, and jobs of several components none."""
    jobs = Mixed(kind="short", share=0.25, jobs=4000, sites=SITES)(5)
    single = [job for job in jobs if len(_parts(job.processors)) == 1]
    local = [job for job in single if job.queue is not None]
    assert len(local) / len(single) == pytest.approx(0.5, abs=0.05)
    assert not any(job.queue for job in jobs if len(_parts(job.processors)) > 1)
    at = Counter(job.queue for job in local)
    assert at["a"] / len(local) == pytest.approx(338 / sum(SIZES), abs=0.05)
    wide = Mixed(kind="wide", share=0, jobs=400, sites=SITES)(5)
    sizes = dict(SITES)
    assert all(_parts(job.processors)[0] <= sizes[job.queue] for job in wide if job.queue)
    assert len({job.user for job in jobs}) == 8


def test_disciplines_with_local_and_global_queues_differ_from_a_global_one() -> None:
    """Without jobs that are submitted at a site, all of these have one queue, and equal rows."""
    _, *measured = entries(
        [f"queueing={name}" for name in ("GS", "GP", "LP-GF", "LQ")], has_all=False
    )
    cell = [
        point
        for point in points(measured, is_full=False)
        if point.labels[:2] == (("grid", "das2"), ("workload", "wide-25"))
    ]
    assert len({point.base.run(1).metrics["slowdown_all"] for point in cell}) == 4


def test_the_table_has_geometric_means_of_ratios_in_the_same_cell() -> None:
    measured = entries(["queueing=sjf"], has_all=False)
    runs = [
        {"grid": "g", "workload": w, "policy": p, "seed": 1, "slowdown_all": s, "wasted_percent": x}
        for w, p, s, x in (
            ("a", "reference", 2.0, 1.0),
            ("b", "reference", 8.0, 3.0),
            ("a", "queueing sjf", 1.0, 2.0),
            ("b", "queueing sjf", 16.0, 6.0),
            ("c", "queueing sjf", 99.0, 1.0),
        )
    ]
    found = table(runs, measured)
    assert [row["policy"] for row in found] == ["reference", "queueing sjf"]
    assert found[0]["slowdown_all"] == 1
    assert found[1]["slowdown_all"] == pytest.approx(exp(fmean([log(0.5), log(2.0)])))
    assert found[1]["wasted_percent"] == 3
    assert found[1]["runs"] == 3


def test_an_own_policy_of_a_module_is_measured_beside_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_place.py").write_text(
        "from koala.policies.placement.worst_fit import worst_fit\n\n\n"
        "def place(request, view):\n    return worst_fit(request, view)\n"
    )
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "mine.swf"
    made = koala_here("simulate", "workload", "das", "--jobs", "120", "--processors", "32")
    log.write_text(made.stdout)
    done = koala(
        *("yardstick", "--policy", "own_place:place", "--log", str(log), "--json"),
        *("--workers", "2", "--store", str(tmp_path / "store"), "--out", str(tmp_path / "out")),
        PYTHONPATH=f"{tmp_path}:{_path()}",
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["cells"] == 5
    rows = {row["policy"]: row for row in found["policies"]}
    assert list(rows) == ["reference", "placement own_place:place"]
    own = rows["placement own_place:place"]
    assert (own["runs"], own["slowdown_all"], own["unfinished_percent"]) == (5, 1, 0)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "runs.csv",
        "table.csv",
        "table.md",
    ]


def _path() -> str:
    from tests.cli.command import PYTHON_PATH

    return PYTHON_PATH


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("--policy", "speed=WF"),
            "--policy speed=WF: slot speed is unknown (expected one of placement, claiming",
        ),
        (("--policy", "XX"), "--policy XX: "),
        (("--log", "nowhere.swf"), "--log nowhere.swf: no such file"),
    ],
)
def test_what_is_wrong_is_named(words: tuple[str, ...], told: str) -> None:
    done = koala_here("yardstick", *words)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_log_with_too_few_jobs_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "few.swf"
    file.write_text("1 0 -1 60 4 -1 -1 4 60 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    with pytest.raises(ConfigError, match=r"few\.swf: 1 jobs that ran \(expected a log with 33"):
        points(entries((), has_all=False), is_full=False, log_file=Log(file))
