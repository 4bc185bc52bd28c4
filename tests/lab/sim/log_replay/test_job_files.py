"""Jobs of a replay as a log in SWF: the lines of the log that was read, with the replay's times."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from koala.errors import ConfigError
from koala.lab.sim.log_replay.events import Change
from koala.lab.sim.log_replay.replay import Replay, ReplaySetting
from koala.lab.workload import gwf, swf
from koala.lab.workload.arrivals import Overrun
from koala.lab.workload.logs import Log
from tests.cli.command import koala_here
from tests.lab.workload.logs import a_log, line

HEADER = "; MaxProcs: 8\n; UnixStartTime: 1000000\n; Conversion: by hand"


def replayed(folder: Path, *lines: str, name: str = "out.swf", **setting: object) -> Path:
    log = a_log(folder, HEADER, *lines)
    given = {"discipline": "easy", **setting}
    out = folder / name
    Replay(ReplaySetting(path=log.path, form=swf.FORMAT, **given), jobs_out=out).run(lambda _: None)  # type: ignore[arg-type]
    return out


def jobs(path: Path) -> list[tuple[float, ...]]:
    return list(swf.jobs(Log(path, swf.FORMAT)))


LINES = (
    "7 100 5 50 4 -1 -1 8 60 -1 1 3 2 9 4 1 -1 -1",
    "8 100 5 50 8 -1 -1 8 60 -1 1 5 2 9 4 1 7 30",
    "9 110 5 -1 8 -1 -1 8 60 -1 5 5 2 9 4 1 -1 -1",
)


def test_the_log_has_the_waits_of_the_replay_and_all_else_of_the_log_that_was_read(
    tmp_path: Path,
) -> None:
    out = replayed(tmp_path, *LINES)
    assert jobs(out) == [
        (7, 100, 0, 50, 4, -1, -1, 8, 60, -1, 1, 3, 2, 9, 4, -1, -1, -1),
        (8, 100, 50, 50, 8, -1, -1, 8, 60, -1, 1, 5, 2, 9, 4, -1, 7, 30),
    ], "the job without a run time was dropped"
    header = Log(out, swf.FORMAT).header()
    assert (header.whole("MaxProcs"), header.entries["UnixStartTime"]) == (8, "1000000")
    assert "policy easy, 8 processors" in header.entries["Note"]
    assert "Conversion" not in header.entries


def test_the_log_of_a_replay_is_replayed_alike(tmp_path: Path) -> None:
    lines = [line(n + 1, 3 * n, 20 + n % 7, 1 + n % 5, estimate=30) for n in range(200)]
    first = replayed(tmp_path, *lines, name="first.swf")
    again = tmp_path / "again.csv"
    setting = ReplaySetting(path=first, form=swf.FORMAT, discipline="easy")
    Replay(setting, jobs_out=again).run(lambda _: None)
    with again.open(encoding="ascii") as file:
        told = {int(row["job"]): row for row in csv.DictReader(file)}
    assert len(told) == 200
    for number, _, wait, run, *_ in jobs(first):
        row = told[int(number)]
        assert (int(row["wait"]), int(row["run"])) == (wait, run)
        response, bounded = wait + run, max(run, 10)
        assert float(row["bounded_slowdown"]) == pytest.approx(max(1, response / bounded), abs=1e-4)


def test_jobs_that_were_cut_short_have_failed(tmp_path: Path) -> None:
    lines = (line(1, 0, 100, 4, estimate=40), line(2, 0, 30, 4, estimate=40))
    killed = replayed(tmp_path, *lines, overrun=Overrun.KILL)
    assert [(row[0], row[3], row[10]) for row in jobs(killed)] == [(1, 40, 0), (2, 30, 1)]
    changes = (Change(at=10, failing=4),)
    out = replayed(tmp_path, *lines, name="failing.swf", changes=changes)
    assert [(row[0], row[3], row[10]) for row in jobs(out)] == [(1, 100, 1), (2, 10, 0)]


def test_a_log_of_a_grid_becomes_one_of_numbers(tmp_path: Path) -> None:
    fields = "1 0 -1 20 2 -1 -1 2 30 -1 1 U7 G1 X3 Q0 P2 g1 g2 s -1 -1 -1 -1 -1 -1 -1 -1 -1 -1"
    log = tmp_path / "log.gwf"
    log.write_text(f"# MaxProcs: 8\n{fields}\n2{fields[1:].replace('U7', 'U1')}\n")
    out = tmp_path / "out.swf"
    Replay(
        ReplaySetting(path=log, form=gwf.FORMAT, discipline="fcfs", processors=8), jobs_out=out
    ).run(lambda _: None)
    assert [row[11:] for row in jobs(out)] == [
        (1, 1, 1, 1, -1, -1, -1), (2, 1, 1, 1, -1, -1, -1)
    ]  # fmt: skip


def test_on_a_grid_a_partition_is_a_site(tmp_path: Path) -> None:
    log = a_log(tmp_path, line(1, 0, 100, 6), line(2, 10, 50, 12), line(3, 20, 50, 3)).path
    grid = tmp_path / "grid.toml"
    grid.write_text(
        "[sites.large.site]\nprocessors = 8\n[sites.small.site]\nprocessors = 4\n", encoding="utf-8"
    )
    out = tmp_path / "out.swf"
    done = koala_here("simulate", "trace", str(log), "--grid", str(grid), "--jobs-out", str(out))
    assert done.returncode == 0, done.stderr
    found = {int(row[0]): (row[3], row[4], row[15]) for row in jobs(out)}
    assert {number: cells[1] for number, cells in found.items()} == {1: 6, 2: 12, 3: 3}
    assert found[2][2] == -1, "on both sites"
    assert found[1][2] == 1
    assert found[3][2] in (1, 2)


@pytest.mark.parametrize("name", ["out.swf.gz", "out.gwf"])
def test_other_logs_are_refused_before_the_replay(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a file named \*\.csv or \*\.swf\)"):
        replayed(tmp_path, *LINES, name=name)


@pytest.mark.parametrize("on_grid", [False, True])
def test_jobs_of_one_number_keep_their_own_outcomes(tmp_path: Path, *, on_grid: bool) -> None:
    """As in a log of two that were put together; the long job ends after the short one."""
    rows = (line(1, 500, 100, 2), line(1, 520, 30, 2), line(1, 505, 40, 1))
    if on_grid:
        log = a_log(tmp_path, *rows).path
        grid, out = tmp_path / "grid.toml", tmp_path / "out.swf"
        grid.write_text("[sites.one.site]\nprocessors = 8\n", encoding="utf-8")
        words = ("--grid", str(grid), "--jobs-out", str(out))
        done = koala_here("simulate", "trace", str(log), *words)
        assert done.returncode == 0, done.stderr
    else:
        out = replayed(tmp_path, *rows)
    assert [(row[1], row[3], row[10]) for row in jobs(out)] == [
        (500, 100, 1),
        (520, 30, 1),
        (505, 40, 1),
    ]
