"""The resident parent of starters as its agent sees it (`koala_agent.starter.resident`).

It is started with the first order, and again after its end, with a pause that grows while it ends
without an answer. Losing it loses nothing: its starters run on, and for each order without an
answer `lost` is called, after which the launch is taken by at most one other process.

A starter that has seen the end of all that it started for a claim says so on its socket, and may
serve another claim (`starter.resident.forked`): once `reuse` is called, and as long as both this
process and the parent live.

Starter and parent get an order only while they have the settings that the parent began with
(`process_settings`): what a program has changed of them would be inherited by another user's.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from koala.common.runtime.structured_log import get_logger
from koala_agent.lrm.claim_processes import ProcessIdentity
from koala_agent.lrm.emulated.idle_starters import (
    ForkedStarter,
    IdleStarters,
    ProcessSettings,
    settings_of,
)
from koala_agent.lrm.emulated.process_trees import Usage
from koala_agent.lrm.local_manager import Placeholder
from koala_agent.starter.program import SPECIFICATION, STATE_FOLDER
from koala_agent.starter.resident.forked import ORDER_MAX_BYTES
from koala_agent.starter.resident.process_title import PADDING, PADDING_BYTES, VERB

log = get_logger()

ANSWER_S = 5.0
"""Longest wait for the answer to an order; a parent without one is killed."""
AGAIN_MIN_S, AGAIN_MAX_S = 0.5, 60.0
"""Pause before another parent is started, when one ended without an answer."""
END_S = 5.0
"""Longest wait for the end of a killed parent: after the kill it forks nothing anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """End of a job's first process; the status is None when nobody saw it. `is_empty`: nothing that
    it had started was left."""

    status: int | None = None
    usage: Usage = field(default_factory=Usage)
    is_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StarterCallbacks:
    """Callbacks with the claim, called on the loop: its starter was `started`, could not be
    (`unstarted`), or has `ended` its service; the parent was `lost` before it answered an order.
    With `started` comes the processor time that the starter had used for earlier claims."""

    started: Callable[[str, ProcessIdentity, float], None]
    unstarted: Callable[[str, str], None]
    ended: Callable[[str, ProcessExit], None]
    lost: Callable[[frozenset[str]], None]


@dataclass(frozen=True, slots=True)
class _Order:
    """Order to the parent without an answer: since when, and our end of the starter's socket."""

    at: float
    control: socket.socket


