"""Starter's view of the other nodes of its component, each with a helper (`node`).

The batch system starts them when the claim is adopted (one `srun` for all; `qrsh -inherit` for
each), long before the barrier opens. Each dials the starter. Both prove that they know the secret
from the helper's standard input. Then the helper forks its processes, blocked. From then on its
events come over the connection, and a message over all connections opens the barrier. No secret is
sent over the connections, which others may listen to.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil

from koala_agent.starter import events as ev
from koala_agent.starter.challenge_response import (
    AGENT,
    STARTER,
    challenge,
    helper_name,
    is_proof,
    proof,
)
from koala_agent.starter.compat import boot_now, log, to_count, to_number, to_object, to_shell
from koala_agent.starter.connection import JsonSocket, listen_everywhere
from koala_agent.starter.light import accept, dumps, loads, signal, socket
from koala_agent.starter.messages import PortsCounted, read
from koala_agent.starter.process_tree import is_alive
from koala_agent.starter.program import again

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from koala_agent.starter.connection import Watch
    from koala_agent.starter.events import Event
    from koala_agent.starter.ports.carried import Counts
    from koala_agent.starter.program import ClaimProgram

REPORT_S = 2.0
"""Time limit for another node's report of processes left, before all is ended."""
KILLS_MAX = 40
"""KILLs sent over the connections before the launchers of the helpers are killed themselves."""
STRANGERS_MAX = 64
"""Most unauthenticated connections, besides one for each machine; the oldest is closed."""
STARTERS_OWN = ("/starter/driver.py", "/path_probes.py", "/remote_nodes.py", "/state_machine/")
STARTERS_EXCEPT = ("/__init__.py", "/clock_offset.py")
"""Modules, by parts of their names, that only a starter runs, and those among them that its helpers
run as well.
"""
END_S = 10.0
"""Time limit for the end of helpers that have nothing left."""


class RemoteNode:
    """One other machine. `left` counts processes, and is a guess until its first report."""

    def __init__(self, machine: int, host: str, mains: int) -> None:
        self.machine = machine
        self.host = host
        self.left = mains
        self.wire: JsonSocket | None = None
        self.is_ready = False
        self.is_lost = False
        self.has_reported = False
        self.opened_at: float | None = None
        self.cpu_s = 0.0
        self.memory_bytes = 0
        self.port_counts: Counts = ()


