"""Recordings of real batch systems, and of what they write in unusual cases, become logs."""

from __future__ import annotations

import gzip
import os
import re
from datetime import UTC
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from koala.errors import ConfigError, WorkloadError
from koala.lab.twin.folders import Twin, peak, read_recordings, write
from koala.lab.twin.instants import duration_s, instant, ordered, zone_of
from koala.lab.twin.records import Note, Record, Skip
from koala.lab.workload import swf
from koala.lab.workload.logs import Log

RECORDINGS = Path(__file__).parent / "recordings"
SLURM = RECORDINGS / "slurm-22.05.sacct"
"""Two clusters with one database: arrays, a heterogeneous job, a requeued one, cancelled ones."""
ELIGIBLE = RECORDINGS / "slurm-22.05-eligible.sacct"
"""The same with Eligible and seconds since 1970: held and dependent jobs, one with a begin time."""
GRID_ENGINE = RECORDINGS / "sge-8.1.9.qacct"
HEAD = "JobID|Cluster|User|Submit|Start|End|State|AllocCPUS|Timelimit"
SHORT = "JobID|Submit|Start|End|State|AllocCPUS"


def twin_of(folder: Path, *lines: str, kind: str = "sacct", name: str = "a.txt") -> Twin:
    file = folder / name
    file.write_text("\n".join(lines) + "\n")
    return read_recordings([(kind, file)], zone=UTC)


def one(folder: Path, *lines: str) -> Record:
    """Return the only job of a recording."""
    (site,) = twin_of(folder, *lines).sites
    (job,) = site.jobs
    return job


def test_jobs_of_two_slurm_clusters_are_read_as_they_were_recorded() -> None:
    found = read_recordings([("sacct", SLURM)], zone=UTC)
    assert [(site.name, site.processors, len(site.jobs)) for site in found.sites] == [
        ("alpha", 16, 16),
        ("beta", 32, 4),
    ]
    assert found.counts.notes == {
        Note.RUNNING: 1,
        Note.REQUEUED: 1,
        Note.CANCELLED: 2,
        Note.FAILED: 2,
        Note.ARRAY: 7,
        Note.HETEROGENEOUS: 2,
    }
    assert found.counts.skipped == {Skip.STEP: 19, Skip.NOT_STARTED: 1}
    runs = [job for job in found.sites[0].jobs if job.job == "12"]
    assert [(job.start_at - job.submit_at, job.end_at) for job in runs] == [
        (1, runs[0].start_at + 41),
        (122, runs[1].start_at + 2),
    ], "a requeued job is two runs, and waits for each"


def test_jobs_of_grid_engine_are_read_as_they_were_recorded() -> None:
    found = read_recordings([("qacct", GRID_ENGINE)], site="gamma", zone=UTC)
    (gamma,) = found.sites
    assert {job.job: (job.processors, job.limit_s) for job in gamma.jobs} == {
        "1": (4, 300),
        "2.1": (1, None),
        "2.2": (1, None),
        "2.3": (1, None),
        "4": (1, None),
        "5": (2, None),
    }
    assert found.counts.notes[Note.CANCELLED] == found.counts.notes[Note.FAILED] == 1


