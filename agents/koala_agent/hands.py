"""Running `hand.py` as an account: what is asked, what comes back, and how long that may take.

The program may be killed, stopped or replaced by the account whose rights it has, so its answers
are bounded in size and time, and read as the words of somebody who is not trusted.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import BinaryIO

from koala_agent.lrm.port import RequestRefusedError
from koala_agent.lrm.shell import Entry, end

ANSWER_MAX_BYTES = 8 * 1024 * 1024
BLOCK_BYTES = 1024 * 1024
LIMIT_S = 60.0
"""For an answer, and for each block of a long one."""
SLOWEST_BPS = 1_000_000.0
"""What is given may take as much longer."""
ENDING_S = 2.0
AT_ONCE = 8

Request = dict[str, object]


class AccountError(RequestRefusedError):
    """Something could not be done as an account; the message says what and as whom. An account's
    trouble (a full home, a rule of sudo that is missing) is not the site's."""


class Hands:
    """One for each deed, as one of the accounts in `entries`."""

    def __init__(self, entries: Mapping[str, Entry], *, python: str | None = None) -> None:
        self._entries = entries
        self._python = python or sys.executable
        self._places = asyncio.Semaphore(AT_ONCE)

    async def ask(
        self, account: str, request: Request, *, given: bytes = b""
    ) -> tuple[Request, bytes]:
        """The answer's line, and the bytes after it; it finds `given` on its standard input.
        Raises AccountError."""
        # In memory, for what is given may be a secret.
        with os.fdopen(os.memfd_create("given"), "w+b") as file:
            file.write(given)
            file.seek(0)
            return await self._ask(account, request, file, LIMIT_S)

    async def hand_over(self, account: str, request: Request, file: BinaryIO, size: int) -> None:
        """The same with an open file, from where it stands. Raises AccountError."""
        await self._ask(account, request, file, LIMIT_S + size / SLOWEST_BPS)

    async def pack(self, account: str, request: Request, targets: list[Path]) -> list[str]:
        """Writes each file of the request to its target; of each why it was not, empty when it
        was. Raises AccountError, and OSError for a target."""
        with os.fdopen(os.memfd_create("nothing"), "rb") as nothing:
            async with self._running(account, request, nothing) as reader:
                return [await _receive(account, reader, target) for target in targets]

    async def _ask(
        self, account: str, request: Request, given: BinaryIO, limit_s: float
    ) -> tuple[Request, bytes]:
        async with self._running(account, request, given) as reader:
            try:
                async with asyncio.timeout(limit_s):
                    said = await _read_all(reader)
            except TimeoutError as error:
                raise _silent(account, limit_s) from error
        line, _, data = said.partition(b"\n")
        return _answer(account, line), data

    @asynccontextmanager
    async def _running(
        self, account: str, request: Request, given: BinaryIO
    ) -> AsyncIterator[asyncio.StreamReader]:
        entry = self._entries[account]
        async with self._places:
            try:
                process = await asyncio.create_subprocess_exec(
                    *entry.prefix,
                    self._python,
                    "-I",
                    "-S",
                    *_program(entry),
                    json.dumps(request),
                    stdin=given,
                    stdout=asyncio.subprocess.PIPE,
                    # What goes wrong before it can answer (sudo, the interpreter) is its answer.
                    stderr=asyncio.subprocess.STDOUT,
                    env=entry.alone(),
                    cwd="/",
                    limit=BLOCK_BYTES,
                )
            except OSError as error:
                raise AccountError(f"as {account}: {error}") from error
            try:
                assert process.stdout is not None
                yield process.stdout
                # Its last words are its end, but who knows what the account has made of it.
                with suppress(TimeoutError):
                    async with asyncio.timeout(ENDING_S):
                        await process.wait()
            finally:
                if process.returncode is None:
                    await end(process)


def _program(entry: Entry) -> tuple[str, ...]:
    """A rule of sudo names the file; where root becomes the account by itself, the file need not
    be where the account can read it."""
    source = resources.files("koala_agent") / "hand.py"
    return ("-c", source.read_text(encoding="utf-8")) if entry.is_own_process else (str(source),)


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    """Until its end, or as much as an honest answer can have."""
    said = bytearray()
    while len(said) < ANSWER_MAX_BYTES and (block := await reader.read(BLOCK_BYTES)):
        said += block
    return bytes(said)


async def _receive(account: str, reader: asyncio.StreamReader, target: Path) -> str:
    """One file of many; why there is none, empty when it came whole."""
    try:
        async with asyncio.timeout(LIMIT_S):
            head = _answer(account, await reader.readline())
        size = head.get("size")
        if not isinstance(size, int) or isinstance(size, bool):
            return str(head.get("error") or "no answer")[:500]
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with target.open("wb") as file:
            while size > 0:
                async with asyncio.timeout(LIMIT_S):
                    block = await reader.read(min(size, BLOCK_BYTES))
                if not block:
                    raise AccountError(f"as {account}: its answer broke off")
                await asyncio.to_thread(file.write, block)
                size -= len(block)
    except TimeoutError as error:
        raise _silent(account, LIMIT_S) from error
    except ValueError as error:  # a line that has no end
        raise AccountError(f"as {account}: {error}") from error
    return ""


def _answer(account: str, line: bytes) -> Request:
    """Raises AccountError for an error, and for what is no answer."""
    text = line.decode("utf-8", "replace").strip()
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        answer = {"error": text[-500:] or "it ended without an answer"}
    if not isinstance(answer, dict) or ("error" in answer and "size" not in answer):
        reason = answer.get("error") if isinstance(answer, dict) else text
        raise AccountError(f"as {account}: {str(reason)[:500]}")
    return answer


def _silent(account: str, limit_s: float) -> AccountError:
    return AccountError(f"as {account}: no answer in {limit_s:g} s", transient=True)
