"""A site's store: its files are reported, and may change while they are read."""

import json
import os
from pathlib import Path

import pytest

from koala.common.files.bandwidth_limits import BandwidthLimits
from koala.common.protocol.messages import FileFound, FileRemoved
from tests.common.files.stage import (
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
    slow = BandwidthLimits(default=2_000_000)
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
        running(a_site(tmp_path, "delft", rates=BandwidthLimits(default=2_000_000))) as delft,
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
