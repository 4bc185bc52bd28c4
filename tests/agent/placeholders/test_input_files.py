"""A claim's program finds its input, or a part of a replica, before it runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from koala.common.protocol.messages import HeldFile, Hold, Program
from koala.common.protocol.names import ClaimId
from koala.errors import LocalManagerError, SpecError
from koala_agent.placeholders.input_files import InputPaths

CLAIM = ClaimId("j1/1/0/1")


def a_hold(**fields: object) -> Hold:
    base: dict[str, object] = {
        "claim": CLAIM,
        "processors": 1,
        "port": 20_000,
        "hold_s": 60.0,
        "program": Program(executable="/bin/true"),
    }
    return Hold(**{**base, **fields})  # type: ignore[arg-type]  # fields of any type


@pytest.fixture
def inputs(tmp_path: Path) -> InputPaths:
    tmp_path.joinpath("data").write_bytes(b"0123456789")

    def replica(name: str) -> Path:
        if name != "data":
            raise SpecError(f"file name {name!r} is not here")
        return tmp_path / name

    return InputPaths(
        replica=replica,
        copy=lambda transfer: tmp_path / "spool" / transfer.replace("/", "-"),
        folder=lambda claim: tmp_path / claim.replace("/", "-"),
    )


async def test_a_replica_that_is_not_here_is_an_error_that_names_it(inputs: InputPaths) -> None:
    with pytest.raises(LocalManagerError, match="j1/1/0/1 reads 'other'"):
        await inputs.prepare(a_hold(files=(HeldFile(file="other"),)))


@pytest.mark.parametrize(
    ("offset", "size", "expected"),
    [(0, 4, b"0123"), (4, 4, b"4567"), (8, 2, b"89"), (6, 0, b"6789")],
)
async def test_a_part_of_a_replica_is_copied_into_the_claims_folder(
    inputs: InputPaths, tmp_path: Path, offset: int, size: int, expected: bytes
) -> None:
    hold = a_hold(files=(HeldFile(file="data"),), chunk_offset=offset, chunk_bytes=size)
    path = Path(inputs.named(hold, "data"))
    assert path.parent == tmp_path / "j1-1-0-1" / "inputs"
    await inputs.prepare(hold)
    assert await asyncio.to_thread(path.read_bytes) == expected


async def test_a_part_beyond_the_end_fails_the_claim(inputs: InputPaths, tmp_path: Path) -> None:
    hold = a_hold(files=(HeldFile(file="data"),), chunk_offset=8, chunk_bytes=4)
    with pytest.raises(LocalManagerError, match="the file ends 2 bytes before"):
        await inputs.prepare(hold)
    assert parts_in(tmp_path) == []


async def test_a_part_for_which_there_is_no_room_fails_the_claim_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"0123456789")
    inputs = InputPaths(
        replica=lambda _: data,
        copy=lambda transfer: tmp_path / transfer,
        folder=lambda claim: tmp_path / claim.replace("/", "-"),
        room_bytes=lambda: 3,
    )
    hold = a_hold(files=(HeldFile(file="data"),), chunk_offset=2, chunk_bytes=4)
    with pytest.raises(LocalManagerError, match="4 bytes of it are missing, and there is room for"):
        await inputs.prepare(hold)
    assert parts_in(tmp_path) == []


def parts_in(folder: Path) -> list[Path]:
    """List the copied parts in a folder."""
    return list(folder.glob("*/input*"))
