"""`koala outputs` writes whole files, below the folder that was named, whatever comes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koala.client.fetching import write_files
from koala.client.records import OutputPart
from koala.errors import SpecError


async def parts(*said: tuple[str, int, bytes]) -> AsyncIterator[OutputPart]:
    for name, size_bytes, data in said:
        yield OutputPart(name=name, size_bytes=size_bytes, data=data)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_files_come_in_parts_and_progress_is_told(tmp_path: Path) -> None:
    told: list[float] = []
    said = parts(
        ("a/x", 5, b""), ("a/x", 5, b"123"), ("a/x", 5, b"45"), ("b", 0, b""), ("c", 1, b""),
        ("c", 1, b"9"),
    )  # fmt: skip
    files = await write_files(said, tmp_path, told.append)
    assert [(file.name, file.path) for file in files] == [
        (name, tmp_path / name) for name in ("a/x", "b", "c")
    ]
    assert (tmp_path / "a" / "x").read_bytes() == b"12345"
    assert (tmp_path / "b").read_bytes() == b""
    assert told == [3, 5, 6]


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x", "link/x", ""])
async def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    folder, other = tmp_path / "to", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "link").symlink_to(other)
    with pytest.raises((SpecError, OSError)):
        await write_files(parts((name, 1, b""), (name, 1, b"1")), folder, lambda _: None)
    assert names_in(other) == []
    assert names_in(folder) == ["link"]
