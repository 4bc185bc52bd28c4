"""Host of the processes of one computer, with their signals, values and files: for a starter or a
helper on another node."""

from __future__ import annotations

import os
import select
import sys

from koala_agent.starter import events as ev
from koala_agent.starter.blocked.process import PAUSE_SIGNALS, SITE_SIGNALS
from koala_agent.starter.compat import log, write_all
from koala_agent.starter.exchange.kv_socket import KeyValueSocket
from koala_agent.starter.light import dumps, signal
from koala_agent.starter.processes import Processes
from koala_agent.starter.work_meter import WorkMeter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from koala_agent.starter.connection import Watch
    from koala_agent.starter.events import Event, Resize
    from koala_agent.starter.exchange.job_world import JobWorld
    from koala_agent.starter.files.file_sync import FileSyncClient, SyncRequest
    from koala_agent.starter.ports.carried import Counts
    from koala_agent.starter.ports.forwarder import PortForwarder
    from koala_agent.starter.program import ClaimProgram

DEATHS_MAX = 5
"""Early ends of the file sync process before the delivery is given up."""
NOT_BROUGHT = "files could not be brought to the agent"


def make_sync_request(
    program: ClaimProgram, nonce: str, *, own: tuple[str, ...] = ()
) -> SyncRequest | None:
    """Make the request of file syncs between this machine and the agent; None where both see it.

    `own` are logs besides those of the program.
    """
    spec = program.spec
    if spec.shared:
        return None
    from koala_agent.starter.files.file_sync import SyncRequest  # noqa: PLC0415 - late: most need none

    inputs = [(name, os.path.join(program.inputs, name)) for name in spec.inputs]
    streams = [
        program.stream(kind, process) for process in range(program.processes) for kind in (1, 2)
    ]
    logs = [os.path.relpath(path, program.folder) for path in streams]
    outputs = [os.path.join(program.directory, name) for name in spec.output_files]
    return SyncRequest(
        folder=program.folder,
        agents=list(spec.agents),
        mailbox=spec.mailbox,
        identity={"claim": spec.claim, "secret": spec.secret, "nonce": nonce},
        fetches=spec.fetches,
        inputs=[(name, os.path.relpath(path, program.folder)) for name, path in inputs],
        staged=spec.staged,
        logs=[*own, *logs],
        outputs=[(os.path.relpath(path, program.folder), path) for path in outputs],
        directory=program.directory,
        patterns=spec.outputs,
    )


