"""Notifications: a real mail server, a real HTTP server, real programs."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import pwd
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from email import message_from_bytes
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
from aiosmtpd.smtp import SMTP

from koala.client import AsyncClient
from koala.common.identity.credentials import Credentials
from koala.core.model.job import Failed, Job, Phase
from koala.core.model.job_spec import Notify
from koala.core.model.values import JobId, UserName
from koala.daemon.config import MailServer
from koala.daemon.notifications import senders
from koala.daemon.notifications.outbox import GIVE_UP_S, Delivery, DeliveryStore
from koala.daemon.notifications.receivers import NotifyRules, events_of
from koala.daemon.notifications.senders import DeliveryError, run_program
from koala.errors import RejectedError, SpecError
from tests.common.files.stage import comes_true
from tests.common.identity.stage import secured
from tests.harness.builders import a_spec

J1 = JobId("j1")
ME = pwd.getpwuid(os.geteuid()).pw_name
RULES = NotifyRules(
    has_bus=True,
    account="ann",
    mail=MailServer(host="::1", port=25, sender="koala@example.org"),
    webhooks=("https://hooks.example.org/koala/",),
)


def wanted(*command: str, owner: str = "ann", phase: Phase | None = None, **more: Any) -> Job:
    notify = Notify(command=command, **more)
    spec = a_spec(1, owner=UserName(owner), notify=notify, name="x")
    phase = phase or Failed(at=1.0, reason="it failed", status=3)
    return Job(id=J1, spec=spec, submitted_at=0.0, phase=phase, claim_fraction=0.0)


# --- what may be sent -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "job", "text"),
    [
        (RULES, wanted("/bin/true", owner="bob"), "runs programs for the user ann"),
        (replace(RULES, account=""), wanted("/bin/true"), "for nobody here"),
        (replace(RULES, has_bus=False), wanted(topic="t"), "has no MQTT broker"),
        (replace(RULES, mail=None), wanted(mail="a@b.c"), r"has no mail server \(\[notify\] smtp"),
        (RULES, wanted(webhook="https://hooks.example.org/"), "a URL that begins with one of http"),
        (RULES, wanted(webhook="http://169.254.169.254/"), "a URL that begins with one of https"),
        (replace(RULES, webhooks=()), wanted(webhook="http://x/"), "expected no webhook"),
    ],
)
def test_what_a_daemon_cannot_or_must_not_send_is_refused(
    rules: NotifyRules, job: Job, text: str
) -> None:
    good = wanted("/bin/true", topic="t", mail="a@b.c", webhook=f"{RULES.webhooks[0]}ann")
    RULES.check(good.spec)
    with pytest.raises(RejectedError, match=text):
        rules.check(job.spec)


def test_a_daemon_on_plain_text_runs_no_programs() -> None:
    """Anybody on the machine could call it by any name."""
    assert NotifyRules.of_daemon(has_bus=False, is_plain=True).account == ""
    expected = ME if os.geteuid() else ""  # nor does one of root
    assert NotifyRules.of_daemon(has_bus=False, is_plain=False).account == expected


def test_a_notice_is_an_event_or_none() -> None:
    job = wanted("/bin/true")
    assert list(events_of(job, "Failed", "")) == ["end", "failure"]
    assert list(events_of(job, "Cancelled", "")) == ["end"]
    assert list(events_of(job, "Running", "")) == ["start"]
    assert list(events_of(job, "Placing", "submitted")) == []
    job.attempts = 1
    assert list(events_of(job, "Placing", "back in its placement queue: a site's fault")) == [
        "setback"
    ]


# --- programs -------------------------------------------------------------------------------------


async def test_a_program_learns_of_the_event_in_its_environment(tmp_path: Path) -> None:
    told = tmp_path / "told"
    message = {"job": "j1", "event": "end", "text": "by $(ann)", "status": None}
    assert await run_program(("/bin/sh", "-c", f"env | grep ^KOALA_ > {told}"), message) == 0
    lines = sorted(told.read_text(encoding="utf-8").splitlines())
    assert lines == [
        "KOALA_EVENT=end", "KOALA_JOB=j1", "KOALA_NAME=", "KOALA_PHASE=", "KOALA_STATUS=",
        "KOALA_TEXT=by $(ann)",
    ]  # fmt: skip


async def test_a_program_that_does_not_end_is_killed_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(senders, "LIMIT_S", 0.2)
    pid = tmp_path / "pid"
    with pytest.raises(DeliveryError, match="killed after"):
        await run_program(("/bin/sh", "-c", f"sleep 1000 & echo $! > {pid}; wait"), {})
    with suppress(psutil.NoSuchProcess):
        left = psutil.Process(int(pid.read_text()))
        await comes_true(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE)
    with pytest.raises(DeliveryError, match="No such file"):
        await run_program(("/no/such/program",), {})


# --- the outbox -----------------------------------------------------------------------------------


@dataclass
class Clock:
    at: float = 1000.0

    def __call__(self) -> float:
        return self.at


def a_delivery(key: str, user: str = "ann") -> Delivery:
    return Delivery(key=key, user=user, channel="mail", target="a@b.c", message="{}")


def test_what_is_not_delivered_is_kept_over_restarts_and_tried_later_and_later(
    tmp_path: Path,
) -> None:
    clock = Clock()
    outbox = DeliveryStore(tmp_path, per_hour=100, now=clock)
    assert outbox.seen is None
    outbox.add([a_delivery("n/1"), a_delivery("n/1"), a_delivery("n/2")], 7)
    outbox.close()
    outbox = DeliveryStore(tmp_path, per_hour=100, now=clock)
    assert outbox.seen == 7
    one, two = outbox.due(10)
    outbox.done(two)
    outbox.add([two])  # the same notice, after a crash
    pauses = []
    while (due := outbox.next_at()) is not None:
        pauses.append(due - clock.at)
        clock.at = due
        (one,) = outbox.due(10)
        outbox.failed(one, "no route", is_final=False)
    assert pauses[:4] == [0.0, 10.0, 20.0, 40.0]
    assert max(pauses) == 3600.0
    assert clock.at - 1000.0 <= GIVE_UP_S
    (told,) = outbox.waiting("ann", 10)
    assert (told.next_at, told.trouble, told.tries) == (None, "no route", len(pauses))


def test_a_user_has_so_many_notifications_in_an_hour(tmp_path: Path) -> None:
    clock = Clock()
    outbox = DeliveryStore(tmp_path, per_hour=2, now=clock)
    over = outbox.add([*(a_delivery(f"n/{n}") for n in range(4)), a_delivery("n/9", "bob")])
    assert [one.key for one in over] == ["n/2", "n/3"]
    for one in outbox.due(10):
        outbox.done(one)
    clock.at += 1800
    assert len(outbox.add([a_delivery("n/5")])) == 1
    clock.at += 1801
    assert outbox.add([a_delivery("n/6")]) == []


# --- real servers ---------------------------------------------------------------------------------


@dataclass
class Mailbox:
    """Handler of a mail server, which refuses while it is closed."""

    mails: list[Any] = field(default_factory=list)
    is_closed: bool = False
    refused: int = 0

    def has(self, count: int) -> bool:
        return len(self.mails) == count

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's
        if self.is_closed:
            self.refused += 1
            return "451 try again later"
        self.mails.append(message_from_bytes(envelope.content))
        return "250 taken"


@asynccontextmanager
async def mail_server(mailbox: Mailbox) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(mailbox), "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@contextmanager
def web_server() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    posts: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.append((dict(self.headers), body))
            self.send_response(302 if "redirect" in self.path else 204)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", posts
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@asynccontextmanager
async def told_by(
    folder: Path, mail_port: int, url: str, ann: Credentials | None = None
) -> AsyncIterator[tuple[Credentials, AsyncClient]]:
    """A daemon with these servers, and a user's client; the user is new unless it is given."""
    table = (
        f'[notify]\nsmtp = "127.0.0.1:{mail_port}"\nsender = "koala@example.org"\n'
        f'security = "none"\nwebhooks = ["{url}"]\n'
    )
    async with secured(folder, more=table) as stage:
        known = ann or await stage.user("ann", expires_s=3 * 86_400.0)
        async with stage.client(known) as client:
            yield known, client


