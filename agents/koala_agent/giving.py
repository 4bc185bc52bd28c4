"""Input files of claims that run as accounts: copied into the account's folder, in time.

The agent's replicas and copies are its own, and no account can read them. So the program is told a
path in its claim's folder, and the file is written there as the account: at submission where it is
there already, else when its copy has come, before the daemon hears of that. A claim whose input
could not be given is not armed: the daemon asks again, and each time it is tried again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import structlog

from koala.errors import LocalManagerError
from koala_agent.claim_states import Claim
from koala_agent.files.orders import Report, TransferFailed, TransferFinished
from koala_agent.values import ClaimId, Hold

log = structlog.get_logger()

Give = Callable[[ClaimId, BinaryIO, int], Awaitable[None]]
"""Writes so many bytes of an open file into the claim's folder. Raises LocalManagerError."""


class Giving:
    """`source` finds the file that a claim reads, None when it is not there (yet)."""

    def __init__(self, *, give: Give, source: Callable[[Hold], Path | None]) -> None:
        self._give = give
        self._source = source
        self._given: set[ClaimId] = set()
        self._turns: dict[ClaimId, asyncio.Lock] = {}

    async def prepare(self, hold: Hold) -> bool:
        """Gives what is there; whether the claim has what it reads. Raises LocalManagerError."""
        async with self._turns.setdefault(hold.claim, asyncio.Lock()):
            if hold.claim in self._given:
                return True
            source = self._source(hold)
            if source is None:
                return False
            try:
                with await asyncio.to_thread(source.open, "rb") as file:
                    size = await asyncio.to_thread(_size_from, file, hold)
                    await self._give(hold.claim, file, size)
            except OSError as error:
                message = f"{hold.claim} reads {source.name}: {error.strerror or error}"
                raise LocalManagerError(message) from error
            self._given.add(hold.claim)
            return True

    async def finished(self, report: TransferFinished, claims: Iterable[Claim]) -> Report:
        """A copy has come; what the daemon is to hear when those who read it have it."""
        for claim in claims:
            if claim.account and report.transfer in claim.hold.inputs:
                try:
                    await self.prepare(claim.hold)
                except LocalManagerError as error:
                    log.warning("input.not_given", claim=claim.id, reason=str(error))
                    return TransferFailed(transfer=report.transfer, reason=str(error), at="")
        return report

    async def try_again(self, hold: Hold) -> None:
        """Before the next Arm of a claim that had to do without."""
        try:
            await self.prepare(hold)
        except LocalManagerError as error:
            log.warning("input.not_given", claim=hold.claim, reason=str(error))

    def is_given(self, claim: ClaimId) -> bool:
        """Whether the claim has what it reads."""
        return claim in self._given

    def forget(self, claim: str) -> None:
        """The claim is over."""
        self._given.discard(ClaimId(claim))
        self._turns.pop(ClaimId(claim), None)


def _size_from(file: BinaryIO, hold: Hold) -> int:
    """Moves to the part that the claim reads, where it is not all of a copy; its bytes."""
    whole = file.seek(0, os.SEEK_END)
    offset, size = (0, 0) if hold.inputs else (hold.chunk_offset, hold.chunk_bytes)
    file.seek(offset)
    return size or max(0, whole - offset)
