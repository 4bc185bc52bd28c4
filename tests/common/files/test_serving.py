"""The serving end of copies: whom it lets in, what it refuses, and its port."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tests.common.files.stage import (
    QUICK,
    a_lazy_reader,
    a_site,
    failed,
    finished,
    orders,
    running,
    some_bytes,
)

pytestmark = pytest.mark.live


@pytest.mark.parametrize("wrong", ["token", "transfer"])
async def test_a_wrong_token_and_a_transfer_that_nobody_ordered_get_nothing(
    tmp_path: Path, wrong: str
) -> None:
    content = some_bytes(1000)
    limits = replace(QUICK, tries_max=2)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden", transfers=limits)) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        fetch = (
            replace(fetch, token="u" * 64)
            if wrong == "token"
            else replace(fetch, transfer="j1/1/t9")
        )
        leiden.files.fetch(fetch)
        end = await failed(leiden, fetch.transfer)
        assert "UNAUTHENTICATED" in end.reason
        assert end.at == "delft"


async def test_an_order_for_a_file_outside_the_store_is_refused(tmp_path: Path) -> None:
    """The daemon itself is not trusted to name paths."""
    tmp_path.joinpath("secret").write_bytes(b"1234")
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.settings.store.joinpath("link").symlink_to(tmp_path)
        for number, file in enumerate(["../../secret", "link/secret", str(tmp_path / "secret")]):
            serve, fetch = orders(
                b"1234", address=delft.address, file=file, transfer=f"j1/1/t{number}"
            )
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
            end = await failed(leiden, fetch.transfer)
            assert "file name" in end.reason or "symbolic link" in end.reason


async def test_an_order_that_reaches_the_source_after_the_target_is_waited_for(
    tmp_path: Path,
) -> None:
    content = some_bytes(1000)
    patient = replace(QUICK, tries_max=10_000)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden", transfers=patient)) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        leiden.files.fetch(fetch)
        delft.files.rescan()
        await delft.reports.found("input.dat")
        delft.files.serve(serve)
        await finished(leiden, fetch.transfer)


async def test_a_reader_that_takes_nothing_does_not_keep_its_place_for_ever(
    tmp_path: Path,
) -> None:
    content = some_bytes(2_000_000)
    impatient = replace(QUICK, stalled_s=0.25)
    async with (
        running(a_site(tmp_path, "delft", transfers=impatient, readers_max=1)) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        async with a_lazy_reader(fetch):
            leiden.files.fetch(fetch)
            await finished(leiden, fetch.transfer)


async def test_any_port_is_the_same_one_in_the_next_life(tmp_path: Path) -> None:
    """Targets of copies that are under way know no other."""
    settings = a_site(tmp_path, "delft")
    async with running(settings) as delft:
        address = delft.address
    async with running(settings) as delft:
        assert delft.address == address
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))):
        async with running(settings) as delft:
            assert delft.address != address