class ResidentStarters:
    """The parent, or none."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        umask: int,
        clock: Callable[[], float],
        callbacks: StarterCallbacks,
    ) -> None:
        """`environment` and `umask` are those of the starters."""
        self._environment = {**environment, PADDING: " " * PADDING_BYTES}
        self._umask = umask
        self._clock = clock
        self._callbacks = callbacks
        self._command: tuple[str, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings: ProcessSettings | None = None
        self._socket: socket.socket | None = None
        self._ordered: dict[str, _Order] = {}
        self._serving: dict[str, ForkedStarter] = {}
        self._claims: dict[int, str] = {}
        """Claims of those that serve, by process id."""
        self._over: dict[str, ForkedStarter] = {}
        self._idle = IdleStarters(clock)
        self._check: asyncio.TimerHandle | None = None
        self._again_at = 0.0
        self._pause_s = AGAIN_MIN_S

    def order(self, placeholder: Placeholder, variables: Mapping[str, str]) -> bool:
        """Order a starter with these variables besides those of all; False when it has to be
        started in another way. The answer is a report."""
        command, spec = placeholder.argv[:-1], placeholder.argv[-1]
        if not self._has_parent(command):
            return False
        order = {
            "claim": placeholder.claim,
            "spec": spec,
            "directory": str(placeholder.directory),
            "environment": dict(variables),
        }
        packet = json.dumps(order).encode()
        if len(packet) > ORDER_MAX_BYTES:
            return False
        starter = self._idle.order(packet, self._settings)
        if starter is None:
            return self._order_fork(placeholder.claim, packet)
        self._serve(placeholder.claim, starter)
        return True

    def reuse(self, claim: str) -> None:
        """Let the starter of a claim serve another one, if it has ended its service of this one.
        Call it when no record names it as this claim's any more."""
        if claim in self._over and self._over[claim].may_serve:
            self._idle.add(self._over.pop(claim))
        else:
            self.retire(claim)

    def retire(self, claim: str) -> None:
        """Have the starter of a claim exit if it has ended its service."""
        starter = self._over.pop(claim, None)
        if starter is not None:
            starter.hang_up()

    def close(self) -> None:
        """End the parent; its starters run on until their claims are over, and orders without an
        answer are not reported."""
        self._idle.close()
        for starter in (*self._serving.values(), *self._over.values()):
            starter.hang_up()
        self._serving, self._claims, self._over = {}, {}, {}
        for order in self._ordered.values():
            order.control.close()
        if self._check is not None:
            self._check.cancel()
            self._check = None
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
            self._process = None

    def receive(self) -> None:
        """Handle what the parent has said."""
        while self._socket is not None:
            try:
                packet = self._socket.recv(ORDER_MAX_BYTES)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._lost("it has ended")
                return
            self._handle(json.loads(packet))

    def _has_parent(self, command: tuple[str, ...]) -> bool:
        """Check for a parent with this starter; start it if there is none."""
        if self._process is not None and settings_of(self._process.pid) != self._settings:
            self._lost("its limits or priority were changed, or it has ended")
        if self._socket is not None:
            return command == self._command
        if self._clock() < self._again_at:
            return False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    (*command, VERB, " " * PADDING_BYTES),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    cwd="/",
                    env=self._environment,
                    start_new_session=True,
                    umask=self._umask,
                )
            except OSError as error:
                ours.close()
                log.warning("starters.parent_not_started", reason=str(error))
                self._wait_longer()
                return False
        self._settings = settings_of(self._process.pid)
        ours.settimeout(0)
        self._socket, self._command = ours, command
        asyncio.get_running_loop().add_reader(ours, self.receive)
        return True

    def _order_fork(self, claim: str, packet: bytes) -> bool:
        """Order a fork from the parent; False when it takes no order for now."""
        assert self._socket is not None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(0)
        with theirs:
            try:
                socket.send_fds(self._socket, [packet], [theirs.fileno()])
            except OSError:  # if it has ended, the reader sees that
                ours.close()
                return False
        self._ordered[claim] = _Order(self._clock(), ours)
        self._check_later()
        return True

    def _serve(self, claim: str, starter: ForkedStarter) -> None:
        self._serving[claim] = starter
        self._claims[starter.identity.pid] = claim
        self._callbacks.started(claim, starter.identity, starter.cpu_s)

    def _handle(self, answer: dict[str, object]) -> None:
        """Handle an answer of the parent."""
        match answer:
            case {"started": str(claim), "pid": int(pid), "start_ticks": int(ticks)}:
                self._pause_s = AGAIN_MIN_S
                starter = ForkedStarter(
                    ProcessIdentity(pid, ticks), self._ordered.pop(claim).control
                )
                asyncio.get_running_loop().add_reader(starter.control, self._receive_from, starter)
                self._serve(claim, starter)
            case {"unstarted": str(claim), "error": str(error)}:
                self._ordered.pop(claim).control.close()
                self._callbacks.unstarted(claim, error)
            case {
                "exited": int(pid),
                "status": int(status),
                "cpu_s": float(cpu_s),
                "memory_bytes": int(peak),
            }:
                if pid in self._claims:
                    self._receive_from(self._serving[self._claims[pid]])
                if pid in self._claims:
                    self._exited(pid, status, cpu_s, peak)
            case _:
                raise AssertionError(answer)

    def _exited(self, pid: int, status: int, cpu_s: float, peak_memory_bytes: int) -> None:
        """Handle the exit of a starter that has not said that its claim is over; the usage is that
        of its whole run."""
        claim = self._claims.pop(pid)
        starter = self._serving.pop(claim)
        starter.hang_up()
        is_first = starter.claims == 1
        usage = Usage(
            cpu_s=cpu_s - starter.cpu_s, peak_memory_bytes=peak_memory_bytes if is_first else 0
        )
        self._callbacks.ended(claim, ProcessExit(status=status, usage=usage))

    def _receive_from(self, starter: ForkedStarter) -> None:
        """Handle what a starter says: that its claim is over, or the end of its socket."""
        try:
            packet = starter.control.recv(ORDER_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError:  # it has closed the socket with an order unread, or we have
            packet = b""
        if not packet:
            starter.hang_up()
            self._idle.remove(starter)
            return
        over = json.loads(packet)
        claim, cpu_s = str(over["over"]), float(over["cpu_s"])
        usage = Usage(cpu_s=cpu_s - starter.cpu_s, peak_memory_bytes=int(over["memory_bytes"]))
        starter.cpu_s = cpu_s
        del self._serving[claim], self._claims[starter.identity.pid]
        self._over[claim] = starter
        self._callbacks.ended(claim, ProcessExit(status=0, usage=usage, is_empty=True))

    def _check_later(self) -> None:
        if self._check is None and self._ordered:
            left_s = self._oldest_at() + ANSWER_S - self._clock()
            loop = asyncio.get_running_loop()
            self._check = loop.call_later(max(0.0, left_s), self._check_answers)

    def _check_answers(self) -> None:
        """Kill a parent that does not answer: then it is certain that it forks no more."""
        self._check = None
        self.receive()
        if self._ordered and self._clock() >= self._oldest_at() + ANSWER_S:
            self._lost(f"it has not answered for {ANSWER_S:g} s")
        self._check_later()

    def _oldest_at(self) -> float:
        return min(order.at for order in self._ordered.values())

    def _lost(self, reason: str) -> None:
        self.close()
        ordered, self._ordered = frozenset(self._ordered), {}
        log.warning("starters.parent_lost", reason=reason, unanswered=len(ordered))
        self._wait_longer()
        self._callbacks.lost(ordered)

    def _wait_longer(self) -> None:
        self._again_at = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, AGAIN_MAX_S)


def is_starter(placeholder: Placeholder) -> bool:
    """Test for a starter that runs as the agent's own account on this machine."""
    is_own = not placeholder.account and not placeholder.body
    path = Path(placeholder.argv[-1])
    return is_own and (path.parent.name, path.name) == (STATE_FOLDER, SPECIFICATION)
