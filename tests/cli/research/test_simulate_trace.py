"""`koala simulate trace`: the form that is a contract, its files, its refusals, Ctrl-C."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from select import select
from threading import Thread

import pytest

from tests.cli.command import environment, koala, koala_here
from tests.lab.workload.logs import a_log, line
from tests.tidy.sources import ROOT

HEAVY = ("grpc", "rich", "matplotlib", "msgspec", "scipy", "numpy", "asyncio")


def a_file(folder: Path, jobs: int = 20) -> str:
    lines = [line(n + 1, 100 + 3 * n, 20, 1 + n % 4, estimate=30) for n in range(jobs)]
    return str(a_log(folder, "; MaxProcs: 8", *lines).path)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "fair-share"])
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
    columns = "job,submit,start,end,processors,wait,run,estimate,bounded_slowdown,status"
    assert lines[:2] == [columns, "1,0,0,20,1,0,20,30,1.0000,ended"]
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


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ("--policy", "best"),
            "--policy best (expected one of fcfs, easy, conservative, sjf, priorities, fair-share,"
            " or a function as module:function",
        ),
        (("--policy", "json:none"), "--policy json:none: json:none cannot be loaded: Attribute"),
        (("--overrun", "no"), "--overrun no (expected one of raise, kill, extend"),
        (("--format", "csv"), "--format csv (expected one of swf, gwf"),
        (("--processors", "0"), "0"),
        (("--split", "3"), "--split 3: needs --grid"),
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
    assert "line 3: field 4 (run time) is 'long' (expected a number" in run.stderr
    assert koala_here("simulate", "trace", str(tmp_path / "none.swf")).returncode == 2


def test_ctrl_c_leaves_what_has_ended(tmp_path: Path) -> None:
    """Jobs go to a pipe that nobody empties before, so the replay is surely in the middle."""
    out = tmp_path / "out.csv"
    log = a_log(tmp_path, "; MaxProcs: 8", *(line(n, n, 1) for n in range(60_000))).path
    os.mkfifo(out)
    words = ("--jobs-out", str(out), "--json")
    told, reader = b"", os.open(out, os.O_RDWR)
    with subprocess.Popen(
        [sys.executable, "-m", "koala.cli", "simulate", "trace", str(log), *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        told += os.read(reader, 1)
        process.send_signal(signal.SIGINT)
        while process.poll() is None or select([reader], [], [], 0)[0]:
            if select([reader], [], [], 0.05)[0]:
                told += os.read(reader, 1 << 16)
        stdout, stderr = process.communicate(timeout=300)
    os.close(reader)
    assert process.returncode == 130, stderr
    assert b"interrupted at" in stderr
    found = json.loads(stdout)
    assert found["stopped"]["at"] < 50_000
    assert len(told.splitlines()) == found["jobs"] + 1


@pytest.mark.parametrize("words", [(), ("--grid", str(ROOT / "deploy" / "das.toml"))])
def test_a_log_may_come_through_a_pipe(tmp_path: Path, words: tuple[str, ...]) -> None:
    """It is read twice, once for its header; 20 jobs, and not none."""
    text = Path(a_file(tmp_path)).read_bytes()
    for packed in (text, gzip.compress(text)):
        run = koala_here("simulate", "trace", "-", "--json", *words, stdin=packed)
        assert (run.returncode, run.stderr) == (0, "")
        assert json.loads(run.stdout)["jobs"] == 20
    pipe = tmp_path / "pipe.swf"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(text,))
    writer.start()
    run = koala_here("simulate", "trace", str(pipe), "--json", *words)
    writer.join()
    assert json.loads(run.stdout)["jobs"] == 20


def test_a_replay_imports_nothing_heavy_and_a_simulation_no_grpc(tmp_path: Path) -> None:
    """The start is a good part of a short run."""
    code = (
        "import sys; from koala.cli.main import main;"
        f"main(['simulate', 'trace', {a_file(tmp_path)!r}]);"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr);"
        "main(['simulate', 'sq', '--tasks', '1', '--reps', '1']);"
        "print('grpc' in sys.modules, file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, check=True
    )
    assert run.stderr.decode() == "[]\nFalse\n"
    assert koala("simulate", "trace", "--help").returncode == 0