def test_a_twin_is_a_log_for_each_site_from_one_common_instant(tmp_path: Path) -> None:
    found = twin_of(
        tmp_path,
        HEAD,
        "1|b|ann|2026-10-01T00:00:10|2026-10-01T00:00:20|2026-10-01T00:01:00|COMPLETED|4|00:02:00",
        "1|a|bob|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T00:00:30|FAILED|2|UNLIMITED",
    )
    write(found, tmp_path, kind="sacct", sources=["a.txt"])
    read = {name: [*swf.jobs(Log(tmp_path / f"{name}.swf", swf.FORMAT))] for name in ("a", "b")}
    assert [job[:9] for job in read["b"]] == [(1, 10, 10, 40, 4, -1, -1, 4, 120)]
    assert [job[:9] for job in read["a"]] == [(1, 0, 0, 30, 2, -1, -1, 2, -1)]
    header = Log(tmp_path / "b.swf", swf.FORMAT).header()
    assert (header.whole("MaxProcs"), header.whole("UnixStartTime")) == (4, 1790812800)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1.batch|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T00:00:01|COMPLETED|4", "STEP"),
        ("1|2026-10-01T00:00:00|Unknown|Unknown|PENDING|4", "NOT_STARTED"),
        ("1_[3-9%2]|2026-10-01T00:00:00|Unknown|Unknown|PENDING|4", "NOT_STARTED"),
        ("1|2026-10-01T00:00:00|None|2026-10-01T00:00:09|CANCELLED by 7|4", "NOT_STARTED"),
        (
            "1|2026-10-01T00:00:00|2026-10-01T00:00:09|2026-10-01T00:00:09|CANCELLED by 7|0",
            "NOT_STARTED",
        ),
        (
            "1|2026-10-01T00:00:00|2026-10-01T00:00:05|2026-10-01T00:00:09|COMPLETED|0",
            "NO_PROCESSORS",
        ),
        ("1|yesterday|2026-10-01T00:00:05|2026-10-01T00:00:09|COMPLETED|4", "MALFORMED"),
        ("1|2026-10-01T00:00:00|2026-10-01T00:00:09|2026-10-01T00:00:01|FAILED|4", "MALFORMED"),
        ("1|2026-10-01T00:00:00|2026-10-01T00:00:05|2026-10-01T00:00:09|COMPLETED|x", "MALFORMED"),
        ("1|2026-10-01T00:00:00|2026-10-01T00:00:05", "MALFORMED"),
        ("1|2026-10-01T00:00:00|2026-10-01T00:00:05|2026-10-01T00:00:09||4", "MALFORMED"),
    ],
)
def test_lines_that_are_no_jobs_are_counted_by_their_reason(
    tmp_path: Path, line: str, reason: str
) -> None:
    good = "9|2026-10-01T00:00:00|2026-10-01T00:00:05|2026-10-01T00:00:09|COMPLETED|4"
    found = twin_of(tmp_path, SHORT, line, good)
    assert (found.counts.kept, found.counts.skipped) == (1, {Skip[reason]: 1})
    named = ["a.txt, line 2: " in told for told in found.counts.malformed]
    assert named == [True] * (reason == "MALFORMED")


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("Timelimit", "soon", "'soon' (expected a duration such as 1-12:00:00, or UNLIMITED"),
        ("TimelimitRaw", "1:00", "'1:00' (expected a whole number"),
        ("ElapsedRaw", "9 s", "'9 s' (expected a duration"),
        ("AllocCPUS", "1K", "'1K' (expected a whole number"),
        ("AllocTRES", "billing=1,cpu=1.5K,mem=4G", "cpu '1.5K' (expected a whole number"),
        ("Submit", "Today", "'Today' (expected an instant such as 2026-10-25T14:30:00,"),
        ("Cluster", "my cluster", "'my cluster' (expected letters, digits, '.', '_'"),
    ],
)
def test_a_wrong_value_is_named_with_its_column_and_what_is_allowed(
    tmp_path: Path, column: str, value: str, told: str
) -> None:
    good = {
        "JobID": "7",
        "Submit": "2026-10-01T00:00:00",
        "Start": "2026-10-01T00:00:05",
        "End": "2026-10-01T00:00:09",
        "State": "COMPLETED",
        "NCPUS": "4",
    }
    good = {column: "", **good}
    wrong = {**good, column: value}
    if column == "AllocTRES":
        wrong["NCPUS"] = ""
    found = twin_of(tmp_path, "|".join(good), "|".join(wrong.values()), "|".join(good.values()))
    assert found.counts.kept == 1
    (line,) = found.counts.malformed
    assert line.startswith(f"a.txt, line 2: job 7: {column} ")
    assert told in line


def test_raw_columns_of_seconds_and_minutes_are_read(tmp_path: Path) -> None:
    head = f"{SHORT}|ElapsedRaw|TimelimitRaw"
    begin = "5|2026-10-01T00:00:00|2026-10-01T00:00:10|Unknown|RUNNING|4"
    found = one(tmp_path, head, f"{begin}|100|30")
    assert (found.elapsed_s, found.limit_s) == (100, 1800)
    assert one(tmp_path, head, f"{begin}|100|UNLIMITED").limit_s is None


