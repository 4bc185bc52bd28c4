"""Publish job and site events to an MQTT broker, for dashboards, monitors and shell scripts.

Only with `[bus] url` in the daemon's configuration; without it this module is not even imported.
The publisher never subscribes. Every message is retained, so that a later subscriber sees the
newest state at once:

    PREFIX/daemon           online | offline (the last will of the connection)
    PREFIX/jobs/JOB         JSON object: the newest event of the job
    PREFIX/sites/SITE       JSON object: the newest event of the site
    PREFIX/notify/USER/NAME JSON object: the newest end of a job of the user with this `notify`

Invariants:

- `publish_job` and `publish_site` neither block nor raise, whatever the broker does.
- The queue is bounded. When it is full the oldest message is dropped and counted.
- An outage of the broker costs messages, never the daemon.

Absent on purpose: a history (that is `koala watch`), and removing the topics of old jobs (a
broker's own expiry does that).
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import aiomqtt

from koala.common.runtime.structured_log import get_logger
from koala.daemon.storage.records import Notice
from koala.errors import ConfigError, first_error

QUEUE_MAX = 10_000
CALL_S = 10.0
"""Time for the broker to confirm one message before the publisher reconnects."""
RETRY_MIN_S = 0.2
RETRY_MAX_S = 15.0
GOODBYE_S = 1.0
KEEP_ALIVE_S = 20

_DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883}
_DEFAULT_PREFIX = "koala"
_NOT_IN_TOPICS = re.compile(r"[#+/\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class MqttBroker:
    """Broker of a url: `mqtt://[user:password@]host[:port][/prefix]`, `mqtts` for TLS."""

    host: str
    port: int
    prefix: str = _DEFAULT_PREFIX
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    is_encrypted: bool = False

    @classmethod
    def parse(cls, url: str) -> MqttBroker:
        """Parse a url. Raises ConfigError, whose text never has the password."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError(f"bus.url cannot be read: {error} (expected {_FORM})") from error
        if parts.scheme not in _DEFAULT_PORTS or not host or parts.query or parts.fragment:
            shown = url.rpartition("@")[2]
            raise ConfigError(f"bus.url = {shown!r} (expected {_FORM})")
        prefix = unquote(parts.path).strip("/") or _DEFAULT_PREFIX
        if re.search(r"[#+\x00-\x1f\x7f]", prefix):
            raise ConfigError(f"bus.url has the prefix {prefix!r} (expected one without # and +)")
        return cls(
            host=host,
            port=_DEFAULT_PORTS[parts.scheme] if port is None else port,
            prefix=prefix,
            user=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
            is_encrypted=parts.scheme == "mqtts",
        )


_FORM = "mqtt://[user:password@]host[:port][/prefix], or mqtts:// for TLS"


