"""`koala simulate trace`: the form that is a contract, its files, its refusals, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.command import environment, koala, koala_here
from tests.workload.logs import a_log, line

HEAVY = ("grpc", "rich", "matplotlib", "msgspec", "scipy", "numpy", "asyncio")


def a_file(folder: Path, jobs: int = 20) -> str:
    lines = [line(n + 1, 100 + 3 * n, 20, 1 + n % 4, estimate=30) for n in range(jobs)]
    return str(a_log(folder, "; MaxProcs: 8", *lines).path)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_the_required_form_gives_figures_and_a_line_for_each_job(
    tmp_path: Path, policy: str
) -> None:
    out = tmp_path / "out.csv"
    form = ("--policy", policy, "--processors", "8", "--jobs-out", str(out), "--json")
    run = koala_here("simulate", "trace", a_file(tmp_path), *form)
    assert (run.returncode, run.stderr) == (0, "")
    found = json.loads(run.stdout)
    assert (found["jobs"], found["policy"], found["processors"]) == (20, policy, 8)
    lines = out.read_text(encoding="ascii").splitlines()
    assert lines[:2] == ["job,submit,start,end,processors", "1,0,0,20,1"]
    assert len(lines) == 21


def test_people_get_a_table_and_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    log = a_file(tmp_path)
    run = koala_here("simulate", "trace", log, "--plot", str(picture), "--until", "40")
    assert run.returncode == 0
    assert "jobs on 8 processors (MaxProcs) under easy" in run.stdout
    assert "bounded slowdown" in run.stdout
    assert "at 40 s:" in run.stdout
    assert picture.read_text(encoding="utf-8").startswith("<?xml")


def test_what_was_dropped_and_changed_is_told(tmp_path: Path) -> None:
    path = a_log(tmp_path, line(1, 0, 0, 2), line(2, 0, 5, 9), line(3, 0, -1, 2)).path
    run = koala_here("simulate", "trace", str(path), "--processors", "8")
    assert "dropped: without run time 1, too large 1" in run.stdout
    assert "changed: run time zero 1, estimate missing 1" in run.stdout


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--policy", "sjf"), "--policy sjf: allowed are fcfs, easy, conservative"),
        (("--overrun", "no"), "--overrun no: allowed are raise, kill, extend"),
        (("--format", "csv"), "--format csv: allowed are swf, gwf"),
        (("--processors", "0"), "0"),
        (("--resume",), "--resume needs --checkpoint FILE"),
        (("--resume", "--checkpoint", "/no/such"), "/no/such: cannot be read"),
        (("--events", "/no/such.toml"), "/no/such.toml: cannot be read"),
        (("--jobs-out", "/no/such/folder/o.csv"), "--jobs-out /no/such/folder/o.csv: cannot"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_what_could(
    tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    run = koala_here("simulate", "trace", a_file(tmp_path), *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert text in run.stderr


def test_a_malformed_log_is_refused_with_the_line_and_what_is_allowed(tmp_path: Path) -> None:
    path = a_log(tmp_path, "; MaxProcs: 8", line(1, 0, 5), line(2, 0, "long")).path
    run = koala_here("simulate", "trace", str(path))
    assert run.returncode == 2
    assert "line 3: field 4 (run time) is 'long'; allowed is a number" in run.stderr
    assert koala_here("simulate", "trace", str(tmp_path / "none.swf")).returncode == 2


def test_a_grid_log_is_known_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "log.gwf"
    rest = "4 -1 -1 4 -1 -1 1 U G X Q P S S UNITARY" + " -1" * 10
    path.write_text(f"1 500 -1 60 {rest}\n", encoding="utf-8")
    run = koala_here("simulate", "trace", str(path), "--json")
    found = json.loads(run.stdout)
    assert (found["jobs"], found["processors_from"]) == (1, "the largest job")


def test_stopping_and_resuming_gives_what_one_run_gives(tmp_path: Path) -> None:
    log = a_file(tmp_path)
    whole = koala_here("simulate", "trace", log, "--json")
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"))
    koala_here("simulate", "trace", log, "--until", "30", *checkpoint)
    resumed = koala_here("simulate", "trace", log, "--json", "--resume", *checkpoint)
    assert resumed.stdout == whole.stdout


def test_ctrl_c_leaves_what_has_ended(tmp_path: Path) -> None:
    """The log comes through a pipe that is not closed, so the replay is surely in the middle."""
    pipe, out = tmp_path / "log.swf", tmp_path / "out.csv"
    jobs = [line(n, n, 1) + "\n" for n in range(60_000)]
    os.mkfifo(pipe)
    kept = koala_here("simulate", "trace", str(pipe), "--checkpoint", str(tmp_path / "kept"))
    assert "--checkpoint needs a log that can be read again" in kept.stderr
    words = ("--processors", "8", "--jobs-out", str(out), "--json")
    with subprocess.Popen(
        [sys.executable, "-m", "koala.cli", "simulate", "trace", str(pipe), *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        with suppress(BrokenPipeError), pipe.open("w", encoding="ascii") as writer:
            writer.writelines(jobs[:50_000])
            writer.flush()
            process.send_signal(signal.SIGINT)
            writer.writelines(jobs[50_000:])
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert b"interrupted at" in stderr
    found = json.loads(stdout)
    assert found["stopped"]["at"] < 50_000
    assert len(out.read_text(encoding="ascii").splitlines()) == found["jobs"] + 1


def test_a_replay_imports_nothing_heavy(tmp_path: Path) -> None:
    """Its start is a good part of a short replay."""
    code = (
        "import sys; from koala.cli.main import main;"
        f"main(['simulate', 'trace', {a_file(tmp_path)!r}]);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, check=True
    )
    assert run.stderr.decode() == "[]\n"
    assert koala("simulate", "trace", "--help").returncode == 0
