"""The words of OAR: what is submitted, and answers of OAR 2.6.1 in `samples/oar-2.6.1`."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.oar import OAR
from koala_agent.lrm.dialect import Figures, JobState
from koala_agent.lrm.local_manager import EndCause, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer
from tests.lrm.batch.first_claim import FIRST, NAME, said

SAMPLES = Path(__file__).parent / "samples" / "oar-2.6.1"
SERVER = OAR(native=("*",))


def sample(name: str) -> Answer:
    return said((SAMPLES / name).read_text(encoding="utf-8"))


def words(server: OAR = SERVER, placeholder: Placeholder = FIRST, **wishes: Any) -> str:
    asking = replace(placeholder, resources=Resources(**wishes))
    return " ".join(server.submit(asking, name=NAME, script="#!/bin/sh\ntrue\n").argv[4:])


def test_a_job_is_on_one_machine_and_its_script_is_no_argument() -> None:
    command = SERVER.submit(FIRST, name=NAME, script="#!/bin/sh\nsecret\n")
    assert "secret" not in " ".join(command.argv)
    lines = command.stdin.splitlines()
    assert lines[:2] == ["#!/bin/sh", 'rm -f "$0"']
    assert lines[-1] == "secret"
    text = words()
    assert text.startswith(f"{FIRST.directory} {NAME}  -n {NAME} -O /dev/null -E /dev/null")
    assert text.endswith("--checkpoint 10 --signal 15 -l /host=1/core=4,walltime=0:1:31")
    assert words(placeholder=replace(FIRST, body="true")).startswith(f" {NAME}  -n")
    assert "--checkpoint" not in words(placeholder=replace(FIRST, time_limit_s=59))


def submitted(folder: Path, placeholder: Placeholder = FIRST) -> str:
    """Run a submission with an oarsub that prints its last argument; the home is the folder."""
    (folder / "bin").mkdir(exist_ok=True)
    oarsub = folder / "bin" / "oarsub"
    oarsub.write_text('#!/bin/sh\nfor last; do :; done\necho "$PWD $last"\n', encoding="utf-8")
    oarsub.chmod(0o755)
    command = SERVER.submit(placeholder, name=NAME, script="#!/bin/sh\nsecret\n")
    environment = {"HOME": str(folder), "PATH": f"{oarsub.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        command.argv,
        input=command.stdin,
        env=environment,
        text=True,
        capture_output=True,
        check=True,
    ).stdout


def test_a_script_is_its_owners_and_old_ones_in_the_home_are_deleted(tmp_path: Path) -> None:
    home, folder = tmp_path / ".koala-oar", tmp_path / "claim"
    assert submitted(tmp_path, replace(FIRST, directory=folder)) == f"{folder} ./{NAME}\n"
    assert (folder / NAME).stat().st_mode & 0o777 == 0o700
    assert submitted(tmp_path, replace(FIRST, body="true")) == f"{home} ./{NAME}\n"
    assert "secret" in (home / NAME).read_text(encoding="utf-8")
    month_ago = time.time() - 32 * 86_400
    for old in (home / "koala-ab-j0.1.0.1", home / "notes", folder / "koala-ab-j0.1.0.1"):
        old.touch()
        os.utime(old, (month_ago, month_ago))
    (home / "koala-ab-j2.1.0.1").touch()
    submitted(tmp_path, replace(FIRST, body="true"))
    submitted(tmp_path, replace(FIRST, directory=folder))
    assert {path.name for path in home.iterdir()} == {NAME, "koala-ab-j2.1.0.1", "notes"}
    assert (folder / "koala-ab-j0.1.0.1").exists(), "claims' folders are not searched"


def test_resources_in_the_words_of_oar() -> None:
    wishes: dict[str, Any] = {
        "memory_min_mb": 500,
        "constraint": "ib&rome",
        "licenses": (("matlab", 2),),
        "queue": "debug",
        "project": "physics",
        "native": "-p \"cluster='grisou'\"",
    }
    text = words(placeholder=replace(FIRST, processes=4), **wishes)
    has = "{ib='YES' AND rome='YES' AND mem>=2000}/host=1/core=4+{type='matlab'}/resource_id=2,"
    assert has in text
    assert text.endswith("-q debug --project physics -p cluster='grisou'")
    assert "/host=1/gpu=2,walltime" in words(gpus=2)
    assert "/host=1,walltime" in words(is_exclusive=True, gpus=2)
    site = OAR(project="atlas", queue="besteffort", options=("-t", "besteffort"))
    text = words(site, queue="debug", project="physics")
    assert text.endswith("-q besteffort --project atlas -t besteffort")
    assert {*SERVER.honours} - {*site.honours} == {"queue", "project", "native"}


@pytest.mark.parametrize(
    "wishes",
    [
        {"constraint": "ib|rome"},
        {"constraint": "ib' OR 1=1 OR 'a"},
        {"licenses": (("a'}/b", 1),)},
        {"queue": "a b"},
        {"native": "-t idempotent"},
        {"native": "-l /nodes=9"},
    ],
)
def test_wishes_that_no_word_says_are_refused(wishes: dict[str, Any]) -> None:
    with pytest.raises(RequestRefusedError):
        words(**wishes)


def test_the_number_of_a_job_stands_after_what_the_rules_changed() -> None:
    rules = "[ADMISSION RULE] Modify resource description with type constraints\n"
    assert SERVER.read_submitted(said(f"{rules}OAR_JOB_ID=12\n")) == "12"
    for answer, is_final in (
        (Answer(status=8, out="", err="# There are not enough resources for your request\n"), True),
        (Answer(status=248, out="", err=""), True),
        (Answer(status=9, out=f"{rules}OAR_JOB_ID=12\n", err="# Error: cannot connect"), False),
        (Answer(status=25, out=rules, err="DB connection error, exiting. limit"), False),
        (Answer(status=0, out="", err=""), False),
    ):
        with pytest.raises(LocalManagerError) as caught:
            SERVER.read_submitted(answer)
        assert caught.value.transient is not is_final, answer


def test_states_of_jobs() -> None:
    jobs = {job.number: job for job in SERVER.read_jobs(sample("jobs.json"))}
    assert {number: job.state for number, job in jobs.items()} == {
        "4": JobState.RUNNING,
        "6": JobState.RUNNING,
        "7": JobState.QUEUED,
        "8": JobState.QUEUED,
        "9": JobState.QUEUED,
    }
    assert jobs["4"].name == "koala-ab-j1.1.3.1"
    assert SERVER.read_jobs(said("")) == []
    again = json.loads(sample("jobs.json").out)["8"] | {"resubmit_job_id": 1}
    assert SERVER.read_jobs(said(json.dumps({"8": again})))[0].is_again


@pytest.mark.parametrize(
    ("number", "cause", "exit_status"),
    [
        ("1", EndCause.TIME_LIMIT, None),
        ("2", EndCause.EXITED, 3),
        ("3", EndCause.EXITED, -11),
        ("5", EndCause.CANCELLED_BY_SITE, None),
        ("10", EndCause.LOST, None),
    ],
)
def test_the_record_says_how_a_job_ended(
    number: str, cause: EndCause, exit_status: int | None
) -> None:
    name = json.loads(sample("ended.json").out)[number]["name"]
    job = SERVER.read_record(sample("ended.json"), number=number, name=name)
    assert job is not None
    assert (job.state, job.cause, job.exit_status) == (JobState.ENDED, cause, exit_status)
    assert SERVER.read_record(sample("ended.json"), number=number, name="other") is None


def test_a_begin_that_is_refused_late_is_no_fault_of_the_site() -> None:
    job = json.loads(sample("ended.json").out)["10"]
    job["message"] = "This reservation could run at 2026-11-30 09:05:16"
    answer = said(json.dumps({"10": job}))
    ended = SERVER.read_record(answer, number="10", name=job["name"])
    assert ended is not None
    assert (ended.cause, ended.reason) == (EndCause.WITHDRAWN, f"oarsub -r: {job['message']}")


def test_best_effort_jobs_reservations_and_held_jobs_take_nothing_from_ours() -> None:
    """One GPU with its four cores is in use; a best-effort job has three cores."""
    figures = SERVER.read_figures((sample("nodes.json"), sample("jobs.json")))
    assert (figures.processors, figures.idle, figures.queued_jobs) == (16, 12, 1)
    assert (figures.resources.gpus, figures.resources.host_gpus, figures.idle_gpus) == (4, 4, 3)
    assert figures.resources.host_memory_mb == 65536
    (lecture,) = figures.booked
    assert (lecture.number, lecture.processors) == ("9", 2)
    assert (lecture.begins_at, lecture.ends_at) == (1795465740.0, 1795466040.0)
    ours = OAR(queue="besteffort")
    assert ours.read_figures((sample("nodes.json"), sample("jobs.json"))).idle == 9


def test_of_a_machine_that_takes_no_jobs_what_is_in_use_is_there() -> None:
    def figures(**changes: str) -> Figures:
        rows = {n: row | changes for n, row in json.loads(sample("nodes.json").out).items()}
        return SERVER.read_figures((said(json.dumps(rows)), sample("jobs.json")))

    for closed in ({"state": "Suspected"}, {"state": "Absent"}, {"drain": "YES"}):
        found = figures(**closed)
        assert (found.processors, found.idle, found.idle_gpus) == (4, 0, 0)


@pytest.mark.parametrize("text", ["[]", "null", '{"a": {}}', '{"1": []}', "{", '{"1": {}}'])
def test_a_faulty_listing_is_no_empty_one(text: str) -> None:
    with pytest.raises(LocalManagerError) as caught:
        SERVER.read_jobs(said(text))
    assert caught.value.transient
    with pytest.raises(LocalManagerError):
        SERVER.read_jobs(Answer(status=25, out="", err="DB connection error, exiting."))


def test_jobs_that_are_gone_need_no_end() -> None:
    SERVER.read_withdrawn(said("Deleting the job = 1 ...REGISTERED."))
    SERVER.read_withdrawn(Answer(status=6, out="", err="This job was already killed."))
    with pytest.raises(LocalManagerError):
        SERVER.read_withdrawn(Answer(status=2, out="", err="cannot connect to executor"))
