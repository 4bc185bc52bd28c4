"""The witness of a local manager: it keeps the reports, and waits for more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from koala.errors import LocalManagerError
from koala_agent.conformance.finding_texts import listed_text
from koala_agent.lrm.local_manager import Ended, Idle, Listed, Running

Report = TypeVar("Report", bound=Listed | Idle)


class Witness:
    """Keeps what a local manager reports, and waits for what it will report, each time for at most
    `limit_s`."""

    def __init__(self, limit_s: float = 60.0) -> None:
        self.reports: list[Listed | Idle] = []
        self._limit_s = limit_s
        self._more = asyncio.Event()

    def __call__(self, value: Listed | Idle) -> None:
        """Keep a report."""
        self.reports.append(value)
        self._more.set()

    async def until(
        self,
        kind: type[Report],
        matches: Callable[[Report], bool],
        expected: str = "another report",
        *,
        within_s: float | None = None,
    ) -> Report:
        """Return the first report of its kind, made already or to come, that matches. Raises
        LocalManagerError."""
        limit_s = self._limit_s if within_s is None else within_s
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    for value in self.reports:
                        if isinstance(value, kind) and matches(value):
                            return value
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError as error:
            alike = [
                report for report in self.reports if isinstance(report, Idle) is (kind is Idle)
            ]
            last = listed_text(alike[-1]) if alike else "none at all"
            message = f"no report in {limit_s:g} s (expected {expected}); the last: {last}"
            raise LocalManagerError(message) from error

    async def running(self, claim: str) -> Running:
        """Return the report that a claim runs. Raises LocalManagerError."""
        expected = f"that {claim} runs"
        return await self.until(Running, lambda report: report.claim == claim, expected)

    async def ended(self, claim: str, *, within_s: float | None = None) -> Ended:
        """Return the report of a claim's end. Raises LocalManagerError."""
        expected = f"that {claim} has ended"
        return await self.until(
            Ended, lambda report: report.claim == claim, expected, within_s=within_s
        )
