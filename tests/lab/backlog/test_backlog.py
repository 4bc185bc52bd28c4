"""The backlog: its bound by hand, its jobs, its table by the definitions, and its command."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from math import log, sqrt
from pathlib import Path
from random import Random

import pytest

from koala.errors import ConfigError
from koala.lab.backlog.bound import BoundTask, run_bound, simulate
from koala.lab.backlog.scenes import DAY_S, Coallocated, Machine, Scene, scene_of
from koala.lab.backlog.scores import PLAIN, Bounds, Campaign, full, scene_rows, table
from koala.lab.experiments import Experiment
from tests.cli.command import koala_here

DAY = int(DAY_S)


def write(path: Path, jobs: Iterable[tuple[int, int, int, int]], *, processors: int = 8) -> Path:
    """Write a log of (submit, processors, run time, estimate); it begins with a job at 0."""
    lines = [f"; MaxProcs: {processors}", "0 0 0 1 1 -1 -1 1 1 -1 1 1 -1 1 -1 -1 -1 -1"]
    lines += [
        f"{number} {at} 0 {run_s} {size} -1 -1 {size} {estimate_s} -1 1 1 -1 1 -1 -1 -1 -1"
        for number, (at, size, run_s, estimate_s) in enumerate(jobs, 1)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


def daily(path: Path, *, at: int = 0) -> Path:
    """Write a log of a machine that is taken whole for 12 hours of each day, and estimates 14."""
    jobs = ((day * DAY + at, 8, DAY // 2, 14 * 3600) for day in range(120))
    return write(path, jobs)


def never_idle(path: Path) -> Path:
    """Write a log of a machine that gets a little more work than it can do."""
    half = DAY // 2
    return write(path, ((number * half, 8, half + 600, 14 * 3600) for number in range(200)))


def test_a_plain_job_waits_in_the_local_queue_as_any_other(tmp_path: Path) -> None:
    """On day 15 of the log, the fifth of the 60 days, a job takes all from 0:00 to 12:00."""
    machine = Machine(daily(tmp_path / "a.swf"), day=20)
    alone = simulate(machine)
    assert alone.utilization == 0.5
    assert alone.local_waits_s == (0.0,) * 90
    hour = 3600
    at = 15 * DAY
    queue = simulate(machine, [(at + hour, 4, hour), (at + 2 * hour, 4, 23 * hour)])
    assert [*queue.plain_waits_s] == [11 * hour, 10 * hour]
    # It runs until 11:00 of the next day, so that all that come later are late, too.
    assert max(queue.local_waits_s) == 11 * hour
    assert queue.window_wait_s == pytest.approx(sum(queue.local_waits_s) / 60)


def test_a_plain_job_that_does_not_start_has_waited_until_the_end(tmp_path: Path) -> None:
    machine = Machine(write(tmp_path / "a.swf", [(11 * DAY, 8, 90 * DAY, 90 * DAY)]), day=20)
    queue = simulate(machine, [(30 * DAY, 1, 60)])
    assert queue.plain_waits_s == (60 * DAY,)


def test_a_job_is_bounded_by_the_last_of_its_parts(tmp_path: Path) -> None:
    """One machine is taken in the mornings, the other in the afternoons."""
    one = Machine(daily(tmp_path / "a.swf"), day=20)
    other = Machine(daily(tmp_path / "b.swf", at=DAY // 2), day=20)
    sites = ((one.name, 8), (other.name, 8))
    jobs = Coallocated(sites=sites, percent=50, run_s=60, every_s=20 * DAY)
    bound = run_bound(BoundTask(scene=Scene((one, other)), jobs=jobs, seed=3)).values
    waits = sorted(DAY // 2 - int(job.at) % (DAY // 2) for job in jobs.jobs(3))
    assert bound["median_s"] == waits[1]
    assert bound["mean_s"] == sum(waits) / 3
    assert bound["p90_s"] == pytest.approx(waits[1] + 0.8 * (waits[2] - waits[1]))
    assert bound["in_72h_percent"] == 100


def test_local_jobs_wait_as_without_koala_while_nothing_of_it_starts(tmp_path: Path) -> None:
    """The grid's sites and the quicker loop of the bound are the same queue, to the last bit."""
    draws = Random(5)
    machines = []
    for name in ("a", "b"):
        jobs = [
            (at, draws.randint(1, 8), run_s, run_s * draws.choice([1, 3]))
            for at in range(0, 100 * DAY, 3 * 3600)
            for run_s in [draws.randint(60, 9 * 3600)]
        ]
        machines.append(Machine(write(tmp_path / f"{name}.swf", jobs), day=10))
    scene = Scene(tuple(machines))
    campaign = Campaign(scenes=(scene,), policies=("none",), percent=100, every_s=60 * DAY)
    found = campaign.points()[0].base.run().metrics
    assert found["in_72h_percent"] == 0
    alone = run_bound(BoundTask(scene=scene)).values["local_wait_mean"]
    assert found["local_wait_mean"] == alone > 600


