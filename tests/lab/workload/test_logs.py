"""Logs of jobs: read strictly, quickly and carefully alike, and written so that they read the
same."""

from __future__ import annotations

import dataclasses
import gzip
import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koala.errors import WorkloadError
from koala.lab.workload import gwf, swf
from koala.lab.workload.logs import HEADER_BYTES_MAX, LINE_BYTES_MAX, WHOLE, Columns, Log, copy
from tests.lab.workload.logs import a_log, line

HEADER = (
    "; Version: 2.2", ";  MaxProcs: 100", "; MaxNodes: 32 (dual CPU)", "; UnixStartTime: 843480031",
    "; MaxJobs: -1", ";", "; Note: MaxProcs: 7 is no entry of its own",
)  # fmt: skip


def read(log: Log) -> list[tuple[int, ...]]:
    return [row for columns in log.columns() for row in zip(*columns[:6], strict=True)]


def cut(log: Log) -> int:
    return sum(columns.cut for columns in log.columns())


@pytest.mark.parametrize("name", ["log.swf", "log.swf.gz"])
def test_the_fields_that_count_are_read_plain_or_gzipped(tmp_path: Path, name: str) -> None:
    log = a_log(
        tmp_path,
        *HEADER,
        "  1     0  8 9   4 -1 -1  8  60 -1 1 3 2 -1 1 -1 -1 -1",
        "; a comment in the middle",
        "",
        "2\t5 -1 3 -1 2.5 17.25 6 -1 -1 5 -1 -1 -1 -1 -1 -1 -1\r",
        name=name,
    )
    assert read(log) == [(1, 0, 9, 4, 8, 60), (2, 5, 3, -1, 6, -1)]


@pytest.mark.parametrize(
    ("value", "whole"),
    [("64", 64), ("64 nodes", 64), ("64.", 64), ("64,", 64), ("1e9", None), ("2.5", None),
     ("0x40", None), ("64x2", None), ("٣", None), ("9" * 400, None), ("nan", None)],
)  # fmt: skip
def test_a_number_of_the_header_is_a_whole_one(
    tmp_path: Path, value: str, whole: int | None
) -> None:
    log = a_log(tmp_path, f"; MaxProcs: {value}", line(1, 0, 1))
    assert log.header().whole("MaxProcs") == whole


def test_the_header_is_what_stands_before_the_first_job(tmp_path: Path) -> None:
    header = a_log(tmp_path, *HEADER, line(1, 0, 1), "; MaxProcs: 9", "; Late: 1").header()
    assert header.whole("MaxProcs") == 100
    assert header.whole("MaxNodes") == 32
    assert header.whole("UnixStartTime") == 843480031
    assert header.whole("MaxJobs") is None
    assert header.whole("Late") is None
    assert header.entries["Version"] == "2.2"


def test_a_log_without_jobs_or_without_a_last_line_end_is_read(tmp_path: Path) -> None:
    assert read(a_log(tmp_path)) == []
    assert read(a_log(tmp_path, *HEADER)) == []
    path = tmp_path / "cut.swf"
    path.write_text(line(1, 0, 1), encoding="ascii")
    assert len(read(Log(path, swf.FORMAT))) == 1


def test_fractions_of_a_second_are_cut_and_counted(tmp_path: Path) -> None:
    log = a_log(tmp_path, line(1, 0.9, 2.99, estimate="1e2"), line(2, "3.0", "+4", estimate=5.5))
    assert read(log) == [(1, 0, 2, 1, -1, 100), (2, 3, 4, 1, -1, 5)]
    assert cut(log) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (line(1, 0, 1) + " 7", "line 9: 19 fields; a job has 18"),
        ("1 2 3", "line 9: 3 fields; a job has 18$"),
        ("# Jobs", "2 fields; a job has 18; --format gwf reads the Grid Workload Format"),
        (
            "1 " * len(gwf.FORMAT.fields),
            "29 fields; a job has 18; --format gwf reads the Grid Workload Format",
        ),
        ("1,0,-1,60,4", "1 fields; a job has 18, with blanks between them"),
        (line(1, "abc", 1), r"line 9: field 2 \(submit time\) is 'abc' \(expected a number"),
        (line(1, 0, "nan"), r"field 4 \(run time\) is 'nan'"),
        (line(1, 0, "inf"), r"field 4 \(run time\) is 'inf'"),
        (line(1, 0, "1e999"), r"field 4 \(run time\) is '1e999'"),
        (line(1, 0, "1_0"), r"field 4 \(run time\) is '1_0'"),
        (line(1, 0, "5-5"), r"field 4 \(run time\) is '5-5'"),
        (line(1, 0, "--5"), r"field 4 \(run time\) is '--5'"),
        (line(1, 0, "-"), r"field 4 \(run time\) is '-'"),
        (line(1, 0, "1.2.3"), r"field 4 \(run time\) is '1.2.3'"),
        (line(1, 0, 1, "2.0"), r"field 5 \(allocated processors\) is '2.0' \(expected a whole"),
        (line(1, 0, 1, requested="x"), r"field 8 \(requested processors\) is 'x'"),
        (line(1, 0, 1)[:-2] + "?", r"field 18 \(think time\) is '\?'"),
        (line(1, 0, 1).replace("-1 1 -1", "-1 1 ; -1"), "19 fields"),
        (line(1, "9" * 5000, 1), r"field 2 \(submit time\) is '9{60}\.\.\.'"),
        (line(1, 0, 1, "0" * 5000), r"field 5 \(allocated processors\)"),
        ("\u0661" + line(1, 0, 1)[1:], r"field 1 \(job number\)"),
    ],
)
def test_a_malformed_line_is_refused_with_its_number_and_what_is_allowed(
    tmp_path: Path, text: str, words: str
) -> None:
    log = a_log(tmp_path, *HEADER, line(1, 0, 1), text, line(2, 0, 1))
    with pytest.raises(WorkloadError, match=words) as error:
        read(log)
    assert str(log.path) in str(error.value)


