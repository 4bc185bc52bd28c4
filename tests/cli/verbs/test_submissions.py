"""Submit jobs by the command line, and wait: streams, exit statuses, and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.cli.command import LIMIT_S, PROGRAM, environment
from tests.cli.grids import Pipe, Up
from tests.cli.verbs.jobs import HELLO, SLEEP
from tests.harness.forked import Surroundings, start

pytestmark = pytest.mark.live


def test_submit_prints_the_id_and_wait_shows_phases_on_standard_error(grid: Up) -> None:
    run = grid.koala("submit", "-", "--wait", stdin=HELLO.encode())
    assert run.returncode == 0
    assert run.stdout.startswith("j")
    assert len(run.stdout.split()) == 1
    hint, *lines = run.stderr.splitlines()
    assert hint == f"koala submit: koala logs -f {run.stdout.strip()} shows what it writes"
    phases = [line.split()[1] for line in lines]
    assert phases[0] == "Placing"
    assert phases[-1] == "Finished"
    assert len(phases) == len(set(phases))


def test_the_end_of_a_job_is_said_once(grid: Up, finished: str) -> None:
    job = grid.submit("&(executable=/bin/true)(count=1)")
    waited = grid.koala("wait", job, finished)
    assert waited.stdout == f"{job}  Finished\n{finished}  Finished\n"
    assert "inished" not in waited.stderr
    failed = grid.koala("submit", "-", "--wait", stdin=b"&(executable=/bin/false)(count=1)")
    lost = failed.stdout.strip()
    assert (failed.returncode, failed.stderr.lower().count("failed")) == (1, 1)
    assert re.search(f"^{lost}  Failed +component 0 .*exit status 1$", failed.stderr, re.MULTILINE)
    again = grid.koala("wait", lost, job)
    assert (again.returncode, again.stdout) == (1, f"{lost}  Failed\n{job}  Finished\n")
    assert re.fullmatch(f"koala wait: {lost}: component 0 .*exit status 1\n", again.stderr)
    for name, word in ((job, "Finished"), (lost, "Failed")):
        for command in (["show"], ["watch", "--after", "0", "--job"], ["timeline"]):
            said = grid.koala(*command, name).stdout
            lines = [line for line in said.splitlines() if word in line]
            assert lines, said
            assert all(line.lower().count(word.lower()) == 1 for line in lines), said
    (listed,) = [
        j for j in json.loads(grid.koala("list", "--json").stdout)["jobs"] if j["job"] == lost
    ]
    assert listed["reason"].startswith("component 0 ")


def interrupted(grid: Up, *words: str, mark: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Ctrl-C for one command as soon as `mark` stands in what it says: its exit status, and what it
    said on either stream."""
    out, error = Pipe(), Pipe()
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        around = Surroundings(
            stdin=given,
            stdout=out.writer,
            stderr=error.writer,
            environment=environment(KOALA_ADDRESS=grid.address),
        )
        process = start(PROGRAM, *words, around=around)
    limit = threading.Timer(LIMIT_S, process.kill)
    limit.start()
    said = {out.reader: b"", error.reader: b""}
    with out.reader, error.reader, selectors.DefaultSelector() as selector:
        for pipe in (out, error):
            pipe.writer.close()
            selector.register(pipe.reader, selectors.EVENT_READ, pipe.reader)
        while selector.get_map():
            for key, _ in selector.select():
                part = os.read(key.fd, 65_536)
                if not part:
                    selector.unregister(key.data)
                was_there = any(mark.encode() in text for text in said.values())
                said[key.data] += part
                if not was_there and any(mark.encode() in text for text in said.values()):
                    process.send_signal(signal.SIGINT)
        status = process.wait(LIMIT_S)
    limit.cancel()
    return status, said[out.reader].decode(), said[error.reader].decode()


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "-", "--wait"),
        ("submit", "-", "--watch"),
        ("wait", "JOB"),
        ("wait", "JOB", "OVER", "OTHER"),
        ("logs", "-f", "JOB"),
        ("watch", "--after", "0", "--job", "JOB"),
    ],
)
def test_ctrl_c_says_that_the_job_goes_on_and_how_to_look_and_cancel(
    grid: Up, finished: str, words: tuple[str, ...]
) -> None:
    text = '&(executable=/bin/sh)(arguments=-c "echo Running; sleep 600")(count=1)'
    if words[0] == "submit":
        names, stdin = {}, text.encode()
    else:
        names, stdin = {"JOB": grid.submit(text), "OVER": finished}, b""
        if "OTHER" in words:
            names["OTHER"] = grid.submit(text)
    status, out, error = interrupted(
        grid, *(names.get(word, word) for word in words), mark="Running", stdin=stdin
    )
    jobs = [names[word] for word in ("JOB", "OTHER") if word in words] or [out.strip()]
    every = " ".join(jobs)
    look = jobs[0] if len(jobs) == 1 else "JOB"
    goes = "go" if len(jobs) > 1 else "goes"
    assert status == 130, error
    assert f"koala: {', '.join(jobs)} {goes} on; `koala show {look}` " in error
    assert f"`koala cancel {every}`" in error
    assert ("was accepted" in error) == (words[0] == "submit")
    assert "Traceback" not in error
    phases = {job: json.loads(grid.koala("show", job, "--json").stdout)["phase"] for job in jobs}
    assert not {"Finished", "Failed", "Cancelled"} & set(phases.values()), phases
    assert grid.koala("cancel", *jobs).returncode == 0


