"""Results of the client: attributes with types, and the daemon's document beside them."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime

import msgspec
import pytest

from koala.client import AsyncClient, AsyncJobHandle, Client, JobHandle
from koala.client.answers import decode
from koala.client.records import JobDetails, SiteStatus
from koala.errors import KoalaError
from koala.views.records.base import Records, encode
from tests.cli.pictures import a_job
from tests.tidy.sources import ROOT


def test_instants_are_datetimes_as_attributes_and_seconds_in_the_document() -> None:
    plain = {"job": "j1", "phase": "Running", "submitted_at": 1_795_367_000.5000001, "brand_new": 1}
    job = decode(JobDetails, json.dumps(plain))
    assert job.submitted_at == datetime(2026, 11, 22, 17, 3, 20, 500_000, tzinfo=UTC)
    assert job["submitted_at"] == plain["submitted_at"], "to the last digit"
    assert decode(JobDetails, encode(job)) == job
    assert "brand_new" not in job.keys()  # noqa: SIM118 - a record is no mapping
    assert not job.is_over
    assert asdict(job)["submitted_at"] == job.submitted_at


def test_a_record_gives_its_document_and_no_row_of_values() -> None:
    """Pandas makes a table of dataclasses, except of those that can be iterated over."""
    job = a_job()
    assert dict(job) == job.document
    assert job["parts"][0]["label"] == job.parts[0].label
    assert is_dataclass(job)
    assert [one.name for one in fields(job)] == list(job.document)
    with pytest.raises(TypeError, match="not iterable"):
        iter(job)  # type: ignore[call-overload]


def test_what_a_document_lacks_has_a_default() -> None:
    job = decode(JobDetails, '{"job": "j1", "phase": "Finished"}')
    assert (job.name, job.programs, job.parts, job.is_over) == (None, (), (), True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"site": "delft", "idle": "many"}',
            r"expected a SiteStatus.*`int`.*`\$\.idle`.*koala doctor",
        ),
        ('{"site": "delft", "expires_at": "soon"}', r"Expected `float`, got `str`.*expires_at"),
        ("{", "expected a SiteStatus"),
    ],
)
def test_an_answer_of_another_form_is_an_error_that_names_the_field(text: str, said: str) -> None:
    with pytest.raises(KoalaError, match=said):
        decode(SiteStatus, text)


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


def test_a_notebook_shows_jobs_their_events_and_sites_as_tables_and_repr_is_short() -> None:
    job = msgspec.structs.replace(a_job(), name="<b>")
    assert repr(job).startswith("JobDetails(job='j")
    assert len(repr(job)) < 300
    table = job._repr_html_()
    assert ("&lt;b&gt;" in table, "<b>" in table) == (True, False)
    assert table.count("<table>") == 3, "the job, its components, its events"
    sites = Records([SiteStatus(site="delft", processors=4), SiteStatus(site="vu")])
    assert sites._repr_html_().count("<tr>") == 3
    assert repr(sites[0]).startswith("SiteStatus(site='delft', state='disconnected', processors=4,")
