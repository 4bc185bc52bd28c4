"""A user's own notifications: how it is told, and what could not be delivered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from koala.common.wire.v1 import koala_pb2 as pb
from koala.core.model.job_spec import Notify
from koala.daemon.auth.access_rules import Caller
from koala.daemon.auth.credential_store import CredentialStore
from koala.daemon.notifications.notifier import Notifier
from koala.daemon.notifications.receivers import signing_key
from koala.errors import RejectedError, SpecError
from koala.job_descriptions.job_fields import (
    ADDRESS_FORM,
    NOTIFIED,
    URL_FORM,
    is_address,
    is_url,
)
from koala.views.records.access import Notifications, WaitingNotification
from koala.views.records.base import Moment, moment_of

SHOWN_MAX = 20
BY_DEFAULT = ("end", "expiry")


@dataclass(frozen=True, kw_only=True)
class NotificationService:
    """Shows, changes and tests the notifications of the caller."""

    credentials: CredentialStore | None
    notifier: Notifier

    async def answer(self, request: pb.NotificationsRequest, caller: Caller) -> Notifications:
        """Answer a request. Raises SpecError, RejectedError."""
        if self.credentials is None:
            raise RejectedError("a daemon in plain text knows no users (expected notify in a job)")
        if request.change:
            wanted = _wanted(request)
            if wanted is not None:
                self.notifier.rules.check_wanted(wanted, caller.name)
            self.credentials.set_notify(caller.name, wanted)
        known = self.credentials.users[caller.name].notify
        if request.test:
            if known is None:
                raise RejectedError("no address is set (expected --mail or --webhook)")
            await self.notifier.test(caller.name, known)
        outbox = self.notifier.outbox
        waiting = await asyncio.to_thread(outbox.waiting, caller.name, SHOWN_MAX)
        return Notifications(
            mail="" if known is None else known.mail,
            webhook="" if known is None else known.webhook,
            on=() if known is None else known.on,
            key=signing_key(self.notifier.secret, caller.name).decode(),
            waiting=tuple(
                WaitingNotification(
                    channel=delivery.channel,
                    target=delivery.target,
                    since=Moment.of(delivery.since),
                    next_at=moment_of(delivery.next_at),
                    tries=delivery.tries,
                    trouble=delivery.trouble,
                )
                for delivery in waiting
            ),
        )


def _wanted(request: pb.NotificationsRequest) -> Notify | None:
    """Read what a user wants; None for nothing. Raises SpecError."""
    if request.mail and not is_address(request.mail):
        raise SpecError(f"mail = {request.mail[:80]!r} (expected {ADDRESS_FORM})")
    if request.webhook and not is_url(request.webhook):
        raise SpecError(f"webhook = {request.webhook[:80]!r} (expected {URL_FORM})")
    for event in request.on:
        if event not in NOTIFIED:
            raise SpecError(f"on = {event[:40]!r} (expected one of {', '.join(NOTIFIED)})")
    if not (request.mail or request.webhook):
        return None
    on = tuple(dict.fromkeys(request.on)) or BY_DEFAULT
    return Notify(mail=request.mail, webhook=request.webhook, on=on)
