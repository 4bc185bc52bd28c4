"""Receivers of notifications: what this daemon can and may send, and who wants what.

- A program runs in the daemon's account. So it is allowed only to the user whose account that is,
  and who is authenticated; never to others, on plain text, or where the daemon is root.
- Mail needs a server (`[notify] smtp`). A webhook must begin like one of `[notify] webhooks`: else
  users could make the daemon call addresses that only it reaches.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from koala.core.model.job import Job
from koala.core.model.job_spec import JobSpec, Notify
from koala.daemon.config import MailServer
from koala.errors import RejectedError

ENDS = ("Finished", "Failed", "Cancelled")
Channel: TypeAlias = Literal["mail", "webhook", "command"]


class Addressee(NamedTuple):
    """A way to somebody; the target is an address, a URL, or the words of a command as JSON."""

    channel: Channel
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyRules:
    """Notifications that this daemon can send; `account` may run programs, empty: nobody."""

    has_bus: bool
    account: str
    mail: MailServer | None = None
    webhooks: tuple[str, ...] = ()

    @classmethod
    def of_daemon(
        cls,
        *,
        has_bus: bool,
        is_plain: bool,
        mail: MailServer | None = None,
        webhooks: tuple[str, ...] = (),
    ) -> NotifyRules:
        """Rules of this process."""
        uid = os.geteuid()
        account = ""
        if uid and not is_plain:
            with suppress(KeyError):
                account = pwd.getpwuid(uid).pw_name
        return cls(has_bus=has_bus, account=account, mail=mail, webhooks=webhooks)

    def check(self, spec: JobSpec) -> None:
        """Check that a job's notifications can be sent. Raises RejectedError."""
        if spec.notify is not None:
            self.check_wanted(spec.notify, spec.owner)

    def check_wanted(self, wanted: Notify, user: str) -> None:
        """Check that what a user wants can be sent. Raises RejectedError."""
        if wanted.topic and not self.has_bus:
            raise RejectedError(
                f"notify: topic {wanted.topic!r}: this daemon has no MQTT broker ([bus] url)"
            )
        if wanted.mail and self.mail is None:
            raise RejectedError(
                f"notify: mail {wanted.mail}: this daemon has no mail server ([notify] smtp)"
            )
        if wanted.webhook and not wanted.webhook.startswith(self.webhooks or ("\0",)):
            known = ", ".join(self.webhooks)
            expected = f"a URL that begins with one of {known}" if known else "no webhook"
            raise RejectedError(
                f"notify: webhook {wanted.webhook} (expected {expected}: [notify] webhooks)"
            )
        if wanted.command and (not self.account or user != self.account):
            allowed = f"the user {self.account}" if self.account else "nobody here"
            raise RejectedError(
                f"notify: command {wanted.command[0]}: the daemon runs programs for {allowed}"
                " (expected a topic, or koala wait in a script of yours)"
            )


def signing_key(secret: bytes, user: str) -> bytes:
    """Return the key that signs a user's webhooks, from the daemon's secret."""
    return hmac.new(secret, b"notify/" + user.encode(), hashlib.sha256).hexdigest().encode()


def events_of(job: Job, phase: str, text: str) -> Iterator[str]:
    """Yield the events that a notice of a job is."""
    if phase in ENDS:
        yield "end"
        if phase == "Failed":
            yield "failure"
    elif phase == "Running":
        yield "start"
    elif phase == "Placing" and job.attempts and "back in its" in text:
        yield "setback"
