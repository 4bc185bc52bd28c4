"""`starter.py machine`: run the helper of a starter on another node of its component.

Its settings are a line on its standard input; all else comes over its connection.
"""

from __future__ import annotations

import os
import sys

from koala_agent.starter import events as ev
from koala_agent.starter.batch_rules import rules_of
from koala_agent.starter.challenge_response import helper_name
from koala_agent.starter.compat import boot_now, log, to_count, to_list, to_object, to_texts
from koala_agent.starter.connection import Connection, Watch
from koala_agent.starter.light import loads, socket
from koala_agent.starter.node.state_machine import NodeMachine
from koala_agent.starter.process_host import ProcessHost, make_sync_request
from koala_agent.starter.process_tree import MARK
from koala_agent.starter.program import SPECIFICATION, ClaimProgram
from koala_agent.starter.state_machine_driver import MachineDriver
from koala_agent.starter.subreaper import keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event
    from koala_agent.starter.ports.carried import Counts

OWN_VARIABLES = ("PMI", "CUDA_VISIBLE_DEVICES", "HOSTNAME", "TMPDIR")
"""Variables that are this machine's own, and not the starter's, with any batch system."""


class NodeDriver:
    """The `World` of the helper's machine: carries out its actions and collects its events."""

    def __init__(self, given: dict[str, object], folder: str = "") -> None:
        machine = to_count(given["machine"])
        if machine < 0:
            machine = _own_number(to_texts(given["hosts"]))
        secret = str(given["secret"])
        self.watch = Watch()
        self.is_over = False
        self._machine = NodeMachine(secret=secret, machine=machine, now=boot_now())
        starters = [to_list(starter) for starter in to_list(given["addresses"])]
        self._connection = Connection(
            [(str(host), to_count(port)) for host, port in starters],
            self.watch,
            identity=(helper_name(machine), secret),
        )
        self._claim_secret = str(given["claim_secret"])
        self._folder = folder
        self._process_host: ProcessHost | None = None

    def run(self) -> None:
        """Run until nothing is left to do."""
        MachineDriver(self._machine, self).drive(ev.Woken())
        self._connection.close()
        if self._process_host is not None:
            self._process_host.close()

    def wake_at(self) -> float | None:
        host = self._process_host
        dues = [self._machine.wake_at, None if host is None else host.wake_at]
        return min((due for due in dues if due is not None), default=None)

    def gather(self) -> list[Event]:
        events = [*self._connection.events]
        self._connection.events.clear()
        return events if self._process_host is None else [*self._process_host.gather(), *events]

    def carry_out(self, action: Action) -> list[Event]:
        if isinstance(action, ev.Send):
            self._connection.send(action.message)
        elif isinstance(action, ev.Dial):
            self._connection.dial()
        elif isinstance(action, ev.Exit):
            self.is_over = True
        elif isinstance(action, ev.Begin):
            self._begin(action.order)
        elif self._process_host is not None:
            return self._on_process_host(action, self._process_host)
        return []

    def _on_process_host(self, action: Action, host: ProcessHost) -> list[Event]:
        if isinstance(action, ev.Fork):
            return host.fork()
        if isinstance(action, ev.Prepare):
            try:
                host.prepare(action.bundle)
            except (OSError, ValueError) as error:
                log(f"cannot prepare its processes: {error}")
                self.is_over = True  # so that the starter sees this machine as lost
        elif isinstance(action, ev.Resize):
            host.resize(action, host.excluded)
        elif isinstance(action, ev.Open):
            at = boot_now()
            if at > action.not_after:
                return [ev.TooLate()]
            host.processes.release()
            return [ev.Opened(at=at)]
        elif isinstance(action, ev.Signal):
            host.processes.signal(action.number, host.excluded)
        elif isinstance(action, ev.Answer):
            host.answer(action.question, action.answer)
        elif isinstance(action, ev.Deliver):
            return host.deliver(is_whole=action.is_whole)
        return []

    def poll_processes(self) -> list[Event]:
        if self._process_host is None:
            return []
        used = self._process_host.processes
        counts: Counts = ()
        left = len(used.left(self._process_host.excluded))
        if left == 0:
            left += self._process_host.finish_ports()
            counts = self._process_host.port_counts
        events = [*([ev.PortsMoved(ports=counts)] if counts else []), *self._process_host.reap()]
        return [
            *events,
            ev.ProcessesCounted(left=left, cpu_s=used.cpu_s, memory_bytes=used.memory_bytes),
        ]

    def _begin(self, order: dict[str, object]) -> None:
        machine = to_count(order["machine"])
        hosts = [to_list(host) for host in to_list(order["hosts"])]
        given = {name: str(text) for name, text in to_object(order["environment"]).items()}
        spec = {**to_object(order["spec"]), "secret": self._claim_secret}
        starts = (*OWN_VARIABLES, *rules_of(spec).host_variables)
        own = {n: text for n, text in os.environ.items() if n.startswith(starts)}
        mark = f"{given[MARK]}.{machine}"
        if self._folder:
            spec["folder"] = self._folder
        program = ClaimProgram(
            spec,
            machine=machine,
            hosts=tuple((str(name), to_count(count)) for name, count in hosts),
            environment={**given, **own, MARK: mark},
        )
        request = make_sync_request(program, str(order["nonce"]))
        self._process_host = ProcessHost(program, mark, self.watch, sync_request=request)
        if self._folder:
            self._process_host.write(SPECIFICATION, spec)
        self._process_host.catch_signals()


def _own_number(hosts: list[str]) -> int:
    """Return the number of this machine in the component, by its name in the batch system.

    Raises ValueError.
    """
    names = [os.environ.get("SLURMD_NODENAME", ""), socket.gethostname()]
    for name in names:
        if name in hosts:
            return hosts.index(name)
    raise ValueError(f"{' and '.join(names)} not found (expected one of {', '.join(hosts)})")


def main(given: dict[str, object], folder: str = "") -> int:
    """Run the helper; `folder` is its own where there is no shared one."""
    keep()
    NodeDriver(given, folder).run()
    return 0


def from_stdin() -> int:
    """Run the helper with settings from standard input."""
    given = to_object(loads(sys.stdin.buffer.readline()))
    return main(given)
