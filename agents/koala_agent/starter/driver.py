"""Driver of the starter's machine: sockets, processes, signals, files and the clock."""

from __future__ import annotations

import os
import time

from koala_agent.starter import events as ev
from koala_agent.starter.batch_rules import rules_of
from koala_agent.starter.compat import boot_now, log, read_file, to_object
from koala_agent.starter.connection import Connection, Watch
from koala_agent.starter.light import dumps, loads
from koala_agent.starter.messages import END_FILE, PASS_FILE, EndRecord, PassRecord, to_json
from koala_agent.starter.process_host import ProcessHost, make_sync_request
from koala_agent.starter.process_tree import MARK
from koala_agent.starter.processes import Served
from koala_agent.starter.procfs import begin_of, boot_id
from koala_agent.starter.program import SPECIFICATION, STATE_FOLDER, ClaimProgram, Specification
from koala_agent.starter.state_machine.starter import StarterMachine
from koala_agent.starter.state_machine_driver import MachineDriver
from koala_agent.starter.subreaper import keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from koala_agent.starter.events import Action, Event
    from koala_agent.starter.mailbox.client import MailboxConnector
    from koala_agent.starter.node.remote_nodes import RemoteNodes
    from koala_agent.starter.path_probes import PathProbes
    from koala_agent.starter.ports.carried import Counts


