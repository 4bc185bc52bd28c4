"""Observers that fail: they end neither each other nor the daemon, and say so once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from koala.client import AsyncClient
from koala.core.model.events import Event, JobSubmitted
from koala.daemon.loop.group_commit import DurableBatch
from koala.daemon.loop.observers import Observers
from koala.daemon.metrics.observer import BatchObserver
from tests.common.metrics.scraping import get, value
from tests.daemon.running import ONE, config_of, running

METRICS = '[metrics]\nlisten = "127.0.0.1:0"\n'
EMPTY = DurableBatch(records=(), actions=(), notices=(), commit_s=0.0)


def test_an_error_is_logged_once_and_others_see_every_batch() -> None:
    seen: list[DurableBatch] = []

    def fail(_batch: DurableBatch) -> None:
        raise KeyError("j1")

    observers = Observers({"broken": fail, "sound": seen.append})
    with capture_logs() as logs:
        for _ in range(3):
            observers(EMPTY)
    assert len(seen) == 3
    assert observers.errors == {"broken": 3, "sound": 0}
    assert [(entry["event"], entry["observer"]) for entry in logs] == [
        ("observer.failed", "broken")
    ]


@pytest.mark.live
async def test_a_daemon_outlives_its_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = BatchObserver._count_event

    def fail_once(self: BatchObserver, event: Event, at: float) -> None:
        if isinstance(event, JobSubmitted):
            monkeypatch.setattr(BatchObserver, "_count_event", count)
            raise KeyError(event.job)
        count(self, event, at)

    async with running(config_of(tmp_path, METRICS)) as daemon:
        async with AsyncClient(daemon.address) as client:
            monkeypatch.setattr(BatchObserver, "_count_event", fail_once)
            for _ in range(2):
                await client.submit(ONE)
            await client.show("j2")
        url = (tmp_path / "state" / "metrics.url").read_text(encoding="utf-8").strip()
        _, _, text = await asyncio.to_thread(get, url)
    assert value(text, "koala_jobs_submitted_total", priority="low") == 1
    assert value(text, "koala_observer_errors_total", observer="metrics") == 1
