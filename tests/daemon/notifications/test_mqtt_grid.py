"""A whole grid with an MQTT broker: what happens to jobs and sites is published."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import aiomqtt
import pytest

from tests.cli.command import koala
from tests.cli.grids import GRID, up
from tests.daemon.notifications.mqtt_broker import LIMIT_S, broker, listener, told

pytestmark = pytest.mark.live


async def test_a_daemon_with_a_bus_publishes_its_jobs_and_sites(tmp_path: Path) -> None:
    with broker(tmp_path) as process:
        process.start()
        with up(tmp_path, f'{GRID}\n[bus]\nurl = "{process.url}"\n') as grid:
            words = ("submit", "-", "--wait", "--address", grid.address)
            text = b"&(executable=/bin/true)(count=1)(notify=(topic mine))"
            run = await asyncio.to_thread(koala, *words, stdin=text)
            job = run.stdout.strip()
            async with listener(process.port) as client:
                await told(client, {"grid/daemon": b"online"})
            retained = await newest(process.port, f"grid/jobs/{job}", phase="Finished")
            assert retained["job"] == job
            end = await newest(process.port, "grid/notify/+/mine", phase="Finished")
            assert (end["job"], end["status"]) == (job, None)
            site = await newest(process.port, "grid/sites/delft", phase="")
            assert site["site"] == "delft"
        async with listener(process.port) as client:
            await told(client, {"grid/daemon": b"offline"})


async def newest(port: int, topic: str, *, phase: str) -> dict[str, object]:
    """The first event on a topic that has this phase."""
    async with aiomqtt.Client("127.0.0.1", port, timeout=LIMIT_S) as client:
        await client.subscribe(topic)
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            event: dict[str, object] = json.loads(message.payload)
            if event["phase"] == phase:
                return event
    raise AssertionError("the broker closed the connection")
