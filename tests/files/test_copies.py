"""Copies from one site's server to another, over real sockets, also through bad ones."""

import asyncio
import json
import math
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koala.errors import ConfigError
from koala.files.names import escape
from koala.files.rate_limits import LinkLimits, RateLimits
from koala.files.transfer import TransferLimits
from koala.protocol.messages import FileFound, FileRemoved, TransferFailed, TransferProgress
from koala_agent.files import Files
from tests.files.stage import (
    LIMIT_S,
    QUICK,
    Proxy,
    a_lazy_reader,
    a_site,
    comes_true,
    failed,
    finished,
    orders,
    running,
    sha256,
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
            a_site(tmp_path, "leiden", serve=False, rates=RateLimits(default=3_000_000.0))
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


async def test_a_part_of_a_file_is_copied_alone(tmp_path: Path) -> None:
    content = some_bytes(1_000_000)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("deep/er/input.dat", content)
        serve, fetch = orders(content, address=delft.address, file="deep/er/input.dat")
        delft.files.serve(replace(serve, offset=300_000, size_bytes=400_001))
        leiden.files.fetch(replace(fetch, offset=300_000, size_bytes=400_001))
        await finished(leiden, fetch.transfer)
        assert leiden.copied(fetch.transfer) == content[300_000:700_001]


async def test_an_empty_file_is_copied_too(tmp_path: Path) -> None:
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", b"")
        serve, fetch = orders(b"", address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        await finished(leiden, fetch.transfer)
        assert leiden.copied(fetch.transfer) == b""


async def test_a_copy_goes_on_where_the_connection_was_cut(tmp_path: Path) -> None:
    content = some_bytes(3_000_000)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", content)
        proxy = Proxy(delft.address, cuts=(1_200_000,) * 10)
        async with proxy.listening() as address:
            serve, fetch = orders(content, address=address)
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
            await finished(leiden, fetch.transfer)
        # Had it begun again each time, no connection would have lasted for the whole file.
        assert 2 <= proxy.cut_connections < 10
        assert leiden.copied(fetch.transfer) == content


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


async def test_a_replica_that_is_not_what_the_catalogue_says_is_the_sources_fault(
    tmp_path: Path,
) -> None:
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", b"something else..")
        serve, fetch = orders(b"what it was once", address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        end = await failed(leiden, fetch.transfer)
        assert end.at == "delft"
        assert sha256(b"something else..") in end.reason


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


async def test_a_missing_file_fails_at_once_and_names_the_file(tmp_path: Path) -> None:
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        serve, fetch = orders(b"1234", address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        end = await failed(leiden, fetch.transfer)
        assert "'input.dat': does not exist" in end.reason
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


async def test_a_file_that_is_too_short_fails_at_the_source(tmp_path: Path) -> None:
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", b"12")
        serve, fetch = orders(b"1234", address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        end = await failed(leiden, fetch.transfer)
        assert "has 2 bytes; the part that was ordered ends at 4" in end.reason
        assert end.at == "delft"


async def test_an_unreachable_source_is_given_up_after_the_tries(tmp_path: Path) -> None:
    limits = replace(QUICK, tries_max=3)
    async with running(a_site(tmp_path, "leiden", transfers=limits)) as leiden:
        _, fetch = orders(b"1234", address="127.0.0.1:1")
        leiden.files.fetch(fetch)
        end = await failed(leiden, fetch.transfer)
        assert "3 tries without a byte" in end.reason
        assert end.at == "delft"


async def test_a_record_that_was_written_in_part_goes_with_its_copy(tmp_path: Path) -> None:
    """As by an agent that was killed, or on a full disk."""
    async with running(a_site(tmp_path, "leiden")) as leiden:
        _, fetch = orders(b"1234", address="127.0.0.1:1")
        half = leiden.settings.state / "incoming" / f"{escape(fetch.transfer)}.json.part"
        half.write_text("{")
        leiden.files.cancel(fetch.transfer)
        assert leiden.spooled() == []


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


async def test_a_restarted_agent_goes_on_with_the_bytes_that_it_has(tmp_path: Path) -> None:
    content = some_bytes(2_000_000)
    slow = a_site(tmp_path, "leiden", rates=RateLimits(default=1_000_000))
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
            running(replace(slow, rates=RateLimits())) as leiden,
        ):
            leiden.files.fetch(replace(fetch, address=address))
            end = await finished(leiden, fetch.transfer)
            assert leiden.copied(fetch.transfer) == content
            assert end.took_s > 0.5  # the first life's share is part of it
        assert proxy.cut_connections == 0


async def test_a_finished_copy_is_reported_again_by_the_next_life_of_the_agent(
    tmp_path: Path,
) -> None:
    content = some_bytes(1000)
    async with running(a_site(tmp_path, "delft")) as delft:
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        async with running(a_site(tmp_path, "leiden")) as leiden:
            leiden.files.fetch(fetch)
            first = await finished(leiden, fetch.transfer)
            leiden.files.fetch(fetch)
            assert leiden.reports.all[-1] == first
    async with running(a_site(tmp_path, "leiden")) as leiden:
        leiden.files.fetch(replace(fetch, address="127.0.0.1:1"))
        assert await finished(leiden, fetch.transfer) == first
        assert leiden.files.path(fetch.transfer) is not None


async def test_a_cancelled_copy_leaves_nothing_and_can_be_ordered_again(tmp_path: Path) -> None:
    content = some_bytes(2_000_000)
    slow = RateLimits(by_site={"delft": 400_000.0})
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


async def test_the_same_file_in_two_transfers_is_copied_twice(tmp_path: Path) -> None:
    content = some_bytes(100_000)
    async with (
        running(a_site(tmp_path, "delft")) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", content)
        for transfer in ("j1/1/t1", "j2/1/t1"):
            serve, fetch = orders(content, address=delft.address, transfer=transfer)
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
        await finished(leiden, "j1/1/t1")
        await finished(leiden, "j2/1/t1")
        leiden.files.remove("j1/1/t1")
        assert leiden.copied("j2/1/t1") == content


async def test_many_copies_share_few_places_and_all_finish(tmp_path: Path) -> None:
    """Both bounds are exceeded: readers at the source, copies at the target."""
    content = some_bytes(200_000)
    async with (
        running(a_site(tmp_path, "delft", readers_max=2)) as delft,
        running(a_site(tmp_path, "leiden", fetches_max=4)) as leiden,
    ):
        delft.put("input.dat", content)
        transfers = [f"j{number}/1/t1" for number in range(12)]
        for transfer in transfers:
            serve, fetch = orders(content, address=delft.address, transfer=transfer)
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
        for transfer in transfers:
            await finished(leiden, transfer)


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
    at_source = RateLimits(by_site={"leiden": rate}) if limited == "source" else RateLimits()
    at_target = RateLimits(default=rate) if limited == "target" else RateLimits()
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
    limits = TransferLimits(pause_s=0.02, stalled_s=0.5)
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


async def test_a_reader_that_takes_nothing_does_not_keep_its_place_for_ever(
    tmp_path: Path,
) -> None:
    content = some_bytes(2_000_000)
    impatient = TransferLimits(pause_s=0.02, pause_s_max=0.1, stalled_s=0.25)
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


async def test_the_files_of_the_store_are_reported_and_watched(tmp_path: Path) -> None:
    settings = a_site(tmp_path, "delft", scan_s=3600.0)
    async with running(settings) as delft:
        kept = delft.put("a/kept", b"kept")
        gone = delft.put("gone", b"gone")
        settings.store.joinpath("link").symlink_to(gone)
        os.mkfifo(settings.store / "fifo")
        settings.store.joinpath("line\nbreak").write_bytes(b"")
        delft.files.rescan()
        assert await delft.reports.found("a/kept") == FileFound(
            file="a/kept", size_bytes=4, checksum=sha256(b"kept")
        )
        await delft.reports.found("gone")
        assert delft.files.local_path("a/kept") == kept
        gone.unlink()
        delft.files.rescan()
        await delft.reports.wait(lambda r: r == FileRemoved(file="gone"))
        after = len(delft.reports.all)
        kept.write_bytes(b"other")
        delft.files.rescan()
        changed = FileFound(file="a/kept", size_bytes=5, checksum=sha256(b"other"))
        await delft.reports.wait(lambda r: r == changed, after=after)
        assert delft.files.inventory() == (changed,)


@pytest.mark.parametrize("change", ["grows", "shrinks", "is overwritten"])
async def test_a_file_that_changes_while_it_is_read_is_no_copy_of_anything(
    tmp_path: Path, change: str
) -> None:
    content = some_bytes(1_000_000)
    slow = RateLimits(default=2_000_000)
    async with (
        running(a_site(tmp_path, "delft", rates=slow)) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        replica = delft.put("input.dat", content)
        os.utime(replica, (1e9, 1e9))  # else a change in the same tick of the clock is none
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        part = leiden.settings.state / "incoming" / "j1%2F1%2Ft1.part"
        await comes_true(lambda: part.exists() and part.stat().st_size > 0)
        match change:
            case "grows":
                with replica.open("ab") as file:
                    file.write(b"more")
            case "shrinks":
                os.truncate(replica, 500_000)
            case _:
                with replica.open("r+b") as file:
                    file.write(b"other")
        end = await failed(leiden, fetch.transfer)
        assert "while it was read" in end.reason
        assert end.at == "delft"


async def test_a_replaced_file_is_served_as_it_was_when_it_was_opened(tmp_path: Path) -> None:
    """A new file renamed over a replica disturbs nobody."""
    content = some_bytes(1_000_000)
    async with (
        running(a_site(tmp_path, "delft", rates=RateLimits(default=2_000_000))) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        part = leiden.settings.state / "incoming" / "j1%2F1%2Ft1.part"
        await comes_true(lambda: part.exists() and part.stat().st_size > 0)
        delft.put("new", b"new").rename(delft.settings.store / "input.dat")
        await finished(leiden, fetch.transfer)


async def test_what_was_served_is_forgotten_some_time_after_its_last_reader(
    tmp_path: Path,
) -> None:
    """The daemon does not say when a copy is complete, and tokens must not work for ever."""
    content = some_bytes(1000)
    limits = replace(QUICK, tries_max=2)
    async with (
        running(a_site(tmp_path, "delft", serve_after_s=0.05)) as delft,
        running(a_site(tmp_path, "leiden", transfers=limits)) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = orders(content, address=delft.address)
        delft.files.serve(serve)
        leiden.files.fetch(fetch)
        await finished(leiden, fetch.transfer)
        await comes_true(lambda: fetch.transfer not in delft.files._serving.orders)
        leiden.files.cancel(fetch.transfer)
        after = len(leiden.reports.all)
        leiden.files.fetch(fetch)
        end = await leiden.reports.wait(lambda r: isinstance(r, TransferFailed), after=after)
        assert isinstance(end, TransferFailed)
        assert "UNAUTHENTICATED" in end.reason


async def test_checksums_survive_a_restart_and_are_computed_again_when_a_file_changed(
    tmp_path: Path,
) -> None:
    settings = a_site(tmp_path, "delft")
    async with running(settings) as delft:
        same = delft.put("same", b"same")
        delft.put("other", b"before")
        delft.files.rescan()
        await delft.reports.found("same")
        await delft.reports.found("other")
        memory = settings.state / "checksums.json"
        await comes_true(memory.exists)
    known = json.loads(memory.read_text())
    known["same"][3] = "as remembered"
    memory.write_text(json.dumps(known))
    delft.put("other", b"after!")
    assert same.stat().st_size == 4
    async with running(settings) as delft:
        assert (await delft.reports.found("same")).checksum == "as remembered"
        assert (await delft.reports.found("other")).checksum == sha256(b"after!")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"same": 1}', '{"same": [1, 2, 3]}'])
async def test_a_damaged_memory_of_checksums_is_computed_again(tmp_path: Path, text: str) -> None:
    settings = a_site(tmp_path, "delft")
    settings.state.mkdir(parents=True)
    settings.state.joinpath("checksums.json").write_text(text)
    settings.store.mkdir(parents=True)
    settings.store.joinpath("same").write_bytes(b"same")
    async with running(settings) as delft:
        assert (await delft.reports.found("same")).checksum == sha256(b"same")


async def test_an_agent_ends_at_once_while_a_huge_file_is_being_read(tmp_path: Path) -> None:
    """A sparse terabyte costs nothing to make and an hour to read."""
    settings = a_site(tmp_path, "delft")
    settings.store.mkdir(parents=True)
    with settings.store.joinpath("huge").open("wb") as file:
        file.truncate(2**40)
    settings.store.joinpath("small").write_bytes(b"small")
    async with asyncio.timeout(LIMIT_S):
        async with running(settings) as delft:
            await delft.reports.found("small")


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


async def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    async with running(a_site(tmp_path, "delft")) as delft:
        files = Files(replace(a_site(tmp_path, "leiden"), serve=delft.address), delft.reports)
        with pytest.raises(ConfigError, match=f"files.serve = '{delft.address}'"):
            await files.run()
