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
from dataclasses import dataclass, replace
from math import ceil

from koala_agent.environments import COMMANDS_KEEP, LOCALE
from koala_agent.transport.interface import Answer, Command

SSH_FAILED = 255
"""Exit status of ssh when the connection failed, and not the command."""
NOT_RUN = (126, 127)
"""Exit statuses of `timeout` for a command that cannot be run."""
KILL_AFTER_S = 2
NOT_FOUND = re.compile(r"\S*(timeout|sh):[ 0-9]")
GONE = ("Control socket connect(", "kex_exchange_identification")
"""Words of ssh that finds no shared connection."""
HOST_MARGIN_S = 2
"""The host's limit is longer by this time, so that our own limit ends a slow command first."""

_PLAIN = re.compile(rb"[A-Za-z0-9_./:=,@+ -]")
_DECODE = 'eval "$(printf %b "$0")"'


MARK = "koala-begins"
"""Line before the output of each command, and before its messages: start-up files of shells write
text, too."""
_SAY = f"echo {MARK}; echo {MARK} >&2"
# Before PATH becomes that of the batch system, which may have nothing else.
_FIND = "t=$(command -v timeout) || exec timeout"
_LOGIN = """\
exec 3<&0 4>&1 5>&2 </dev/null >/dev/null 2>&1
case "${SHELL:=/bin/sh}" in */bash|*/zsh|*/ksh|*/dash|*/sh) s=$SHELL ;; *) s=/bin/sh ;; esac"""
"""The input is the command's alone, and no output comes from start-up files."""
_LEAVE_OUT = """\
for n in $(PATH=$PATH:/usr/bin:/bin; env | sed -n "s/^\\([A-Za-z_][A-Za-z_0-9]*\\)=.*/\\1/p")
do case $n in %s) unset "$n" ;; esac; done"""


def remote_line(
    command: Command, *, environment: Mapping[str, str], limit_s: float, is_login: bool = True
) -> str:
    """Return the line for the login shell that runs this command for at most about `limit_s`. One
    that hands its environment on has that of a login, unless start-up files allow none. Raises
    ValueError for a NUL byte."""
    limit = f'"$t" -k {KILL_AFTER_S} {ceil(limit_s) + HOST_MARGIN_S}'
    argv = shlex.join(command.argv)
    if not command.hands_on:
        given = {**LOCALE, **environment}
        kept = " ".join(f'${{{name}+{name}="${name}"}}' for name in COMMANDS_KEEP)
        words = shlex.join(f"{name}={value}" for name, value in given.items())
        return encoded("\n".join([_SAY, _FIND, f"exec env -i {kept} {words} {limit} {argv}"]))
    names = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    left_out = [_LEAVE_OUT % "|".join(command.without)] if command.without else []
    if not is_login:
        return encoded("\n".join([_SAY, _FIND, *left_out, *names, f"exec {limit} {argv}"]))
    back = "exec <&3 >&4 2>&5 3<&- 4>&- 5>&-"
    has_command = (
        f"command -v {shlex.quote(command.argv[0])} >/dev/null || PATH=$PATH:/usr/bin:/bin"
    )
    inner = "\n".join([back, _SAY, *left_out, *names, has_command, f"exec {argv}"])
    return encoded("\n".join([_FIND, _LOGIN, f'exec {limit} "$s" -l -c {shlex.quote(inner)}']))


def unmarked(answer: Answer) -> Answer | None:
    """Return the answer without what was written before the command began; None when it did not."""
    out, err = (text.partition(f"{MARK}\n") for text in (answer.out, answer.err))
    if not out[1]:
        return None
    return replace(answer, out=out[2], err=err[2] if err[1] else answer.err)


def text_before(answer: Answer) -> str:
    """Return what start-up files wrote to the output before the command, in a line."""
    return " ".join(answer.out.partition(f"{MARK}\n")[0].split())


def unheard(host: str, answer: Answer) -> str:
    """Explain an answer without the mark."""
    wrote = " ".join((answer.out + answer.err).replace(MARK, "").split())
    more = f"; it wrote {wrote[:120]!r}" if wrote else ""
    return (
        f"the login shell at {host} runs no command: its start-up files end it or start another"
        f" program, or the server has a ForceCommand{more}"
    )


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
