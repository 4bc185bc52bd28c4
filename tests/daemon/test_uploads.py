"""Uploads in the spool: they have limits, and are deleted when nobody uses them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from koala.daemon.files.uploads import Content, Uploads, served_content, transfer_of
from koala.errors import ExhaustedError, SpecError

DATA = bytes(range(256)) * 40


def content(user: str = "ann", data: bytes = DATA) -> Content:
    checksum = hashlib.sha256(data).hexdigest()
    return Content(user=user, checksum=checksum, size_bytes=len(data))


def send(uploads: Uploads, wanted: Content, data: bytes) -> None:
    part = uploads.begin(wanted)
    part.write_bytes(data)
    uploads.finish(wanted, part)


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def uploads(spool: Path) -> Uploads:
    return Uploads(spool, bytes_max=3 * len(DATA))


def test_half_a_file_is_found_by_nobody_and_served_to_nobody(uploads: Uploads, spool: Path) -> None:
    wanted = content()
    transfer = transfer_of(wanted.key, "name")
    part = uploads.begin(wanted)
    part.write_bytes(DATA[:5000])
    assert uploads.begin(wanted).read_bytes() == DATA[:5000]
    assert uploads.find(wanted) is None
    assert served_content(spool, transfer) is None
    send(uploads, wanted, DATA)
    path = uploads.find(wanted)
    assert path is not None
    assert path.read_bytes() == DATA
    assert served_content(spool, transfer) == path


def test_a_user_finds_only_own_uploads(uploads: Uploads) -> None:
    send(uploads, content("ann"), DATA)
    assert uploads.find(content("bob")) is None
    assert not uploads.begin(content("bob")).exists()


def test_uploads_of_a_user_have_a_limit(uploads: Uploads) -> None:
    for last in range(3):
        data = DATA[:-1] + bytes([last])
        send(uploads, content(data=data), data)
    with pytest.raises(ExhaustedError, match=r"30720 that wait .*limits.uploads_mb_per_user"):
        uploads.begin(content(data=b"more"))
    uploads.begin(content("bob"))


def test_a_full_disk_takes_no_upload(spool: Path) -> None:
    uploads = Uploads(spool, bytes_max=1e9, free_bytes_min=2**60)
    with pytest.raises(ExhaustedError, match="the daemon's spool has room for 0"):
        uploads.begin(content())


@pytest.mark.parametrize("checksum", ["", "../../etc/passwd", "A" * 64, "0" * 63])
def test_a_checksum_is_one(uploads: Uploads, checksum: str) -> None:
    with pytest.raises(SpecError, match="expected a sha256 in hex"):
        uploads.begin(Content(user="ann", checksum=checksum, size_bytes=1))


def test_old_uploads_are_deleted_but_those_that_are_kept(uploads: Uploads) -> None:
    for data in (b"old", b"kept", b"new"):
        send(uploads, content(data=data), data)
    for data in (b"old", b"kept"):
        path = uploads.find(content(data=data))
        assert path is not None
        os.utime(path, (1.0, 1.0))
    uploads.sweep(3600.0, kept={content(data=b"kept").key})
    left = [data for data in (b"old", b"kept", b"new") if uploads.find(content(data=data))]
    assert left == [b"kept", b"new"]


@pytest.mark.parametrize("transfer", ["j1/1/t1", "../x/0/t1", f"{'0' * 64}/0/t1"])
def test_no_other_transfer_is_served_from_uploads(spool: Path, transfer: str) -> None:
    assert served_content(spool, transfer) is None