class RemoteNodes:
    """All other nodes of the component."""

    def __init__(
        self, spec: dict[str, object], program: ClaimProgram, watch: Watch, *, nonce: str
    ) -> None:
        self.cpu_s = 0.0
        self.lease_until = 0.0
        self._carried = to_object(spec.get("carried", {}))
        withheld = ("carried", "secret")
        self._spec = {name: value for name, value in spec.items() if name not in withheld}
        self._claim_secret = spec["secret"]
        self._nonce = nonce
        self._program = program
        self._watch = watch
        self._secret = os.urandom(16).hex()
        self._events: list[Event] = []
        self._nodes = {
            machine: RemoteNode(machine, program.hosts[machine][0], len(program.layout[machine]))
            for machine in range(1, len(program.layout))
        }
        self._launchers: dict[int, list[RemoteNode]] = {}
        self._strangers: list[_Caller] = []
        self._listener: socket.socket | None = None
        self._unreported_since: float | None = None
        self._kills = 0
        self._opened_at = 0.0

    # Calls of the driver -------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True when the processes of all nodes are forked and blocked."""
        return all(node.is_ready for node in self._nodes.values())

    @property
    def left(self) -> int:
        """Number of processes on other nodes; none before they are to start."""
        if self._listener is None:
            return 0
        return sum(node.left for node in self._nodes.values() if not node.is_lost)

    @property
    def present(self) -> int:
        """Number of connected machines."""
        return sum(node.wire is not None for node in self._nodes.values())

    def is_known(self) -> bool:
        """Return True when all have reported what is left since their main processes ended, or had
        the time.
        """
        if all(node.has_reported or node.is_lost for node in self._nodes.values()):
            return True
        self._unreported_since = self._unreported_since or boot_now()
        return boot_now() > self._unreported_since + REPORT_S

    @property
    def memory_bytes(self) -> int:
        """Most memory that a process used there."""
        return max((node.memory_bytes for node in self._nodes.values()), default=0)

    @property
    def port_counts(self) -> list[Counts]:
        """Counts by machine of what was moved to ports of others through the grid."""
        return [node.port_counts for node in self._nodes.values()]

    @property
    def launchers(self) -> list[int]:
        """Launchers of connected helpers: they end with the helpers."""
        spare = self._kills < KILLS_MAX
        return [
            pid
            for pid, nodes in self._launchers.items()
            if spare and any(node.wire is not None for node in nodes)
        ]

    def gather(self) -> list[Event]:
        """Return the events of the helpers."""
        events, self._events = self._events, []
        return events

    def fork(self, address: str) -> None:
        """Start or fork what is missing; `address` is one of ours. Raises OSError."""
        if self._listener is None:
            self._listen()
            self._start(address)
        for node in self._nodes.values():
            if node.wire is not None:
                node.wire.send({"kind": "fork"})

    def broadcast(self, kind: str, **fields: object) -> None:
        """Send a message to all connected helpers."""
        for node in self._nodes.values():
            if node.wire is not None:
                node.wire.send({"kind": kind, **fields})

    def opened(self, at: float) -> None:
        """Record that the barrier is open here since `at`."""
        self._opened_at = at
        self._check_opened()

    def signal(self, number: int) -> None:
        """Send a signal to all processes there."""
        self._kills += number == signal.SIGKILL
        self.broadcast("signal", number=number)

    def answer(self, question: int, answer: dict[str, object]) -> None:
        """Answer a put or get of a process there."""
        node = self._nodes.get(question >> ev.QUESTION_BITS)
        if node is not None and node.wire is not None:
            number = question & (1 << ev.QUESTION_BITS) - 1
            node.wire.send({"kind": "answer", "question": number, "answer": answer})

    def ended(self, others: list[tuple[int, int]]) -> None:
        """Handle ended children of ours, which may have been launchers of helpers."""
        for pid, status in others:
            for node in self._launchers.pop(pid, []):
                if node.wire is None and not node.is_lost:
                    why = f"what starts processes there ended with {status}"
                    self._lose(node, f"{node.host} could not be used: {why}")

    def close(self) -> None:
        """Release the helpers; return when their launchers have ended, or were killed."""
        self.broadcast("bye")
        if self._listener is not None:
            self._watch.remove(self._listener.fileno())
            self._listener.close()
        for caller in self._strangers:
            if caller.is_stranger:
                caller.wire.close()
        until = boot_now() + END_S
        while self._launchers and boot_now() < until:
            self._watch.wait(0.02)  # which reaps ended ones
            self._launchers = {pid: n for pid, n in self._launchers.items() if is_alive(pid)}
        for pid in self._launchers:
            os.kill(pid, signal.SIGKILL)

    # Starting them -------------------------------------------------------------------------------

    def _listen(self) -> None:
        self._listener = listen_everywhere(0)
        self._listener.settimeout(0)
        self._watch.add(self._listener.fileno(), select.POLLIN, self._accept)

    def _start(self, address: str) -> None:
        nodes = list(self._nodes.values())
        rules = self._program.rules
        if rules.starts_helpers_at_once:
            command = rules.helper_command([node.host for node in nodes])
            self._launch([*command, *self._helper()], nodes, address, machine=-1)
            return
        for node in nodes:
            helper = [shlex.quote(word) for word in self._helper()]
            command = [*rules.helper_command([node.host]), *helper]
            self._launch(command, [node], address, machine=node.machine)

    def _helper(self) -> list[str]:
        """Return the helper's command; a carried one is a script on its standard input."""
        return ["/bin/sh"] if self._carried else [*again(), "machine"]

    def _input(self, given: dict[str, object]) -> str:
        if not self._carried:
            return dumps(given).decode() + "\n"
        names = [str(self._carried[name]) for name in ("scratch", "python")]
        archive = helpers_archive(str(self._carried["archive"]))
        text = dumps({**self._carried, "archive": archive, **given}).decode()
        how = [to_shell(["set", "--", *names]), str(self._carried["shell"])]
        return "\n".join(["exec 3<<'KOALA'", text, "KOALA", *how])

    def _launch(
        self, command: list[str], nodes: list[RemoteNode], address: str, *, machine: int
    ) -> None:
        """Launch helpers. The secret goes by standard input, as arguments are public."""
        path = shutil.which(command[0], path=os.environ.get("PATH", os.defpath))
        if path is None:
            raise FileNotFoundError(f"{command[0]}: not found in PATH={os.environ.get('PATH')}")
        assert self._listener is not None
        port = self._listener.getsockname()[1]
        names = [address, socket.gethostname(), self._program.hosts[0][0], "127.0.0.1"]
        given: dict[str, object] = {
            "addresses": [[name, port] for name in dict.fromkeys(names) if name],
            "secret": self._secret,
            "claim_secret": self._claim_secret,
            "machine": machine,
            "hosts": [name for name, _count in self._program.hosts],
        }
        given_path = os.path.join(self._program.state_folder, f"given.{machine}")
        content = self._input(given).encode()
        with open(os.open(given_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        stdin = os.open(given_path, os.O_RDONLY)
        try:
            pid = os.fork()
            if pid == 0:
                _become_launcher(path, command, stdin)
        finally:
            os.close(stdin)
        self._launchers[pid] = nodes

    # Messages of the helpers ---------------------------------------------------------------------

    def _accept(self, _events: int) -> None:
        assert self._listener is not None
        try:
            connection = accept(self._listener)
        except OSError:
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        known = [caller for caller in self._strangers if caller.is_stranger]
        self._strangers = [*known, _Caller(connection, self._watch, self._authenticate)]
        if len(self._strangers) > STRANGERS_MAX + len(self._nodes):
            self._strangers.pop(0).wire.close()

    def _authenticate(self, caller: _Caller, message: dict[str, object]) -> RemoteNode | None:
        """Authenticate a caller; return its machine, None before its hello.

        Raises ValueError for a stranger, and for a helper that is connected already.
        """
        if message.get("kind") == "prove" and not caller.challenge:
            caller.challenge = challenge()
            fields = str(message.get("claim")), str(message.get("challenge"))
            shown = proof(self._secret, AGENT, *fields)
            answer = {"kind": "challenge", "challenge": caller.challenge, "proof": shown}
            caller.wire.send({**answer})
            return None
        node = self._nodes.get(to_count(message.get("machine")))
        if message.get("kind") != "hello" or node is None or not caller.challenge:
            raise ValueError(f"{str(message.get('kind'))[:40]} (expected hello first)")
        said_here = (helper_name(node.machine), str(message.get("nonce")), caller.challenge)
        if not is_proof(message.get("proof"), self._secret, STARTER, *said_here):
            raise ValueError("wrong proof")
        if node.is_lost or node.wire is not None:
            raise ValueError(f"{node.host} is lost, or connected already")
        node.wire = caller.wire
        caller.on_message, caller.on_lost = self._on_message, self._on_hang_up
        mains = [main.index for main in self._program.layout[node.machine]]
        node.wire.send(
            {
                "kind": "begin",
                "mains": mains,
                "kill_s": self._spec["kill_s"],
                "spec": self._spec,
                "machine": node.machine,
                "hosts": self._program.hosts,
                "environment": self._program.environment,
                "nonce": self._nonce,
            }
        )
        return node

    def _on_message(self, node: RemoteNode, message: dict[str, object]) -> None:
        try:
            self._handle_message(node, message)
        except ValueError as error:
            log(f"invalid message of {node.host}: {error}")

    def _handle_message(self, node: RemoteNode, message: dict[str, object]) -> None:  # noqa: C901 - a line a kind
        kind = message.get("kind")
        if kind == "ping":
            self._pong(node, to_number(message, "sent_at"))
        elif kind == "ready":
            node.is_ready = True
            if self.is_ready:
                self._events.append(ev.Ready())
        elif kind == "ended":
            index, status = to_count(message.get("index")), to_count(message.get("status"))
            self._events.append(ev.ProcessEnded(index=index, status=status))
        elif kind == "rank":
            rank, status = to_count(message.get("rank")), to_count(message.get("status"))
            self._events.append(ev.RankEnded(rank=rank, status=status))
        elif kind == "site":
            reason = f"{str(message.get('reason'))[:40]} at {node.host}"
            self._events.append(ev.SiteSignalled(reason=reason))
        elif kind == "trouble":
            self._events.append(ev.Unexecutable(reason=f"on {node.host}: {message.get('text')}"))
        elif kind == "opened":
            node.opened_at = to_number(message, "at")
            self._check_opened()
        elif kind == "late":
            reason = f"the word to start came to {node.host} too late"
            self._events.append(ev.NodeLost(kind="late", reason=reason))
        elif kind == "left":
            node.left = to_count(message.get("left"))
            node.has_reported = True
            node.cpu_s = to_number(message, "cpu_s")
            node.memory_bytes = to_count(message.get("memory_bytes"))
            self.cpu_s = sum(each.cpu_s for each in self._nodes.values())
        elif kind == "ports":
            node.port_counts = read(PortsCounted, message).ports
            self._events.append(ev.PortsMoved(ports=node.port_counts))
        elif kind == "ask":
            self._ask(node, message)
        elif kind == "delivered":
            problem, is_lost = str(message.get("problem", "")), bool(message.get("is_lost"))
            self._events.append(ev.Delivered(problem=problem, is_lost=is_lost))

    def _pong(self, node: RemoteNode, sent_at: float) -> None:
        assert node.wire is not None
        lease_until = None if self.lease_until == float("inf") else self.lease_until
        node.wire.send(
            {"kind": "pong", "sent_at": sent_at, "now": boot_now(), "lease_until": lease_until}
        )

    def _ask(self, node: RemoteNode, message: dict[str, object]) -> None:
        value = message.get("value")
        self._events.append(
            ev.ValueRequested(
                question=node.machine << ev.QUESTION_BITS | to_count(message.get("question")),
                name=str(message.get("name")),
                value=None if value is None else str(value),
                wait_s=to_number(message, "wait_s"),
            )
        )

    def _check_opened(self) -> None:
        instants = [node.opened_at for node in self._nodes.values()]
        known = [at for at in instants if at is not None]
        if self._opened_at > 0 and len(known) == len(instants):
            self._events.append(ev.OpenedEverywhere(at=max(self._opened_at, *known)))

    def _on_hang_up(self, node: RemoteNode, reason: str) -> None:
        node.wire = None
        self._lose(node, f"the connection to {node.host} was lost: {reason}")

    def _lose(self, node: RemoteNode, reason: str) -> None:
        node.is_lost = True
        self._events.append(ev.NodeLost(kind="vanished", reason=reason))


class _Caller:
    """Connection that belongs to a helper once it has authenticated."""

    def __init__(
        self,
        connection: socket.socket,
        watch: Watch,
        greet: Callable[[_Caller, dict[str, object]], RemoteNode | None],
    ) -> None:
        self.challenge = ""
        self.on_message: Callable[[RemoteNode, dict[str, object]], None] | None = None
        self.on_lost: Callable[[RemoteNode, str], None] | None = None
        self._authenticate = greet
        self._node: RemoteNode | None = None
        self.wire = JsonSocket(connection, watch, on_message=self._on_message, on_lost=self._lost)

    @property
    def is_stranger(self) -> bool:
        """True while connected without authentication."""
        return self._node is None and self.wire.is_open

    def _on_message(self, message: dict[str, object]) -> None:
        if self._node is None:
            try:
                self._node = self._authenticate(self, message)
            except ValueError:
                self.wire.close()
        elif self.on_message is not None:
            self.on_message(self._node, message)

    def _lost(self, reason: str) -> None:
        if self._node is not None and self.on_lost is not None:
            self.on_lost(self._node, reason)


def helpers_archive(archive: str) -> str:
    """Return the archive of a helper: `qrsh` passes on little of its standard input."""
    import base64  # noqa: PLC0415 - late: most have installed starters
    import zlib  # noqa: PLC0415 - see above

    files = to_object(loads(zlib.decompress(base64.b85decode(archive))))
    kept = {
        name: text
        for name, text in files.items()
        if name.endswith(STARTERS_EXCEPT) or not any(own in name for own in STARTERS_OWN)
    }
    return base64.b85encode(zlib.compress(dumps(kept), 9)).decode()


def _become_launcher(path: str, command: list[str], stdin: int) -> NoReturn:
    """Run a forked process: lead a process group, and exec the launcher of helpers. Never returns.

    `os.posix_spawn` would need Python 3.8.
    """
    try:
        os.setpgid(0, 0)
        for number in (signal.SIGPIPE, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(2, 1)
        os.execv(path, command)
    except OSError as error:
        log(f"{path}: {error.strerror}")
    finally:
        os._exit(127)