def test_there_is_a_job_in_each_interval_for_a_share_of_each_site() -> None:
    drawn = Coallocated(sites=(("a", 338), ("b", 7)), percent=10, run_s=60, every_s=5 * DAY)
    jobs = drawn.jobs(1)
    assert [int(job.at - 10 * DAY) // (5 * DAY) for job in jobs] == list(range(12))
    assert {(job.processors, job.sites) for job in jobs} == {((34, 1), ("a", "b"))}
    assert drawn.jobs(1) == jobs
    assert drawn.jobs(2) != jobs


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a.swf+b.swf", "expected logs with days"),
        ("a.swf:x+b.swf:20", "expected logs with days"),
        ("a.swf:9+b.swf:20", "expected a day from 10 on"),
        ("a.swf:20", "expected two or more"),
        ("a.swf:20+a.swf:20", "expected two or more"),
    ],
)
def test_wrong_scenes_are_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        scene_of(text)


def test_the_table_has_the_figures_of_its_definitions() -> None:
    plain = {"median_s": 10.0, "p90_s": 20.0, "mean_s": 10.0, "in_72h_percent": 100.0}
    bounds = Bounds(
        alone={"x": {"local_wait_mean": 5.0}},
        plain={("x", seed): {**plain, "local_wait_mean": 7.0} for seed in (1, 2)},
    )
    runs = [
        {
            "sites": "x",
            "policy": "dodge",
            "seed": seed,
            "jobs": 4.0,
            "median_s": 10.0 * seed,
            "p90_s": 20.0,
            "mean_s": 15.0,
            "in_72h_percent": 50.0 * seed,
            "held_processor_s": 3.0 * seed,
            "running_processor_s": 90.0,
            "given_back": 2.0,
            "local_wait_mean": 6.0,
        }
        for seed in (1, 2)
    ]
    first, row = table(runs, ["dodge"], bounds)
    assert (first["policy"], first["median_ratio"], first["harm_s"]) == (PLAIN, 1.0, 2.0)
    assert row["median_ratio"] == pytest.approx(sqrt(2))
    assert (row["p90_ratio"], row["mean_ratio"]) == pytest.approx((1.0, 1.5))
    half = log(2) / sqrt(2) / sqrt(2) * 12.7062  # of two values, by Student's t
    assert log(row["median_high"]) == pytest.approx(log(2) / 2 + half)
    assert (row["waste_percent"], row["in_72h_percent"]) == (5.0, 75.0)
    assert (row["given_back"], row["harm_s"]) == (0.5, 1.0)
    hours = scene_rows(runs, ["dodge"], bounds)
    assert [(one["policy"], round(one["median_h"] * 3600, 6)) for one in hours] == [
        (PLAIN, 10.0),
        ("dodge", 15.0),
    ]


