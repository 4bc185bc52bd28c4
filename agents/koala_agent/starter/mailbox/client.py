"""The mailbox client: a process beside a starter or its file sync that carries its messages."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import stat

from koala_agent.starter.compat import log
from koala_agent.starter.mailbox.layout import (
    DOWN,
    MESSAGE_MAX_BYTES,
    POLL_S,
    UNSEALED,
    UP,
    next_part,
    seal,
    session_of,
    unseal,
)
from koala_agent.starter.process_tree import die_with_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

ANSWERED_S, ANSWER_POLL_S = 0.5, 0.05
"""For so long after a message of its own it polls more often: an answer may come, or the Release
that follows the last component's `armed`, and a poll too late makes a start uneven."""
IDLE_S, IDLE_POLL_S = 30.0, 1.0
"""After so long without a message it looks less often."""
UNSENT_MAX_BYTES = 4 * 1024 * 1024
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def require_own(status: os.stat_result, what: str) -> None:
    """Raise PermissionError unless this file is our account's and nobody else may write it."""
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        words = f"owned by user id {status.st_uid} with mode {status.st_mode & 0o7777:04o}"
        raise PermissionError(errno.EPERM, f"{words} (expected our own, with mode 0700)", what)


class Mailbox:
    """Files of one session, as its starter sees them. All calls raise OSError."""

    def __init__(self, root: str, session: str) -> None:
        self._up = os.path.join(root, UP)
        self._down = os.path.join(root, DOWN, session)
        self._session = session

    def begin(self) -> None:
        """Make the session's folder."""
        for folder in (os.path.dirname(self._up), self._up, os.path.dirname(self._down)):
            require_own(os.lstat(folder), folder)
        os.mkdir(self._down, 0o700)

    def write(self, number: int, content: bytes) -> None:
        """Write a message for the agent; it is there whole, or not at all."""
        path = os.path.join(self._up, f"{self._session}.{number}")
        new = os.path.join(self._up, f".{self._session}.{number}")
        opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            try:
                while content:
                    content = content[os.write(opened, content) :]
            finally:
                os.close(opened)  # where NFS tells that the quota is full
            os.rename(new, path)
        except OSError:
            os.unlink(new)
            raise

    def numbers(self) -> list[int]:
        """Return the numbers of the agent's messages that are visible; FileNotFoundError when the
        session is over.
        """
        return sorted(int(name) for name in os.listdir(self._down) if name.isdecimal())

    def read(self, number: int) -> bytes:
        """Read a message. Raises FileNotFoundError for one that is not there any more, or not yet,
        and PermissionError for one that is not the agent's.
        """
        path = os.path.join(self._down, str(number))
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(opened, "rb") as file:
            status = os.fstat(opened)
            require_own(status, path)
            if not stat.S_ISREG(status.st_mode):
                raise PermissionError(errno.EPERM, "not a regular file", path)
            return file.read(MESSAGE_MAX_BYTES + 1)

    def remove(self, number: int) -> None:
        """Remove a message that was read."""
        try:
            os.unlink(os.path.join(self._down, str(number)))
        except FileNotFoundError:
            return  # removed already, and still listed

    def end(self) -> None:
        """Remove the session's folder, which ends the session at both ends."""
        try:
            for name in os.listdir(self._down):
                os.unlink(os.path.join(self._down, name))
            os.rmdir(self._down)
        except OSError as error:
            log(f"mailbox: {error}")  # the agent removes it later


