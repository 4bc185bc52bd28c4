"""Archives of staged programs: the same files, the same bytes, and nothing but regular files."""

from __future__ import annotations

from pathlib import Path

import pytest

from koala.common.files import archives
from koala.common.files.archives import check_archive, pack, unpack
from koala.errors import SpecError
from tests.common.files.tar_blocks import END, pax_header, tar_block, tar_entry


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "claim"
    folder.mkdir()
    return folder


def test_files_come_out_as_they_went_in(tmp_path: Path, folder: Path) -> None:
    program, data = tmp_path / "program", tmp_path / "data"
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o750)
    data.write_bytes(bytes(100_000))
    data.chmod(0o640)
    pack([(program, "bin/program"), (data, "data")], tmp_path / "one.tar")
    assert unpack(tmp_path / "one.tar", folder) == [("bin/program", 0o755), ("data", 0o644)]
    assert (folder / "bin" / "program").read_bytes() == b"#!/bin/sh\n"
    assert (folder / "bin" / "program").stat().st_mode & 0o777 == 0o755
    assert (folder / "data").stat().st_size == 100_000
    data.touch()
    pack([(data, "data"), (program, "bin/program")], tmp_path / "two.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


@pytest.mark.parametrize(
    ("limit", "most", "told"),
    [
        (
            "ARCHIVE_BYTES_MAX",
            21,
            r"have 22 bytes \(expected at most 21\); `koala files add` is for more",
        ),
        ("FILES_MAX", 1, r"have 2 files \(expected at most 1\)"),
        ("FOLDERS_MAX", 2, r"have 4 folders \(expected at most 2\)"),
        ("NAMES_BYTES_MAX", 9, r"have 12 bytes of names \(expected at most 9\)"),
        ("TAR_BYTES_MAX", 10_000, r"a tar file of 10240 bytes \(expected at most 10000\)"),
    ],
)
def test_too_much_is_refused_wherever_it_comes(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, told: str
) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive.tar"
    data.write_bytes(bytes(11))
    files = [(data, "a/b"), (data, "a/c/d/e/f")]
    pack(files, archive)
    monkeypatch.setattr(archives, limit, most)
    if limit != "TAR_BYTES_MAX":
        with pytest.raises(SpecError, match=told):
            pack(files, tmp_path / "again.tar")
    refused(archive, folder, told)


def refused(archive: Path, folder: Path, told: str) -> None:
    """The daemon's check and an agent refuse an archive in the same words."""
    words = []
    for work in (check_archive, lambda archive: unpack(archive, folder)):
        with pytest.raises(SpecError, match=told) as error:
            work(archive)
        words.append(str(error.value))
    assert words[0] == words[1]
    assert words[0].startswith("the staged archive is refused: ")


TAKEN = "is taken .expected each name once"


@pytest.mark.parametrize(
    ("hostile", "told"),
    [
        (tar_entry(b"../outside"), "file name '../outside': has the part '..'"),
        (tar_entry(b"/etc/outside"), "is absolute"),
        (tar_entry(b"a//b"), "has the part ''"),
        (tar_entry(b"a\nb"), "has a control character"),
        (tar_entry(b"a\xffb"), "has a control character"),
        (pax_header((b"path", b"a\0b")) + tar_entry(b"a"), "has a control character"),
        (pax_header((b"path", b"a/" * 32 + b"a")) + tar_entry(b"a"), "has 33 parts"),
        (pax_header((b"path", b"a" * 1025)) + tar_entry(b"a"), "has 1025 characters"),
        (pax_header((b"path", b"")) + tar_entry(b"a"), "is empty"),
        (tar_entry(b"link", kind=b"2"), "'link' has type '2'"),
        (tar_entry(b"hard", kind=b"1"), "'hard' has type '1'"),
        (tar_entry(b"device", kind=b"3"), "'device' has type '3'"),
        (tar_entry(b"pipe", kind=b"6"), "'pipe' has type '6'"),
        (tar_entry(b"folder", kind=b"5"), "'folder' is a folder"),
        (tar_entry(b".koala/spec.json"), ".koala is Koala's own"),
        (tar_entry(b"inputs/data"), "inputs is Koala's own"),
        (tar_entry(b"placeholder.out/x"), "placeholder.out is Koala's own"),
        (tar_block(b"long", size=10**6), "the tar file ends within 'long'"),
        (
            tar_block(b"long", size=2**33 - 1),
            r"have 8589934591 bytes \(expected at most 1073741824\)",
        ),
        (
            tar_block(b"header", b"x", 2**30),
            r"header of 1073741824 bytes \(expected 1 to 8192\)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hostile_archive_writes_nothing_elsewhere(
    tmp_path: Path, folder: Path, hostile: bytes, told: str
) -> None:
    (tmp_path / "hostile.tar").write_bytes(hostile + END)
    refused(tmp_path / "hostile.tar", folder, told)
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("names", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b")])
def test_names_that_cannot_be_side_by_side_are_no_error_of_the_site(
    tmp_path: Path, folder: Path, names: tuple[str, str]
) -> None:
    """They would be one of its file system: an OSError."""
    content = b"".join(tar_entry(name.encode()) for name in names) + END
    (tmp_path / "hostile.tar").write_bytes(content)
    refused(tmp_path / "hostile.tar", folder, f"staged file '{names[1]}': .*{TAKEN}")
