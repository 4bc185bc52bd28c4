"""The agent's end of mailbox connections; `koala_agent.starter.mailbox` has the layout and rules.

Each session is a connection of the listener, as one of its port is: the same protocol object takes
its lines. The folder is reached through the site's transport, so that it may be on this machine or
at a host behind ssh. One look lists the messages of all sessions; each session is then read in the
order of its numbers.

No session outlives the agent: what an earlier life left is removed, and its starters begin again
when they see that. A session whose starter was killed says nothing more, and is removed after
SILENCE_S.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from koala.common.protocol.names import ClaimId, is_claim_id
from koala.common.runtime import clock
from koala.common.runtime.structured_log import get_logger
from koala.errors import LocalManagerError
from koala_agent.claims.settings import LeaseTimes
from koala_agent.starter.mailbox.layout import (
    DOWN,
    MESSAGE_MAX_BYTES,
    POLL_S,
    UP,
    next_part,
    seal,
    unseal,
)
from koala_agent.transport.interface import SiteAwayError, SiteFiles

SILENCE_S = 300.0
"""Longest time without a message of a starter, which pings every minute at least."""
TRIAL_S = 5.0
"""Silence of a starter after which we try whether anything can be written, and the pause between
two trials."""
TIDY_S = 60.0
"""Pause between two looks for what nobody owns any more; it is removed at the second one."""
TRIAL_FILE = ".trial"
LEASE_MIN_S = 5.0
"""Shortest lease that a mailbox connection can renew: eight pings of half a second each."""
AT_ONCE = 8
"""Sessions that are read or written at a time."""

log = get_logger()

Accept = Callable[[], asyncio.Protocol]
Secret = Callable[[ClaimId], str | None]


class Mailbox:
    """Mailbox of a site, in a `folder` of its files. Await `run` in a task."""

    def __init__(
        self, files: SiteFiles, folder: str, *, now: Callable[[], float] = clock.now
    ) -> None:
        self.folder = folder
        self.trouble = ""
        """Reason why no message reaches a starter; empty when they do."""
        self._files = files
        self.now = now
        self._owner = -1
        self._is_begun = False
        self._sessions: dict[str, MailboxSession] = {}
        self._strays: frozenset[str] = frozenset()
        self._tidied_at = self._tried_at = now()
        self._full = ""  # reason why nothing can be written; empty when something can
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self, accept: Accept, secret: Secret, changed: Callable[[], None]) -> None:
        """Carry messages until cancelled. `accept` returns the protocol of a new connection,
        `changed` is called when the trouble has changed."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                while True:
                    trouble = await self._try_turn(accept, secret)
                    if trouble != self.trouble:
                        self.trouble = trouble
                        if trouble:
                            log.warning("mailbox.failed", folder=self.folder, reason=trouble)
                        else:
                            log.info("mailbox.recovered", folder=self.folder)
                        changed()
                    await asyncio.sleep(POLL_S)
            finally:
                self._tasks = None

    async def _try_turn(self, accept: Accept, secret: Secret) -> str:
        """Take a turn; return why that was impossible, else an empty text."""
        try:
            if not self._is_begun:
                await self._begin()
            await self._turn(accept, secret)
            await self._try_to_write()
        except SiteAwayError:
            return ""  # the transport says so itself
        except (OSError, LocalManagerError) as error:
            if isinstance(error, FileNotFoundError):
                self._is_begun = False  # somebody has removed the folder
            return self.why(error)
        if self._full:
            return self._full
        return next((session.trouble for session in self._sessions.values() if session.trouble), "")

    async def _try_to_write(self) -> None:
        """Write a file where a starter has been silent: in a full folder its messages wait, and we
        may have none that would find that out."""
        now = self.now()
        is_silent = any(now > session.heard_at + TRIAL_S for session in self._sessions.values())
        if now < self._tried_at + TRIAL_S or not (is_silent or self._full):
            return
        self._tried_at = now
        path = f"{self.folder}/{TRIAL_FILE}"
        try:
            await self._files.put(path, b"\n", is_durable=False)
            await self._files.remove(path)
        except OSError as error:
            self._full = self.why(error)
        else:
            self._full = ""

    def why(self, error: OSError | LocalManagerError) -> str:
        """Return the trouble that this error is."""
        reason = error.strerror if isinstance(error, OSError) else ""
        return f"starter.mailbox {self.folder}: {reason or error}: starters cannot be reached"

    # The folder ----------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Make missing folders, check all, and remove what an earlier life left."""
        for session in tuple(self._sessions.values()):
            session.lose("its folder is gone")
        self._owner = await make_mailbox(self._files, self.folder)
        for name in await self._files.list(f"{self.folder}/{UP}"):
            await self._remove(name)
        for name in await self._files.list(f"{self.folder}/{DOWN}"):
            await self._remove_session(name)
        self._is_begun = True
        log.info("mailbox.opened", folder=self.folder)

    async def _remove(self, name: str) -> None:
        await self._files.remove(f"{self.folder}/{UP}/{name}")

    async def _remove_session(self, session: str) -> None:
        """Remove a session's folder. An error leaves the rest for the next look."""
        folder = f"{self.folder}/{DOWN}/{session}"
        with suppress(OSError, LocalManagerError):
            for name in await self._files.list(folder):
                await self._files.remove(f"{folder}/{name}")
            await self._files.remove_folder(folder)

    async def _turn(self, accept: Accept, secret: Secret) -> None:
        """Read what is new, write what waits, and tidy up."""
        numbers: dict[str, list[int]] = defaultdict(list)
        names = await self._files.list(f"{self.folder}/{UP}")
        for name in names:
            session, _, number = name.rpartition(".")
            if number.isdecimal() and claim_of(session) is not None:
                numbers[session].append(int(number))
        for session in numbers.keys() - self._sessions.keys():
            if 0 in numbers[session]:
                self._open(session, accept, secret)
        known = [self._sessions[name] for name in numbers if name in self._sessions]
        await _all(self._receive(session, sorted(numbers[session.name])) for session in known)
        for each in tuple(self._sessions.values()):
            each.flush_soon()
            if self.now() > each.heard_at + SILENCE_S:
                each.lose("silent")
        if self.now() > self._tidied_at + TIDY_S:
            self._tidied_at = self.now()
            await self._tidy(names)

    def _open(self, name: str, accept: Accept, secret: Secret) -> None:
        claim = claim_of(name)
        assert claim is not None, name
        session = MailboxSession(self, name, secret(claim) or "", accept())
        self._sessions[name] = session
        session.begin()

    async def _receive(self, session: MailboxSession, numbers: Iterable[int]) -> None:
        """Read the messages of a session that are due."""
        async with self._slots:
            for number in numbers:
                name = f"{session.name}.{number}"
                if number < session.next_up:
                    await self._remove(name)  # it was read, and is still visible
                    continue
                if number > session.next_up or not session.is_reading():
                    return
                content = await self._read(name)
                if content is None:
                    return
                session.heard_at = self.now()
                try:
                    lines = unseal(session.secret, UP, session.name, number, content)
                except ValueError as error:
                    log.warning("mailbox.refused", reason=str(error))
                    await self._remove(name)
                    return
                session.next_up += 1
                session.receive(lines)
                await self._remove(name)

    async def _read(self, name: str) -> bytes | None:
        """Read a message; None for one that is gone, or not our account's, which is removed."""
        path = f"{self.folder}/{UP}/{name}"
        status = await self._files.stat(path)
        if status is None:
            return None
        is_ours = status.owner == self._owner and status.is_file and not status.mode & 0o022
        if not is_ours or status.size_bytes > MESSAGE_MAX_BYTES:
            log.warning("mailbox.refused", reason=f"{name}: not a message of our account")
            await self._remove(name)
            return None
        try:
            return await self._files.get(path, MESSAGE_MAX_BYTES)
        except FileNotFoundError:
            return None

    async def _tidy(self, names: tuple[str, ...]) -> None:
        """Remove files and folders that nobody owned at the last look either."""
        files = {f"{UP}/{name}" for name in names if not self._is_known(name)}
        listed = await self._files.list(f"{self.folder}/{DOWN}")
        folders = {f"{DOWN}/{name}" for name in listed if name not in self._sessions}
        for path in (files | folders) & self._strays:
            where, _, name = path.partition("/")
            if where == UP:
                await self._remove(name)
            else:
                await self._remove_session(name)
        self._strays = frozenset(files | folders)

    def _is_known(self, name: str) -> bool:
        return name.strip(".").rpartition(".")[0] in self._sessions

    # Calls of sessions ---------------------------------------------------------------------------

    async def write(self, session: MailboxSession, number: int, lines: bytes) -> None:
        """Write a message for a starter. Raises OSError and LocalManagerError."""
        content = seal(session.secret, DOWN, session.name, number, lines)
        path = f"{self.folder}/{DOWN}/{session.name}/{number}"
        async with self._slots:
            await self._files.put(path, content, is_durable=False)

    def start(self, work: Any) -> None:  # noqa: ANN401 - a coroutine of any kind
        """Run a coroutine beside `run`; drop it when that is over."""
        if self._tasks is None:
            work.close()
        else:
            self._tasks.create_task(work)

    def forget(self, session: MailboxSession, *, is_removed: bool) -> None:
        """Forget a session. Its starter sees at once that its folder `is_removed`."""
        if self._sessions.pop(session.name, None) is not None and is_removed:
            self.start(self._remove_session(session.name))


