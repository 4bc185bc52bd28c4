"""Notifications of jobs and credentials: from durable notices to receivers.

A notice goes to the outbox of its user, and from there by mail, webhook or program. Mail and
webhooks arrive at least once, and a repeated one is marked by its key; a program runs at most once.
The topics of MQTT are sent at once, and not kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from koala.common.runtime.structured_log import get_logger
from koala.core.model.job import Failed, Job
from koala.core.model.job_spec import Notify
from koala.core.model.values import JobId
from koala.daemon.auth.credential_store import UserRecord
from koala.daemon.loop.event_feed import CutError, EventFeed
from koala.daemon.notifications.outbox import Delivery, DeliveryStore
from koala.daemon.notifications.receivers import (
    ENDS,
    Addressee,
    NotifyRules,
    events_of,
    signing_key,
)
from koala.daemon.notifications.senders import DeliveryError, run_program, send_mail, send_webhook
from koala.daemon.storage.records import Notice
from koala.errors import DiskError, JournalError, RejectedError

AT_ONCE = 4
EXPIRY_S = 7 * 86_400.0
"""Time before the end of credentials at which their user is told."""
LOOK_S = 3600.0
AGAIN_S = 10.0
SEEN_STEP = 1000
"""Notices without a notification after which it is noted that they were looked at."""

log = get_logger()


@dataclass(frozen=True, kw_only=True)
class Notifier:
    """Sends what users and jobs ask for; `run` belongs into a task of the daemon.

    `find_job` finds a job in memory or the archive, `users` are those with credentials, and `send`
    publishes under a topic (None without a bus).
    """

    feed: EventFeed
    outbox: DeliveryStore
    rules: NotifyRules
    secret: bytes
    find_job: Callable[[JobId], Awaitable[Job | None]]
    users: Callable[[], Mapping[str, UserRecord]]
    now: Callable[[], float]
    send: Callable[[str, Mapping[str, object]], None] | None = None
    _added: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Take notices and deliver, until cancelled. A full disk is waited for."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take())
            group.create_task(self._warn())
            group.create_task(self._deliver())

    async def test(self, user: str, wanted: Notify) -> None:
        """Add a notification to each receiver of a user, as a test."""
        message = {
            "event": "test", "user": user, "job": "", "name": "", "phase": "",
            "text": "a test of koala notify", "status": None, "at": self.now(),
        }  # fmt: skip
        await self._add(_deliveries(f"test/{self.now()}", user, wanted, message))

    async def _take(self) -> None:
        """Put the notifications of all notices into the outbox, also of those before a restart."""
        seen = await asyncio.to_thread(lambda: self.outbox.seen)
        after = self.feed.last if seen is None else min(seen, self.feed.last)
        while True:
            after = max(after, self.feed.start(0))  # what is not kept any more cannot be told
            try:
                async with aclosing(self.feed.since(after, is_watcher=False)) as lots:
                    async for notices in lots:
                        after = notices[-1].number
                        deliveries = [
                            delivery for notice in notices for delivery in await self._of(notice)
                        ]
                        if deliveries or seen is None or after >= seen + SEEN_STEP:
                            await self._add(deliveries, after)
                            seen = after
            except CutError as cut:  # too slow, or the daemon ends
                log.info("notify.cut", reason=str(cut))
                await asyncio.sleep(AGAIN_S)

    async def _of(self, notice: Notice) -> list[Delivery]:
        """Return the deliveries of a notice."""
        if not notice.job or not notice.phase:
            return []
        job = await self.find_job(JobId(notice.job))
        if job is None:
            return []
        own, user = job.spec.notify, self.users().get(job.spec.owner)
        events = set(events_of(job, notice.phase, notice.text))
        if own is not None and own.topic and self.send is not None and notice.phase in ENDS:
            self.send(f"notify/{job.spec.owner}/{own.topic}", _message(job, notice, "end"))
        wanted = None if user is None else user.notify
        if own is not None and _receivers(own):
            wanted = own
        named = set() if wanted is None else events & set(wanted.on or ("end",))
        if wanted is None or not named:
            return []
        event = "failure" if "failure" in named else min(named)
        message = _message(job, notice, event)
        return _deliveries(f"notice/{notice.number}", job.spec.owner, wanted, message)

    async def _warn(self) -> None:
        """Tell users in time that their credentials expire."""
        while True:
            now = self.now()
            deliveries: list[Delivery] = []
            for user in self.users().values():
                at, wanted = user.expires_at, user.notify
                if wanted is None or "expiry" not in wanted.on:
                    continue
                if at is None or not now < at < now + EXPIRY_S:
                    continue
                text = f"the credentials of {user.name} expire in {(at - now) / 86_400:.1f} days"
                message = {
                    "event": "expiry", "user": user.name, "job": "", "name": "", "phase": "",
                    "text": text, "status": None, "at": now,
                }  # fmt: skip
                deliveries += _deliveries(f"expiry/{user.name}/{at}", user.name, wanted, message)
            await self._add(deliveries)
            await asyncio.sleep(LOOK_S)

    async def _add(self, deliveries: Iterable[Delivery], seen: int | None = None) -> None:
        deliveries = list(deliveries)
        while deliveries or seen is not None:
            try:
                over = await asyncio.to_thread(self.outbox.add, deliveries, seen)
            except (DiskError, JournalError) as error:
                log.warning("notify.not_kept", reason=str(error))
                await asyncio.sleep(AGAIN_S)
                continue
            for delivery in over:
                log.warning("notify.over_limit", user=delivery.user, key=delivery.key)
            self._added.set()
            return

    async def _deliver(self) -> None:
        """Deliver what is due, a few at a time."""
        while True:
            self._added.clear()
            try:
                due = await asyncio.to_thread(self.outbox.due, AT_ONCE)
                await asyncio.gather(*map(self._try, due))
                next_at = await asyncio.to_thread(self.outbox.next_at)
            except (DiskError, JournalError) as error:
                log.warning("notify.outbox_fails", reason=str(error))
                next_at = self.now() + AGAIN_S
            left_s = None if next_at is None else max(0.0, next_at - self.now())
            try:
                async with asyncio.timeout(left_s):
                    await self._added.wait()
            except TimeoutError:
                continue

    async def _try(self, delivery: Delivery) -> None:
        """Try a delivery once."""
        if delivery.channel == "command":  # at most once: it is removed before it runs
            await asyncio.to_thread(self.outbox.done, delivery)
        try:
            await self._send(delivery)
        except DeliveryError as error:
            await self._put_off(delivery, error)
            return
        if delivery.channel != "command":
            await asyncio.to_thread(self.outbox.done, delivery)
        log.info("notify.delivered", user=delivery.user, channel=delivery.channel)

    async def _put_off(self, delivery: Delivery, error: DeliveryError) -> None:
        """Try a delivery again later, or give it up; a program is not repeated."""
        event = "notify.given_up"
        if delivery.channel != "command":
            is_over = await asyncio.to_thread(
                self.outbox.failed, delivery, str(error), is_final=error.is_final
            )
            event = "notify.given_up" if is_over else "notify.put_off"
        log.warning(event, user=delivery.user, channel=delivery.channel, reason=str(error))

    async def _send(self, delivery: Delivery) -> None:
        message: dict[str, Any] = json.loads(delivery.message)
        wanted = _wanted_of(delivery.receiver)
        try:
            self.rules.check_wanted(wanted, delivery.user)  # the configuration may have changed
        except RejectedError as error:
            raise DeliveryError(str(error), is_final=True) from error
        match delivery.channel:
            case "mail":
                assert self.rules.mail is not None
                await asyncio.to_thread(
                    send_mail, self.rules.mail, delivery.target, message, delivery.key
                )
            case "webhook":
                key = signing_key(self.secret, delivery.user)
                await asyncio.to_thread(send_webhook, delivery.target, message, delivery.key, key)
            case "command":
                status = await run_program(wanted.command, message)
                log.info("notify.program_ended", command=wanted.command[0], status=status)


def _receivers(wanted: Notify) -> list[Addressee]:
    receivers = [Addressee("mail", wanted.mail)] if wanted.mail else []
    receivers += [Addressee("webhook", wanted.webhook)] if wanted.webhook else []
    return receivers + (
        [Addressee("command", json.dumps(wanted.command))] if wanted.command else []
    )


def _wanted_of(receiver: Addressee) -> Notify:
    """Return what a job with this receiver alone would ask for."""
    if receiver.channel == "command":
        return Notify(command=tuple(json.loads(receiver.target)))
    if receiver.channel == "mail":
        return Notify(mail=receiver.target)
    return Notify(webhook=receiver.target)


def _deliveries(
    key: str, user: str, wanted: Notify, message: Mapping[str, object]
) -> list[Delivery]:
    text = json.dumps(message)
    return [
        Delivery(key=f"{key}/{channel}", user=user, channel=channel, target=target, message=text)
        for channel, target in _receivers(wanted)
    ]


def _message(job: Job, notice: Notice, event: str) -> dict[str, object]:
    return {
        "event": event,
        "user": job.spec.owner,
        "job": job.id,
        "name": job.spec.name,
        "phase": notice.phase,
        "text": notice.text,
        "status": job.phase.status if isinstance(job.phase, Failed) else None,
        "at": notice.at,
    }
