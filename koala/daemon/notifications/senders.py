"""Send one notification: by SMTP, by HTTP, or as a program.

A sender returns when the receiver has it, and raises DeliveryError otherwise. Mail and webhooks
block, and run in threads; each has a time limit.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import signal
import smtplib
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.message import EmailMessage
from http import HTTPStatus
from typing import Any

from koala.daemon.config import MailServer

LIMIT_S = 60.0
"""Time limit of a program; then its process group is killed."""
NETWORK_S = 20.0
PASSED_ON = ("HOME", "PATH", "LANG", "USER", "LOGNAME", "TMPDIR")
SIGNATURE = "Koala-Signature"
DELIVERY = "Koala-Delivery"


class DeliveryError(Exception):
    """The receiver did not take it; `is_final`: nor will it."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        self.is_final = is_final
        super().__init__(reason)


def send_mail(server: MailServer, target: str, message: Mapping[str, Any], key: str) -> None:
    """Send a mail. A repeated one has the same Message-ID. Raises DeliveryError."""
    mail = EmailMessage()
    named = " ".join(str(message[part]) for part in ("job", "name") if message.get(part))
    mail["Subject"] = f"koala: {named or message['user']}: {message['phase'] or message['event']}"
    mail["From"], mail["To"] = server.sender, target
    domain = server.sender.rpartition("@")[2] or "localhost"
    mail["Message-ID"] = f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}@{domain}>"
    mail.set_content("".join(f"{name}: {value}\n" for name, value in message.items() if value))
    context = ssl.create_default_context()
    try:
        if server.security == "tls":
            client: smtplib.SMTP = smtplib.SMTP_SSL(
                server.host, server.port, timeout=NETWORK_S, context=context
            )
        else:
            client = smtplib.SMTP(server.host, server.port, timeout=NETWORK_S)
        with client:
            if server.security == "starttls":
                client.starttls(context=context)
            if server.user:
                client.login(server.user, server.password)
            client.send_message(mail)
    except smtplib.SMTPRecipientsRefused as error:
        code, reply = next(iter(error.recipients.values()))
        raise DeliveryError(f"{code} {_text(reply)}", is_final=code >= 500) from error
    except smtplib.SMTPResponseException as error:
        raise DeliveryError(f"{error.smtp_code} {_text(error.smtp_error)}") from error
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise DeliveryError(f"{server.host}:{server.port}: {error}") from error


def send_webhook(target: str, message: Mapping[str, Any], key: str, secret: bytes) -> None:
    """Post a message as JSON, signed: the header `Koala-Signature` has `t=SECONDS,v1=HEX`, an HMAC
    with SHA-256 over `SECONDS.BODY`. `Koala-Delivery` is the same in each try. Redirects are not
    followed. Raises DeliveryError.
    """
    body = json.dumps(message).encode()
    at = str(int(message["at"])).encode()
    signed = hmac.new(secret, at + b"." + body, hashlib.sha256).hexdigest()
    request = urllib.request.Request(
        target,
        data=body,
        method="POST",
        headers={
            "Content-Type": "application/json",
            "User-Agent": "koala",
            DELIVERY: key,
            SIGNATURE: f"t={at.decode()},v1={signed}",
        },
    )
    try:
        with _opener.open(request, timeout=NETWORK_S) as answer:
            answer.read(1024)
    except urllib.error.HTTPError as error:
        is_final = error.code in (HTTPStatus.GONE, HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
        raise DeliveryError(f"HTTP status {error.code}", is_final=is_final) from error
    except (OSError, ValueError) as error:
        raise DeliveryError(str(getattr(error, "reason", error))) from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - urllib's
        """Refuse: a redirect could lead past the list of the configuration."""
        return


_opener = urllib.request.build_opener(_NoRedirects)


async def run_program(command: Sequence[str], message: Mapping[str, Any]) -> int:
    """Run a program with the message in its environment, and return its status.

    Raises DeliveryError.
    """
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**kept, **_variables(message)},
            cwd=kept.get("HOME", "/"),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise DeliveryError(str(error), is_final=True) from error
    try:
        async with asyncio.timeout(LIMIT_S):
            return await process.wait()
    except TimeoutError as error:
        raise DeliveryError(f"killed after {LIMIT_S:g} s", is_final=True) from error
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _variables(message: Mapping[str, Any]) -> dict[str, str]:
    names = ("job", "name", "event", "phase", "text", "status")
    values = {f"KOALA_{name.upper()}": message.get(name) for name in names}
    return {
        name: "" if value is None else str(value).replace("\0", "")
        for name, value in values.items()
    }


def _text(reply: bytes | str) -> str:
    return reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
