"""The words of PBS: what is submitted, and answers in `samples/pbs-made`, which were written after
the sources of OpenPBS 23, not recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koala.common.protocol.messages import Resources
from koala.errors import LocalManagerError
from koala_agent.lrm.batch.pbs import PBS
from koala_agent.lrm.dialect import JobState
from koala_agent.lrm.local_manager import EndCause, Placeholder, RequestRefusedError
from koala_agent.transport.interface import Answer
from tests.lrm.batch.first_claim import FIRST, NAME, said

SAMPLES = Path(__file__).parent / "samples" / "pbs-made"
SERVER = PBS(native=("*",))


def sample(name: str) -> Answer:
    return said((SAMPLES / name).read_text(encoding="utf-8"))


def words(server: PBS = SERVER, placeholder: Placeholder = FIRST, **wishes: Any) -> str:
    asking = replace(placeholder, resources=Resources(**wishes))
    return " ".join(server.submit(asking, name=NAME, script="#!/bin/sh\ntrue\n").argv)


def test_a_job_is_one_chunk_that_is_never_run_again() -> None:
    text = words()
    assert text.startswith(f"qsub -f -C  -N {NAME} -r n -m n -S /bin/bash")
    assert "-l select=1:ncpus=4 -l walltime=91" in text
    script = SERVER.submit(FIRST, name=NAME, script="#!/bin/sh\ntrue\n").stdin
    assert "exec >> '/scratch/it'\"'\"'s/placeholder.out' 2>&1" in script


def test_resources_in_the_words_of_pbs() -> None:
    wishes: dict[str, Any] = {
        "memory_min_mb": 500,
        "gpus": 2,
        "constraint": "ib&rome",
        "licenses": (("matlab", 2),),
        "is_exclusive": True,
        "queue": "debug",
        "project": "physics",
        "native": "-l filesystems=home:eagle -p -5",
    }
    text = words(placeholder=replace(FIRST, processes=4), **wishes)
    assert "select=1:ncpus=4:mem=2000mb:ngpus=2:ib=True:rome=True " in text
    assert "-l place=exclhost" in text
    assert "-l matlab=2 -q debug -A physics -l filesystems=home:eagle -p -5" in text
    site = PBS(account="chemistry", project="atlas", queue="workq", options=("-l", "app=koala"))
    text = words(site, queue="debug", project="physics")
    assert text.endswith("-q workq -A chemistry -P atlas -l app=koala")
    assert {*SERVER.honours} - {*site.honours} == {"queue", "project", "native"}


@pytest.mark.parametrize(
    "wishes",
    [
        {"constraint": "ib|rome"},
        {"constraint": "ib:ncpus=90"},
        {"licenses": (("matlab=1,walltime", 2),)},
        {"native": "-J 1-10"},
        {"native": "-l select=9:ncpus=1"},
        {"native": "-l app=1,walltime=9"},
        {"native": "script.sh"},
    ],
)
def test_wishes_that_would_change_the_job_are_refused(wishes: dict[str, Any]) -> None:
    with pytest.raises(RequestRefusedError):
        words(**wishes)


def test_the_answer_of_a_submission() -> None:
    assert SERVER.read_submitted(said("12.pbs1.example.org\n")) == "12"
    assert SERVER.read_submitted(said("Welcome!\n13.pbs1\n")) == "13"
    with pytest.raises(RequestRefusedError):
        SERVER.read_submitted(said(status=188, err="qsub: would exceed complex's per-user limit"))
    for err, is_transient in (
        ("qsub: Unknown queue", False),
        ("Connection refused\nqsub: cannot connect to server pbs1 (errno=111)", True),
        ("", True),
    ):
        with pytest.raises(LocalManagerError) as caught:
            SERVER.read_submitted(said(status=1, err=err))
        assert caught.value.transient is is_transient


def test_states_and_ends() -> None:
    jobs = {job.name.split(".")[-2]: job for job in SERVER.read_jobs(sample("jobs.json"))}
    assert len(jobs) == 15  # without the job array
    states = {part: job.state for part, job in jobs.items() if job.state is not JobState.ENDED}
    assert states == {
        "0": JobState.RUNNING,
        "1": JobState.QUEUED,
        "2": JobState.STUCK,
        "3": JobState.HELD,
        "10": JobState.QUEUED,
        "11": JobState.QUEUED,
        "12": JobState.QUEUED,
        "13": JobState.RUNNING,
    }
    assert [part for part, job in jobs.items() if job.is_again] == ["3", "10"]
    assert [part for part, job in jobs.items() if job.is_limited] == ["12"]
    ends = {part: (job.cause, job.exit_status) for part, job in jobs.items() if part not in states}
    assert ends == {
        "4": (EndCause.CANCELLED_BY_SITE, None),
        "5": (EndCause.EXITED, 3),
        "6": (EndCause.TIME_LIMIT, None),
        "7": (EndCause.TIME_LIMIT, None),
        "8": (EndCause.EXITED, -11),
        "9": (EndCause.CANCELLED_BY_SITE, None),
        "14": (EndCause.UNREACHABLE, None),
    }
    assert jobs["0"].owner == "ada"


def test_no_answer_is_no_empty_listing() -> None:
    assert SERVER.read_jobs(said('{"timestamp": 1, "pbs_server": "pbs1"}')) == []
    for answer in (said(), said("{}"), said("[]"), said("{}", status=1), said('{"timestamp')):
        with pytest.raises(LocalManagerError) as caught:
            SERVER.read_jobs(answer)
        assert caught.value.transient


def test_a_server_without_history_has_no_records() -> None:
    for err in (
        "qstat: Unknown Job Id 9.pbs1",
        "qstat: PBS is not configured to maintain job history",
    ):
        answer = said(status=153, err=err)
        assert SERVER.read_record(answer, number="9", name=NAME) is None
    name = "koala-ab-j1.1.5.1"
    record = SERVER.read_record(sample("jobs.json"), number="28", name=name)
    assert record is not None
    assert record.exit_status == 3
    assert SERVER.read_record(sample("jobs.json"), number="28", name=NAME) is None


def test_processors_of_all_queues_and_of_one() -> None:
    answers = (sample("nodes.json"), sample("jobs.json"))
    every = SERVER.read_figures(answers)
    assert (every.processors, every.idle) == (8 + 8 + 3 + 16 + 32, 4 + 16 + 32)
    assert (every.idle_gpus, every.resources.gpus, every.resources.host_gpus) == (1, 2, 2)
    assert every.resources.host_memory_mb == 16_384
    assert every.queued_jobs == 3  # one that waits, one that was put back, and an array
    debug = PBS(queue="debug").read_figures(answers)
    assert (debug.processors, debug.idle, debug.queued_jobs) == (8 + 8 + 3 + 16, 4 + 16, 0)
