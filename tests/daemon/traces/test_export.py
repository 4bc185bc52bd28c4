"""Traces of a daemon, as a receiver in a process of its own gets them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koala.client import AsyncClient
from koala.daemon.traces import export
from tests.daemon.fake_agent import FakeAgent
from tests.daemon.running import ONE, config_of, running
from tests.tidy.sources import ROOT

TWO = "+(&(executable=/bin/true)(count=4)(label=a))(&(executable=/bin/true)(count=2)(label=b))"
LIMIT_S = 90.0


class Receiver:
    """A receiver that runs; `lines` are what it prints."""

    def __init__(self, url: str, lines: asyncio.StreamReader) -> None:
        self.url = url
        self._lines = lines

    async def trace(self, count: int) -> list[dict[str, Any]]:
        """Return the next spans, the whole job first."""
        async with asyncio.timeout(LIMIT_S):
            found = [json.loads(await self._lines.readline()) for _ in range(count)]
        return sorted(found, key=lambda span: (span["parent"] != "", span["since"]))


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.daemon.traces.receiver",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            url = (await process.stdout.readline()).decode().strip()
        yield Receiver(url, process.stdout)
    finally:
        process.stdin.close()
        await process.wait()


def traced(folder: Path, url: str) -> Any:
    return config_of(folder, f'[traces]\nendpoint = "{url}"\n')


@pytest.mark.live
async def test_a_job_over_two_sites_is_one_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PERIOD_MS", 50.0)
    async with (
        receiving() as receiver,
        running(traced(tmp_path, receiver.url)) as daemon,
        asyncio.TaskGroup() as group,
        AsyncClient(daemon.address) as client,
    ):
        agents = [FakeAgent(daemon.address, site=site) for site in ("delft", "leiden")]
        staying = [group.create_task(agent.stay()) for agent in agents]
        async with asyncio.timeout(LIMIT_S):
            for agent in agents:
                await agent.until("wanted_end")
            submitted = await client.submit(TWO)
            assert await client.wait(submitted.job) == "Finished"
            shown = await client.show(submitted.job)
        whole, *parts = await receiver.trace(9)
        for task in staying:
            task.cancel()
    assert whole["name"] == "job"
    assert whole["resource"]["service.name"] == "koala"
    assert whole["attributes"]["koala.job"] == submitted.job
    assert whole["attributes"]["koala.outcome"] == "finished"
    assert {span["trace"] for span in parts} == {whole["trace"]}
    assert {span["parent"] for span in parts} == {whole["id"]}
    each = {"submit": 1, "placement": 1, "claim": 2, "barrier": 2, "run": 2}
    assert Counter(span["name"] for span in parts) == each
    assert [span["error"] for span in (whole, *parts)] == [""] * 9
    placed = {part["label"]: part["site"] for part in shown["parts"]}
    for name in ("claim", "barrier", "run"):
        found = [span["attributes"] for span in parts if span["name"] == name]
        assert {one["koala.component"]: one["koala.site"] for one in found} == placed
    timeline = shown["timeline"]
    instants = {"submitted_at": whole["since"], "ended_at": whole["until"]}
    instants["placed_at"] = next(s["until"] for s in parts if s["name"] == "placement")
    instants["claimed_at"] = max(s["until"] for s in parts if s["name"] == "claim")
    instants["started_at"] = max(s["until"] for s in parts if s["name"] == "barrier")
    for name, found_ns in instants.items():
        assert found_ns / 1e9 == pytest.approx(timeline[name], abs=1e-3), name


@pytest.mark.live
async def test_what_waits_is_sent_when_the_daemon_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PERIOD_MS", 3_600_000.0)
    async with receiving() as receiver:
        async with (
            running(traced(tmp_path, receiver.url)) as daemon,
            AsyncClient(daemon.address) as client,
        ):
            submitted = await client.submit(ONE)
            await client.cancel(submitted.job)
        whole, *parts = await receiver.trace(3)
    assert whole["attributes"]["koala.outcome"] == "cancelled"
    assert sorted(span["name"] for span in parts) == ["placement", "submit"]


@pytest.mark.live
async def test_a_receiver_that_is_away_costs_traces_only(tmp_path: Path) -> None:
    async with receiving() as receiver:
        url = receiver.url
    async with (
        running(traced(tmp_path, url)) as daemon,
        AsyncClient(daemon.address) as client,
    ):
        submitted = await client.submit(ONE)
        await client.cancel(submitted.job)
        assert (await client.show(submitted.job))["phase"] == "Cancelled"
