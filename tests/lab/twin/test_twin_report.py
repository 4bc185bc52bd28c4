"""`koala twin`: the report of a twin whose answer can be calculated by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from koala.errors import ConfigError
from koala.lab import Job, Jobs
from koala.lab.twin.questions import Stream, read_folder, with_jobs, without
from tests.cli.command import koala_here

RECORDINGS = Path(__file__).parent / "recordings"
HEAD = "JobID|Cluster|Submit|Start|End|State|AllocCPUS|Timelimit"
ROWS = (
    "1|a|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T00:10:00|COMPLETED|4|00:10:00",
    "2|a|2026-10-01T00:01:00|2026-10-01T00:10:00|2026-10-01T00:12:00|COMPLETED|4|00:02:00",
    "3|a|2026-10-01T01:00:00|2026-10-01T01:00:00|2026-10-01T01:10:00|COMPLETED|4|00:10:00",
    "1|b|2026-10-01T00:00:30|2026-10-01T00:00:30|2026-10-01T02:00:00|COMPLETED|2|02:00:00",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "month.sacct").write_text("\n".join([HEAD, *ROWS]) + "\n")
    words = ("--timezone", "UTC", "--processors", "b=4", "--out", str(tmp_path / "twin"))
    done = koala_here("twin", "import", "sacct", str(tmp_path / "month.sacct"), *words)
    assert done.returncode == 0, done.stderr
    assert "4 jobs" in done.stdout
    assert "b: 1 job used 50 % of 4 processors, as given" in done.stdout
    return tmp_path / "twin"


def test_the_twin_alone_has_the_waits_that_were_recorded(folder: Path) -> None:
    found = read_folder(folder)
    run = without(found).run()
    assert run["sites.a.local_wait.mean"] == found.sites[0].mean_wait_s == 540 / 3
    assert run["sites.a.local_wait.max"] == 540
    assert (run["sites.b.local_jobs"], run["makespan"]) == (1, 7200)


def test_a_co_allocated_job_delays_the_local_job_that_comes_after_it(folder: Path) -> None:
    found = read_folder(folder)
    job = Job(at=3000, processors=(4, 2), run_s=1000)
    run = with_jobs(found, Jobs([job])).run()
    assert (run["started"], run["on_several_sites"], run["started_in_1h"]) == (1, 1, 1)
    assert run["used_processor_s"] == 6 * 1000
    assert run["sites.a.local_wait.max"] == pytest.approx(540)
    late_s = 3 * (run["sites.a.local_wait.mean"] - 180)
    assert late_s == pytest.approx(400, abs=5), "the third job comes at 3600 and begins at 4000"


def test_the_report_says_what_was_asked_and_what_it_cost(folder: Path, tmp_path: Path) -> None:
    words = ("--components", "2", "--processors", "2", "--run", "600", "--every", "1800")
    page = tmp_path / "page.md"
    common = ("twin", "report", str(folder), *words, "--reps", "2", "--no-store")
    done = koala_here(*common, "--out", str(page), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["question"] == (
        "one job every 30 min in the mean, of 2 components with 2 processors for 10 min"
    )
    assert found["started"] == found["jobs"]
    assert found["sites"]["a"]["wait_recorded_s"] == found["sites"]["a"]["wait_alone_s"] == 180
    assert found["sites"]["b"]["difference_s"] == {"mean": 0, "ci95": 0}
    assert found["sites"]["b"]["verdict"] == "equal"
    told = page.read_text()
    both = round(2 * found["jobs"]["mean"])
    assert both % 2, "a mean over the two runs is no number of jobs"
    assert f"- {both} of {both} jobs of 2 runs started, {both} of them on several" in told
    (line,) = [line for line in told.splitlines() if line.startswith("| b ")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["b", "1", "0 s", "0 s", "0 s", "+0.0 s", "0 s", "0 s", "equal"]
    assert "## What would holding have cost?" in told


def test_a_log_can_be_what_is_co_allocated(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "mine.swf"
    log.write_text("1 0 -1 60 6 -1 -1 6 60 -1 1 1 -1 -1 -1 -1 -1 -1\n")
    done = koala_here(
        *("twin", "report", str(folder), "--jobs", str(log), "--reps", "2", "--no-store", "--json")
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["jobs"]["mean"], found["on_several"]["mean"]) == (1, 1), "6 do not fit on a site"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("report", "nowhere"), "nowhere: has no grid.toml: `koala twin import` makes"),
        (("report", "twin"), "the empty sites (a 4, b 4) hold 0 such components under WF-distinct"),
        (("report", "twin", "--processors", "1", "--components", "3"), "hold 2 such components"),
        (
            ("import", "sacct", "month.sacct", "--processors", "a"),
            "--processors a (expected SITE",
        ),
        (
            ("import", "qacct", "month.sacct", "--site", "../b"),
            "--site ../b (expected a name that matches [A-Za-z0-9]",
        ),
        (("import", "sacct", "month.sacct", "--timezone", "x"), "--timezone x (expected a name"),
        (
            ("import", "sacct", "month.sacct", "qacct"),
            "qacct without a file (expected one or more files after",
        ),
        (
            ("import", "sacct", "month.sacct", "--processors", "a=4", "--processors", "a=8"),
            "--processors a=8: a has 4 already (expected each site once",
        ),
    ],
)
def test_what_is_wrong_is_named(
    folder: Path, words: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    done = koala_here("twin", *words)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_stream_is_a_function_of_its_seed_and_never_empty() -> None:
    stream = Stream(period_s=100.0, every_s=50.0)
    assert stream(1) == stream(1) != stream(2)
    assert all(Stream(period_s=1.0)(seed) for seed in range(20))
    several = [len(stream(seed)) for seed in range(400)]
    assert 1.8 < sum(several) / 400 < 2.5


def test_a_grid_file_that_is_of_no_twin_is_never_replaced(folder: Path) -> None:
    month = str(folder.parent / "month.sacct")
    again = koala_here("twin", "import", "sacct", month, "--out", str(folder))
    assert again.returncode == 0, again.stderr
    (folder / "import.json").unlink()
    before = (folder / "grid.toml").read_bytes()
    done = koala_here("twin", "import", "sacct", month, "--out", str(folder), "--processors", "b=8")
    assert done.returncode == 2
    assert "has a grid.toml that is not of a twin (expected a new folder" in done.stderr
    assert (folder / "grid.toml").read_bytes() == before


def test_a_site_without_jobs_is_named(folder: Path) -> None:
    log = folder / "b.swf"
    log.write_text("; MaxProcs: 4\n")
    with pytest.raises(ConfigError, match=r"b\.swf has no job \(expected a log with one"):
        read_folder(folder)


def test_files_of_both_batch_systems_follow_the_name_of_their_command(
    folder: Path, tmp_path: Path
) -> None:
    month, cell = str(folder.parent / "month.sacct"), str(RECORDINGS / "sge-8.1.9.qacct")
    out = str(tmp_path / "both")
    done = koala_here(
        *("twin", "import", "sacct", month, "qacct", cell, "--site", "gamma", "--out", out)
    )
    assert done.returncode == 0, done.stderr
    assert [site.name for site in read_folder(tmp_path / "both").sites] == ["a", "b", "gamma"]
    assert json.loads((tmp_path / "both/import.json").read_text())["kind"] == "sacct and qacct"