class MailboxSession(asyncio.Transport):
    """Transport of a starter's connection over the mailbox."""

    def __init__(
        self, mailbox: Mailbox, name: str, secret: str, protocol: asyncio.Protocol
    ) -> None:
        super().__init__()
        self.name = name
        self.secret = secret
        self.trouble = ""
        """Reason why its starter gets no messages; empty when it does."""
        self.next_up = 0
        self.heard_at = mailbox.now()
        self._mailbox = mailbox
        self._protocol = protocol
        self._next_down = 0
        self._unsent = b""
        self._under_way = b""  # written again as it was after an error: it may have been read
        self._is_paused = False
        self._is_flushing = False
        self._is_closing = False
        self._is_lost = False

    def begin(self) -> None:
        """Hand the connection to its protocol."""
        self._protocol.connection_made(self)

    def receive(self, lines: bytes) -> None:
        """Hand on what the starter said; nothing is its goodbye."""
        if self._is_closing:
            return
        if lines:
            self._protocol.data_received(lines)
        else:
            self.lose("over")

    def lose(self, reason: str) -> None:
        """Lose the connection."""
        if not self._is_lost:
            self._is_lost = self._is_closing = True
            log.info("mailbox.session_ended", session=self.name, reason=reason)
            self._mailbox.forget(self, is_removed=True)
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    # asyncio.Transport ---------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Queue lines for the starter."""
        if not self._is_closing:
            self._unsent += bytes(data)
            self.flush_soon()

    def flush_soon(self) -> None:
        """Write what is queued, unless that is under way."""
        is_due = self._is_closing or self.get_write_buffer_size() > 0
        if is_due and not self._is_flushing and not self._is_lost:
            self._is_flushing = True
            self._mailbox.start(self._flush())

    async def _flush(self) -> None:
        """Write what is queued. What finds no room waits for the next look."""
        try:
            while self._next() and not self._is_lost:
                await self._mailbox.write(self, self._next_down, self._under_way)
                self._next_down += 1
                self._under_way = b""
            if self._is_closing and not self._is_lost:
                await self._mailbox.write(self, self._next_down, b"")
                self._end()
            self.trouble = ""
        except FileNotFoundError:
            self.lose("its starter has left")
        except SiteAwayError:
            self.trouble = ""  # the transport says so itself
        except (OSError, LocalManagerError) as error:
            self.trouble = self._mailbox.why(error)
        finally:
            self._is_flushing = False

    def _next(self) -> bytes:
        """Return the content of the message to write next; empty when nothing waits."""
        if not self._under_way:
            self._under_way = next_part(self._unsent)
            self._unsent = self._unsent[len(self._under_way) :]
        return self._under_way

    def _end(self) -> None:
        """End in order: the starter reads the rest, and removes the folder."""
        self._is_lost = True
        self._mailbox.forget(self, is_removed=False)
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def close(self) -> None:
        """End the session when all is written."""
        if not self._is_closing:
            self._is_closing = True
            self.flush_soon()

    def abort(self) -> None:
        """End the session at once."""
        self.lose("aborted")

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        """Leave further messages in the mailbox."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Read messages again."""
        self._is_paused = False

    def is_reading(self) -> bool:
        return not self._is_paused

    def get_write_buffer_size(self) -> int:
        return len(self._under_way) + len(self._unsent)

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - see asyncio
        return default


