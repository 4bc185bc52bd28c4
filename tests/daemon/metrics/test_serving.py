"""A daemon that serves metrics: over real sockets, beside its other answers, while it is busy, and
at a cost that does not grow with jobs that wait."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from koala.client import AsyncClient
from koala.common.metrics import serving
from koala.common.metrics.readings import LoopReader
from koala.errors import UnknownJobError
from tests.common.metrics.scraping import get, value
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import config_of, running

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
            commits = value(text, "koala_journal_commit_seconds_count")
            assert other["commits"] <= commits <= later["commits"]
            relayed = await scrape(tmp_path, "relay-metrics.url")
            assert value(relayed, "koala_relay_readers") == 0
        for task in staying:
            task.cancel()
    assert not (tmp_path / "state" / "metrics.url").exists()


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