class StarterDriver:
    """The `World` of the starter's machine: carries out its actions and collects its events."""

    def __init__(self, spec: dict[str, object], nonce: str, began_at: float | None = None) -> None:
        now = boot_now()
        self._nonce = nonce
        self._program = ClaimProgram(spec)
        self._claim = self._program.spec.claim
        self._machine = StarterMachine(
            _settings(self._program, nonce, began_at), now=now, wall_offset_s=time.time() - now
        )
        self.watch = Watch()
        self.is_over = False
        identity = (self._claim, self._program.spec.secret)
        self._connection = Connection(
            list(self._program.spec.agents),
            self.watch,
            identity=identity,
            files=_mailbox_connector(self._program.spec),
        )
        self._program.environment[MARK] = nonce
        request = make_sync_request(self._program, nonce, own=(LOG_FILE,))
        self._process_host = ProcessHost(self._program, nonce, self.watch, sync_request=request)
        self._nodes: RemoteNodes | None = None
        if len(self._program.layout) > 1:
            from koala_agent.starter.node.remote_nodes import RemoteNodes  # noqa: PLC0415 - late: few have any

            self._nodes = RemoteNodes(spec, self._program, self.watch, nonce=nonce)
        self._resize: ev.Resize | None = None
        self._paths: PathProbes | None = None
        self._passing = -1
        self._is_pass_unsynced = False
        self._delivered: list[str] = []
        self._is_lost = False

    def run(self) -> None:
        """Run until nothing is left to do."""
        self._process_host.catch_signals()
        problem = self._program.problem()
        self._connection.resolve()  # now, while nothing runs: later a hanging look-up would do harm
        driver = MachineDriver(self._machine, self)
        driver.drive(ev.Unexecutable(reason=problem) if problem else ev.Woken())
        self.close()

    def close(self) -> None:
        """Close all connections and sockets."""
        self._connection.close()
        if self._nodes is not None:
            self._nodes.close()
        self._process_host.close()

    def served(self) -> Served:
        """Return how the service of the claim has ended, as the kernel shows it."""
        processes = self._process_host.processes
        is_empty = self._nodes is None and processes.has_ended_all()
        return Served(is_empty=is_empty, memory_bytes=processes.memory_bytes)

    def wake_at(self) -> float | None:
        dues = [self._machine.wake_at, self._process_host.wake_at]
        dues.append(None if self._paths is None else self._paths.wake_at)
        return min((due for due in dues if due is not None), default=None)

    def _sync_pass(self) -> None:
        """Let the record of the pass outlive the machine; this process it outlives already.

        The report of the pass is sent before, since a disk takes long.
        """
        self._is_pass_unsynced = False
        try:
            os.fsync(self._passing)
        except OSError as error:
            log(f"{PASS_FILE} may not outlive this machine: {error}")

    def gather(self) -> list[Event]:
        if self._is_pass_unsynced:
            self._sync_pass()
        events = self._process_host.gather()
        if self._paths is not None:
            self._paths.tick()
            events += self._paths.events
            self._paths.events.clear()
        if self._nodes is not None:
            self._nodes.lease_until = self._machine.lease_until()
            self._nodes.ended(self._process_host.pop_others())
            events += self._nodes.gather()
        events += self._connection.events
        self._connection.events.clear()
        return [event for event in map(self._together, events) if event is not None]

    def _together(self, event: Event) -> Event | None:
        """Merge the events of all nodes: an event passes when all nodes have reported it."""
        nodes = self._nodes
        if isinstance(event, ev.PortsMoved):
            return ev.PortsMoved(ports=self._port_counts())
        if isinstance(event, ev.Ready) and nodes is not None:
            return event if self._process_host.is_ready and nodes.is_ready else None
        if isinstance(event, (ev.Delivered, ev.NodeLost)):
            if isinstance(event, ev.Delivered):
                self._delivered.append(event.problem)
                self._is_lost |= event.is_lost
            else:
                self._is_lost = True
                if not self._delivered:
                    return event
            if nodes is not None and len(self._delivered) < nodes.present + 1:
                return None
            problem = "; ".join(text for text in self._delivered if text)
            return ev.Delivered(problem=problem, is_lost=self._is_lost)
        return event

    def carry_out(self, action: Action) -> list[Event]:
        if isinstance(action, ev.Send):
            self._connection.send(action.message)
        elif isinstance(action, ev.Dial):
            self._connection.dial()
        elif isinstance(action, ev.Answer):
            self._answer(action)
        elif isinstance(action, ev.ProbePaths):
            from koala_agent.starter.path_probes import PathProbes  # noqa: PLC0415 - late: few jobs need it

            self._paths = PathProbes(action.order, self._claim, self.watch)
        elif isinstance(action, ev.ClosePaths):
            if self._paths is not None:
                self._paths.close()
            self._paths = None
        elif isinstance(action, ev.Exit):
            self.is_over = True
        elif isinstance(action, ev.WriteEnd):
            log(f"ended: {dumps(action.end).decode()}")
            self._write_end(action)
        else:
            return self._on_processes(action)
        return []

    def _on_processes(self, action: Action) -> list[Event]:  # noqa: C901 - a line a kind
        if isinstance(action, ev.Fork):
            return self._fork()
        if isinstance(action, ev.Prepare):
            return self._prepare(action.bundle or self._program.solo)
        if isinstance(action, ev.Open):
            return self._open(action)
        if isinstance(action, ev.Signal):
            self._signal(action.number)
        elif isinstance(action, ev.Resize):
            self._resize = action
            self._announce(action)
        elif isinstance(action, ev.MeasureProgress):
            host = self._process_host
            return [*host.reap(), host.work_meter.measure(self._excluded())]
        elif isinstance(action, ev.PauseProgram):
            self._process_host.work_meter.pause()
        elif isinstance(action, ev.ResumeProgram):
            self._process_host.work_meter.resume()
        elif isinstance(action, ev.Deliver):
            log("nothing is left; what was written goes to the agent")
            if self._nodes is not None:
                self._nodes.broadcast("deliver", is_whole=action.is_whole)
            return self._process_host.deliver(is_whole=action.is_whole)
        return []

    def _answer(self, action: ev.Answer) -> None:
        if self._nodes is not None and action.question >> ev.QUESTION_BITS:
            self._nodes.answer(action.question, action.answer)
        else:
            self._process_host.answer(action.question, action.answer)

    def _fork(self) -> list[Event]:
        """Fork here and on the other nodes, which report later when they are ready. What the
        pass needs on disk is made now: an answer to an Arm waits for no new file of it.
        """
        events = self._process_host.fork()
        try:
            self._reserve_pass()
        except OSError as error:
            return [ev.NodeLost(kind="vanished", reason=f"cannot prepare its processes: {error}")]
        if self._nodes is None or any(isinstance(event, ev.Unexecutable) for event in events):
            return events
        try:
            self._nodes.fork(self._connection.address)
        except OSError as error:
            return [ev.NodeLost(kind="vanished", reason=f"other nodes: {error}")]
        return events if self._nodes.is_ready else []

    def _reserve_pass(self) -> None:
        """Make the record of the pass, blank as yet. Raises OSError."""
        if self._passing < 0:
            path = os.path.join(self._program.state_folder, PASS_FILE)
            self._passing = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(self._passing, b" " * PASSED_BYTES)

    def _prepare(self, bundle: dict[str, object]) -> list[Event]:
        """Prepare the processes for the pass, before the promise."""
        try:
            self._process_host.prepare(bundle)
        except (OSError, ValueError) as error:
            return [ev.NodeLost(kind="vanished", reason=f"cannot prepare its processes: {error}")]
        if self._nodes is not None:
            self._nodes.broadcast("prepare", bundle=bundle)
        if self._resize is not None:
            self._announce(self._resize)
        return []

    def _announce(self, resize: ev.Resize) -> None:
        """Let the processes of all nodes know of their job's members."""
        self._process_host.resize(resize, self._excluded())
        if self._nodes is not None:
            self._nodes.broadcast("resize", **vars(resize))

    def _write_end(self, order: ev.WriteEnd) -> None:
        try:
            record = EndRecord(nonce=self._nonce, end=order.end, began_at=order.began_at)
            content = to_json(record)
            self._process_host.write(END_FILE, content, is_durable=True)
        except OSError as error:
            log(f"{END_FILE} cannot be written: {error}")  # the agent is told all the same

    def _open(self, action: ev.Open) -> list[Event]:
        """Check the clock once, write the record of the pass, and open the barrier."""
        at = boot_now()
        if at > action.not_after:
            return [ev.TooLate()]
        passed = PassRecord(nonce=self._nonce, passed_at=self._machine.to_daemons(at))
        os.pwrite(self._passing, dumps(to_json(passed)), 0)
        if self._nodes is not None:  # first, as its way is longer
            self._nodes.broadcast("go", not_after=action.not_after)
        elif action.has_peers:
            time.sleep(RELEASE_PAUSE_S)
        self._process_host.processes.release()
        if self._nodes is not None:
            self._nodes.opened(boot_now())
        if action.has_peers:
            time.sleep(REPORT_PAUSE_S)
        self._is_pass_unsynced = True
        return [ev.Opened(at=at, is_everywhere=self._nodes is None)]

    def _signal(self, number: int) -> None:
        if self._nodes is not None:
            self._nodes.signal(number)
        self._process_host.processes.signal(number, self._excluded())

    def _excluded(self) -> list[int]:
        launchers = [] if self._nodes is None else self._nodes.launchers
        return [*self._process_host.excluded, *launchers, *self._connection.helpers]

    def poll_processes(self) -> list[Event]:
        used = self._process_host.processes
        # Before the reaping: a process that ends in between counts as left, and is polled again.
        nodes = self._nodes
        left = len(used.left(self._excluded()))
        cpu_s, memory_bytes = used.cpu_s, used.memory_bytes
        if nodes is not None:
            left += nodes.left
            cpu_s += nodes.cpu_s
            memory_bytes = max(memory_bytes, nodes.memory_bytes)
        is_carrying = left == 0 and self._process_host.finish_ports()
        looked = ev.ProcessesCounted(
            left=left + is_carrying,
            is_known=not is_carrying and (nodes is None or nodes.is_known()),
            cpu_s=cpu_s,
            memory_bytes=memory_bytes,
            forwarded_bytes=sum([row[3] for row in self._port_counts()]),
        )
        return [*self._process_host.reap(), looked]

    def _port_counts(self) -> Counts:
        """Return what all nodes have moved to ports of others, by port."""
        machines = [self._process_host.port_counts]
        if self._nodes is not None:
            machines += self._nodes.port_counts
        merged: dict[tuple[str, str], list[Any]] = {}
        for name, claim, *counts in [row for rows in machines for row in rows]:
            known = merged.get((name, claim), [0, 0, 0.0, 0.0, 0, ""])
            merged[name, claim] = [merge(both) for merge, *both in zip(MERGES, known, counts)]
        return tuple([(*port, *counts) for port, counts in merged.items()])


