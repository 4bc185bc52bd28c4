"""Tar files: staged archives, and backups packed by anybody. Files below a folder, or a refusal."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from random import Random

from koala.common.files.archives import FILES_MAX, OWN, check_archive, unpack
from koala.common.files.tar_reader import COPY_BYTES, HEADER_BYTES_MAX, read_tar
from koala.errors import SpecError
from tests.common.files.tar_blocks import END, padded, pax_header, pax_record, tar_block, tar_entry
from tests.fuzz.hostile_values import number, spoilt_bytes, text
from tests.fuzz.target import Target, require_readable

KINDS = (b"0", b"0", b"0", b"\0", b"5", b"x", b"g", b"L", b"K", b"S", b"1", b"2", b"3", b"6", b"D")
KEYWORDS = (b"path", b"size", b"mtime", b"uid", b"linkpath", b"hdrcharset", b"GNU.sparse.major")
SIZES = (
    b"\xff" * 12,
    b"\x80" + b"\x7f" * 11,
    b"-0000000001\0",
    b"77777777777\0",
    b" 1_0\0",
    bytes(12),
)
PIECES = (bytes(512), b"\xff" * 12, b"ustar", b"5 a=\n", END, b"/..", b"x", b"L")


def a_case(random: Random) -> bytes:
    content = b"".join(_piece(random) for _ in range(random.randrange(6)))
    content += random.choice((END, END, END, bytes(512), b"", b"rubbish"))
    return spoilt_bytes(random, content, PIECES) if random.randrange(3) == 0 else content


def _piece(random: Random) -> bytes:
    name = _name(random)
    match random.randrange(7):
        case 0:
            keyword, value = random.choice(KEYWORDS), random.choice((name, _digits(random)))
            return pax_header(*[(keyword, value)] * random.choice((1, 1, 1, 2)))
        case 1:
            record = pax_record(b"path", name)
            return tar_entry(b"x", spoilt_bytes(random, record, PIECES), b"x")
        case 2:
            return tar_entry(b"L", name + b"\0", b"L")
        case 3:
            size = random.choice((*SIZES, _digits(random)[:12].ljust(12, b"\0")))
            return tar_block(name[:100], random.choice(KINDS), size)
        case _:
            content = random.choice((b"", b"12345", bytes(513)))
            kind = random.choice(KINDS[:5])
            return tar_block(name[:100], kind, len(content)) + padded(content)


def _name(random: Random) -> bytes:
    if random.randrange(2) == 0:
        return random.choice((b"a", b"a/b", b"b", b"b/c/d", b"./a", b"inputs/x", b"a" * 2_000))
    return text(random).encode("utf-8", "surrogatepass")


def _digits(random: Random) -> bytes:
    return str(number(random)).encode()


class _Watched(io.BytesIO):
    """A file of which no more is asked at once than it may be."""

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert 0 <= size <= max(HEADER_BYTES_MAX, COPY_BYTES), f"read({size})"
        return super().read(size)


def check(content: bytes) -> None:
    try:
        for _ in read_tar(_Watched(content)):
            pass
    except SpecError as error:
        require_readable(str(error))
    with tempfile.TemporaryDirectory() as place:
        archive, folder = Path(place, "archive.tar"), Path(place, "claim")
        archive.write_bytes(content)
        folder.mkdir()
        refusals = []
        for work in (check_archive, lambda path: _unpack(path, folder)):
            try:
                work(archive)
            except SpecError as error:
                refusals.append(str(error))
                require_readable(str(error))
        assert len(set(refusals)) in (0, 1), "daemon and agent say different things"
        assert len(refusals) in (0, 2), "one takes what the other refuses"
        assert sorted(path.name for path in Path(place).iterdir()) == ["archive.tar", "claim"]
        assert not {path.name for path in folder.iterdir()} & set(OWN)


def _unpack(archive: Path, folder: Path) -> None:
    unpacked = unpack(archive, folder)
    assert len(unpacked) == len({name for name, _mode in unpacked}) <= FILES_MAX
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
    assert found == {name for name, _mode in unpacked}


TARGETS = (Target(name="archive", make=a_case, check=check),)
