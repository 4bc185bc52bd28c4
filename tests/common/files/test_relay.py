"""Copies between sites without an open port, through a relay, which may die meanwhile."""

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import grpc
import msgspec
import pytest
from grpc import aio

from koala.common.files.bandwidth_limits import BandwidthLimits
from koala.common.wire.v1 import files_pb2, files_pb2_grpc
from koala.daemon.files.relay_process import RelayProcess
from koala.daemon.files.relay_settings import RelaySettings
from koala.daemon.files.transfer_tokens import Purpose, token
from tests.common.files.stage import (
    LIMIT_S,
    QUICK,
    SECRET,
    Proxy,
    a_relay,
    a_site,
    comes_true,
    failed,
    finished,
    orders,
    relayed,
    running,
    some_bytes,
)
from tests.harness.ports import free_port

pytestmark = pytest.mark.live


@pytest.mark.parametrize("first", ["source", "target"])
async def test_a_file_passes_the_relay_whoever_comes_first(tmp_path: Path, first: str) -> None:
    content = some_bytes(3_000_000)
    async with (
        a_relay(tmp_path / "spool") as address,
        running(a_site(tmp_path, "delft", serve=False)) as delft,
        running(a_site(tmp_path, "leiden", serve=False)) as leiden,
    ):
        delft.put("input.dat", content)
        serve, fetch = relayed(*orders(content, address=address))
        if first == "source":
            delft.files.serve(serve)
            delft.files.rescan()  # its answer comes after the offer was sent
            await delft.reports.found("input.dat")
        leiden.files.fetch(fetch)
        delft.files.serve(serve)
        await finished(leiden, fetch.transfer)
        assert leiden.copied(fetch.transfer) == content


@pytest.mark.parametrize("side", ["source", "target"])
async def test_a_cut_at_either_side_of_the_relay_costs_no_bytes(tmp_path: Path, side: str) -> None:
    content = some_bytes(3_000_000)
    async with (
        a_relay(tmp_path / "spool") as address,
        running(a_site(tmp_path, "delft", serve=False)) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", content)
        # A source's bytes go up, a target's come down: both are cut in the middle.
        up = (1_200_000,) * 10 if side == "source" else ()
        down = (1_200_000,) * 10 if side == "target" else ()
        proxy = Proxy(address, cuts=down, up_cuts=up)
        async with proxy.listening() as bad_address:
            serve, fetch = relayed(*orders(content, address=address))
            if side == "source":
                serve = replace(serve, relay=bad_address)
            else:
                fetch = replace(fetch, address=bad_address)
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
            await finished(leiden, fetch.transfer)
        # Had it begun again each time, no connection would have lasted for the whole file.
        assert 2 <= proxy.cut_connections <= 5
        assert leiden.copied(fetch.transfer) == content


async def test_a_killed_relay_is_started_again_and_the_copy_goes_on(tmp_path: Path) -> None:
    content = some_bytes(1_000_000)
    listen = f"127.0.0.1:{free_port()}"
    settings = RelaySettings(secret=SECRET.hex(), listen=listen, spool=str(tmp_path / "spool"))
    ports: asyncio.Queue[int] = asyncio.Queue()
    process = RelayProcess(settings, ports.put_nowait)
    slow = BandwidthLimits(default=1_500_000)
    patient = replace(QUICK, tries_max=10_000)  # a process may take seconds to start
    async with asyncio.TaskGroup() as group:
        task = group.create_task(process.run())
        async with asyncio.timeout(LIMIT_S):
            port = await ports.get()
        async with (
            running(a_site(tmp_path, "delft", serve=False)) as delft,
            running(a_site(tmp_path, "leiden", rates=slow, transfers=patient)) as leiden,
        ):
            delft.put("input.dat", content)
            serve, fetch = relayed(*orders(content, address=f"127.0.0.1:{port}"))
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
            part = tmp_path / "leiden" / "state" / "incoming" / "j1%2F1%2Ft1.part"
            await comes_true(lambda: part.exists() and part.stat().st_size > 0)
            assert process.process is not None
            killed = process.process.pid
            process.process.send_signal(signal.SIGKILL)
            async with asyncio.timeout(LIMIT_S):
                assert await ports.get() == port
            assert process.process.pid != killed
            end = await finished(leiden, fetch.transfer)
            assert end.size_bytes == len(content)
        task.cancel()


@pytest.mark.parametrize("said", ["nothing", "half", "all"])
def test_a_daemon_that_is_killed_while_it_starts_its_relay_leaves_none_and_no_traceback(
    tmp_path: Path, said: str
) -> None:
    """Neither end of its pipes is there any more."""
    settings = RelaySettings(secret=SECRET.hex(), spool=str(tmp_path / "spool"))
    line = msgspec.json.encode(settings) + b"\n"
    words = [sys.executable, "-m", "koala.daemon.files.relay"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as relay:  # type: ignore[call-overload]
        relay.stdout.close()
        relay.stdin.write({"nothing": b"", "half": line[:9], "all": line}[said])
        relay.stdin.close()
        assert relay.wait(LIMIT_S) == 0
        assert relay.stderr.read() == b""


async def test_a_token_for_another_purpose_does_not_read(tmp_path: Path) -> None:
    async with (
        a_relay(tmp_path / "spool") as address,
        running(a_site(tmp_path, "leiden", transfers=replace(QUICK, tries_max=2))) as leiden,
    ):
        _, fetch = orders(b"1234", address=address)
        leiden.files.fetch(replace(fetch, token=token(SECRET, Purpose.PUT, fetch.transfer)))
        assert "UNAUTHENTICATED" in (await failed(leiden, fetch.transfer)).reason


async def test_an_offer_needs_its_own_token(tmp_path: Path) -> None:
    async with a_relay(tmp_path / "spool") as address:
        assert await _offered(address, "j1/1/t1", token(SECRET, Purpose.GET, "j1/1/t1")) == (
            grpc.StatusCode.UNAUTHENTICATED
        )


async def test_a_reader_whose_source_never_comes_is_told_so_in_time(tmp_path: Path) -> None:
    async with (
        a_relay(tmp_path / "spool", offer_wait_s=0.1) as address,
        running(a_site(tmp_path, "leiden", transfers=replace(QUICK, tries_max=2))) as leiden,
    ):
        _, fetch = relayed(*orders(b"1234", address=address))
        leiden.files.fetch(fetch)
        end = await failed(leiden, fetch.transfer)
        assert "the source did not offer the file within 0.1 s" in end.reason
        assert end.at == "delft"


async def test_the_rate_of_the_relay_holds_for_all_copies_together(tmp_path: Path) -> None:
    content = some_bytes(300_000)
    async with (
        a_relay(tmp_path / "spool", bytes_per_s=1_000_000.0) as address,
        running(a_site(tmp_path, "delft", serve=False)) as delft,
        running(a_site(tmp_path, "leiden")) as leiden,
    ):
        delft.put("input.dat", content)
        for transfer in ("j1/1/t1", "j2/1/t1", "j3/1/t1"):
            serve, fetch = relayed(*orders(content, address=address, transfer=transfer))
            delft.files.serve(serve)
            leiden.files.fetch(fetch)
        ends = [await finished(leiden, f"j{number}/1/t1") for number in (1, 2, 3)]
        assert max(end.took_s for end in ends) > 0.7


async def _offered(address: str, transfer: str, shown: str) -> grpc.StatusCode:
    async with aio.insecure_channel(address) as channel:
        call = files_pb2_grpc.RelayStub(channel).Put()
        start = files_pb2.PutStart(name=transfer, token=shown)
        await call.write(files_pb2.Frame(start=start))
        return await call.code()