MERGES: tuple[Any, ...] = (sum, sum, sum, max, sum, max)
"""How the counts of two machines make those of both, after name and claim."""

RELEASE_PAUSE_S = 0.002
"""Pause between the pass and the release of the processes. Other starters on this machine wake at
the same instant, and pass meanwhile: for a process to become the program takes longer."""

REPORT_PAUSE_S = 0.004
"""Pause before the report of the pass. Programs begin meanwhile: the report wakes the agent and the
daemon, which would go before them."""

PASSED_BYTES = 256
"""Space reserved for the record of a pass: at the barrier it is too late to find the disk full. The
rest stays blank, which JSON allows."""

MAILBOX_ANSWER_S = 15.0
"""Time within which an answer comes by mailbox, or the connection counts as lost."""

LOG_FILE = "placeholder.out"
"""Log file of a starter that was carried by its batch script."""


def _settings(program: ClaimProgram, nonce: str, began_at: float | None) -> ev.Settings:
    return settings_of(
        program.spec,
        nonce,
        processes=sum(len(mains) for mains in program.layout),
        ranks=program.ranks,
        hosts=program.hosts,
        boot=boot_id(),
        began_at=began_at,
    )


def _mailbox_connector(spec: Specification) -> MailboxConnector | None:
    """Return the connector by mailbox; None where the starter dials."""
    if not spec.mailbox:
        return None
    from koala_agent.starter.mailbox.client import MailboxConnector  # noqa: PLC0415 - late: few starters use it

    return MailboxConnector(spec.mailbox, spec.claim, spec.secret)


