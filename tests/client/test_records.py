"""Results of the client: attributes with types, and the daemon's document beside them."""

from __future__ import annotations

import inspect
import re
from dataclasses import asdict
from datetime import UTC, datetime

import pytest

from koala.client import AsyncClient, AsyncJobHandle, Client, JobHandle
from koala.client.records import JobDetails, Report, SiteStatus, read_record
from koala.errors import KoalaError
from tests.cli.pictures import a_job
from tests.tidy.sources import ROOT


def test_instants_are_datetimes_as_attributes_and_seconds_in_the_document() -> None:
    document = a_job(submitted_at=1_795_367_000.5, phase="Running", brand_new=1)
    job = read_record(JobDetails, document)
    assert job.submitted_at == datetime(2026, 11, 22, 17, 3, 20, 500_000, tzinfo=UTC)
    assert (job["submitted_at"], job["brand_new"], job.document) == (1_795_367_000.5, 1, document)
    assert not job.is_over
    assert job.parts[0].label == document["parts"][0]["label"]
    assert asdict(job)["phase"] == "Running"


def test_a_record_gives_its_document_and_no_row_of_values() -> None:
    """Pandas makes a table of dataclasses, except of those that can be iterated over."""
    job = read_record(JobDetails, a_job())
    assert dict(job) == a_job()
    with pytest.raises(TypeError, match="not iterable"):
        iter(job)  # type: ignore[call-overload]


def test_what_a_document_lacks_has_a_default() -> None:
    job = read_record(JobDetails, {"job": "j1", "phase": "Finished"})
    assert (job.name, job.programs, job.parts, job.is_over) == (None, (), (), True)


def test_an_answer_of_another_form_is_an_error_that_names_the_field() -> None:
    with pytest.raises(KoalaError, match=r"no SiteStatus .*`int`.*`\$\.idle`.*koala doctor"):
        read_record(SiteStatus, {"site": "delft", "idle": "many"})


def test_a_report_by_claim_has_claims() -> None:
    rows = [{"claim": "c1", "job": "j1", "asked_at": 1.0, "run_s": 3.0}]
    found = read_record(
        Report, {"by": "claim", "rows": rows}, {"by": "claim", "rows": [], "claims": rows}
    )
    assert (found.rows, found.claims[0].run_s, found["rows"]) == ((), 3.0, rows)


@pytest.mark.parametrize(("one", "other"), [(AsyncClient, Client), (AsyncJobHandle, JobHandle)])
def test_the_synchronous_client_is_that_of_the_asynchronous_one(one: type, other: type) -> None:
    names = [name for name in dir(one) if not name.startswith("_")]
    assert "watch" in names
    assert [name for name in names if not hasattr(other, name)] == []
    for name in names:
        ours, theirs = getattr(one, name), getattr(other, name)
        assert ours.__doc__ == theirs.__doc__
        if not isinstance(ours, property):
            signature = inspect.signature(ours)
            returns = str(signature.return_annotation).replace("Async", "")
            assert inspect.signature(theirs) == signature.replace(return_annotation=returns)


def test_the_reference_names_every_method() -> None:
    text = ROOT.joinpath("docs", "api.md").read_text(encoding="utf-8")
    methods = [name for name in (*vars(Client), *vars(JobHandle)) if not name.startswith("_")]
    assert "fetch_outputs" in methods
    assert [name for name in methods if not re.search(rf"`{name}[`(]", text)] == []
