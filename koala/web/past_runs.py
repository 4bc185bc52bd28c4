"""Past runs, as `koala replay --json` computes them in processes beside the web process.

A replay takes long for long journals, and a what-if simulates the run twice. Neither may delay the
pages, so each is a process of its own: bounded in time and number, at low priority, and ended when
nobody waits for it any more, or with the web process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from koala.errors import ConfigError, ExhaustedError, KoalaError, RejectedError
from koala.policies.changes import parse_changes
from koala.web.playback import PastRun

Chosen: TypeAlias = tuple[str, ...]

PROCESSES_MAX = 2
TIME_MAX_S = 300.0
KEPT_MAX = 8
"""Runs that are kept for the next who asks."""
LOOK_S = 0.5
"""Time between two looks whether the reader is still there."""
WORDS_MAX, WORD_MAX = 20, 200
NICENESS = 10


class ReaderGoneError(Exception):
    """The browser does not wait for the answer any more."""


@dataclass(slots=True, kw_only=True)
class _Replay:
    """A process that runs, and how many wait for it. Errors are results of the task."""

    task: asyncio.Task[PastRun | KoalaError]
    waiting: int = 0


class PastRuns:
    """Runs of one journal, as it was and with changes. Use it with `async with`, inside of the
    group that its tasks belong to."""

    def __init__(self, journal: Path | None, group: asyncio.TaskGroup) -> None:
        self._journal = journal
        self._group = group
        self._known: OrderedDict[Chosen, PastRun] = OrderedDict()
        self._replays: dict[Chosen, _Replay] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for replay in self._replays.values():
            replay.task.cancel()

    @property
    def journal(self) -> Path:
        """The journal. Raises RejectedError if there is none."""
        if self._journal is None:
            raise RejectedError("no past run is shown here: start `koala web --journal STATE`")
        return self._journal

    async def read(
        self, changes: Chosen = (), *, is_gone: Callable[[], Awaitable[bool]]
    ) -> PastRun:
        """Return the run, or with changes (KEY=VALUE) the what-if beside it.

        Raises RejectedError, ConfigError for wrong changes, ExhaustedError at a limit, and
        ReaderGoneError as soon as `is_gone` says that nobody waits.
        """
        journal = self.journal
        changes = checked(changes)
        if changes in self._known:
            self._known.move_to_end(changes)
            return self._known[changes]
        replay = self._replays.get(changes)
        if replay is None:
            if len(self._replays) >= PROCESSES_MAX:
                raise ExhaustedError(
                    f"{PROCESSES_MAX} replays run already, and no more are allowed at a time:"
                    " try again when one of them has ended"
                )
            task = self._group.create_task(self._run(journal, changes))
            replay = self._replays[changes] = _Replay(task=task)
        replay.waiting += 1
        try:
            while not (await asyncio.wait((replay.task,), timeout=LOOK_S))[0]:
                if await is_gone():
                    raise ReaderGoneError
            found = replay.task.result()
        finally:
            replay.waiting -= 1
            if not replay.waiting and not replay.task.done():
                del self._replays[changes]  # for nobody to join a replay that is being ended
                replay.task.cancel()
        if isinstance(found, KoalaError):
            raise found
        return found

    async def _run(self, journal: Path, changes: Chosen) -> PastRun | KoalaError:
        try:
            found = await _replayed(journal, changes)
        except KoalaError as error:
            del self._replays[changes]
            return error
        del self._replays[changes]
        self._known[changes] = found
        while len(self._known) > KEPT_MAX:
            self._known.popitem(last=False)
        return found


def checked(changes: Chosen) -> Chosen:
    """Check changes before a process is started for them. Raises ConfigError.

    Functions of modules are refused: to import one would run code that the account of the web
    process has not chosen.
    """
    if len(changes) > WORDS_MAX or any(len(word) > WORD_MAX for word in changes):
        raise ConfigError(
            f"too many changes, or too long ones (expected at most {WORDS_MAX} of {WORD_MAX}"
            " characters)"
        )
    for word in changes:
        if ":" in word:
            raise ConfigError(
                f"{word} (expected a policy of a package that is installed here; functions as"
                " module:function are for `koala replay` in a terminal)"
            )
    try:
        parse_changes(changes)
    except ConfigError as error:
        raise ConfigError(_without_option(str(error))) from error
    return tuple(dict.fromkeys(changes))


def command(journal: Path, changes: Chosen) -> list[str]:
    """Return the command that gives the same numbers in a terminal."""
    return ["koala", "replay", str(journal), *(word for one in changes for word in ("--with", one))]


async def _replayed(journal: Path, changes: Chosen) -> PastRun:
    """Run the command in a process. Raises RejectedError, ConfigError."""
    words = [*command(journal, changes)[1:], "--summary", "--claims", "--json"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "koala.local.child", str(os.getpid()), "koala.cli.main"),
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
    try:
        async with asyncio.timeout(TIME_MAX_S):
            out, errors = await process.communicate()
    except TimeoutError:
        again = " ".join(command(journal, changes))
        raise RejectedError(
            f"this replay was stopped after {TIME_MAX_S:g} s; in a terminal it may take longer:"
            f" {again}"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise _error(errors.decode("utf-8", "replace"))
    found: PastRun = await asyncio.to_thread(json.loads, out)
    return found


def _error(output: str) -> RejectedError | ConfigError:
    """Read the error that the command has written as JSON."""
    line = output.strip().rpartition("\n")[2]
    try:
        error = json.loads(line)["error"]
        text, is_wrong = _without_option(str(error["text"])), error["status"] == 2
    except (ValueError, KeyError, TypeError):
        return RejectedError(f"the replay ended without an answer: {line or 'it was killed'}")
    return ConfigError(text) if is_wrong else RejectedError(text)


def _without_option(text: str) -> str:
    """Leave out the option of the command line, which pages do not have."""
    return text.removeprefix("--with: ").removeprefix("--with ")
