"""An asyncio event loop in simulated time: the agent's own tasks run on it, unchanged.

The loop has no thread and waits for nothing. The engine runs it whenever one of its calls is due,
until the present instant has no more work. Threads and sockets are simulated, too: work for a
thread is done at once, and a server is a factory of protocols.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from typing import Any

from tests.swarm.system.machines import CrashedError, Process, Timer

ROUNDS_MAX = 10_000
"""Limit on rounds at one instant: a program above it would loop without end."""


class NoSelector(selectors.SelectSelector):
    """Selector that never waits, because nothing comes from the operating system. Asyncio calls it
    before each round of calls, with the timeout 0 if there are any."""

    def __init__(self, begin_round: Callable[[bool], None]) -> None:
        super().__init__()
        self._begin_round = begin_round

    def select(self, timeout: float | None = None) -> list[Any]:
        """See BaseSelector."""
        self._begin_round(timeout == 0)
        return []


class Server:
    """Listening port of a simulated process; it stands for its socket, too."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.sockets = (self,)
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        """See socket."""
        return self._address

    def close(self) -> None:
        """See asyncio.Server."""


class SimulatedLoop(asyncio.SelectorEventLoop):
    """Event loop of one life of a process. `factory` makes the protocol of a connection, once the
    process listens."""

    def __init__(self, process: Process) -> None:
        super().__init__(NoSelector(self._begin_round))
        self.factory: Callable[[], Any] | None = None
        self.failure: BaseException | None = None
        self._process = process
        self._timer = Timer(process, self.turn)
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._count = self._rounds = 0
        self._is_due = self._is_turning = False
        self.set_exception_handler(self._fail)

    def time(self) -> float:
        """See AbstractEventLoop: the clock of the machine."""
        return self._process.machine.boot()

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """See AbstractEventLoop."""
        if not self._is_due and not self._is_turning:
            self._is_due = True
            self._process.soon(self.turn)
        return super().call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """See AbstractEventLoop."""
        handle = super().call_at(when, callback, *args, context=context)
        self._count += 1
        heappush(self._timers, (when, self._count, handle))
        if not self._is_turning:
            self._set_timer()
        return handle

    def run_in_executor(  # type: ignore[override]
        self, _executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """See AbstractEventLoop."""
        done = self.create_future()

        def work() -> None:
            if not done.cancelled():
                try:
                    done.set_result(func(*args))
                except Exception as error:  # noqa: BLE001 - its waiter gets it
                    done.set_exception(error)

        self.call_soon(work)
        return done

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Any, host: Any, port: Any, **_: Any
    ) -> Any:
        """See AbstractEventLoop."""
        self.factory = protocol_factory
        return Server((host, port or 1))

    def turn(self) -> None:
        """Run all that is due at this instant."""
        self._is_due = False
        self._is_turning = True
        try:
            self._run()
        finally:
            self._is_turning = False
        timers, now = self._timers, self.time()
        while timers and timers[0][0] <= now:
            heappop(timers)
        self._set_timer()

    def dispose(self) -> None:
        """End all tasks and close the loop. The process is dead: nobody sees an error of these
        tasks. Raises AssertionError when a task refuses to end."""
        assert not self.is_running(), f"{self._process}: is killed by its own task"
        self._is_turning = True  # the engine calls no more
        self.set_exception_handler(lambda _loop, _context: None)
        try:
            for _ in range(ROUNDS_MAX):
                tasks = asyncio.all_tasks(self)
                if not tasks:
                    return
                for task in tasks:
                    task.cancel()
                self.failure = None
                self.call_soon(self.stop)  # a task may need to be cancelled again
                with suppress(Exception, CrashedError):
                    self._run()
            raise AssertionError(f"{self._process}: tasks never end: {asyncio.all_tasks(self)}")
        finally:
            self.close()

    def _run(self) -> None:
        self._rounds = 0
        self.run_forever()

    def _begin_round(self, has_work: bool) -> None:
        """Stop the loop when no call is ready and no timer is due. Raises the error of a call of
        the round before."""
        if self.failure is not None:
            raise self.failure
        self._rounds += 1
        if self._rounds > ROUNDS_MAX:
            raise AssertionError(f"{self._process}: goes on and on at {self.time():g}")
        if not has_work:
            self.stop()

    def _set_timer(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        self._timer.set(timers[0][0] if timers else None)

    def _fail(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Keep the error of a callback, for `turn` to raise."""
        self.failure = self.failure or context.get("exception")
