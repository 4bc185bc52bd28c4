"""Dialects: what all of them have in common."""

from __future__ import annotations

import pytest

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.gridengine import GridEngine
from koala_agent.lrm.dialect import Dialect, claim_of, job_name, script
from tests.lrm.batch.dialects import ALWAYS, GRID_ENGINE, SLURM, WISHES, options, placeholder
from tests.lrm.batch.first_claim import said


def test_a_claim_is_found_again_by_the_name_of_its_batch_job() -> None:
    assert job_name("j12/1/0/1", scope="ab") == "koala-ab-j12.1.0.1"
    assert claim_of("koala-ab-j12.1.0.1", scope="ab") == "j12/1/0/1"
    assert claim_of("koala-ab-a.b.1.0.1", scope="ab") == "a.b/1/0/1"


@pytest.mark.parametrize(
    "name",
    [
        "koala-cd-j1.1.0.1",
        "koala-ab-j1.1.0",
        "koala-ab-j1.1.0.x",
        "train.sh",
        "",
        # Whoever may submit chooses a name; what the daemon would not take is no claim.
        f"koala-ab-{'j' * 65}.1.0.1",
        "koala-ab-../j.1.0.1",
        "koala-ab-\u00fc.1.0.1",
        "koala-ab-j.1.0.1234567890",
        "koala-ab-j.1.0.\u0661",
    ],
)
def test_jobs_of_others_are_nobodys_claims(name: str) -> None:
    assert claim_of(name, scope="ab") is None


def test_the_script_keeps_every_character_of_its_arguments_and_values() -> None:
    text = script(placeholder(environment=(("NAME", "a $HOME `id` 'b'"),)), scope="ab")
    assert text.splitlines() == [
        "#!/bin/sh",
        """export NAME='a $HOME `id` '"'"'b'"'"''""",
        "export KOALA_CLAIM=j12/1/0/1",
        "export KOALA_LOCAL_MANAGER=ab",
        "cd '/scratch/work folder' || exit 71",
        """exec /usr/bin/python3 starter.py 'it'"'"'s here'""",
    ]


def test_the_sites_own_words_win_over_wishes() -> None:
    assert options(SLURM, **WISHES) == ["--nodes=2", "--mem=900M"]
    assert SLURM.honours == (*ALWAYS, "qos")
    assert options(GRID_ENGINE, **WISHES) == ["-q batch", "-P ocean"]
    everywhere = ("gpus", "constraint", "licenses", "exclusive", "reservation")
    assert GRID_ENGINE.honours == (*everywhere, "project")
    free = GridEngine(parallel_environment="grid", native=("-p",))
    assert options(free, **WISHES) == ["-q gpu", "-P ocean"]
    assert free.honours == (*everywhere, "queue", "project", "native")


def test_a_job_that_is_gone_already_is_withdrawn() -> None:
    GRID_ENGINE.read_withdrawn(said('denied: job "9" does not exist\n', status=1))
    SLURM.read_withdrawn(said(status=0))


@pytest.mark.parametrize("dialect", [SLURM, GRID_ENGINE])
@pytest.mark.parametrize("text", ["garbage", "<xml", "\0\0", "1 2 3"])
def test_an_answer_that_is_none_is_an_error_and_no_empty_listing(
    dialect: Dialect, text: str
) -> None:
    with pytest.raises(LocalManagerError):
        dialect.read_jobs(said(text))
