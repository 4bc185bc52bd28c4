"""A daemon that serves metrics: over real sockets, beside its other answers, while it is busy, and
at a cost that does not grow with jobs that wait."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from threading import Event, Thread, current_thread
from types import FrameType
from typing import Any

import grpc
import pytest

from koala.client import AsyncClient
from koala.common.identity.tls import Identity, IdentityFile
from koala.common.metrics import serving
from koala.common.metrics.declarations import Source
from koala.common.metrics.meter import Meter
from koala.common.metrics.readings import LoopReader, Readings
from koala.common.runtime import clock
from koala.core.scheduler import Scheduler
from koala.daemon.metrics.gauges import read_jobs, read_sites
from koala.daemon.metrics.observer import BatchObserver
from koala.errors import ConfigError, UnknownJobError, first_error
from koala.policies import chosen
from tests.common.metrics.scraping import get, rendered, samples, value
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import FAST, config_of, running
from tests.harness.builders import a_job, a_site

METRICS = '[metrics]\nlisten = "127.0.0.1:0"\nrelay = "127.0.0.1:0"\n'
TWO = "+(&(executable=/bin/true)(count=4))(&(executable=/bin/true)(count=2))"


def url_of(folder: Path, name: str = "metrics.url") -> str:
    return (folder / "state" / name).read_text(encoding="utf-8").strip()


async def scrape(folder: Path, name: str = "metrics.url") -> str:
    status, _, text = await asyncio.to_thread(get, url_of(folder, name))
    assert status == 200
    return text


@pytest.mark.live
async def test_the_numbers_are_those_of_the_daemons_other_answers(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, METRICS)) as daemon, asyncio.TaskGroup() as group:
        agents = [FakeAgent(daemon.address, site=site) for site in ("delft", "leiden")]
        staying = [group.create_task(agent.stay()) for agent in agents]
        async with AsyncClient(daemon.address) as client, asyncio.timeout(90):
            for agent in agents:
                await agent.until("wanted_end")
            for _ in range(3):
                submitted = await client.submit(TWO)
                assert await client.wait(submitted.job) == "Finished"
            with pytest.raises(UnknownJobError):
                await client.show("j99")
            other = await client.metrics()
            text = await scrape(tmp_path)
            later = await client.metrics()
            assert value(text, "koala_jobs_ended_total", outcome="finished") == 3
            assert (
                value(text, "koala_jobs_ended_total", outcome="finished")
                == (other["jobs"]["Finished"])
            )
            assert value(text, "koala_start_skew_seconds_count") == 3
            assert value(text, "koala_sites", state="usable") == other["sites"]["connected"] == 2
            assert value(text, "koala_epoch") == other["epoch"]
            # A timer can be due meanwhile.
            assert other["events"] <= value(text, "koala_events_total") <= later["events"]
            for site in await client.sites():
                name = site["site"]
                assert (
                    value(text, "koala_site_capacity_processors", site=name) == (site["processors"])
                )
                idle = value(text, "koala_site_processors", site=name, use="idle")
                assert idle == site["idle"]
            calls = [("Koala/Submit", "OK", 3), ("Koala/Show", "NOT_FOUND", 1)]
            for method, status, count in calls:
                assert value(text, "koala_calls_total", method=method, status=status) == count
            assert value(text, "koala_journal_size_bytes") > 4096
            assert value(text, "koala_journal_commit_seconds_count") == other["commits"]
            relayed = await scrape(tmp_path, "relay-metrics.url")
            assert value(relayed, "koala_relay_readers") == 0
        for task in staying:
            task.cancel()
    assert not (tmp_path / "state" / "metrics.url").exists()


@pytest.mark.live
async def test_counters_begin_again_and_gauges_are_right_at_once(tmp_path: Path) -> None:
    for life in (1, 2):
        async with (
            running(config_of(tmp_path, METRICS)) as daemon,
            AsyncClient(daemon.address) as client,
        ):
            if life == 1:
                for _ in range(2):
                    await client.submit("&(executable=/bin/true)(count=1)")
            text = await scrape(tmp_path)
            assert value(text, "koala_jobs", phase="placing", queue="low") == 2
            submitted = value(text, "koala_jobs_submitted_total", priority="low")
            assert submitted == (2 if life == 1 else 0)
            assert value(text, "koala_epoch") == life


@pytest.mark.live
async def test_calls_nobody_knows_count_as_one(tmp_path: Path) -> None:
    async with running(config_of(tmp_path, METRICS)) as daemon:
        async with grpc.aio.insecure_channel(daemon.address) as channel:
            for number in range(20):
                call: Any = channel.unary_unary(f"/koala.wire.v1.Koala/Call{number}")
                with pytest.raises(grpc.aio.AioRpcError):
                    await call(b"")
        text = await scrape(tmp_path)
        assert value(text, "koala_calls_total", method="other", status="UNIMPLEMENTED") == 20
        methods = {dict(labels).get("method") for name, labels in samples(text) if "calls" in name}
        assert methods == {"other"}


@pytest.mark.live
async def test_a_scrape_is_answered_while_the_daemon_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "LoopReader", partial(LoopReader, wait_s=0.1))
    async with running(config_of(tmp_path, METRICS)):
        await scrape(tmp_path)
        url, answers, is_over = url_of(tmp_path), list[str](), Event()

        def ask() -> None:
            answers.append(get(url)[2])
            is_over.set()

        scraping = asyncio.get_running_loop().run_in_executor(None, ask)
        assert is_over.wait(60)  # blocks the loop until the answer is there
        assert value(answers[0], "koala_epoch") == 1
        assert value(answers[0], "koala_readings_age_seconds") > 0
        await scraping


@pytest.mark.live
async def test_the_certificate_is_read_in_the_thread_of_a_scrape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[Thread] = []
    read = IdentityFile.read

    def note(self: IdentityFile) -> Identity:
        threads.append(current_thread())
        return read(self)

    async with running(config_of(tmp_path, METRICS, is_plain=False)):
        monkeypatch.setattr(IdentityFile, "read", note)
        text = await scrape(tmp_path)
        monkeypatch.undo()
    assert value(text, "koala_certificate_expiry_timestamp_seconds") > clock.unix_now()
    # The daemon's other listeners may still be starting, and read it on the loop.
    assert any(thread is not current_thread() for thread in threads)


@pytest.mark.live
async def test_a_port_that_is_taken_ends_the_start_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    async with running(config_of(tmp_path / "one", METRICS)):
        taken = url_of(tmp_path / "one").split("/")[2]
        config = config_of(tmp_path / "two", f'[metrics]\nlisten = "{taken}"\n')
        with pytest.raises(ExceptionGroup) as caught:
            async with running(config):
                pass
        error = first_error(caught.value)
        assert isinstance(error, ConfigError)
        assert f"metrics.listen = '{taken}': cannot listen there" in str(error)


def calls_of_a_scrape(scheduler: Scheduler) -> int:
    """Count the calls of functions, Python's and built in, that one scrape makes."""
    meter = Meter(Source.DAEMON, read=lambda: found, sites_max=2_000)
    BatchObserver(scheduler, meter)
    found = Readings()
    calls: Counter[str] = Counter()

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        calls[event] += 1

    sys.setprofile(count)
    try:
        read_jobs(found, scheduler, 1000.0)
        read_sites(found, scheduler)
    finally:
        sys.setprofile(None)
    text = rendered(meter.registry)
    assert value(text, "koala_jobs", phase="placing", queue="low") == len(scheduler.jobs)
    assert value(text, "koala_sites", state="usable") == len(scheduler.sites)
    return calls["call"] + calls["c_call"]


def grid_of(sites: int, jobs: int) -> Scheduler:
    config = config_of(Path("/nowhere"), parameters=f"{FAST}queue_jobs_max = 1000000\n")
    scheduler = Scheduler(config.parameters, chosen())
    for number in range(sites):
        scheduler.handle(a_site(f"s{number}", 1), 0.0)
    for number in range(jobs):
        scheduler.handle(a_job(f"j{number}", 9), 0.0)
    return scheduler


@pytest.mark.parametrize(
    ("sites", "jobs"), [(100, 500), pytest.param(1_000, 100_000, marks=pytest.mark.long)]
)
def test_a_scrape_costs_by_sites_and_not_by_jobs_that_wait(sites: int, jobs: int) -> None:
    calls_of_a_scrape(grid_of(1, 1))  # fills the interpreter's caches of subclasses
    few, many = (calls_of_a_scrape(grid_of(sites, count)) for count in (10, jobs))
    assert many - few < (jobs - 10) / 10  # not one call a job; collections may add a few calls
    assert many < 60 * sites  # a site has seven gauges, and five uses of its processors