def settings_of(
    spec: Specification,
    nonce: str,
    *,
    processes: int,
    ranks: int = 0,
    hosts: tuple[tuple[str, int], ...] = (),
    boot: str = "",
    began_at: float | None = None,
) -> ev.Settings:
    """Return the settings of the machine."""
    return ev.Settings(
        claim=spec.claim,
        secret=spec.secret,
        nonce=nonce,
        processes=processes,
        ranks=ranks,
        hosts=hosts,
        hold_s=spec.hold_s,
        hold_lease_s=spec.hold_lease_s,
        run_lease_s=spec.run_lease_s,
        kill_s=spec.kill_s,
        wall_time_s=spec.wall_time_s,
        progress_s=spec.progress_s,
        no_barrier=spec.no_barrier,
        boot=boot,
        delivers=not spec.shared,
        has_outputs=bool(spec.output_files or spec.outputs),
        answer_s=MAILBOX_ANSWER_S if spec.mailbox else 0.0,
        began_at=began_at,
    )


def run(path: str, began_at: float | None = None) -> StarterDriver:
    """Run the starter of this specification to its end; its batch job `began_at`."""
    spec = to_object(loads(read_file(path)))
    keep_for(spec)
    driver = StarterDriver(spec, os.urandom(12).hex(), began_at)
    driver.run()
    return driver


def run_carried(given: dict[str, object], folder: str) -> NoReturn:
    """Run a starter that its batch script carried into this folder, to its end."""
    spec = to_object(given.pop("spec"))
    spec["folder"] = folder
    with open(os.path.join(folder, STATE_FOLDER, SPECIFICATION), "wb") as file:
        file.write(dumps(spec))
    began_at = begin_of(os.getppid())  # the script: an interpreter takes seconds on a busy machine
    keep_for(spec)
    driver = StarterDriver({**spec, "carried": given}, os.urandom(12).hex(), began_at)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log_file = os.open(os.path.join(folder, LOG_FILE), flags, 0o600)
    for descriptor in (1, 2):
        os.dup2(log_file, descriptor)
    os.close(log_file)
    driver.run()
    os._exit(0)


def keep_for(spec: dict[str, object]) -> None:
    """Leave a keeper behind where the batch system needs one."""
    if rules_of(spec).needs_keeper:
        keep()
