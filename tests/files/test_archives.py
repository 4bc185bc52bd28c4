"""Archives of staged programs: the same files, the same bytes, and nothing but regular files."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from koala.errors import SpecError
from koala.files import archives
from koala.files.archives import pack, unpack


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


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    data.write_bytes(bytes(11))
    monkeypatch.setattr(archives, "ARCHIVE_BYTES_MAX", 10)
    with pytest.raises(SpecError, match="are 1 with 11 bytes: allowed are 10000 with 10;"):
        pack([(data, "data")], tmp_path / "archive.tar")


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, link
    return found


@pytest.mark.parametrize(
    "hostile",
    [
        entry("../outside"),
        entry("/etc/outside"),
        entry("link", tarfile.SYMTYPE, "/etc"),
        entry("hard", tarfile.LNKTYPE, "/etc/passwd"),
        entry("device", tarfile.CHRTYPE),
        entry("pipe", tarfile.FIFOTYPE),
        entry(".koala/spec.json"),
        entry("inputs/data"),
    ],
    ids=lambda hostile: hostile.name,
)
def test_a_hostile_archive_writes_nothing_elsewhere(
    tmp_path: Path, folder: Path, hostile: tarfile.TarInfo
) -> None:
    with tarfile.open(tmp_path / "hostile.tar", "w") as archive:
        archive.addfile(hostile, io.BytesIO(b""))
    with pytest.raises(SpecError):
        unpack(tmp_path / "hostile.tar", folder)
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "outside").exists()


def test_a_link_in_the_way_is_not_followed(tmp_path: Path, folder: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    (folder / "data").symlink_to(target)
    source = tmp_path / "source"
    source.write_text("new")
    pack([(source, "data")], tmp_path / "archive.tar")
    with pytest.raises(OSError, match="symbolic"):
        unpack(tmp_path / "archive.tar", folder)
    assert target.read_text() == "kept"


def test_what_is_no_archive_is_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "none.tar").write_bytes(b"no tar at all" * 100)
    with pytest.raises(SpecError, match="cannot be read"):
        unpack(tmp_path / "none.tar", folder)
