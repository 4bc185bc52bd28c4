"""Drive the state machine of a starter, or of a helper on another node."""

from __future__ import annotations

from koala_agent.starter.compat import boot_now, log
from koala_agent.starter.events import CountProcesses, NodeLost, Received, Unexecutable, Woken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from koala_agent.starter.connection import Watch
    from koala_agent.starter.events import Action, Event

    class Machine(Protocol):
        """State machine: events in, actions out."""

        @property
        def wake_at(self) -> float | None: ...

        def handle(self, event: Event, now: float) -> list[Action]: ...

    class World(Protocol):
        """Input and output around a machine.

        - `gather` returns the events since the last call.
        - `carry_out` does an action and returns the events that follow at once.
        - `poll_processes` counts the processes that are left.
        - `wake_at` is the instant to continue at without an event.
        """

        watch: Watch
        is_over: bool

        def gather(self) -> list[Event]: ...
        def carry_out(self, action: Action) -> list[Event]: ...
        def poll_processes(self) -> list[Event]: ...
        def wake_at(self) -> float | None: ...


class MachineDriver:
    """Passes events to a machine and carries out its actions, until its world is over.

    It is the loop of `common.runtime.driver` without asyncio, since starters have only the standard
    library and start in milliseconds; here events may also follow from an action at once.
    """

    def __init__(self, machine: Machine, world: World) -> None:
        self._machine = machine
        self._world = world
        self._is_poll_due = False

    def drive(self, first: Event) -> None:
        """Run until nothing is left to do.

        Events of carried-out actions are handled before any waiting: a send may find that a
        connection is lost, and nothing would report that again.
        """
        self._handle([first])
        while not self._world.is_over:
            events = self._world.gather()
            if not events:
                wake_at = self._world.wake_at()
                self._world.watch.wait(None if wake_at is None else wake_at - boot_now())
                events = self._world.gather()
            # A machine looks at the clock after each event, so without one it has to be woken.
            self._handle(events or [Woken()])

    def _handle(self, events: list[Event]) -> None:
        """Handle events, then poll the processes if one asked for it.

        A known end must be handled before the report that nothing is left.
        """
        for event in events:
            self._handle_one(event)
        while self._is_poll_due:
            self._is_poll_due = False
            for event in self._world.poll_processes():
                self._handle_one(event)

    def _handle_one(self, event: Event) -> None:
        """Handle one event and, in order, the events that its actions cause."""
        events = [event]
        while events:
            event = events.pop(0)
            try:
                actions = self._machine.handle(event, boot_now())
            except ValueError as error:
                assert isinstance(event, Received), event
                log(f"invalid message: {error}")
                # Look at the clock after an invalid message, too: a peer may send nothing else.
                actions = self._machine.handle(Woken(), boot_now())
            for action in actions:
                if isinstance(action, CountProcesses):
                    self._is_poll_due = True
                    continue
                followed = self._world.carry_out(action)
                events += followed
                if any(isinstance(follower, (Unexecutable, NodeLost)) for follower in followed):
                    break  # the other actions on the processes are impossible now
