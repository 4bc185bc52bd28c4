"""The publisher of MQTT messages and a real broker: retained state, last will, outages, bounds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from koala.daemon.notifications.mqtt import MqttBroker, MqttPublisher
from koala.errors import ConfigError
from tests.daemon.notifications.mqtt_broker import broker, listener, told

PUBLISHER = """
import asyncio, sys
from koala.daemon.notifications.mqtt import MqttBroker, MqttPublisher

async def main():
    bus = MqttPublisher(MqttBroker.parse(sys.argv[1]))
    bus.publish_job("j1", {"phase": "Placing"})
    await bus.run()

asyncio.run(main())
"""


@asynccontextmanager
async def running(bus: MqttPublisher) -> AsyncIterator[None]:
    """The bus in a task of its own, cancelled at the end as the daemon does."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(bus.run())
        yield
        task.cancel()


@pytest.mark.live
async def test_the_newest_event_of_each_job_and_site_is_retained(tmp_path: Path) -> None:
    with broker(tmp_path) as process:
        process.start()
        bus = MqttPublisher(MqttBroker.parse(process.url))
        async with running(bus):
            bus.publish_job("j1", {"phase": "Placing", "at": 1.5})
            bus.publish_job("j1", {"phase": "Claiming", "at": 2.5})
            bus.publish_site("delft", {"idle": 12, "text": "é"})
            async with listener(process.port) as early:
                await told(early, {"grid/sites/delft": '{"idle":12,"text":"é"}'.encode()})
            async with listener(process.port) as late:  # sees retained messages only
                await told(
                    late,
                    {
                        "grid/daemon": b"online",
                        "grid/jobs/j1": b'{"phase":"Claiming","at":2.5}',
                        "grid/sites/delft": '{"idle":12,"text":"é"}'.encode(),
                    },
                )


@pytest.mark.live
async def test_the_last_will_says_that_a_killed_daemon_is_offline(tmp_path: Path) -> None:
    with broker(tmp_path) as process:
        process.start()
        async with listener(process.port) as client:
            daemon = await asyncio.create_subprocess_exec(
                sys.executable, "-c", PUBLISHER, process.url
            )
            try:
                await told(client, {"grid/daemon": b"online", "grid/jobs/j1": JOB_PLACING})
            finally:
                daemon.kill()
                await daemon.wait()
            await told(client, {"grid/daemon": b"offline"})


JOB_PLACING = b'{"phase":"Placing"}'


@pytest.mark.live
@pytest.mark.parametrize("last", ["online", "job"])
async def test_a_bus_ends_though_its_cancellation_comes_together_with_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """As `wait_for` of Python 3.11 answers then: with what came, and without the cancellation."""
    publish = aiomqtt.Client.publish
    confirmed = asyncio.Event()
    payloads = {"online": b"online", "job": JOB_PLACING}

    async def answered(client: aiomqtt.Client, topic: str, payload: bytes, **more: Any) -> None:
        await publish(client, topic, payload, **more)
        if payload == payloads[last]:
            confirmed.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    monkeypatch.setattr(aiomqtt.Client, "publish", answered)
    with broker(tmp_path) as process:
        process.start()
        async with listener(process.port) as client:
            bus = MqttPublisher(MqttBroker.parse(process.url))
            async with running(bus):
                bus.publish_job("j1", {"phase": "Placing"})
                await confirmed.wait()
            await told(client, {"grid/daemon": b"offline"})


@pytest.mark.live
async def test_what_was_published_during_an_outage_arrives_after_it(tmp_path: Path) -> None:
    with broker(tmp_path) as process:
        process.start()
        bus = MqttPublisher(MqttBroker.parse(process.url))
        async with running(bus):
            async with listener(process.port) as client:
                await told(client, {"grid/daemon": b"online"})
            process.stop()
            bus.publish_job("j1", {"phase": "Placing"})
            process.start()
            async with listener(process.port) as client:
                await told(client, {"grid/jobs/j1": JOB_PLACING, "grid/daemon": b"online"})
        assert bus.dropped == 0


@pytest.mark.parametrize(
    "url",
    ["", "host:1883", "http://host", "mqtt://", "mqtt://host:x", "mqtt://host/a+b", "mqtt://h?q=1"],
)
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        MqttBroker.parse(url)


def test_an_error_about_a_url_keeps_the_password() -> None:
    with pytest.raises(ConfigError) as error:
        MqttBroker.parse("http://ann:secret@host")
    assert "secret" not in str(error.value)