def test_the_command_compares_policies_with_plain_jobs(tmp_path: Path) -> None:
    """A second call finds all runs in the store."""
    for name in ("a", "b"):
        never_idle(tmp_path / f"{name}.swf")
    words = (
        "simulate", "backlog", f"{tmp_path}/a.swf:10+{tmp_path}/b.swf:14", "--policy", "none",
        "--policy", "dodge", "--size", "50", "--run", "600", "--workers", "1",
        "--store", str(tmp_path / "store"), "--out", str(tmp_path / "out"), "--json",
    )  # fmt: skip
    done = koala_here(*words)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (setting,) = found["settings"]
    rows = {row["policy"]: row for row in setting["policies"]}
    assert list(rows) == [PLAIN, "none", "dodge"]
    assert (rows["none"]["in_72h_percent"], rows["dodge"]["in_72h_percent"]) == (0, 100)
    assert rows["dodge"]["mean_ratio"] < 2
    assert found["alone"]["a:10+b:14"]["a:10 utilization"] == 1
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    drawn = ["median_ratio.svg", "waste_percent.svg"]
    assert names == [drawn[0], "results.md", "runs.csv", "scenes.csv", "table.csv", drawn[1]]
    page = (tmp_path / "out" / "results.md").read_text(encoding="utf-8")
    assert f"## {setting['setting']}" in page
    assert "| none | 1 | " in page
    assert koala_here(*words).stdout == done.stdout
    assert (tmp_path / "out" / "results.md").read_text(encoding="utf-8") == page


def test_a_redundant_component_runs_where_it_starts_first(tmp_path: Path) -> None:
    """One machine is taken for all the time, the other for most of it."""
    write(tmp_path / "a.swf", [(11 * DAY, 8, 200 * DAY, 200 * DAY)])
    never_idle(tmp_path / "b.swf")
    scene = scene_of(f"{tmp_path}/a.swf:20+{tmp_path}/b.swf:20")
    one = Campaign(scenes=(scene,), policies=("dodge",), percent=50, components=1, every_s=60 * DAY)
    assert one.points()[0].base.run().metrics["in_72h_percent"] == 0
    campaign = replace(one, redundancy=2)
    assert campaign.points()[0].base.run().metrics["in_72h_percent"] == 100
    (_, task) = campaign.bounds([1])
    assert run_bound(task).values["in_72h_percent"] == 100
    both = replace(campaign.jobs(scene), components=2)
    assert run_bound(replace(task, jobs=both)).values["in_72h_percent"] == 0


def test_the_page_has_these_settings(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        daily(tmp_path / f"{name}.swf")
    scenes = [
        scene_of("+".join(f"{tmp_path}/{x}.swf:20" for x in names)) for names in ("ab", "abc")
    ]
    settings = [str(one) for one in full(tuple(scenes))]
    assert settings[0] == "1 h on 10 %, one in 5 days"
    assert settings[-4] == "1 h on 10 %, one in 5 days, 2 components, redundancy 2"
    assert settings[-1] == "1 h on 10 %, one in 5 days, 100 % of the sites book"
    assert len(settings) == len({*settings}) == len(full(tuple(scenes[:1]))) + 2


@pytest.mark.parametrize(("share", "books"), [(0.5, "01010"), (0.25, "00010"), (1.0, "11111")])
def test_a_share_of_all_machines_books(tmp_path: Path, share: float, books: str) -> None:
    places = [f"{daily(tmp_path / f'{name}.swf')}:20" for name in "abcde"]
    scenes = (scene_of("+".join(places[:2])), scene_of("+".join(places[2:])))
    points = Campaign(scenes=scenes, policies=("book",), bookable=share).points()
    grids = [point.base.grid for point in points if isinstance(point.base, Experiment)]
    assert "".join(str(int(site.books)) for grid in grids for site in grid.sites) == books


def test_what_is_booked_starts_when_the_others_come_up(tmp_path: Path) -> None:
    """One machine has room in the afternoons; the other, which is never idle, is booked."""
    daily(tmp_path / "a.swf")
    never_idle(tmp_path / "b.swf")
    scene = scene_of(f"{tmp_path}/a.swf:20+{tmp_path}/b.swf:20")
    campaign = Campaign(scenes=(scene,), policies=("book",), percent=50, every_s=20 * DAY)
    waited = campaign.points()[0].base.run().metrics["mean_s"]
    booked = replace(campaign, bookable=0.5).points()[0].base.run().metrics["mean_s"]
    assert booked < waited / 2
