"""The command line against a real grid: every verb, its streams and its exit statuses."""

from __future__ import annotations

import getpass
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.cli.command import LIMIT_S, environment, koala, koala_here
from tests.cli.grids import GRID, Up, marked_with, up

pytestmark = pytest.mark.live

HELLO = """+(&(executable=/bin/echo)(arguments=out $(WORD "one"))(count=1)(label=first))
 (&(executable=/bin/sh)(arguments=-c "echo err >&2")(count=1)(label=second))"""
SLEEP = "&(executable=/bin/sleep)(arguments=600)(count=1)"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One grid for the tests of this module, which only add jobs."""
    folder = tmp_path_factory.mktemp("g")
    with up(folder) as running:
        yield running
    assert marked_with(str(folder)) == [], "Ctrl-C has left something"


@pytest.fixture(scope="module")
def finished(grid: Up) -> str:
    """A job that has finished."""
    run = grid.koala("submit", "-", "--wait", "-D", "WORD=two", stdin=HELLO.encode())
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


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


def test_a_submission_whose_id_cannot_be_printed_is_named_on_standard_error(grid: Up) -> None:
    run = subprocess.run(
        [
            "/bin/sh",
            "-c",
            'exec "$0" -m koala.cli submit - --address "$1" >/dev/full',
            sys.executable,
            grid.address,
        ],
        input="&(executable=/bin/true)",
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    words = "was accepted, but standard output cannot be written: No space left on device"
    (job,) = re.findall(f"koala submit: (j[0-9]+) {words}\n", run.stderr)
    assert run.returncode == 1
    assert grid.koala("show", job).returncode == 0


def test_wait_exits_with_1_when_a_job_fails(grid: Up) -> None:
    job = grid.submit("&(executable=/bin/false)(count=1)")
    run = grid.koala("wait", job, "--json")
    assert run.returncode == 1
    (ended,) = json.loads(run.stdout)["jobs"]
    assert (ended["job"], ended["phase"]) == (job, "Failed")
    assert "exit status 1" in ended["text"]
    assert "exit status 1" in grid.koala("why", job).stdout
    watched = grid.koala("submit", "-", "--watch", stdin=b"&(executable=/bin/false)(count=1)")
    assert watched.returncode == 1
    assert "Failed" in watched.stderr


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


def test_a_wait_names_an_unknown_job_before_it_waits(grid: Up) -> None:
    job = grid.submit(SLEEP)
    run = grid.koala("wait", job, "j999")
    assert (run.returncode, run.stdout) == (1, "")
    assert "no job 'j999'" in run.stderr
    grid.koala("cancel", job)


def interrupted(grid: Up, *words: str, mark: str, stdin: bytes = b"") -> tuple[int, str, str]:
    """Ctrl-C for one command as soon as `mark` stands in what it says: its exit status, and what it
    said on either stream."""
    with subprocess.Popen(
        [sys.executable, "-m", "koala.cli", *words],
        env=environment(KOALA_ADDRESS=grid.address),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        process.stdin.write(stdin)
        process.stdin.close()
        said = {process.stdout: b"", process.stderr: b""}
        with selectors.DefaultSelector() as selector:
            for stream in said:
                selector.register(stream, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    stream = process.stdout if key.fileobj is process.stdout else process.stderr
                    part = os.read(key.fd, 65_536)
                    if not part:
                        selector.unregister(stream)
                    was_there = any(mark.encode() in text for text in said.values())
                    said[stream] += part
                    if not was_there and any(mark.encode() in text for text in said.values()):
                        process.send_signal(signal.SIGINT)
        process.wait(LIMIT_S)
        limit.cancel()
    return process.returncode, said[process.stdout].decode(), said[process.stderr].decode()


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
    }
    other = grid.koala("submit", "-", "--key", "k1", stdin=SLEEP.encode())
    assert (other.returncode, other.stdout) == (1, "")
    assert "'k1'" in other.stderr


def test_a_dry_run_submits_nothing(grid: Up) -> None:
    def known() -> list[str]:
        return [job["job"] for job in json.loads(grid.koala("list", "--json").stdout)["jobs"]]

    before = known()
    run = grid.koala("submit", "-", "--dry-run", stdin=HELLO.encode())
    assert (run.returncode, run.stdout) == (0, "")
    assert known() == before


def test_what_no_site_acts_on_is_a_warning(grid: Up) -> None:
    text = "&(executable=/bin/true)(queue=long)(gramMyJob=collective)"
    run = grid.koala("submit", "-", "--dry-run", "--json", stdin=text.encode())
    ignored, unheeded = json.loads(run.stdout)["warnings"]
    assert "gramMyJob is ignored" in ignored
    assert unheeded == "queue is ignored: no site where component 0 may run acts on it"
    assert f"koala submit: warning: {unheeded}\n" in run.stderr


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


@pytest.mark.parametrize("verb", ["show", "why", "timeline", "wait", "cancel", "logs", "outputs"])
def test_an_unknown_job_exits_with_1_and_is_named(grid: Up, verb: str) -> None:
    run = grid.koala(verb, "j999999")
    assert (run.returncode, run.stdout) == (1, "")
    assert "j999999" in run.stderr


@pytest.mark.parametrize("verb", [("drain",), ("resume",), ("sites", "lost")])
def test_an_unknown_site_exits_with_1_and_the_known_ones_are_named(
    grid: Up, verb: tuple[str, ...]
) -> None:
    run = grid.koala(*verb, "mars")
    assert (run.returncode, run.stdout) == (1, "")
    assert "mars" in run.stderr
    assert "delft" in run.stderr


def test_a_job_is_shown_as_text_and_as_json(grid: Up, finished: str) -> None:
    assert "Finished" in grid.koala("show", finished).stdout
    picture = json.loads(grid.koala("show", finished, "--json").stdout)
    assert [part["label"] for part in picture["parts"]] == ["first", "second"]
    assert picture["timeline"]["start_skew_s"] >= 0
    assert "TWT  total waiting time" in grid.koala("timeline", finished).stdout
    assert json.loads(grid.koala("timeline", finished, "--json").stdout)["phase"] == "Finished"


def test_submit_shows_what_the_job_writes_or_says_how_to_see_it(grid: Up) -> None:
    text = b"&(executable=/bin/sh)(arguments=-c 'echo out; exit 3')(count=1)"
    shown = grid.koala("submit", "-", "--logs", stdin=text)
    job, *lines = shown.stdout.splitlines()
    assert (shown.returncode, lines) == (1, ["out"])
    assert f"{job}  Failed" in shown.stderr
    assert "koala logs" not in shown.stderr
    waited = grid.koala("submit", "-", "--wait", stdin=text)
    job = waited.stdout.strip()
    assert f"koala submit: koala logs -f {job} shows what it writes" in waited.stderr


def test_the_course_of_a_job_is_drawn_in_the_terminal_and_as_a_picture(
    grid: Up, finished: str, tmp_path: Path
) -> None:
    drawn = grid.koala("timeline", finished).stdout.splitlines()
    assert [line.split()[0] for line in drawn if "=" in line][:2] == ["first", "second"]
    picture = tmp_path / "course.svg"
    assert grid.koala("timeline", finished, "--svg", str(picture)).returncode == 0
    assert "first at " in picture.read_text()
    assert grid.koala("timeline", finished, "--svg", "-").stdout == picture.read_text()
    assert grid.koala("timeline", finished, "--svg", "-", "--json").returncode == 2


def test_why_has_json(grid: Up, finished: str) -> None:
    assert json.loads(grid.koala("why", finished, "--json").stdout)["job"] == finished


def test_logs_are_labelled_or_those_of_one_component(grid: Up, finished: str) -> None:
    assert sorted(grid.koala("logs", finished).stdout.splitlines()) == [
        "first.0 | out two",
        "second.0 ! err",
    ]
    alone = grid.koala("logs", finished, "-c", "first", "-f")
    assert (alone.returncode, alone.stdout) == (0, "out two\n")
    (part,) = grid.koala("logs", finished, "-c", "1", "--json").stdout.splitlines()
    assert json.loads(part) == {
        "version": 1,
        "component": 1,
        "label": "second",
        "process": 0,
        "stream": "stderr",
        "text": "err\n",
    }


WRITES = """+(&(executable=/bin/sh)(arguments=-c "mkdir sub; printf one > sub/a; : > b")(label=left)
   (outputFile=sub/a b))
 (&(executable=/bin/sh)(arguments=-c "printf three > a")(outputFile=a))"""


def test_outputs_are_listed_and_fetched(grid: Up, tmp_path: Path) -> None:
    run = grid.koala("submit", "-", "--wait", stdin=WRITES.encode())
    assert run.returncode == 0, run.stderr
    job = run.stdout.strip()
    listed = {"1/a": 5, "left/b": 0, "left/sub/a": 3}
    rows = json.loads(grid.koala("outputs", job, "--json").stdout)
    assert rows["job"] == job
    assert {row["name"]: row["size_bytes"] for row in rows["files"]} == listed
    assert "left/sub/a   3 B" in grid.koala("outputs", job).stdout

    to = tmp_path / "new" / "folder"
    fetched = grid.koala("outputs", job, "--to", str(to))
    assert fetched.stdout.splitlines() == [str(to / name) for name in listed]
    assert {str(path.relative_to(to)): path.read_bytes() for path in files_below(to)} == {
        "1/a": b"three",
        "left/b": b"",
        "left/sub/a": b"one",
    }

    (to / "left" / "sub" / "a").write_bytes(b"mine")
    (to / "1" / "a").unlink()
    again = grid.koala("outputs", job, "--to", str(to))
    assert (again.returncode, again.stdout) == (1, "")
    assert f"{to / 'left' / 'b'} and 1 more: exists" in again.stderr
    assert (to / "left" / "sub" / "a").read_bytes() == b"mine"
    assert not (to / "1" / "a").exists()
    one = grid.koala("outputs", job, "--to", str(to), "-c", "left", "--force", "--json")
    paths = [row["path"] for row in json.loads(one.stdout)["files"]]
    assert paths == [str(to / "left" / "b"), str(to / "left" / "sub" / "a")]
    assert (to / "left" / "sub" / "a").read_bytes() == b"one"
    assert not (to / "1" / "a").exists()
    other = grid.koala("outputs", job, "-c", "right")
    assert (other.returncode, other.stdout) == (2, "")
    assert f"component = 'right': {job} has left, 1" in other.stderr


def test_a_job_without_outputs_or_that_has_not_finished_says_so(grid: Up, finished: str) -> None:
    run = grid.koala("outputs", finished)
    assert (run.returncode, run.stdout) == (0, "")
    assert run.stderr == f"{finished} has no output files\n"
    assert json.loads(grid.koala("outputs", finished, "--json").stdout)["files"] == []
    job = grid.submit(SLEEP)
    early = grid.koala("outputs", job)
    grid.koala("cancel", job)
    grid.koala("wait", job)
    late = grid.koala("outputs", job)
    for run, said in ((early, "when it has Finished"), (late, "only a job that Finished")):
        assert (run.returncode, run.stdout) == (1, "")
        assert said in run.stderr


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_list_is_narrowed_by_phase_owner_and_number(grid: Up, finished: str) -> None:
    ended = json.loads(grid.koala("list", "--json", "--phase", "finished").stdout)["jobs"]
    assert finished in [job["job"] for job in ended]
    assert {job["phase"] for job in ended} == {"Finished"}
    assert (
        len(json.loads(grid.koala("list", "--json", "--last", "1", "--mine").stdout)["jobs"]) == 1
    )
    assert grid.koala("list").stdout.startswith("JOB ")


def test_the_shell_completes_jobs_and_sites(grid: Up, finished: str) -> None:
    for words, offered in (
        (f"koala show {finished}", f"plain,{finished}"),
        ("koala site drain de", "plain,delft"),
        ("koala report --site v", "plain,vu"),
    ):
        run = koala(
            _KOALA_COMPLETE="bash_complete",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
            KOALA_ADDRESS=grid.address,
        )
        assert offered in run.stdout.splitlines(), run.stderr


def test_a_list_is_narrowed_by_user_site_and_time_and_has_the_asked_columns(
    grid: Up, finished: str
) -> None:
    def listed(*words: str) -> list[str]:
        run = grid.koala("list", "--format", "{job}", *words)
        assert run.returncode == 0, run.stderr
        return run.stdout.split()

    assert finished in listed()
    assert finished in listed("--user", getpass.getuser(), "--since", "2026-01-01")
    assert listed("--user", "somebody-else") == listed("--since", "2999-01-01") == []
    (job,) = [j for j in json.loads(grid.koala("list", "--json").stdout)["jobs"]
              if j["job"] == finished]  # fmt: skip
    assert finished in listed("--site", job["sites"][0])
    assert listed("--site", "nowhere") == []
    assert job["programs"]
    assert job["submitted_at"] <= job["started_at"] <= job["ended_at"]
    table = grid.koala("list", "--format", "job,program,elapsed").stdout
    assert table.splitlines()[0].split() == ["JOB", "PROGRAM", "ELAPSED"]


def test_a_running_job_is_cancelled_and_then_stays_so(grid: Up) -> None:
    job = grid.submit(SLEEP)
    first = grid.koala("cancel", job, "--json")
    assert first.returncode == 0
    assert json.loads(first.stdout)["jobs"][0]["job"] == job
    assert grid.koala("wait", job).stdout == f"{job}  Cancelled\n"


def test_a_finished_job_cannot_be_cancelled(grid: Up, finished: str) -> None:
    run = grid.koala("cancel", finished)
    assert (run.returncode, run.stdout) == (1, "")
    assert "Finished" in run.stderr


def test_sites_files_and_metrics_answer_as_text_and_as_json(grid: Up) -> None:
    assert [site["site"] for site in json.loads(grid.koala("sites", "--json").stdout)["sites"]] == [
        "delft",
        "vu",
    ]
    assert grid.koala("sites").stdout.startswith("SITE ")
    for words, empty in ((("files",), "no files"), (("list", "--phase", "Delayed"), "no jobs")):
        run = grid.koala(*words)
        assert (run.returncode, run.stdout) == (0, "")
        assert run.stderr == f"koala {words[0]}: {empty}\n"
    assert json.loads(grid.koala("files", "list", "--json").stdout)["files"] == []
    assert json.loads(grid.koala("metrics", "--json").stdout)["sites"]["connected"] == 2
    assert "sites.connected" in grid.koala("metrics").stdout


def test_a_report_says_what_a_job_has_cost(grid: Up, finished: str) -> None:
    document = json.loads(grid.koala("report", "--by", "job", "--json").stdout)
    (row,) = [row for row in document["rows"] if row["job"] == finished]
    assert (row["jobs_finished"], row["setbacks"]) == (1, 0)
    assert row["run_s"] > 0
    lines = grid.koala("report", "--by", "claim", "--csv").stdout.splitlines()
    assert any(line.startswith(f"{finished}/1/0/1,,") for line in lines[1:])
    assert grid.koala("report").stdout.startswith("USER ")
    for words, said in (
        (("--since", "yesterday"), "allowed is an instant of ISO 8601"),
        (("--since", "2026-11-21", "--until", "2026-11-21"), "is not before"),
        (("--csv", "--json"), "cannot be combined"),
    ):
        run = grid.koala("report", *words)
        assert (run.returncode, run.stdout) == (2, "")
        assert said in run.stderr


def test_a_drained_site_says_so_until_it_is_resumed(grid: Up) -> None:
    drained = grid.koala("drain", "vu", "--json")
    assert json.loads(drained.stdout)["state"] == "drained"
    assert "drained" in grid.koala("sites").stdout
    assert json.loads(grid.koala("resume", "vu", "--json").stdout)["state"] == "usable"
    for words, state in ((("drain", "--wait"), "drained"), (("resume",), "usable")):
        told = json.loads(grid.koala(*words, "--all", "--json").stdout)["sites"]
        assert {site["state"] for site in told} == {state}
        assert len(told) > 1


@pytest.mark.parametrize("words", [("drain",), ("drain", "vu", "--all"), ("resume",)])
def test_a_drain_is_of_one_site_or_of_all(grid: Up, words: tuple[str, ...]) -> None:
    run = grid.koala(*words)
    assert run.returncode == 2
    assert "give a SITE, or --all" in run.stderr


def test_a_watch_of_a_job_goes_on_where_another_one_ended_and_ends(grid: Up, finished: str) -> None:
    def watch(*words: str) -> list[dict[str, Any]]:
        run = grid.koala("watch", "--json", "--job", finished, *words)
        assert run.returncode == 0, run.stderr
        return [json.loads(line) for line in run.stdout.splitlines()]

    everything = watch("--after", "0")
    numbers = [notice["number"] for notice in everything]
    assert numbers == sorted(set(numbers))
    assert everything[-1]["phase"] == "Finished"
    assert watch("--after", str(numbers[1])) == everything[2:]
    assert watch() == []
    unknown = grid.koala("watch", "--job", "j999")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "no job 'j999'" in unknown.stderr


def test_a_grid_whose_port_is_taken_says_so(tmp_path: Path, grid: Up) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(f'{GRID}\n[daemon]\nlisten = "{grid.address}"\n', encoding="utf-8")
    run = koala_here("up", str(path), "--state", str(tmp_path / "state"))
    assert (run.returncode, run.stdout) == (2, "")
    assert grid.address in run.stderr