@pytest.mark.live
async def test_a_user_is_told_by_mail_and_webhook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("koala.daemon.notifications.outbox.FIRST_S", 0.05)
    mailbox = Mailbox(is_closed=True)
    async with mail_server(mailbox) as port:
        with web_server() as (url, posts):
            async with told_by(tmp_path, port, url) as (_, client):
                await client.notifications(mail="ann@example.org", webhook=f"{url}k", on=["end"])
                job = await client.submit("&(executable=/bin/true)(count=4)(name=train)")
                await job.cancel()
                await comes_true(lambda: bool(posts))
                headers, body = posts[0]
                message = json.loads(body)
                assert (message["job"], message["phase"]) == (job.job, "Cancelled")
                at, signature = headers["Koala-Signature"].split(",")
                shown = await client.notifications()
                signed = hmac.new(shown.key.encode(), at[2:].encode() + b"." + body, hashlib.sha256)
                assert signature == f"v1={signed.hexdigest()}"

                await comes_true(lambda: mailbox.refused > 1)
                (waiting,) = (await client.notifications()).waiting
                assert (waiting.channel, waiting.trouble) == ("mail", "451 try again later")
            mailbox.is_closed = False
            async with told_by(tmp_path, port, url):  # the daemon starts again
                await comes_true(lambda: bool(mailbox.mails))
            (mail,) = mailbox.mails
            assert mail["Subject"] == f"koala: {job.job} train: Cancelled"
            assert len(posts) == 1


@pytest.mark.live
async def test_the_end_of_credentials_is_told_once(tmp_path: Path) -> None:
    mailbox = Mailbox()
    async with mail_server(mailbox) as port:
        with web_server() as (url, posts):
            async with told_by(tmp_path, port, url) as (ann, client):
                await client.notifications(mail="ann@example.org", test=True)
                await comes_true(lambda: len(mailbox.mails) == 1)
                assert mailbox.mails[0]["Subject"] == "koala: ann: test"
            for count in (3, 4):  # the warning comes once, a test each time
                async with told_by(tmp_path, port, url, ann) as (_, client):
                    await client.notifications(test=True)
                    await comes_true(partial(mailbox.has, count))
            said = [mail.get_payload() for mail in mailbox.mails]
            assert sum("expire in 3.0 days" in text for text in said) == 1
            assert posts == []


@pytest.mark.live
async def test_a_job_has_receivers_of_its_own_and_redirects_are_not_followed(
    tmp_path: Path,
) -> None:
    async with mail_server(Mailbox()) as port:
        with web_server() as (url, posts):
            async with told_by(tmp_path, port, url) as (_, client):
                job = await client.submit(
                    "&(executable=/bin/true)(count=4)"
                    f'(notify=(webhook "{url}redirect")(on end failure))'
                )
                await job.cancel()
                await comes_true(lambda: bool(posts))
                with pytest.raises(RejectedError, match="expected a URL that begins with"):
                    await client.notifications(webhook="http://127.0.0.1:1/")
                with pytest.raises(SpecError, match="expected an address such as ann"):
                    await client.notifications(mail="ann")
                with pytest.raises(SpecError, match="expected one of start, end, failure"):
                    await client.notifications(mail="a@b.c", on=["never"])
                assert (await client.notifications()).mail == ""