def test_line_numbers_are_right_far_into_a_log(tmp_path: Path) -> None:
    lines = [line(number, number, 1) for number in range(20_000)]
    lines[15_001] = "what?"
    with pytest.raises(WorkloadError, match="line 15009: 1 field"):
        read(a_log(tmp_path, *HEADER, *lines))


@pytest.mark.parametrize("content", [b"\x1f\x8bno gzip", b"\x1f\x8b\x08\x00"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.swf.gz"
    with pytest.raises(WorkloadError, match="cannot be read"):
        read(Log(path, swf.FORMAT))
    path.write_bytes(content)
    with pytest.raises(WorkloadError, match="cannot be read"):
        read(Log(path, swf.FORMAT))


NUMBERS = st.one_of(
    st.integers(-1, 10**12).map(str),
    st.sampled_from(["-1", "0.5", "-0.25", "3.", ".5", "1e3", "+1", "x", "1-1", "", "- 1", "٣"]),
    st.integers(14, 420).map(lambda digits: "9" * digits),
    st.integers(14, 420).map(lambda digits: "9" * digits + ".5"),
)


@pytest.mark.parametrize("digits", [15, 16, 17, 300, 301, 310, 400, 4299])
def test_a_number_of_many_digits_has_one_answer(digits: int) -> None:
    """It was taken if the lines around it were plain, and refused if they were not."""
    for at in range(18):
        _compare_quick_with_careful(digits, at)


def _compare_quick_with_careful(digits: int, at: int) -> None:
    words = line(1, 0, 1).split()
    words[at] = "9" * digits
    block = (" ".join(words) + "\n").encode()
    answers: list[Columns | str] = []
    for quickly in (swf.FORMAT.quickly, None):
        log = Log(Path("none"), dataclasses.replace(swf.FORMAT, quickly=quickly))
        try:
            found = quickly(block) if quickly is not None else None
            answers.append(found or log._carefully(1, block))
        except WorkloadError as error:
            answers.append(str(error))
    assert answers[0] == answers[1], f"word {at}"


@settings(max_examples=60)
@given(st.lists(st.lists(NUMBERS, min_size=18, max_size=18), min_size=1, max_size=3))
def test_the_quick_way_never_disagrees_with_the_careful_one(jobs: list[list[str]]) -> None:
    """Whatever a block holds, the quick way reads what the careful one reads, or leaves it alone:
    it never takes what the careful one refuses."""
    block = "".join(" ".join(job) + "\n" for job in jobs).encode()
    assert swf.FORMAT.quickly is not None
    quick = swf.FORMAT.quickly(block)
    if quick is not None:
        careful = Log(Path("none"), dataclasses.replace(swf.FORMAT, quickly=None))
        assert quick == careful._carefully(1, block)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            *[st.one_of(st.integers(-1, 10**9), st.floats(0, 1e9, allow_subnormal=False))] * 18
        ),
        max_size=5,
    )
)
def test_what_was_written_is_read(jobs: list[tuple[float, ...]]) -> None:
    text = io.StringIO()
    swf.write(text, jobs, comments=["MaxProcs: 5", "Note: none"])
    block = text.getvalue().encode()
    log = Log(Path("none"), swf.FORMAT)
    read_again = [
        tuple(int(f) if WHOLE.fullmatch(f) else float(f) for f in fields)
        for _, fields in log._jobs(1, block)
    ]
    assert read_again == jobs


# The Grid Workload Format -------------------------------------------------------------------------

