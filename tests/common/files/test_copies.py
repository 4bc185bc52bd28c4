"""Copies from one site's server to another, over real sockets, also through bad ones."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koala.common.files.bandwidth_limits import BandwidthLimits, LinkLimits
from koala.common.protocol.messages import TransferProgress
from tests.common.files.stage import (
    LIMIT_S,
    QUICK,
    Proxy,
    a_site,
    comes_true,
    failed,
    finished,
    orders,
    running,
    some_bytes,
)

pytestmark = pytest.mark.live


async def test_a_file_arrives_whole_at_the_target(tmp_path: Path) -> None:
    content = some_bytes(3_000_000)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden", serve=False)) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        assert leiden.files.path(fetch.transfer) is None
        end = await finished(leiden, fetch.transfer)
        assert leiden.copied(fetch.transfer) == content
        assert end.size_bytes == len(content)
        assert 0 < end.took_s < LIMIT_S
        assert end in leiden.files.inventory()


async def test_a_copy_under_way_tells_how_far_it_is(tmp_path: Path) -> None:
    content = some_bytes(3_000_000)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(
            a_site(tmp_path, "leiden", serve=False, rates=BandwidthLimits(default=3_000_000.0))
        ) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(replace(fetch, report_s=0.1))
        await finished(leiden, fetch.transfer)
        told = [one for one in leiden.reports.all if isinstance(one, TransferProgress)]
        assert 1 <= len(told) <= 10 + 1
        assert {one.transfer for one in told} == {fetch.transfer}
        sizes = [one.size_bytes for one in told]
        assert sizes == sorted(sizes)
        assert 0 < sizes[0] < len(content)
        assert not any(isinstance(one, TransferProgress) for one in leiden.files.inventory())


async def test_corrupted_bytes_are_noticed_and_read_again(tmp_path: Path) -> None:
    mark = b"<a place in the file that a bad network changes>"
    content = some_bytes(500_000) + mark + some_bytes(100_000, seed=2)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", content)
        proxy = Proxy(delft.address, swap=(mark[:20], mark[:19] + b"!"))
        async with proxy.listening() as address:
            serve, fetch = orders(content, address=address)
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
            end = await failed(leiden, fetch.transfer)
        assert "3 spoilt copies" in end.reason
        assert end.at == ""
        assert leiden.files.path(fetch.transfer) is None
        assert not any(name.endswith(".part") for name in leiden.spooled())


@pytest.mark.parametrize("first", [1_000.0, math.inf])
async def test_a_copy_for_which_there_is_no_room_is_the_targets_fault_and_leaves_nothing(
    tmp_path: Path, first: float
) -> None:
    """It is found before it begins, or after others have taken the room: the agent's own records
    must find some."""
    content = some_bytes(3_000_000)
    limits = replace(QUICK, tries_max=3)
    rooms = iter([first])
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(
            a_site(tmp_path, "leiden", transfers=limits, room_bytes=lambda: next(rooms, 1_000.0))
        ) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        end = await failed(leiden, fetch.transfer)
        assert "3000000 bytes are to come, and there is room for 1000" in end.reason
        assert end.at == "leiden"
        assert not [name for name in leiden.spooled() if not name.endswith(".json")]


async def test_a_restarted_agent_goes_on_with_the_bytes_that_it_has(tmp_path: Path) -> None:
    content = some_bytes(2_000_000)
    slow = a_site(tmp_path, "leiden", rates=BandwidthLimits(default=1_000_000))
    async with running(a_site(tmp_path, "delft")) as delft:
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        part = tmp_path / "leiden" / "state" / "incoming" / "j1%2F1%2Ft1.part"
        async with running(slow) as leiden:
            leiden.files.fetch(fetch)
            await comes_true(lambda: part.exists() and part.stat().st_size >= 1_000_000)
        have_bytes = part.stat().st_size
        assert 1_000_000 <= have_bytes < len(content)
        proxy = Proxy(delft.address, cuts=(len(content) - have_bytes + 200_000,))
        async with (
            proxy.listening() as address,
            running(replace(slow, rates=BandwidthLimits())) as leiden,
        ):
            leiden.files.fetch(replace(fetch, address=address))
            end = await finished(leiden, fetch.transfer)
            assert leiden.copied(fetch.transfer) == content
            assert end.took_s > 0.5  # the first life's share is part of it
        assert proxy.cut_connections == 0


async def test_a_cancelled_copy_leaves_nothing_and_can_be_ordered_again(tmp_path: Path) -> None:
    content = some_bytes(2_000_000)
    slow = BandwidthLimits(by_site={"delft": 400_000.0})
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden", rates=slow)) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        await comes_true(lambda: "j1%2F1%2Ft1.part" in leiden.spooled())
        leiden.files.cancel(fetch.transfer)
        await comes_true(lambda: not leiden.spooled())
        assert leiden.files.inventory() == ()
        small = some_bytes(1000)
        delft.put("small", small)
        serve, fetch = orders(small, address=delft.address, file="small")
        delft.files.serve(serve)
        leiden.files.fetch(replace(fetch, token="wrong"))
        leiden.files.cancel(fetch.transfer)
        leiden.files.fetch(fetch)
        await finished(leiden, fetch.transfer)


async def test_what_is_not_retained_is_deleted_also_what_an_earlier_life_left(
    tmp_path: Path,
) -> None:
    content = some_bytes(1000)
    async with running(a_site(tmp_path, "delft")) as delft:
        delft.put("input.dat", content)
        async with running(a_site(tmp_path, "leiden")) as leiden:
            for transfer in ("j1/1/t1", "j1/1/t2"):
                serve, fetch = orders(content, address=delft.address, transfer=transfer)
                delft.files.serve(serve)
                leiden.files.fetch(fetch)
                await finished(leiden, transfer)
    async with running(a_site(tmp_path, "leiden")) as leiden:
        assert len(leiden.spooled()) == 4
        leiden.files.retain(["j1/1/t2"])
        assert leiden.spooled() == ["j1%2F1%2Ft2", "j1%2F1%2Ft2.json"]


@pytest.mark.parametrize("limited", ["source", "target"])
async def test_a_rate_holds_within_a_fifth_at_either_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limited: str
) -> None:
    """It takes as long as it must, and is not made to wait for longer: a busy machine is slow by
    itself."""
    waited_s = []
    take = LinkLimits.reserve

    def noted(links: LinkLimits, *what: Any, **more: Any) -> float:
        waited_s.append(take(links, *what, **more))
        return waited_s[-1]

    monkeypatch.setattr(LinkLimits, "reserve", noted)
    rate = 1_000_000.0
    content = some_bytes(700_000)
    at_source = (
        BandwidthLimits(by_site={"leiden": rate}) if limited == "source" else BandwidthLimits()
    )
    at_target = BandwidthLimits(default=rate) if limited == "target" else BandwidthLimits()
    async with (
        running(a_site(tmp_path, "delft", rates=at_source)) as delft,
        running(a_site(tmp_path, "leiden", rates=at_target)) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        end = await finished(leiden, fetch.transfer)
        assert end.took_s > 0.8 * 0.7
        assert sum(waited_s) < 1.2 * 0.7


async def test_a_source_that_falls_silent_is_cut_and_the_copy_goes_on(tmp_path: Path) -> None:
    content = some_bytes(2_000_000)
    limits = replace(QUICK, stalled_s=0.5)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden", transfers=limits)) as leiden,
    ):
        delft.put("input.dat", content)
        proxy = Proxy(delft.address, freezes=(600_000,))
        async with proxy.listening() as address:
            serve, fetch = orders(content, address=address)
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
            await finished(leiden, fetch.transfer)
        assert proxy.frozen_connections == 1