def test_a_second_recording_in_one_file_may_have_its_columns_in_another_order(
    tmp_path: Path,
) -> None:
    begin, start, end = (f"2026-10-01T00:00:0{second}" for second in (1, 3, 7))
    found = twin_of(
        tmp_path,
        SHORT,
        f"1|{begin}|{start}|{end}|COMPLETED|4",
        "JobID|Start|Submit|End|State|AllocCPUS",
        f"2|{start}|{begin}|{end}|COMPLETED|4",
    )
    jobs = found.sites[0].jobs
    assert [(job.job, job.start_at - job.submit_at) for job in jobs] == [("1", 2), ("2", 2)]
    assert not found.counts.skipped


@pytest.mark.parametrize(
    ("cut", "note"),
    [
        ("OUT_OF_ME+", Note.FAILED),
        ("TIMEOU+", Note.FAILED),
        ("CANCELLED+", Note.CANCELLED),
        ("PREEMPT+", Note.REQUEUED),
    ],
)
def test_a_state_that_a_narrow_column_has_cut_is_known(
    tmp_path: Path, cut: str, note: Note
) -> None:
    line = f"1|2026-10-01T00:00:00|2026-10-01T00:00:05|2026-10-01T00:00:09|{cut}|4"
    assert note in one(tmp_path, SHORT, line).notes


def test_a_job_that_got_no_node_never_started(tmp_path: Path) -> None:
    rest = "2026-10-01T00:00:00|2026-10-01T00:00:09|2026-10-01T00:00:09|CANCELLED by 7|4"
    found = twin_of(tmp_path, f"{SHORT}|NodeList", f"1|{rest}|None assigned", f"2|{rest}|node[1-4]")
    assert [job.job for job in found.sites[0].jobs] == ["2"]
    assert found.counts.skipped == {Skip.NOT_STARTED: 1}


def test_a_job_waits_from_when_it_could_have_started(tmp_path: Path) -> None:
    """A job that is held, or depends on another one, or has a begin time is not waiting for
    processors."""
    head = f"{SHORT}|Eligible"
    rest = "2026-10-01T00:00:00|2026-10-01T00:02:00|2026-10-01T00:03:00|COMPLETED|4"
    eligible = {"2026-10-01T00:01:30": 30, "2026-09-30T23:00:00": 120, "Unknown": 120, "": 120}
    for at, wait_s in eligible.items():
        job = one(tmp_path, head, f"1|{rest}|{at}")
        assert job.start_at - job.submit_at == wait_s, at


def test_the_waits_of_a_recording_with_eligible_are_those_calculated_from_it() -> None:
    found = read_recordings([("sacct", ELIGIBLE)], zone=UTC)
    waits = {
        site.name: {job.job: job.start_at - job.submit_at for job in site.jobs}
        for site in found.sites
    }
    assert (waits["alpha"]["20"], waits["alpha"]["21"], waits["alpha"]["23"]) == (22, 0, 66)
    totals = [sum(job.start_at - job.submit_at for job in site.jobs) for site in found.sites]
    assert totals == [1187, 524], "from their submissions they are 1888 and 645"


def test_a_run_in_recordings_with_other_columns_counts_once(tmp_path: Path) -> None:
    rest = "2026-10-01T00:00:00|2026-10-01T00:02:00|2026-10-01T00:03:00|COMPLETED|4"
    eligible = f"{SHORT}|Eligible", f"1|{rest}|2026-10-01T00:01:00"
    assert twin_of(tmp_path, SHORT, f"1|{rest}", *eligible).counts.skipped == {Skip.REPEATED: 1}


def test_recordings_of_both_batch_systems_make_one_twin() -> None:
    found = read_recordings([("qacct", GRID_ENGINE), ("sacct", SLURM)], site="gamma", zone=UTC)
    assert [(site.name, len(site.jobs)) for site in found.sites] == [
        ("alpha", 16),
        ("beta", 4),
        ("gamma", 6),
    ]


