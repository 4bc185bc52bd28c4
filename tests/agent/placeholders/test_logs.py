"""Logs are read from the work folder of the claim, and from nowhere else whatever is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from koala.common.protocol.messages import LogRequest
from koala_agent.placeholders.logs import CHUNK_MAX_BYTES, LogSource, read_log


def ask(stream: str = "stdout", *, process: int = 0, offset: int = 0, size: int = 0) -> LogRequest:
    return LogRequest(
        request=9, claim="j1/1/0/1", stream=stream, process=process, offset=offset, size_max=size
    )


def source(folder: Path, *, is_ended: bool = False, **named: str) -> LogSource:
    return LogSource(
        folder=folder, starter_log="starter.log", named=tuple(named.items()), is_ended=is_ended
    )


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    return folder


def test_a_log_is_read_from_an_offset_and_is_over_when_all_was_read_and_the_claim_ended(
    work: Path,
) -> None:
    (work / "stdout.1").write_bytes(b"hello world")
    chunk = read_log(ask(process=1, offset=6), source(work))
    assert (chunk.request, chunk.offset, chunk.data, chunk.is_over) == (9, 6, b"world", False)
    part = read_log(ask(process=1, size=5), source(work, is_ended=True))
    assert (part.data, part.is_over) == (b"hello", False)
    rest = read_log(ask(process=1, offset=5), source(work, is_ended=True))
    assert (rest.data, rest.is_over) == (b" world", True)
    assert read_log(ask(process=1, offset=99), source(work, is_ended=True)).is_over


def test_a_log_that_is_not_written_yet_is_empty_and_later_an_error(work: Path) -> None:
    chunk = read_log(ask(), source(work))
    assert (chunk.data, chunk.is_over, chunk.error) == (b"", False, "")
    chunk = read_log(ask(), source(work, is_ended=True))
    assert chunk.is_over
    assert chunk.error == "process 0 of j1/1/0/1 wrote no stdout"


def test_an_unknown_stream_is_refused_by_name(work: Path) -> None:
    chunk = read_log(ask("../secret"), source(work))
    assert chunk.error == "no stream '../secret' (expected one of stdout, stderr, starter)"


def test_an_answer_is_bounded_whatever_is_asked(work: Path) -> None:
    (work / "stdout.0").write_bytes(b"x" * (CHUNK_MAX_BYTES + 10))
    assert len(read_log(ask(size=2**31), source(work)).data) == CHUNK_MAX_BYTES


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "/etc/passwd", "."])
def test_a_name_outside_the_work_folder_is_not_read(work: Path, name: str) -> None:
    assert read_log(ask(), source(work, stdout=name)).data == b""


def test_links_are_not_followed(work: Path) -> None:
    """A program may put a link in the place of its own log."""
    (work / "stdout.0").symlink_to("../secret")
    (work / "folder").symlink_to("..")
    assert read_log(ask(), source(work)).data == b""
    assert read_log(ask("stderr"), source(work, stderr="folder/secret")).data == b""


def test_what_is_no_regular_file_is_not_read(work: Path) -> None:
    """Opening a FIFO would wait for its writer for ever."""
    os.mkfifo(work / "stdout.0")
    (work / "stderr.0").mkdir()
    assert read_log(ask(), source(work)).data == b""
    assert read_log(ask("stderr"), source(work)).data == b""
