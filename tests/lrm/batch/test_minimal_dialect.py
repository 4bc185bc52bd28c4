"""A dialect without accounting and figures, and one with mistakes."""

from __future__ import annotations

import pytest

from koala.errors import LocalManagerError
from koala_agent.lrm.batch.claim_tracking import ClaimRow, TrackedClaim
from koala_agent.lrm.batch.figures.idle_processors import idle_of, presumed_figures
from koala_agent.lrm.batch.guarded_dialect import guarded
from koala_agent.lrm.dialect import (
    BatchJob,
    Dialect,
    JobState,
    submitted_number,
    with_output,
)
from koala_agent.lrm.local_manager import Placeholder
from koala_agent.transport.interface import Answer, Command
from tests.lrm.batch.dialects import placeholder


class Least(Dialect):
    """All that a dialect must have, with a mistake."""

    def submit(self, placeholder: Placeholder, *, name: str, script: str) -> Command:
        return Command(argv=("put", name), stdin=script)

    def read_submitted(self, answer: Answer) -> str:
        return submitted_number(answer, "put")

    def list_jobs(self) -> Command:
        return Command(argv=("list",))

    def read_jobs(self, answer: Answer) -> list[BatchJob]:
        number, name = answer.out.split()
        return [BatchJob(number=number, name=name, state=JobState.RUNNING)]

    def withdraw(self, number: str) -> Command:
        return Command(argv=("cut", number))


def answer(out: str, status: int = 0) -> Answer:
    return Answer(status=status, out=out, err="")


def test_it_inherits_all_but_submission_listing_and_cancel() -> None:
    least = Least()
    assert least.honours == ()
    assert least.ask(placeholder(), name="n", script="") is None
    assert (least.record("1"), least.explain("1"), least.figures()) == (None, None, ())
    assert least.read_record(answer(""), number="1", name="n") is None
    assert least.read_figures(()) is None
    least.read_withdrawn(answer("", status=1))
    with pytest.raises(TypeError, match="abstract"):
        type("Less", (Least,), {"withdraw": Dialect.withdraw})()


def test_without_figures_the_processors_of_the_configuration_count_less_our_own() -> None:
    states = ((JobState.RUNNING, 3), (JobState.QUEUED, 2))
    claims = [
        TrackedClaim(row=ClaimRow(claim=f"j{size}/1/0/1", processors=size), state=state)
        for state, size in states
    ]
    figures = presumed_figures(claims, allowed=8)
    idle = idle_of(figures, claims, allowed=8)
    assert (idle.processors, idle.idle, idle.startable, idle.local_processors) == (8, 3, 3, 0)
    assert presumed_figures(claims, allowed=2).idle == 0


@pytest.mark.parametrize(
    ("out", "number"), [("12\n", "12"), ("Your job 7 (x) is in\n", "7"), ("Job <31>", "31")]
)
def test_the_first_number_of_an_answer_is_that_of_the_job(out: str, number: str) -> None:
    assert submitted_number(answer(out), "put") == number


@pytest.mark.parametrize("wrong", [answer("queued\n"), answer("12", status=1)])
def test_an_answer_without_a_number_leaves_the_listing_to_decide(wrong: Answer) -> None:
    with pytest.raises(LocalManagerError) as caught:
        submitted_number(wrong, "put")
    assert caught.value.transient


def test_a_mistake_of_a_dialect_is_an_error_of_its_site_with_its_place() -> None:
    dialect = guarded(Least())
    assert dialect.read_jobs(answer("1 a"))[0].name == "a"
    mistake = r"a mistake in `read_jobs` .*\.py, line \d+"
    with pytest.raises(LocalManagerError, match=mistake) as seen:
        dialect.read_jobs(answer("1 a b"))
    assert seen.value.transient
    with pytest.raises(LocalManagerError, match="put: no number in 'queued'"):
        dialect.read_submitted(answer("queued"))


def test_a_job_without_a_folder_writes_no_output() -> None:
    assert with_output(placeholder(body="true"), "#!/bin/sh\ntrue") == "#!/bin/sh\ntrue"
    assert "placeholder.out" in with_output(placeholder(), "#!/bin/sh\ntrue")