class ProcessHost:
    """Host of the processes of this computer."""

    def __init__(
        self,
        program: ClaimProgram,
        nonce: str,
        watch: Watch,
        *,
        sync_request: SyncRequest | None = None,
    ) -> None:
        self.program = program
        self.processes = Processes(program, nonce)
        self.work_meter = WorkMeter(program, self.processes)
        self.kv_socket: KeyValueSocket | None = None
        self._job_world: JobWorld | None = None
        self._nonce = nonce
        self._watch = watch
        self._sync_request = sync_request
        self._file_sync: FileSyncClient | None = None
        self._forwarder: PortForwarder | None = None
        self._is_forked = False
        self._is_fetched = sync_request is None
        self._is_delivering = False
        self._is_whole = False
        self._deaths = 0
        self._others: list[tuple[int, int]] = []
        self._events: list[Event] = []

    @property
    def is_ready(self) -> bool:
        """True when the processes may be released."""
        return self._is_forked and self._is_fetched

    @property
    def excluded(self) -> list[int]:
        """Processes that are the starter's own, and not the program's."""
        pids = [0 if own is None else own.pid for own in (self._file_sync, self._forwarder)]
        return [pid for pid in pids if pid]

    @property
    def port_counts(self) -> Counts:
        """Counts of what this machine's processes have moved to ports of others."""
        return () if self._forwarder is None else self._forwarder.counts

    def finish_ports(self) -> bool:
        """Let the connections through the grid end, as nothing is left that uses them; False once
        they have."""
        return self._forwarder is not None and self._forwarder.finish()

    def pop_others(self) -> list[tuple[int, int]]:
        """Return and clear the ended children that were no main processes, with their statuses."""
        others, self._others = self._others, []
        return others

    def gather(self) -> list[Event]:
        """Return the events of processes, and their puts and gets; what they ask about the members
        of their job is answered here."""
        for pid, status in self.processes.pop_others():
            if self._file_sync is not None and pid == self._file_sync.pid:
                self._file_sync_ended()
            elif self._forwarder is not None and pid == self._forwarder.pid:
                self._forwarder.ended()
            else:
                self._others.append((pid, status))
        events, self._events = self._events, []
        if self._forwarder is not None and self._forwarder.has_news:
            self._forwarder.has_news = False
            events.append(ev.PortsMoved(ports=self._forwarder.counts))
        if self.kv_socket is not None:
            for asked in self.kv_socket.received:
                if isinstance(asked, ev.WorldRequested):
                    self._ask_world(asked)
                else:
                    events.append(asked)
            self.kv_socket.received.clear()
        if self._job_world is not None:
            self._job_world.tick()
        return events

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `gather` answers a request."""
        return None if self._job_world is None else self._job_world.wake_at

    def close(self) -> None:
        """Remove the socket, end the file sync, and close the pipe of the processes."""
        self.processes.close()
        if self.kv_socket is not None:
            self.kv_socket.close()
        if self._file_sync is not None:
            self._file_sync.close()
        if self._forwarder is not None:
            self._forwarder.close()

    def deliver(self, *, is_whole: bool) -> list[Event]:
        """Start the delivery of logs, and with `is_whole` of outputs, to the agent."""
        if self._file_sync is None:
            is_lost = self._deaths > 0
            return [ev.Delivered(problem=NOT_BROUGHT if is_lost else "", is_lost=is_lost)]
        self._is_delivering = True
        self._is_whole = is_whole
        self._file_sync.deliver(is_whole=is_whole)
        return []

    def _start_file_sync(self, sync_request: SyncRequest) -> None:
        """Start the file sync process. Raises OSError."""
        from koala_agent.starter.files.file_sync import FileSyncClient  # noqa: PLC0415 - late: most need none

        self._file_sync = FileSyncClient(sync_request)
        self._watch.add(self._file_sync.socket.fileno(), select.POLLIN, self._receive_file_sync)

    def _receive_file_sync(self, _events: int) -> None:
        file_sync = self._file_sync
        messages = [] if file_sync is None else file_sync.receive()
        if file_sync is not None and not messages:  # its end, which SIGCHLD reports as well
            self._watch.remove(file_sync.socket.fileno())
        for message in messages:
            if "ready" in message:
                self._is_fetched = True
                if self.is_ready:
                    self._events.append(ev.Ready())
            else:
                self._is_delivering = False
                self._events.append(ev.Delivered(problem=str(message.get("problem", ""))))

    def _file_sync_ended(self) -> None:
        """Handle the end of the file sync process: start another one, which resumes, or give up."""
        assert self._file_sync is not None
        assert self._sync_request is not None
        log("file sync: it ended")
        self._receive_file_sync(0)  # its last messages
        self._watch.remove(self._file_sync.socket.fileno())
        self._file_sync.close()
        self._file_sync = None
        self._deaths += 1
        if self._has_another(self._sync_request):
            if self._is_delivering:
                self.deliver(is_whole=self._is_whole)
        elif self._is_delivering:
            self._is_delivering = False
            self._events.append(ev.Delivered(problem=NOT_BROUGHT, is_lost=True))
        elif not self._is_fetched:
            self._events.append(ev.NodeLost(kind="vanished", reason="no input could be fetched"))

    def _has_another(self, sync_request: SyncRequest) -> bool:
        if not self._is_fetched or (self._is_delivering and self._deaths > DEATHS_MAX):
            return False
        sync_request.fetches = False  # it has
        try:
            self._start_file_sync(sync_request)
        except OSError as error:
            log(f"file sync: no other one can be started: {error}")
            return False
        return True

    def fork(self) -> list[Event]:
        """Fork the missing processes."""
        try:
            if self.kv_socket is None:
                self.kv_socket = KeyValueSocket(self.program.state_folder, self._nonce, self._watch)
                self._watch.add(self.processes.error_pipe, select.POLLIN, self._read_errors)
            self.processes.fork()
            self._is_forked = True
            if self._sync_request is not None and self._file_sync is None:
                self._start_file_sync(self._sync_request)
        except OSError as error:
            return [ev.Unexecutable(reason=f"cannot prepare its processes: {error}")]
        return [ev.Ready()] if self.is_ready else []

    def prepare(self, bundle: dict[str, object]) -> None:
        """Send the bundle to the blocked processes.

        Raises OSError when there is no room for it, and ValueError for what no environment can
        hold: a program that cannot find its members must not start.
        """
        variables = self._open_ports(bundle)
        path = self.write("bundle.json", {**bundle, "ports": variables})
        assert self.kv_socket is not None
        shared = {"KOALA_BUNDLE": path, "KOALA_KV": self.kv_socket.path, **variables}
        if self.program.spec.is_malleable:
            shared.update(self._begin_world(bundle))
        mains = self.program.mains
        environments = {
            main.index: {**self.program.bundle_variables(bundle, main), **shared} for main in mains
        }
        if self.program.ranks:
            launch: dict[str, object] = {
                "environment": self.program.environment,
                "path": os.environ.get("PATH", os.defpath),
                "kv": self.kv_socket.path,
            }
            self.write("launch.json", launch)
        self.processes.prepare(environments)

    def _open_ports(self, bundle: dict[str, object]) -> dict[str, str]:
        """Open what leads to the ports of the attempt; return the program's variables. Raises
        OSError, ValueError."""
        if not bundle.get("ports"):
            return {}
        from koala_agent.starter.ports.carried import ports_of  # noqa: PLC0415 - late: few jobs have any
        from koala_agent.starter.ports.forwarder import PortForwarder  # noqa: PLC0415 - as above

        if self._forwarder is None:
            spec = self.program.spec
            self._forwarder = PortForwarder(
                ports_of(bundle),
                agents=list(spec.agents),
                identity={"claim": spec.claim, "secret": spec.secret, "nonce": self._nonce},
                mark=self._nonce,
                is_first=self.program.machine == 0,
                watch=self._watch,
            )
        self._forwarder.start()
        return self._forwarder.variables

    def _begin_world(self, bundle: dict[str, object]) -> dict[str, str]:
        from koala_agent.starter.exchange.job_world import JobWorld  # noqa: PLC0415 - late: few jobs need it

        if self._job_world is None:
            self._job_world = JobWorld(self.program, write=self.write, answer=self.answer)
        return self._job_world.begin(bundle)

    def resize(self, order: Resize, excluded: Collection[int]) -> None:
        """Let the processes know of the members of their job; before they are prepared there is
        nobody to know it."""
        if self._job_world is None:
            return
        self._job_world.change(order)
        name = self.program.spec.resize_signal
        if name and self.processes.are_released:
            self.processes.signal(getattr(signal, "SIG" + name), excluded, is_notice=True)

    def _ask_world(self, asked: ev.WorldRequested) -> None:
        if self._job_world is not None:
            self._job_world.ask(asked)
        else:
            text = "the members of this job do not change (expected one with malleable=yes)"
            self.answer(asked.question, {"ok": False, "error": text})

    def answer(self, question: int, answer: dict[str, object]) -> None:
        """Answer a process's put or get."""
        if self.kv_socket is not None:
            self.kv_socket.answer(question, answer)

    def write(
        self, name: str, content: dict[str, object] | bytes, *, is_durable: bool = False
    ) -> str:
        """Write a small file atomically; return its path. Raises OSError."""
        path = os.path.join(self.program.state_folder, name)
        new = f"{path}.{self._nonce}.new"
        # The program knows this name, and could have put a pipe there that blocks the open.
        if os.path.lexists(new):
            os.unlink(new)
        opened = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_all(opened, content if isinstance(content, bytes) else dumps(content))
            if is_durable:
                os.fsync(opened)
        finally:
            os.close(opened)
        os.replace(new, path)
        return path

    # Signals -------------------------------------------------------------------------------------

    def catch_signals(self) -> None:
        """Turn signals into events from now on."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        if sys.version_info >= (3, 7):  # noqa: UP036 - 3.6 can only warn, in the log
            signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        else:
            signal.set_wakeup_fd(writing)
        for name in (*SITE_SIGNALS, *PAUSE_SIGNALS, "SIGCHLD"):
            signal.signal(getattr(signal, name), lambda _number, _frame: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._watch.add(reading, select.POLLIN, lambda _events: self._signalled(reading))

    def reap(self) -> list[Event]:
        """Return the ends of processes; the messages of a process come before its end."""
        ended = self.processes.reap()
        self._read_errors(0)
        events, self._events = self._events, []
        return events + [ev.ProcessEnded(index=index, status=status) for index, status in ended]

    def _signalled(self, reading: int) -> None:
        for number in os.read(reading, 4096):
            if number == signal.SIGCHLD:
                ended = self.reap()  # includes the pending events, which must not be reported twice
                self._events += ended
            elif number in (signal.SIGUSR1, signal.SIGCONT):
                self._pause(is_over=number == signal.SIGCONT)
            else:
                name = next(name for name in SITE_SIGNALS if getattr(signal, name) == number)
                self._events.append(ev.SiteSignalled(reason=f"{name} from the site"))

    def _pause(self, *, is_over: bool) -> None:
        """Forward a suspension by a batch system that stops and continues only the starter's
        process group, or its end; the program has groups of its own."""
        if self.program.rules.passes_suspension:
            self.processes.signal(signal.SIGCONT if is_over else signal.SIGSTOP)

    def _read_errors(self, _events: int) -> None:
        self._events += [ev.Unexecutable(reason=text) for text in self.processes.read_errors()]