def test_the_utilization_of_a_site_is_over_the_time_of_the_twin(tmp_path: Path) -> None:
    found = twin_of(
        tmp_path,
        HEAD,
        "1|a|u|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T00:00:50|COMPLETED|4|",
        "2|b|u|2026-10-01T00:00:10|2026-10-01T00:01:00|2026-10-01T00:01:40|COMPLETED|2|",
    )
    a, b = found.sites
    assert (a.used_processor_s, found.utilization(a)) == (200, 0.5)
    assert (b.used_processor_s, found.utilization(b)) == (80, 0.4)


@pytest.mark.parametrize(
    ("failed", "exit_status", "notes"),
    [
        ("0", "0", set()),
        ("0", "3", {Note.FAILED}),
        ("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "137", {Note.FAILED}),
        ("26 : opening input/output file", "0", {Note.FAILED}),
        ("100 : assumedly after job", "137", {Note.CANCELLED}),
        ("25  : rescheduling", "99", {Note.REQUEUED}),
    ],
)
def test_the_end_of_a_job_of_grid_engine_is_of_one_kind(
    tmp_path: Path, failed: str, exit_status: str, notes: set[Note]
) -> None:
    first = GRID_ENGINE.read_text().split("=" * 62)[2]
    block = re.sub("failed .*", f"failed {failed}", first)
    block = re.sub("exit_status .*", f"exit_status {exit_status}", block)
    found = twin_of(tmp_path, "=" * 62, block, kind="qacct").counts.notes
    assert {Note.FAILED, Note.CANCELLED, Note.REQUEUED} & found.keys() == notes


def test_a_recording_may_be_a_pipe_plain_or_compressed() -> None:
    for recording in (SLURM.read_bytes(), gzip.compress(SLURM.read_bytes())):
        end, begin = os.pipe()
        os.write(begin, recording)
        os.close(begin)
        try:
            found = read_recordings([("sacct", Path(f"/dev/fd/{end}"))], zone=UTC)
        finally:
            os.close(end)
        assert found.counts.kept == 20


def test_a_separator_in_a_name_is_understood_where_a_column_of_free_text_can_have_it(
    tmp_path: Path,
) -> None:
    rest = "2026-10-01T00:00:00|2026-10-01T00:00:05|2026-10-01T00:00:09|COMPLETED|4"
    found = twin_of(tmp_path, f"JobName|{SHORT}", f"a|b|c|7|{rest}")
    assert found.sites[0].jobs[0].job == "7"
    found = twin_of(tmp_path, f"JobName|{SHORT}|Comment", f"a|b|7|{rest}|c", f"a|8|{rest}|b|c")
    assert [job.job for job in found.sites[0].jobs] == ["7", "8"]
    head = f"JobName|{SHORT}|SubmitLine|Timelimit|Comment"
    found = twin_of(tmp_path, head, f"a|b|7|{rest}|c|d|9|", f"a|8|{rest}|c|9|d|e")
    assert [(job.job, job.limit_s) for job in found.sites[0].jobs] == [("7", 9), ("8", 9)]
    found = twin_of(tmp_path, f"{SHORT}|JobName|Comment", f"7|{rest}|a|b|c", f"8|{rest}|a")
    assert [job.job for job in found.sites[0].jobs] == ["7"], "either column may have had it"
    assert found.counts.malformed == ["a.txt, line 3: 7 fields; the first line has 8"]
    found = twin_of(tmp_path, SHORT, f"7|{rest}", f"8|{rest}|a")
    assert found.counts.malformed == ["a.txt, line 3: 7 fields; the first line has 6"]


def test_of_a_run_that_two_recordings_have_the_end_counts(tmp_path: Path) -> None:
    begin = "5|2026-10-01T00:00:00|2026-10-01T00:00:10|"
    (tmp_path / "a.1").write_text(f"{SHORT}|Elapsed\n{begin}Unknown|RUNNING|4|00:00:20\n")
    (tmp_path / "a.2").write_text(
        f"{SHORT}|Elapsed\n{begin}2026-10-01T00:01:10|COMPLETED|4|00:01:00\n"
    )
    for names in (("a.1", "a.2"), ("a.2", "a.1")):
        found = read_recordings([("sacct", tmp_path / name) for name in names], zone=UTC)
        (job,) = found.sites[0].jobs
        assert job.end_at == job.start_at + 60
        assert found.counts.skipped == {Skip.REPEATED: 1}
        assert not found.counts.notes[Note.RUNNING]


def test_a_job_that_still_runs_counts_until_the_record_was_made(tmp_path: Path) -> None:
    job = one(
        tmp_path,
        f"{SHORT}|Elapsed",
        "5|2026-10-01T00:00:00|2026-10-01T00:00:10|Unknown|RUNNING|4|1-00:00:20",
    )
    assert (job.end_at, job.elapsed_s) == (None, 86_420)
    assert (
        twin_of(
            tmp_path,
            SHORT,
            "5|2026-10-01T00:00:00|2026-10-01T00:00:10|Unknown|RUNNING|4",
            "6|2026-10-01T00:00:00|2026-10-01T00:00:10|2026-10-01T00:00:50|COMPLETED|4",
        )
        .sites[0]
        .jobs[0]
        .elapsed_s
        == 40
    ), "without Elapsed, until the latest instant of the records"


def test_instants_are_of_the_zone_that_was_named() -> None:
    amsterdam = ZoneInfo("Europe/Amsterdam")
    assert instant("2026-07-01T12:00:00", amsterdam) == instant("2026-07-01T10:00:00", UTC)
    assert instant("2026-07-01T12:00:00+0200", UTC) == instant("2026-07-01T10:00:00", UTC)
    assert instant("Wed Jul  1 10:00:00 2026", UTC) == instant("07/01/2026 10:00:00.5", UTC)
    assert instant("1782900000", amsterdam) == (1782900000, 1782900000)
    assert [instant(text, UTC) for text in ("Unknown", "None", "-/-", "", "0")] == [None] * 5
    with pytest.raises(ValueError, match=r"'2026-13-01' \(expected an instant such as"):
        instant("2026-13-01", UTC)
    with pytest.raises(ConfigError, match=r"Mars \(expected a name"):
        zone_of("Mars")


def at(clock: str) -> tuple[int, int]:
    """Return both readings of a time of the day on which Amsterdam repeats the hour from 2 to 3."""
    found = instant(f"2026-10-25T{clock}:00", ZoneInfo("Europe/Amsterdam"))
    assert found is not None
    return found


def test_the_hour_that_clocks_repeat_is_told_apart_by_the_run_time() -> None:
    assert at("02:10")[1] - at("02:10")[0] == 3600
    assert at("03:10")[1] == at("03:10")[0]
    begin, over, is_repeated = ordered(at("02:50"), at("02:10"))
    assert is_repeated
    assert over == begin + 20 * 60
    for elapsed_s in (600, 4200):
        begin, over, _ = ordered(at("02:10"), at("02:20"), elapsed_s=elapsed_s)
        assert (over or 0) - begin == elapsed_s
    with pytest.raises(ValueError, match="ends before it starts"):
        ordered(at("05:00"), at("02:20"))


def test_in_the_hour_that_clocks_repeat_a_job_starts_after_its_submission() -> None:
    begin, over, _ = ordered(at("02:10"), at("02:20"), submit=at("02:50"), elapsed_s=600)
    assert (begin - at("02:50")[0], (over or 0) - begin) == (20 * 60, 600)


def test_the_hour_that_clocks_leave_out_is_read_once() -> None:
    first, second = instant("2026-03-29T02:30:00", ZoneInfo("Europe/Amsterdam")) or (0, 1)
    assert first == second


def test_time_limits_are_read_in_all_forms() -> None:
    with pytest.raises(ValueError, match="expected 1000 years or less"):
        duration_s("999999999:00:00")
    given = {"10": 10, "01:30": 90, "02:00:00": 7200, "1-00:00:01": 86_401, "00:10.5": 10}
    assert {text: duration_s(text) for text in given} == given
    assert [duration_s(text) for text in ("UNLIMITED", "Partition_Limit", "INFINITY")] == [None] * 3
    with pytest.raises(ValueError, match="soon"):
        duration_s("soon")


def test_processors_of_a_site_are_the_most_used_at_a_time_unless_given(tmp_path: Path) -> None:
    rows = (
        "1|2026-10-01T00:00:00|2026-10-01T00:00:00|2026-10-01T00:00:10|COMPLETED|4",
        "2|2026-10-01T00:00:00|2026-10-01T00:00:05|2026-10-01T00:00:20|COMPLETED|3",
        "3|2026-10-01T00:00:00|2026-10-01T00:00:10|2026-10-01T00:00:20|COMPLETED|2",
    )
    found = twin_of(tmp_path, SHORT, *rows)
    assert peak(found.sites[0].jobs) == found.sites[0].processors == 7
    given = read_recordings([("sacct", tmp_path / "a.txt")], zone=UTC, processors={"a": 9})
    assert (given.sites[0].processors, given.sites[0].is_given) == (9, True)
    for wrong, told in (
        ({"a": 6}, r"a=6 \(expected 7 or more"),
        ({"b": 9}, "b=9: sites are a"),
    ):
        with pytest.raises(ConfigError, match=told):
            read_recordings([("sacct", tmp_path / "a.txt")], zone=UTC, processors=wrong)


def test_files_that_are_no_recording_are_refused_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match=r"line 1: '.*' names no column Submit .*--parsable2"):
        twin_of(tmp_path, "JobID|Start|End|State|AllocCPUS")
    with pytest.raises(WorkloadError, match="is empty"):
        twin_of(tmp_path, "")
    with pytest.raises(WorkloadError, match="no record"):
        twin_of(tmp_path, SHORT, kind="qacct")
    with pytest.raises(WorkloadError, match=r"no job that ran .*1 left out: never started"):
        twin_of(tmp_path, SHORT, "1|2026-10-01T00:00:00|Unknown|Unknown|PENDING|4")
    with pytest.raises(WorkloadError, match=r"is a folder \(expected a file"):
        read_recordings([("sacct", tmp_path)], zone=UTC)
    with pytest.raises(WorkloadError, match="cannot be read: No such file"):
        read_recordings([("sacct", tmp_path / "missing")], zone=UTC)
    with pytest.raises(ConfigError, match="its name is not a site's"):
        read_recordings([("sacct", tmp_path / "-.txt")], zone=UTC)
    (tmp_path / "a.gz").write_bytes(gzip.compress(SLURM.read_bytes())[:-20])
    with pytest.raises(WorkloadError, match=r"a\.gz: cannot be read: Compressed file ended"):
        read_recordings([("sacct", tmp_path / "a.gz")], zone=UTC)


