"""Notify the service manager: ready, alive, stopping (sd_notify(3)).

The whole protocol is a datagram to the socket that NOTIFY_SOCKET names, so no library is needed.
Watchdog messages come from the event loop that does the work: a loop that hangs sends none, and the
manager restarts the service. Without a manager nothing is sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

WAIT_S = 1.0
"""Time limit of one message to a manager that is slow to read."""

FEEDS_PER_PERIOD = 3
"""Watchdog messages a period. The manual page asks for two; one late message must not be fatal."""


class ServiceManager:
    """Service manager that started this process; without an address all calls do nothing."""

    def __init__(self, address: str = "", *, watchdog_s: float | None = None) -> None:
        self._address = address
        self._watchdog_s = watchdog_s

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        """Make one from the environment, and remove its variables: they are not for children."""
        address = environment.pop("NOTIFY_SOCKET", "")
        period = environment.pop("WATCHDOG_USEC", "")
        watched = environment.pop("WATCHDOG_PID", str(os.getpid()))
        is_watched = period.isdigit() and int(period) > 0 and watched == str(os.getpid())
        return cls(address, watchdog_s=int(period) / 1e6 if is_watched else None)

    def ready(self, status: str) -> None:
        """Report that start-up is finished; `status` is a line for people."""
        self._send("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """Report another line for people."""
        self._send(f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """Report that an orderly shutdown has begun."""
        self._send("STOPPING=1", f"STATUS={status}")

    async def feed(self) -> None:
        """Send watchdog messages until cancelled, if the manager wants them."""
        while self._address and self._watchdog_s is not None:
            self._send("WATCHDOG=1", wait_s=0.0)
            await asyncio.sleep(self._watchdog_s / FEEDS_PER_PERIOD)

    def _send(self, *lines: str, wait_s: float = WAIT_S) -> None:
        if not self._address:
            return
        # A leading @ is the customary way to write the NUL of an abstract name.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        words = "\n".join(" ".join(line.splitlines()) for line in lines)
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            # A manager that does not read must not hang the loop that it watches.
            sender.settimeout(wait_s)
            sender.sendto(words.encode(), address)
