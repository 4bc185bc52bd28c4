"""What a service says to the manager that started it: ready, alive, stopping (sd_notify(3)).

A datagram to the socket that NOTIFY_SOCKET names is the whole protocol, so no library is needed.
Signs of life are sent from the event loop that does the work: a loop that hangs sends none, and
the manager ends and restarts the service. Without a manager nothing is said.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

WAIT_S = 1.0
"""How long what is said once waits for a manager that is behind with reading."""

FEEDS_PER_PERIOD = 3
"""The manual page asks for two; one that is late should not be the end."""


class ServiceManager:
    """The one that started this process, or nobody."""

    def __init__(self, address: str = "", *, watchdog_s: float | None = None) -> None:
        self._address = address
        self._watchdog_s = watchdog_s

    @classmethod
    def of(cls, environment: MutableMapping[str, str]) -> ServiceManager:
        """The one that these variables name; they are taken away, for children are not meant."""
        address = environment.pop("NOTIFY_SOCKET", "")
        period = environment.pop("WATCHDOG_USEC", "")
        watched = environment.pop("WATCHDOG_PID", str(os.getpid()))
        is_watched = period.isdigit() and int(period) > 0 and watched == str(os.getpid())
        return cls(address, watchdog_s=int(period) / 1e6 if is_watched else None)

    def ready(self, status: str) -> None:
        """Start-up is finished; `status` is a line for people."""
        self._say("READY=1", f"STATUS={status}")

    def status(self, status: str) -> None:
        """Another line for people."""
        self._say(f"STATUS={status}")

    def stopping(self, status: str) -> None:
        """An ordered end has begun."""
        self._say("STOPPING=1", f"STATUS={status}")

    async def feed(self) -> None:
        """Gives signs of life until cancelled, where they are wanted."""
        while self._address and self._watchdog_s is not None:
            self._say("WATCHDOG=1", wait_s=0.0)
            await asyncio.sleep(self._watchdog_s / FEEDS_PER_PERIOD)

    def _say(self, *lines: str, wait_s: float = WAIT_S) -> None:
        if not self._address:
            return
        # A leading @ is the customary way to write the NUL of an abstract name.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        words = "\n".join(" ".join(line.splitlines()) for line in lines)
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            # A manager that does not read must not hang the loop whose life it asks about.
            sender.settimeout(wait_s)
            sender.sendto(words.encode(), address)
