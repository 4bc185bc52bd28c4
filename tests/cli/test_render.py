"""The daemon's documents as text: goldens that a person can judge."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from koala.cli.admin.report import csv_text
from koala.cli.render.documents import (
    job_text,
    more_lines,
    report_text,
    seconds,
    sites_text,
    size,
)
from koala.cli.render.job_list import jobs_text, read_format
from koala.cli.render.table import FILE, Screen
from koala.cli.render.timeline import timeline_text
from koala.errors import SpecError
from koala.local.demo_summary import summary_text
from koala.views.records.accounts import ClaimReport, Report
from tests.cli.pictures import a_charge, a_course, a_job, a_part, a_report_row, a_site, a_timeline


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def test_the_timeline_shows_figure_1_of_the_paper() -> None:
    assert timeline_text(a_course(), Screen(78)) == "\n".join(
        [
            "j1  Finished",
            "",
            "           0                5.0 s            10.0 s            15.0 s",
            "           A      B           C D                                           E",
            "west delft              ....::::=============================================",
            "east vu",
            "",
            ". claiming   : held at the barrier   = running",
            "",
            "A          B              C     D                                            E",
            "+----------+--------------+-----+============================================+",
            "|<--------- TWT 6.2 s --------->|",
            "           |< PGT 3.4 s ->|",
            "                          |-----| PWT 0.7 s",
            "           |<--- FTT 4.0 s ---->|",
            "                                |<--------------- run 12.8 s --------------->|",
            "",
            "A    submitted  1970-01-01 00:16:40  +0.000 s",
            "B    placed     1970-01-01 00:16:42  +2.100 s",
            "C    claimed    1970-01-01 00:16:45  +5.500 s",
            "D    started    1970-01-01 00:16:46  +6.200 s",
            "E    ended      1970-01-01 00:16:59  +19.000 s",
            "",
            "TWT  total waiting time               6.2 s",
            "FTT  file transfer time, estimated    4.0 s",
            "     file transfer time, real         3.9 s",
            "PGT  processor gained time            12.0 processor-seconds",
            "PWT  processor wasted time            8.4 processor-seconds",
            "ACT  additional claiming tries        1",
            "     start delay                      0 ms",
            "     start lateness                   0.1 s",
            "     start skew                       2.1 ms",
        ]
    )


def test_a_job_shows_its_components_and_its_story() -> None:
    assert job_text(a_job()) == "\n".join(
        [
            "job        j1 of ann, low priority",
            "phase      Finished",
            "submitted  1970-01-01 00:16:40",
            "attempt    1, after 1 placement try and 2 claiming tries",
            "files      4.0 MB moved in 3.9 s (estimated 4.0 s)",
            "start      skew 2.1 ms between components, 0.1 s after the planned start",
            "held       8.4 processor-seconds before the start, 150.0 after it",
            "",
            "COMPONENT  SITE   PROCESSORS  PROCESSES  FILE FROM  CLAIM          OUTCOME",
            "west       delft           4          4  vu         j1/1/0/1 over  ended well",
            "east       vu              4          4  -          j1/1/0/1 over  ended well",
            "",
            "CLAIM     SITE   BATCH JOB  PROCESSORS  CHECKED IN            RUN  HELD  WASTED  END",
            "j1/1/0/1  delft  4711                4  1970-01-01 00:16:45  51.2   4.8     0.0"
            "  exited",
            "(RUN, HELD and WASTED in processor-seconds)",
            "",
            "1970-01-01 00:16:40  Placing: submitted",
            "1970-01-01 00:16:59  Finished: every component ended well",
        ]
    )


def test_a_job_with_a_deadline_shows_it_and_its_next_try() -> None:
    waiting = {"deadline_at": 4600.0, "next_try_at": 4500.5, "tries_left": 2}
    lines = job_text(a_job(phase="Placing", deadline=waiting)).splitlines()
    assert lines[3] == (
        "deadline   1970-01-01 01:16:40, 2 claiming tries left, the next at 1970-01-01 01:15:00"
    )
    over = {"deadline_at": 4600.0, "next_try_at": None, "tries_left": 0}
    assert "deadline   1970-01-01 01:16:40\n" in job_text(a_job(deadline=over))


def test_a_waiting_component_shows_why_and_where_it_must_run() -> None:
    part = a_part(
        site=None, fixed_site="vu", end=None, claim=None, refusal="only 3 of 4 processors are idle"
    )
    text = job_text(a_job(phase="Placing", parts=[part]))
    assert "west       (vu)" in text
    assert "only 3 of 4 processors are idle" in text


def test_a_list_has_a_line_for_each_job() -> None:
    jobs = [a_job(), a_job(job="j20", phase="Failed", sites=[], reason="exit status 3: it\nbroke")]
    assert jobs_text(jobs).splitlines() == [
        "JOB  PHASE     PRIORITY  PARTS  PROCESSORS  PROGRAM  SITES      SUBMITTED"
        "         ELAPSED  USER  REASON",
        "j1   Finished  low           2           8  poisson  delft, vu  1970-01-01 00:16"
        "  0:00:09  ann",
        "j20  Failed    low           2           8  poisson  -          1970-01-01 00:16"
        "  0:00:09  ann   exit status 3: it broke",
    ]


def test_a_narrow_terminal_loses_the_least_important_columns_and_a_line_says_so() -> None:
    reason = "component 0 at vu ended with exit status 3"
    jobs = [a_job(), a_job(job="j20", phase="Failed", sites=["uva"], reason=reason)]
    wide, narrow = (jobs_text(jobs, Screen(width)).splitlines() for width in (80, 60))
    assert all(len(line) <= 80 for line in wide)
    assert all(len(line) <= 60 for line in narrow)
    assert wide[0].split() == ["JOB", "PHASE", "PROCESSORS", "SUBMITTED", "ELAPSED", "REASON"]
    assert wide[2].endswith("component 0 at vu ended w…")
    assert wide[3] == "(too narrow for PRIORITY, USER, PARTS, PROGRAM, SITES)"
    assert narrow[0].split() == ["JOB", "PHASE", "PROCESSORS", "ELAPSED", "REASON"]
    assert narrow[3].startswith("(too narrow for PRIORITY, ")


def test_a_list_has_the_columns_that_were_asked_for_or_lines_of_a_template() -> None:
    jobs = [a_job(name="fit", phase="Running", ended_at=None), a_job(job="j2", started_at=None)]
    assert "NAME" in jobs_text(jobs).splitlines()[0]
    assert "NAME" not in jobs_text(jobs[1:]).splitlines()[0]
    columns = read_format("--format", "job,name,elapsed", now=5000.0)
    assert columns(jobs, FILE).splitlines() == [
        "JOB  NAME  ELAPSED",
        "j1   fit   1:06:30",
        "j2   -           -",
    ]
    lines = read_format("--format", "{job} {sites} {submitted_at:.0f}", now=5000.0)
    assert lines(jobs, Screen(5, is_coloured=True)) == "j1 delft,vu 1000\nj2 delft,vu 1000"
    with pytest.raises(SpecError, match=r"--format 'colour' \(expected one of job, name, phase"):
        read_format("--format", "job,colour", now=0.0)
    with pytest.raises(SpecError, match="expected job, name, owner, phase,"):
        read_format("--format", "{colour}", now=0.0)(jobs, FILE)


def test_sites_show_state_and_idle_processors() -> None:
    sites = [
        a_site(),
        a_site(site="vu", state="drained", owner="ann", rtt_s=0.0),
        a_site(site="uva", users=3, trouble="the disk\x1b is full", notice="a\x1b new one"),
    ]
    assert sites_text(sites).splitlines() == [
        "SITE   STATE    PROCESSORS  IDLE  CLAIMED  ERRORS  ROUND TRIP  FOR",
        "delft  usable           64    12       24       0      1.2 ms  everybody",
        "vu     drained          64    12       24       0        0 ms  ann",
        "uva    usable           64    12       24       0      1.2 ms  3 users",
        "uva needs its administrator: the disk? is full",
        "uva: a? new one",
    ]


def test_one_site_shows_what_is_idle_in_its_reservations() -> None:
    assert more_lines(a_site(reservations={"a\x1bb": 8, "c": 0})).splitlines()[2:4] == [
        "reservation a?b: 8 idle",
        "reservation c: 0 idle",
    ]


def test_sites_that_are_away_show_why_and_that_they_are_drained() -> None:
    gone = {"state": "disconnected"}
    sites = [
        a_site(**gone, enrolment="revoked", revoked_at=1000.0, is_drained=True),
        a_site(site="vu", **gone, enrolment="expired", expires_at=1000.0),
        a_site(site="uva", **gone, enrolment="enrolled", is_drained=True),
        a_site(site="leiden", **gone, enrolment="awaited"),
        a_site(site="utrecht", state="drained", enrolment="enrolled", is_drained=True),
        a_site(site="old", state="disconnected"),
    ]
    text = sites_text(sites)
    assert [re.split(r"\s{2,}", line)[1] for line in text.splitlines()[1:7]] == [
        "revoked, drained",
        "expired",
        "disconnected, drained",
        "disconnected",
        "drained",
        "disconnected",
    ]
    assert text.splitlines()[7:] == [
        "delft is away: it was revoked at 1970-01-01 00:16:40 (koala audit: by whom)",
        "vu is away: its certificate expired at 1970-01-01 00:16:40; koala site add lets it join"
        " again",
        "leiden is away: a join token was made for it, and not used yet",
    ]
    red = sites_text(sites[:1], Screen(is_coloured=True)).splitlines()[1]
    assert "\x1b[31mrevoked\x1b[0m, drained" in red


def test_a_report_has_a_row_for_each_user_and_a_total() -> None:
    none = a_report_row(
        user="", jobs_finished=0, jobs_failed=3, skew_median_s=None, skew_max_s=None
    )
    report = Report(
        by="user",
        rows=(a_report_row(user="ann"), none),
        total=a_report_row(jobs_failed=3, claims=4, setbacks=2),
    )
    assert report_text(report).splitlines() == [
        "USER    FINISHED  FAILED  CANCELLED  CLAIMS       RUN  HELD  WASTED    SKEW  LARGEST"
        "  CLAIMS FAILED  SETBACKS",
        "ann            1       0          0       2  12,345.6   4.8     0.0  2.1 ms   2.1 ms"
        "              0         0",
        "nobody         0       3          0       2  12,345.6   4.8     0.0       -        -"
        "              0         0",
        "TOTAL          1       3          0       4  12,345.6   4.8     0.0  2.1 ms   2.1 ms"
        "              0         2",
        "(RUN, HELD and WASTED in processor-seconds)",
    ]


def test_a_report_as_csv_has_the_names_of_the_document() -> None:
    report = Report(by="site", rows=(a_report_row(site="delft"),), total=a_report_row())
    assert csv_text(report).splitlines() == [
        "site,jobs_finished,jobs_failed,jobs_cancelled,claims,run_s,held_s,wasted_s,"
        "skew_median_s,skew_max_s,failed_claims,setbacks,forwarded_bytes",
        "delft,1,0,0,2,12345.6,4.8,0.0,0.0021,0.0021,0,0,0",
    ]
    claims = ClaimReport(by="claim", claims=(a_charge(),))
    assert csv_text(claims).splitlines() == [
        "claim,batch_job,user,site,processors,granted_at,passed_at,ended_at,end,"
        "run_s,held_s,wasted_s,forwarded_bytes",
        "j1/1/0/1,4711,ann,delft,4,1005.0,1006.2,1019.0,exited,51.2,4.8,0.0,0",
    ]


def test_the_summary_names_what_did_not_finish() -> None:
    times = a_timeline(start_skew_s=None, transfer_s=None, start_delay_s=None)
    failed = {"job": "j2", "name": "poisson", "phase": "Failed", "reason": "exit status 3"}
    jobs = [a_job(name="hello"), a_job(**failed, sites=["delft"], timeline=times)]
    assert summary_text(jobs).splitlines() == [
        "JOB  EXAMPLE  PHASE     SITES      PLACED  CLAIMED  TRANSFER  DELAY    SKEW  HELD P*S",
        "j1   hello    Finished  delft, vu       1        2     3.9 s   0 ms  2.1 ms       8.4",
        "j2   poisson  Failed    delft           1        2         -      -       -       8.4",
        "",
        "PLACED and CLAIMED count tries; HELD is processors x seconds before the start.",
        "j2 (poisson): exit status 3",
    ]


def test_durations_and_sizes_have_the_digits_that_matter() -> None:
    assert [seconds(s) for s in (None, 0.0, 0.00214, 0.1, 12.34, 12345.6)] == [
        "-",
        "0 ms",
        "2.1 ms",
        "0.1 s",
        "12.3 s",
        "12,346 s",
    ]
    assert [size(n) for n in (None, 0, 999, 1000, 999_999, 10**13)] == [
        "-",
        "0 B",
        "999 B",
        "1.0 kB",
        "1.0 MB",
        "10.0 TB",
    ]
