"""Texts that others wrote (names, reasons, labels) reach a terminal as text, and a spreadsheet as
text. What a program wrote to its log is the program's: `koala logs` gives it as it is."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from koala.cli.admin.report import csv_text
from koala.cli.output import JSON_VERSION, print_json, say
from koala.cli.render import documents as render
from koala.cli.render import documents as render_access
from koala.cli.render import job_list
from koala.cli.render.table import table
from koala.local import demo_summary as summary
from koala.views.records.access import AuditLine, Enrolment, User
from koala.views.records.accounts import ClaimReport, Report
from koala.views.records.base import Moment, Record
from koala.views.records.grid import DiskSpace, Metrics, QueueLengths, ReplicaFile, SiteCounts
from koala.views.records.jobs import Explanation, Notice, StoryLine
from tests.cli.pictures import a_charge, a_job, a_part, a_report_row, a_site

HOSTILE = "a\x1b[2J\x1b]0;t\x07\x9b31m\u202eb\r\nc\x00\x7f\u2028d"


def is_shown(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def spoilt(document: Any) -> Any:
    """The document with the worst in place of each text, names of its fields excepted."""
    match document:
        case dict():
            return {key: spoilt(value) for key, value in document.items()}
        case Record():
            names = document.__struct_fields__
            return replace(document, **{name: spoilt(getattr(document, name)) for name in names})
        case StoryLine():
            return StoryLine(document.at, HOSTILE)
        case list() | tuple():
            return tuple(spoilt(value) for value in document)
        case str():
            return HOSTILE
        case _:
            return document


PROGRESS = {
    "policy": "SQ", "skew_s": 0.1, "largest_skew_s": 0.2, "asynchrony_s": 0.5, "corrections": 1,
    "shares": {HOSTILE: 0.5}, "skews": [[1.0, 0.1], [2.0, 0.2]],
}  # fmt: skip
AT = Moment.of(1.0)
NOTICE = Notice(number=1, at=AT, job="j1", site="delft", phase="Running", text="t")
ENROLMENT = Enrolment(site="s", state="joined", owner="o", added_at=AT, joined_at=AT, expires_at=AT,
                      join_expires_at=None, revoked_at=None, certificate="c", by="b")  # fmt: skip
USER = User(user="u", role="user", state="good", shows="token", added_at=AT, expires_at=AT,
            revoked_at=None, by="b")  # fmt: skip
LINE = AuditLine(time="2026", who="w", role="r", source="f", verb="v", object="o", outcome="done")
METRICS = Metrics(sites=SiteCounts(known=1, connected=1),
                  disk=DiskSpace(free_bytes=1, is_low=False),
                  queues=QueueLengths(placement=0, delayed=0, transfers=0, inbox=0),
                  replaced_policies={HOSTILE: "p"})  # fmt: skip
SHOWN: dict[str, tuple[Callable[[Any], str], Any]] = {
    "list": (job_list.jobs_text, [a_job(name="n")]),
    "show": (render.job_text, a_job(progress=PROGRESS, charges=[a_charge()])),
    "parts": (partial(table, render.PARTS), [a_part(site=None, fixed_site="x"), a_part(end=None)]),
    "sites": (render.sites_text, [a_site()]),
    "files": (
        partial(table, render.FILES),
        [ReplicaFile(file="f", size_bytes=1, sites=("s",), checksum="c")],
    ),
    "why": (render.why_text, Explanation(job="j1", phase="Failed", why=("w",))),
    "watch": (render.notice_text, NOTICE),
    "report": (render.report_text, Report(by="site", rows=(a_report_row(site="s"),) * 2,
                                          total=a_report_row())),
    "site list": (partial(table, render_access.ENROLMENTS), [ENROLMENT]),
    "user list": (partial(table, render_access.USERS), [USER]),
    "audit": (partial(table, render_access.AUDIT), [LINE]),
    "summary": (summary.summary_text, [a_job(name="n", phase="Failed")]),
    "metrics": (render.metrics_text, METRICS),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_no_text_in_a_document_reaches_the_terminal_raw(name: str) -> None:
    show, document = SHOWN[name]
    hostile = spoilt(document)
    if name == "report":
        hostile = replace(hostile, by="site")
    text = show(hostile)
    assert is_shown(text), [c for c in text if not c.isprintable() and c != "\n"]


def test_what_is_said_beside_results_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"first {HOSTILE}\nsecond")
    assert is_shown(capsys.readouterr().err)


@pytest.mark.parametrize("indent", [2, None])
def test_json_says_the_same_and_obeys_nobody(
    indent: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    document = {HOSTILE: [HOSTILE, "\ud800", "é"]}
    print_json(document, indent=indent)
    said = capsys.readouterr().out
    assert is_shown(said)
    assert json.loads(said) == {"version": JSON_VERSION, **document}


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=cmd|"/c x"!A1'])
def test_a_cell_of_csv_is_no_formula(name: str) -> None:
    report = Report(by="user", rows=(a_report_row(user=name),))
    (_, row) = csv.reader(io.StringIO(csv_text(report)))
    assert row[0] == f"'{name.strip()}"
    assert row[1] == "1", "numbers stay numbers"
    charge = csv_text(ClaimReport(by="claim", claims=(a_charge(batch_job=name),)))
    assert f"'{name.strip()[0]}" in charge