class MqttPublisher:
    """Publisher to one broker. `run` belongs into a task of the daemon and ends when cancelled."""

    def __init__(self, broker: MqttBroker) -> None:
        self._broker = broker
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=QUEUE_MAX)
        self._wakeup = asyncio.Event()
        self._log = get_logger().bind(broker=f"{broker.host}:{broker.port}")
        self._is_stopping = False
        self._drops_logged = 0
        self.dropped = 0
        """Messages dropped since the start because the queue was full."""
        self.published = 0
        """Messages that the broker has confirmed."""

    def publish(self, notices: Sequence[Notice]) -> None:
        """Enqueue durable notices."""
        for notice in notices:
            event = {
                "number": notice.number,
                "at": notice.at,
                "phase": notice.phase,
                "text": notice.text,
            }
            if notice.job:
                self.publish_job(notice.job, {"job": notice.job, **event})
            else:
                self.publish_site(notice.site, {"site": notice.site, **event})

    def publish_job(self, job: str, event: Mapping[str, object]) -> None:
        """Enqueue the newest event of this job."""
        self._put(f"jobs/{_NOT_IN_TOPICS.sub('_', job)}", event)

    def publish_site(self, site: str, event: Mapping[str, object]) -> None:
        """Enqueue the newest event of this site."""
        self._put(f"sites/{_NOT_IN_TOPICS.sub('_', site)}", event)

    def send(self, topic: str, message: Mapping[str, object]) -> None:
        """Enqueue a message under a topic below the prefix."""
        self._put("/".join(_NOT_IN_TOPICS.sub("_", part) for part in topic.split("/")), message)

    async def run(self) -> None:
        """Connect, publish and reconnect until cancelled; publish "offline" only then.

        The inner task may miss its cancellation: `wait_for` of Python 3.11, with which aiomqtt
        waits for the broker, drops one that arrives together with the answer, and a TaskGroup one
        that arrives together with the loss of the connection. So a flag ends it, too.
        """
        async with asyncio.TaskGroup() as group:
            sessions = group.create_task(self._sessions())
            try:
                await asyncio.wait({sessions})
            finally:
                self._is_stopping = True

    async def _sessions(self) -> None:
        retry_s = RETRY_MIN_S
        while True:
            published = self.published
            try:
                await self._session()
            except (aiomqtt.MqttError, OSError) as error:
                if self.published > published:
                    retry_s = RETRY_MIN_S
                self._log.warning("bus.lost", reason=str(error), again_in_s=retry_s)
            self._end_if_stopping()
            await asyncio.sleep(retry_s)
            retry_s = min(retry_s * 2, RETRY_MAX_S)

    def _put(self, topic: str, event: Mapping[str, object]) -> None:
        if len(self._waiting) == self._waiting.maxlen:
            self.dropped += 1
            if self.dropped >= 2 * self._drops_logged:  # log 1, 2, 4, 8 ...
                self._drops_logged = self.dropped
                self._log.warning("bus.dropped", messages=self.dropped)
        body = json.dumps(event, ensure_ascii=False, separators=(",", ":"), default=str)
        self._waiting.append((f"{self._broker.prefix}/{topic}", body.encode()))
        self._wakeup.set()

    async def _session(self) -> None:
        """Run one connection until it breaks (MqttError) or the task is cancelled."""
        broker, presence = self._broker, f"{self._broker.prefix}/daemon"
        client = aiomqtt.Client(
            broker.host,
            broker.port,
            username=broker.user,
            password=broker.password,
            tls_context=ssl.create_default_context() if broker.is_encrypted else None,
            will=aiomqtt.Will(presence, b"offline", qos=1, retain=True),
            keepalive=KEEP_ALIVE_S,
            timeout=CALL_S,
        )
        async with client:
            try:
                await client.publish(presence, b"online", qos=1, retain=True)
                self._end_if_stopping()
                self._log.info("bus.connected", waiting=len(self._waiting))
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._drain(client))
                    group.create_task(_until_lost(client))
            except BaseExceptionGroup as group:
                # Not `except*`: Python versions differ in what it raises again.
                lost, others = group.split(aiomqtt.MqttError)
                if lost is None or others is not None:
                    raise
                raise aiomqtt.MqttError(str(first_error(lost))) from None
            finally:
                await _publish_offline(client, presence)

    async def _drain(self, client: aiomqtt.Client) -> None:
        """Send the queue in order; requeue an unconfirmed message unless the queue is full."""
        while True:
            while self._waiting:
                topic, body = self._waiting.popleft()
                is_confirmed = False
                try:
                    await client.publish(topic, body, qos=1, retain=True)
                    is_confirmed = True
                finally:
                    if not is_confirmed:
                        self._requeue(topic, body)
                self.published += 1
                self._end_if_stopping()
            self._wakeup.clear()
            await self._wakeup.wait()

    def _end_if_stopping(self) -> None:
        """Raise CancelledError once the publisher stops; see `run`."""
        if self._is_stopping:
            raise asyncio.CancelledError

    def _requeue(self, topic: str, body: bytes) -> None:
        if len(self._waiting) == self._waiting.maxlen:
            self.dropped += 1
        else:
            self._waiting.appendleft((topic, body))


async def _until_lost(client: aiomqtt.Client) -> None:
    """Raise MqttError when the connection ends: an idle publisher would not notice otherwise."""
    async for _ in client.messages:
        pass  # no subscriptions
    raise aiomqtt.MqttError("the broker closed the connection")


async def _publish_offline(client: aiomqtt.Client, presence: str) -> None:
    """Publish "offline": an orderly end does not trigger the last will. Best effort."""
    try:
        async with asyncio.timeout(GOODBYE_S):
            await client.publish(presence, b"offline", qos=1, retain=True, timeout=math.inf)
    except (aiomqtt.MqttError, TimeoutError):
        return
