"""Streams that are open, which end when their caller's credentials are no longer valid."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from koala.errors import KoalaError


class OpenStreams:
    """Time limits of the open streams, each with the check of its caller's credentials."""

    def __init__(self) -> None:
        self._checks: dict[asyncio.Timeout, Callable[[], None]] = {}

    @contextmanager
    def opened(self, limit: asyncio.Timeout, authenticate: Callable[[], None]) -> Iterator[None]:
        """Count a stream as open inside the block. `authenticate` raises KoalaError."""
        self._checks[limit] = authenticate
        try:
            yield
        finally:
            self._checks.pop(limit, None)

    def recheck(self) -> None:
        """End the streams whose credentials are no longer valid after a change of credentials."""
        for limit, authenticate in tuple(self._checks.items()):
            try:
                authenticate()
            except KoalaError:
                del self._checks[limit]
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time())
