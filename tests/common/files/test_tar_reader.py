"""The reader of tar files takes no memory on a file's word, and refuses what it need not know."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import IO, cast

import pytest

from koala.common.files.tar_reader import Entry, read_tar
from koala.errors import SpecError
from tests.common.files.tar_blocks import END, pax_header, tar_block, tar_entry

FILE = tar_entry(b"file", b"12345")
LARGE = 300 * 10**6


def entries(content: bytes) -> list[tuple[str, bytes]]:
    """Names and contents."""
    found = read_tar(io.BytesIO(content))
    return [(entry.name, entry.file.read(entry.size_bytes)) for entry in found]


def packed(content: bytes) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=io.BytesIO(gzip.compress(content))))


def described(entry: Entry) -> tuple[str, int, bool]:
    return entry.name, entry.size_bytes, entry.is_folder


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_what_the_usual_commands_write_is_read(tmp_path: Path, form: int) -> None:
    long = "folder/" + "long" * (20 if form == tarfile.USTAR_FORMAT else 100)
    with tarfile.open(tmp_path / "a.tar", "w", format=form) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in ((long, b"12345"), ("wört", b""), ("last", bytes(1000))):
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1.5
            if form != tarfile.PAX_FORMAT:
                member.mtime = 1
            archive.addfile(member, io.BytesIO(content))
    with (tmp_path / "a.tar").open("rb") as file:
        found = [described(entry) for entry in read_tar(file)]
    expected = [("folder", 0, True), (long, 5, False), ("wört", 0, False), ("last", 1000, False)]
    assert found == expected
    unpacked = packed((tmp_path / "a.tar").read_bytes())
    assert [described(entry) for entry in read_tar(unpacked)] == expected


def test_an_extended_header_gives_name_and_size() -> None:
    header = pax_header((b"path", b"long"), (b"size", b"5"), (b"mtime", b"1.5"))
    content = header + tar_block(b"short") + b"12345".ljust(512, b"\0") + FILE + END
    assert entries(content) == [("long", b"12345"), ("file", b"12345")]


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K", b"X"])
def test_a_long_header_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "hostile.tar"
    with path.open("wb") as file:
        file.write(tar_block(b"header", kind, LARGE) + b"300000000 comment=")
        file.truncate(LARGE)
    tracemalloc.start()
    try:
        with path.open("rb") as file, pytest.raises(SpecError, match=r"entry 1 .*expected"):
            list(read_tar(file))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


SPARSE_1_0 = pax_header((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (pax_header((b"path", b"a")) * 2 + FILE + END, "entry 2 .*: a header upon a header"),
        (tar_entry(b"n", b"a\0", b"L") * 500 + END, "entry 2 .*: a header upon a header"),
        (pax_header((b"path", b"a")) + END, "a header without an entry"),
        (SPARSE_1_0 + FILE + END, "a header with 'GNU.sparse.major'"),
        (pax_header((b"path", b"a"), (b"path", b"b")) + FILE + END, "'path' .*each once"),
        (pax_header((b"hdrcharset", b"BINARY")) + FILE + END, "a header with 'hdrcharset'"),
        (tar_entry(b"p", b"9999 path=a\n", b"x") + FILE + END, "a malformed record"),
        (tar_entry(b"p", b"8 path=a ", b"x") + FILE + END, "a malformed record"),
        (tar_entry(b"p", b"0 path=a\n", b"x") + FILE + END, "a malformed record"),
        (tar_entry(b"p", b"", b"x") + FILE + END, "a header of 0 bytes"),
        (pax_header((b"size", b"-5")) + FILE + END, "'file' has a bad size"),
        (pax_header((b"size", b"9" * 400)) + FILE + END, "'file' has a bad size"),
        (tar_block(b"f", b"0", b"\xff" * 12) + END, "'f' has a bad size"),
        (tar_block(b"f", b"0", b"\x80" + b"\x7f" * 11) + END, "'f' has a bad size"),
        (tar_block(b"h", b"x", b"\xff" * 12) + END, "a header of -1 bytes"),
        (tar_block(b"d", b"5", 512) + bytes(512) + END, "'d' has a bad size"),
        (tar_block(b"s", b"S") + END, "'s' has type 'S'"),
        (tar_block(b"s", b"\xff") + END, r"'s' has type '\\xff'"),
        *((tar_block(b"l", kind) + END, "'l' has type") for kind in (b"1", b"2", b"3", b"6", b"7")),
        (b"\x1f\x8b" + bytes(510), "entry 1 .*: no header"),
        (FILE + b"rubbish".ljust(512), "entry 2 .*: no header"),
        (FILE, "ends after 1 entries"),
        (b"", "ends after 0 entries"),
        (FILE[:600], "ends after 1 entries"),
        (tar_block(b"h", b"x", 600) + b"600 path=", "ends within a header"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_else_may_be_in_a_tar_file_is_refused(content: bytes, told: str) -> None:
    for opened in (io.BytesIO(content), packed(content)):
        with pytest.raises(SpecError, match=told):
            list(read_tar(opened))


@pytest.mark.parametrize("opened", [io.BytesIO, packed])
def test_a_file_that_is_cut_is_not_taken_for_a_shorter_one(
    tmp_path: Path, opened: Callable[[bytes], IO[bytes]]
) -> None:
    entry = next(read_tar(opened(tar_block(b"a", b"0", 1000) + b"half")))
    with pytest.raises(SpecError, match="ends within 'a'"):
        entry.write(tmp_path / entry.name, 0o600)
