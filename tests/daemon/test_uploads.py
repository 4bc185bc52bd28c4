"""Uploads in the spool: they resume, are checked, have limits, and are deleted when nobody uses
them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from koala.daemon.files.uploads import Content, Uploads, served_content, transfer_of
from koala.errors import ExhaustedError, RejectedError, SpecError

DATA = bytes(range(256)) * 40


def content(user: str = "ann", data: bytes = DATA) -> Content:
    checksum = hashlib.sha256(data).hexdigest()
    return Content(user=user, checksum=checksum, size_bytes=len(data))


def send(uploads: Uploads, wanted: Content, data: bytes, offset: int) -> None:
    part = uploads.open(wanted)
    try:
        uploads.append(part, data, offset)
        if offset + len(data) == wanted.size_bytes:
            uploads.finish(wanted, part)
    finally:
        part.close()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def uploads(spool: Path) -> Uploads:
    return Uploads(spool, bytes_max=3 * len(DATA))


def test_an_upload_that_was_cut_goes_on_where_it_stopped(uploads: Uploads, spool: Path) -> None:
    one = content()
    assert uploads.begin(one) == 0
    send(uploads, one, DATA[:5000], 0)
    assert uploads.find(one) is None
    assert served_content(spool, transfer_of(one.key, "name")) is None, (
        "half a file is served to nobody"
    )
    assert uploads.begin(one) == 5000
    send(uploads, one, DATA[5000:], 5000)
    found = uploads.find(one)
    assert found is not None
    assert found.read_bytes() == DATA
    assert served_content(spool, transfer_of(one.key, "name")) == found
    assert uploads.begin(one) == len(DATA)


def test_a_file_that_changed_meanwhile_is_refused_and_nothing_is_left(uploads: Uploads) -> None:
    one = content()
    uploads.begin(one)
    with pytest.raises(RejectedError, match="changed while it was read"):
        send(uploads, one, DATA[:-1] + b"!", 0)
    assert uploads.find(one) is None
    assert uploads.begin(one) == 0


def test_a_user_finds_only_own_uploads(uploads: Uploads) -> None:
    uploads.begin(content("ann"))
    send(uploads, content("ann"), DATA, 0)
    assert uploads.find(content("bob")) is None
    assert uploads.begin(content("bob")) == 0


def test_uploads_of_a_user_have_a_limit(uploads: Uploads) -> None:
    for last in range(3):
        data = DATA[:-1] + bytes([last])
        uploads.begin(content(data=data))
        send(uploads, content(data=data), data, 0)
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
        uploads.begin(content(data=data))
        send(uploads, content(data=data), data, 0)
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