def test_the_totals_behind_the_records_of_grid_engine_are_no_record(tmp_path: Path) -> None:
    text = GRID_ENGINE.read_text()
    totals = "Total System Usage\n    WALLCLOCK         UTIME\n====\n    10    20\n"
    (tmp_path / "g.txt").write_text(text + totals + text)
    assert (
        read_recordings([("qacct", tmp_path / "g.txt")], zone=UTC).counts
        == read_recordings(2 * [("qacct", GRID_ENGINE)], zone=UTC).counts
    )


def test_a_job_that_another_cluster_of_the_federation_ran_is_left_out(tmp_path: Path) -> None:
    instants = "2026-10-01T00:00:00|2026-10-01T00:01:00|2026-10-01T00:02:00"
    found = twin_of(tmp_path, SHORT, f"1|{instants}|REVOKED|4", f"2|{instants}|COMPLETED|4")
    assert (found.counts.kept, found.counts.skipped) == (1, {Skip.NOT_STARTED: 1})


def test_records_of_grid_engine_that_are_no_jobs_are_counted(tmp_path: Path) -> None:
    text = GRID_ENGINE.read_text()
    begin = "Mon Nov 23 14:18:27 2026"
    (tmp_path / "g.txt").write_text(
        text.replace(f"start_time   {begin}", "start_time   -/-", 1).replace(
            "slots        4 ", "slots        four ", 1
        )
        + "=====\nqname batch\n"
    )
    found = read_recordings([("qacct", tmp_path / "g.txt")], zone=UTC)
    assert found.counts.kept == 4
    assert found.counts.skipped == {Skip.NOT_STARTED: 1, Skip.MALFORMED: 2}
    assert "a record without jobnumber" in found.counts.malformed[1]


@pytest.mark.parametrize("text", ["999999999999", "3000-01-01T00:00:00", "1960-01-01T00:00:00"])
def test_instants_that_no_date_can_be_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=rf"{text} \(expected an instant from 1970 to 2999"):
        instant(text, UTC)