class MailboxClient:
    """The starter's end of a session: turns bytes of the connection into messages, and back.

    `deliver` and `collect` raise OSError when the connection is lost. `warn` logs what goes wrong.
    """

    def __init__(
        self, mailbox: Mailbox, session: str, secret: str, warn: Callable[[str], None] = log
    ) -> None:
        self.is_over = False
        """True when the agent has ended the session."""
        self._mailbox = mailbox
        self._session = session
        self._secret = secret
        self._warn = warn
        self._unsent = b""
        self._next_up = self._next_down = 0
        self._is_sealed = False
        self._problem = ""

    def post(self, data: bytes) -> None:
        """Take bytes for the agent."""
        self._unsent += data

    def deliver(self) -> None:
        """Write what is waiting, in whole lines. With a full disk or quota it waits on."""
        while True:
            lines = next_part(self._unsent)
            if not lines:
                return
            try:
                content = seal(self._secret, UP, self._session, self._next_up, lines)
                self._mailbox.write(self._next_up, content)
            except OSError as error:
                if error.errno not in NO_ROOM or len(self._unsent) > UNSENT_MAX_BYTES:
                    raise
                self._log_once(str(error))
                return
            self._next_up += 1
            self._unsent = self._unsent[len(lines) :]

    def collect(self) -> bytes:
        """Return what the agent has said since the last call."""
        collected = b""
        for number in self._mailbox.numbers():
            if number < self._next_down:
                self._mailbox.remove(number)  # it was read, and is still visible
                continue
            if number > self._next_down or self.is_over:
                break  # one before it is not visible yet
            try:
                content = self._mailbox.read(number)
            except FileNotFoundError:
                break
            except PermissionError as error:
                self._log_once(str(error))
                break
            lines = self._unsealed(number, content)
            self._mailbox.remove(number)
            if lines is None:
                break
            self._next_down += 1
            self.is_over = not lines
            collected += lines
        return collected

    def _unsealed(self, number: int, content: bytes) -> bytes | None:
        """Return the lines of a message; None for a forged one.

        An agent that does not know the claim seals nothing, and proves nothing after that.
        """
        is_bare = content.startswith(UNSEALED.encode() + b"\n") and not self._is_sealed
        try:
            lines = unseal("" if is_bare else self._secret, DOWN, self._session, number, content)
        except ValueError as error:
            self._log_once(str(error))
            return None
        self._is_sealed = not is_bare
        return lines

    def _log_once(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            self._warn(f"mailbox: {problem}")


class MailboxConnector:
    """Opens connections to the agent through files; each is a socket to a client process."""

    def __init__(self, root: str, claim: str, secret: str) -> None:
        self.helpers: list[int] = []
        """Process ids of the postmen: ours, and not the program's."""
        self._root = os.path.join(os.path.expanduser("~"), root)
        self._claim = claim
        self._secret = secret
        self._former: socket.socket | None = None

    def open(self) -> socket.socket:
        """Start a client process; return the socket to it.

        Raises OSError, and BlockingIOError while the one before cannot end, because the file server
        hangs.
        """
        self._end_former()
        own, its = socket.socketpair()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _serve(self._root, self._claim, self._secret, its, parent)
        its.close()
        self.helpers = [pid]
        self._former = own.dup()
        return own

    def close(self, wait_s: float = 1.0) -> None:
        """End the session, and wait a little until its folder is removed."""
        former = self._former
        if former is None:
            return
        try:
            former.shutdown(socket.SHUT_WR)
            former.settimeout(wait_s)
            while former.recv(65536):
                pass
        except OSError:
            pass  # it ends on its own
        former.close()
        self._former = None

    def _end_former(self) -> None:
        """Wait for the end of the former client, without blocking. Raises BlockingIOError."""
        former = self._former
        if former is None:
            return
        try:
            former.settimeout(0)
            former.shutdown(socket.SHUT_WR)
            while former.recv(65536):
                pass
        except BlockingIOError:
            raise
        except OSError:
            pass  # it has ended
        former.close()
        self._former = None


def _serve(root: str, claim: str, secret: str, starter: socket.socket, parent: int) -> NoReturn:
    """Run a mailbox client. Never returns."""
    try:
        die_with_parent(parent)
        signal.set_wakeup_fd(-1)
        for name in ("SIGTERM", "SIGINT", "SIGXCPU", "SIGUSR1", "SIGUSR2"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)  # the end is still to be told
        os.setsid()
        if starter.fileno() != 3:
            os.dup2(starter.fileno(), 3)
        os.closerange(4, 4096)
        session = session_of(claim)
        mailbox = Mailbox(root, session)
        mailbox.begin()
        try:
            carried = socket.socket(socket.AF_UNIX, fileno=os.dup(3))
            carry(MailboxClient(mailbox, session, secret), carried)
        finally:
            mailbox.end()
    except Exception as error:  # noqa: BLE001 - a process of its own: this is its last word
        log(f"mailbox: {error}")
    finally:
        os._exit(0)


def carry(client: MailboxClient, carried: socket.socket) -> None:
    """Carry messages between this socket and the mailbox until either ends. Raises OSError."""
    from time import monotonic, sleep  # noqa: PLC0415 - simulated time has neither

    said_at = busy_at = look_at = monotonic()
    while not client.is_over:
        now = monotonic()
        ready = select.select([carried], [], [], max(0.0, look_at - now))[0]
        now = monotonic()
        if ready:
            data = carried.recv(65536)
            if not data:
                return  # the starter has hung up
            client.post(data)
            sleep(max(0.0, said_at + ANSWER_POLL_S - now))  # at most 20 messages a second
            said_at = busy_at = now = monotonic()
            look_at = min(look_at, now + ANSWER_POLL_S)
        client.deliver()
        if now >= look_at:
            found = client.collect()
            if found:
                try:
                    carried.sendall(found)
                except BrokenPipeError:
                    return
                busy_at = now
            pause_s = POLL_S if now - busy_at < IDLE_S else IDLE_POLL_S
            look_at = now + (ANSWER_POLL_S if now - said_at < ANSWERED_S else pause_s)