def claim_of(session: str) -> ClaimId | None:
    """Return the claim of a session's name; None for another name."""
    parts = session.rpartition(".")[0].rsplit("-", 3)
    name = "/".join(parts)
    return ClaimId(name) if len(parts) == 4 and is_claim_id(name) else None


def too_short(leases: LeaseTimes) -> str:
    """Return why a mailbox connection cannot renew these leases in time; empty when it can."""
    shortest_s = min(leases.hold_lease_s, leases.run_lease_s)
    if shortest_s >= LEASE_MIN_S:
        return ""
    return (
        f"leases of {shortest_s:g} s are too short for starter.line = 'files' (expected"
        f" {LEASE_MIN_S:g} s or more: hold_lease_s and run_lease_s of the daemon)"
    )


async def make_mailbox(files: SiteFiles, folder: str) -> int:
    """Make the folders of a mailbox, or check those that are there; return the user id of our
    account at the site. Raises OSError and LocalManagerError."""
    above = folder.rpartition("/")[0]
    await files.make_folder(above)
    folders = (folder, f"{folder}/{UP}", f"{folder}/{DOWN}")
    for each in folders:
        await _make_private(files, each)
    ours = await _account(files, folders[1])
    for each in folders:
        status = await files.stat(each)
        if status is None or status.owner != ours:
            owner = "missing" if status is None else f"of user id {status.owner}"
            raise PermissionError(1, f"{each} is {owner} (expected a folder of our own, {ours})")
    return ours


async def _make_private(files: SiteFiles, folder: str) -> None:
    """Make a folder for our account alone, or check the mode of the one that is there. Raises
    OSError and LocalManagerError."""
    await files.make_folder(folder)
    status = await files.stat(folder)
    if status is None or not status.is_folder or status.mode & 0o022:
        mode = "missing" if status is None else f"of mode {status.mode:04o}"
        raise PermissionError(
            1, f"{folder} is {mode} (expected a folder that nobody else may write: chmod 700)"
        )


async def _account(files: SiteFiles, folder: str) -> int:
    """Return the user id that a file of ours has in this folder. Raises OSError and
    LocalManagerError."""
    path = f"{folder}/.owner-{secrets.token_hex(4)}"
    await files.put(path, b"", is_durable=False)
    status = await files.stat(path)
    await files.remove(path)
    if status is None:
        raise FileNotFoundError(2, f"{path} is gone: somebody else removes files there")
    return status.owner


async def _all(calls: Iterable[Any]) -> None:
    """Await these calls at the same time. Raises the first error, after all have ended."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
