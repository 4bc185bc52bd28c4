"""A real mosquitto broker as a process of the test, and a client that listens to it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiomqtt

from tests.harness.ports import free_port
from tests.harness.programs import PLACES, needed_program

LIMIT_S = 60.0


def mosquitto(places: str = PLACES) -> str:
    """Find the broker's program; skip the test where it is missing."""
    return needed_program("mosquitto", package="mosquitto", places=places)


@dataclass(slots=True, kw_only=True)
class BrokerProcess:
    """Mosquitto on one port, which can be stopped and started again."""

    program: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the value of `[bus] url`."""
        return f"mqtt://127.0.0.1:{self.port}/grid"

    def start(self) -> None:
        configuration = self.folder / "mosquitto.conf"
        configuration.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\n",
            encoding="utf-8",
        )
        self.process = subprocess.Popen(
            [self.program, "-c", str(configuration)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=LIMIT_S)
            self.process = None


@contextmanager
def broker(folder: Path) -> Iterator[BrokerProcess]:
    """A broker that is not running yet."""
    process = BrokerProcess(program=mosquitto(), port=free_port(), folder=folder)
    try:
        yield process
    finally:
        process.stop()


@asynccontextmanager
async def listener(port: int) -> AsyncIterator[aiomqtt.Client]:
    """A client that has subscribed to everything; waits until the broker answers."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                async with aiomqtt.Client("127.0.0.1", port) as client:
                    await client.subscribe("#")
                    yield client
                    return
            except aiomqtt.MqttError:
                await listening(port)


async def listening(port: int) -> None:
    """Return when the port can be connected to."""
    while True:
        with suppress(ConnectionError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()
            return


async def told(client: aiomqtt.Client, expected: Mapping[str, bytes]) -> None:
    """Wait until each of these topics has had this payload."""
    missing = dict(expected)
    async with asyncio.timeout(LIMIT_S):
        async for message in client.messages:
            topic = str(message.topic)
            if missing.get(topic) == message.payload:
                del missing[topic]
            if not missing:
                return