@pytest.mark.parametrize("key", ["", "K 1"])
def test_ctrl_c_before_the_answer_says_that_nothing_is_known(key: str) -> None:
    asked, over = threading.Event(), threading.Event()

    def submit(_: bytes, __: grpc.ServicerContext) -> bytes:
        asked.set()
        over.wait(LIMIT_S)
        return b""

    server = grpc.server(ThreadPoolExecutor(1))  # takes a submission and does not answer
    calls: dict[str, Any] = {"Submit": grpc.unary_unary_rpc_method_handler(submit)}
    handler = grpc.method_handlers_generic_handler("koala.wire.v1.Koala", calls)
    server.add_generic_rpc_handlers((handler,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    words = ["submit", "-", "--address", address, *(["--key", key] if key else [])]
    with subprocess.Popen(
        [sys.executable, "-m", "koala.cli", *words],
        env=environment(KOALA_CREDENTIALS="plain"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(SLEEP)
        process.stdin.close()
        process.stdin = None
        assert asked.wait(LIMIT_S)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=LIMIT_S)
    over.set()
    server.stop(None)
    assert (process.returncode, out) == (130, "")
    assert "the job may have been accepted" in error
    assert ("with --key 'K 1': it prints that job" if key else "`koala list --mine") in error
    assert "Traceback" not in error


def test_the_same_key_gives_the_same_job_and_another_text_is_refused(grid: Up) -> None:
    first = grid.submit(HELLO, "--key", "k1")
    again = grid.koala("submit", "-", "--key", "k1", "--json", stdin=HELLO.encode())
    assert json.loads(again.stdout) == {
        "version": 1,
        "job": first,
        "is_known": True,
        "is_dry_run": False,
        "warnings": [],
        "expected": "",
    }
    other = grid.koala("submit", "-", "--key", "k1", stdin=SLEEP.encode())
    assert (other.returncode, other.stdout) == (1, "")
    assert "'k1'" in other.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("&(executable=", "standard input: line 1, column 14"),
        ("&(executable=/bin/true)(count=-1)", "count"),
        ("&(executable=/bin/true)(progress=often)", "progress"),
        ("&(executible=/bin/true)", "executable"),
    ],
)
def test_a_bad_description_exits_with_2_and_names_what_is_wrong(
    grid: Up, text: str, said: str
) -> None:
    run = grid.koala("submit", "-", stdin=text.encode())
    assert (run.returncode, run.stdout) == (2, "")
    assert said in run.stderr


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("&(executable=/bin/true)(count=5)", "wants 5 processors: the largest site is"),
        ("&(executable=/bin/true)(resourceManagerContact=mars)", "'mars': known sites are delft"),
        ("&(executable=/bin/true)(inputFile=none.dat)", "'none.dat' is not in the catalogue"),
        ("&(executable=/bin/true)(maxHold=0)", "maxHold is 0 s"),
    ],
)
def test_what_this_grid_cannot_do_exits_with_1_and_names_what_is_there(
    grid: Up, text: str, said: str, words: tuple[str, ...]
) -> None:
    run = grid.koala("submit", "-", *words, stdin=text.encode())
    assert (run.returncode, run.stdout) == (1, "")
    assert said in run.stderr


def test_a_script_is_read_for_the_batch_system_of_its_site(grid: Up, tmp_path: Path) -> None:
    """The sites are emulated: they have none, and cannot do what is for Slurm alone."""
    script = tmp_path / "wave.sh"
    script.write_text('#!/bin/sh\n#SBATCH -n 2 --nice\necho "$SLURM_NTASKS tasks"\n#SBATCH -n 64\n')
    run = grid.koala("submit", f"--component=delft:{script}", "--logs")
    assert (run.returncode, run.stdout.splitlines()[-1]) == (0, "2 tasks")
    told = [line.partition("wave.sh: ")[2] for line in run.stderr.splitlines() if "wave" in line]
    why = "left out: it is for Slurm, and delft has no batch system"
    assert told == [
        f"line 2, column 14: --nice is {why}",
        "line 3, column 8: SLURM_NTASKS is not set by delft: Koala sets it to 2",
    ]
