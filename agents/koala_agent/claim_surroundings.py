"""Surroundings of the claim driver, with defaults for sites without files; the store's thread."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from koala.common.files.confined_folder import UnusableFileError, kept_in
from koala.common.protocol.messages import Hold
from koala.common.runtime import clock
from koala.errors import SpecError
from koala_agent.claim_folders import ClaimFolders
from koala_agent.claims.events import Forget, StoreClaim
from koala_agent.claims.states import Claim
from koala_agent.claims.store import Store
from koala_agent.lrm.local_manager import LocalManager
from koala_agent.placeholders.result_files import output_paths
from koala_agent.starter_link.mailbox import Mailbox


def no_input(_hold: Hold, _name: str) -> str:
    """Return no path: an input resolver for sites whose jobs read no file."""
    return ""


async def check_outputs(claim: Claim, folder: Path, *, may_leave: bool = False) -> str:
    """Check that the named outputs exist, without copying them; return what is missing."""
    problems = []
    for path in output_paths(claim.hold.program).values():
        try:
            kept, below = kept_in(folder, path, may_leave=may_leave)
            kept.find(below)
        except (SpecError, UnusableFileError) as error:
            problems.append(str(error))
    return "; ".join(problems)


async def no_archive(_hold: Hold) -> Path | None:
    """Return no archive: for sites whose jobs stage no files."""
    return None


async def nothing_to_copy(_hold: Hold) -> None:
    """Prepare nothing: for sites whose jobs read no part of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSurroundings:
    """Everything around a site's claims, real or simulated.

    `calendar` gives the seconds since the epoch, as the site's batch system counts them.
    `commit` writes to the store, one batch after the other.
    `input_named` returns the path at which the claim's program will read an input file, which may
    come later.
    `archive` waits for the staged files of its program, and returns None without any.
    `prepare_input` brings names and parts of files to their places. All raise LocalManagerError.
    `collect` returns what is missing, empty when everything was
    brought back; it is never cancelled, but the table waits no longer than its limit. `room_bytes`
    is the disk space that programs' files may use. With a `mailbox`, starters check in there, and
    no port is opened.
    """

    store: Store
    commit: Callable[[Sequence[StoreClaim | Forget]], Awaitable[None]]
    manager: LocalManager
    folders: ClaimFolders
    calendar: Callable[[], float] = clock.unix_now
    clock: Callable[[], float] = clock.now
    input_named: Callable[[Hold, str], str] = no_input
    prepare_input: Callable[[Hold], Awaitable[None]] = nothing_to_copy
    archive: Callable[[Hold], Awaitable[Path | None]] = no_archive
    collect: Callable[[Claim, Path], Awaitable[str]] = check_outputs
    room_bytes: Callable[[], float] = lambda: math.inf
    mailbox: Mailbox | None = None


class StoreThread:
    """The one thread that commits to a store: transactions keep the order of the batches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._executor.submit(store.claims).result()  # it must exist before threads run out

    async def commit(self, writes: Sequence[StoreClaim | Forget]) -> None:
        """Commit these changes; durable when it returns. Raises DiskError."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._executor, self._store.commit, writes)

    def close(self) -> None:
        """Close thread and store, after what is being written."""
        self._executor.shutdown()
        self._store.close()