GWF_LINE = (
    "7 1108339200 -1 55.5 4 54.2 1024 8 900 -1 1 U7 G1 X3 Q0 -1 S2 S2 UNITARY -1 -1 -1 -1"
    " x86,Linux -1 -1 -1 VO1 -1"
)


def test_a_grid_log_gives_the_same_fields(tmp_path: Path) -> None:
    path = tmp_path / "log.gwf"
    path.write_text(f"# Site: one\n# MaxProcs: 64\n{GWF_LINE}\n", encoding="utf-8")
    log = Log(path, gwf.FORMAT)
    assert read(log) == [(7, 1108339200, 55, 4, 8, 900)]
    assert cut(log) == 1
    assert log.header().whole("MaxProcs") == 64


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (" VO1", "", "line 2: 28 fields; a job has 29"),
        ("7 1108339200", "J7 1108339200", r"field 1 \(JobID\) is 'J7' \(expected a number"),
        ("55.5 4", "55.5 4.5", r"field 5 \(NProcs\) is '4.5' \(expected a whole number"),
    ],
)
def test_a_malformed_line_of_a_grid_log_is_refused(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    path = tmp_path / "log.gwf"
    path.write_text(f"# Site: one\n{GWF_LINE.replace(before, after)}\n", encoding="utf-8")
    with pytest.raises(WorkloadError, match=words):
        read(Log(path, gwf.FORMAT))


def test_columns_are_parallel() -> None:
    assert Columns._fields[:6] == (
        "numbers", "submits", "runs", "allocated", "requested", "estimates",
    )  # fmt: skip


@pytest.mark.parametrize("end", [b"\n", b"\r"])
@pytest.mark.parametrize("jobs", [0, 3, 8000])
@pytest.mark.parametrize("opener", [Path.open, gzip.open])
def test_a_line_has_an_end_somewhere(
    tmp_path: Path, end: bytes, jobs: int, opener: Callable[..., Any]
) -> None:
    """One without fills the memory, of a packed file of a few kilobytes, too."""
    path = tmp_path / "log.swf"
    lines = [b"; a comment", *(line(number, number, 5).encode() for number in range(jobs))]
    with opener(path, "wb") as file:
        file.write(end.join([*lines, b""]) + b"9" * (3 * LINE_BYTES_MAX))
    log = Log(path, swf.FORMAT)
    with pytest.raises(
        WorkloadError, match=rf"line {jobs + 2}: is too long \(expected at most 1048576"
    ):
        read(log)
    tracemalloc.start()
    try:
        with pytest.raises(WorkloadError, match="is too long"):
            read(log)
        assert tracemalloc.get_traced_memory()[1] < 20 * LINE_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_so_much_is_read_of_a_header(tmp_path: Path) -> None:
    rest = HEADER_BYTES_MAX // 1000
    comments = ["; MaxProcs: 100", *["; " + "x" * 998] * (rest + 50), "; MaxNodes: 3"]
    log = a_log(tmp_path, *comments, line(1, 0, 1), "x")
    assert log.header().entries == {"MaxProcs": "100"}
    with pytest.raises(WorkloadError, match=f"line {rest + 54}: 1 fields"):
        read(log)


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_what_comes_through_a_pipe_is_copied_unless_a_line_has_no_end(end: str) -> None:
    text = end.join([line(number, number, 5) for number in range(9000)]).encode()
    copied = io.BytesIO()
    copy(io.BytesIO(text), copied, name="a pipe")
    assert copied.getvalue() == text
    wrong = text + b"\0" * (2 * LINE_BYTES_MAX)
    with pytest.raises(WorkloadError, match=r"a pipe, line 9000: is too long"):
        copy(io.BytesIO(wrong), io.BytesIO(), name="a pipe")
    packed = gzip.compress(text) + b"\0" * (2 * LINE_BYTES_MAX)  # which has no lines
    copied = io.BytesIO()
    copy(io.BytesIO(packed), copied, name="a pipe")
    assert copied.getvalue() == packed


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("begin", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("header", [(), HEADER])
@pytest.mark.parametrize("opener", [Path.open, gzip.open])
def test_lines_may_end_as_they_do_anywhere_and_begin_with_a_mark(
    tmp_path: Path, end: str, begin: bytes, header: tuple[str, ...], opener: Callable[..., Any]
) -> None:
    jobs = [line(number, number, 5) for number in range(1, 8000)]  # more than a block
    path = tmp_path / "log.swf"
    with opener(path, "wb") as file:
        file.write(begin + end.join([*header, *jobs, ""]).encode())
    log = Log(path, swf.FORMAT)
    assert [row[0] for row in read(log)] == list(range(1, 8000))
    assert log.header().whole("MaxProcs") == (100 if header else None)
