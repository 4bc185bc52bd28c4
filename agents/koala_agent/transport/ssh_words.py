"""Command lines and messages of the OpenSSH client.

The login shell of the account may be any (sh, csh, fish), so the line it gets is one that all read
alike: /bin/sh with two quoted words. The second one is the real command with every unusual byte as
an octal number. At the host, `timeout` ends a command that hangs, so that none piles up there when
the connection is lost.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from koala_agent.transport.interface import Answer, Command

SSH_FAILED = 255
"""Exit status of ssh when the connection failed, and not the command."""
NOT_RUN = (126, 127)
"""Exit statuses of `timeout` for a command that cannot be run."""
KILL_AFTER_S = 2
NOT_FOUND = re.compile(r"\S*(timeout|sh): ")
GONE = ("Control socket connect(", "kex_exchange_identification")
"""Words of ssh that finds no shared connection."""
HOST_MARGIN_S = 2
"""The host's limit is longer by this time, so that our own limit ends a slow command first."""

_PLAIN = re.compile(rb"[A-Za-z0-9_./:=,@+ -]")
_DECODE = 'eval "$(printf %b "$0")"'


def remote_line(command: Command, *, environment: Mapping[str, str], limit_s: float) -> str:
    """Return the line for the login shell that runs this command for at most about `limit_s`.
    Raises ValueError for a NUL byte."""
    names = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    seconds = ceil(limit_s) + HOST_MARGIN_S
    words = ("-k", str(KILL_AFTER_S), str(seconds), *command.argv)
    # Before PATH becomes that of the batch system, which may have nothing else.
    found = "t=$(command -v timeout) || exec timeout"
    return encoded("; ".join([found, *names, f'exec "$t" {shlex.join(words)}']))


def encoded(script: str) -> str:
    """Return a line that any login shell passes on to /bin/sh, byte for byte. Raises ValueError."""
    content = script.encode(errors="surrogateescape")
    if b"\0" in content:
        raise ValueError("a NUL byte, which no command line can carry")
    plain = (bytes([c]) for c in content)
    text = "".join(c.decode() if _PLAIN.match(c) else f"\\0{c[0]:03o}" for c in plain)
    return f"exec /bin/sh -c '{_DECODE}' '{text}'"


def shared_connection(options: Sequence[str], control: str) -> tuple[str, ...]:
    """Return ssh with the options that use a shared connection and never open another one: a
    command that dialled by itself could ask for a second factor, or lock the account."""
    return (
        "ssh",
        *("-S", control, "-o", "ControlMaster=no", "-o", "ProxyCommand=false"),
        *("-o", "BatchMode=yes", "-o", "RemoteCommand=none", "-o", "LogLevel=ERROR", "-T"),
        *options,
    )


KEEPING = {
    "ControlPersist": "4h",
    "ConnectTimeout": "20",
    "ServerAliveInterval": "10",
    "ServerAliveCountMax": "3",
    "ClearAllForwardings": "yes",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "PermitLocalCommand": "no",
    "RemoteCommand": "none",
    "RequestTTY": "no",
}
"""Options of the shared connection. It is found dead after half a minute, outlives the agent so
that nobody has to log in again after an update, and ends when nothing used it for four hours."""


def opening(options: Sequence[str], control: str, host: str, *, asks: bool) -> tuple[str, ...]:
    """Return the command that opens the shared connection and leaves it in the background. With
    `asks` a person answers its questions; else each question is an error."""
    kept = [word for name, value in KEEPING.items() for word in ("-o", f"{name}={value}")]
    batch = () if asks else ("-o", "BatchMode=yes")
    return ("ssh", "-S", control, "-M", "-f", "-N", *batch, *kept, *options, "--", host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Reason of a failed connection. `needs_person`: trying again by itself does not help, and
    could lock the account."""

    text: str
    needs_person: bool


def failure(host: str, site: str, message: str) -> Failure:
    """Explain what ssh wrote when it could not connect."""
    login = f"ssh to {host} needs you: koala site login {site}"
    if "HOST IDENTIFICATION HAS CHANGED" in message:
        return Failure(
            text=f"the host key of {host} is another one than before: ask its administrator"
            " whether it was changed; until then nothing is sent there",
            needs_person=True,
        )
    if "Host key verification failed" in message:
        return Failure(text=f"{login} (the host key of {host} is not known yet)", needs_person=True)
    if "Permission denied" in message or "Too many authentication failures" in message:
        return Failure(text=f"{login} ({last_line(message)})", needs_person=True)
    reason = last_line(message) if message.strip() else "connection lost"
    return Failure(text=f"ssh to {host}: {reason}", needs_person=False)


def loss(host: str, site: str, message: str) -> Failure:
    """Explain what a command wrote that could not use the shared connection."""
    # ssh falls back to a connection of its own, which `shared_connection` makes end at once, at
    # times without a word: then the first message is all.
    is_gone = any(words in message for words in GONE)
    return failure(host, site, "" if is_gone else message)


def last_line(message: str) -> str:
    """Return the last line of a message that has content."""
    return Answer(status=SSH_FAILED, out="", err=message).complaint()


def not_run(host: str, command: Command, answer: Answer) -> str:
    """Return why the host could not run a command at all; empty when it ran."""
    if answer.status in NOT_RUN and NOT_FOUND.match(answer.err):
        return f"{command.argv[0]} at {host} cannot be run: {answer.complaint()}"
    return ""
