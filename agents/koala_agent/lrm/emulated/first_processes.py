"""The first processes of an emulated site's jobs: started or ordered, and watched.

A starter of the agent's own account is forked by a resident parent where there is one, or is such a
fork whose former claim is over. Anything else, and every job while there is no parent, is executed
by the agent itself. A forked starter begins when it has taken the claim's launch
(`starter.resident.forked.take_launch`). If the parent is lost before it answered, the agent takes
the launch instead and executes the starter, or learns whose it is. So no launch is lost or doubled.

Exits are reported once: that of our child with its status, that of a forked starter by its parent,
that of an earlier agent's child, or of a lost parent's, without one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from koala.errors import LocalManagerError
from koala_agent.lrm.claim_processes import SCOPE_VARIABLE, ProcessIdentity, is_alive
from koala_agent.lrm.emulated.process_trees import Usage
from koala_agent.lrm.emulated.resident_starters import (
    ProcessExit,
    ResidentStarters,
    StarterCallbacks,
    is_starter,
)
from koala_agent.lrm.launch import spawn, variables
from koala_agent.lrm.local_manager import EndCause, Placeholder
from koala_agent.starter.resident.forked import launched_by, take_launch
from koala_agent.transport.shell import AccountSwitch


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Reason why a job has no first process."""

    cause: EndCause
    reason: str
    exit_status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCallbacks:
    """Callbacks with the claim: its job was `started` or has `failed` to start, and the exit of its
    first process can be taken. Only the latter is always called from the loop. With `started` comes
    the processor time that its process had used for earlier claims."""

    started: Callable[[str, ProcessIdentity, float], None]
    failed: Callable[[str, Failure], None]
    exited: Callable[[str], None]


@dataclass(slots=True)
class _Watched:
    leader: ProcessIdentity
    descriptor: int | None = None
    """A pidfd that the loop watches; None for a starter whose parent reports its end."""
    exit: ProcessExit | None = None


class FirstProcesses:
    """The first processes that are being started, or whose exits were not taken."""

    def __init__(
        self,
        *,
        environment: Mapping[str, str],
        umask: int,
        switches: Mapping[str, AccountSwitch],
        scope: str,
        clock: Callable[[], float],
        callbacks: JobCallbacks,
    ) -> None:
        """`environment` and `umask` are those of the jobs, `switches` say how to become an account,
        and `scope` is the name of the local manager.
        """
        self._environment = environment
        self._umask = umask
        self._switches = switches
        self._scope = scope
        self._callbacks = callbacks
        self._starting: dict[str, Placeholder] = {}
        self._watched: dict[str, _Watched] = {}
        # A starter shows the environment of its parent, and its scope keeps other sites off it.
        self._resident = ResidentStarters(
            {**environment, SCOPE_VARIABLE: scope},
            umask=umask,
            clock=clock,
            callbacks=StarterCallbacks(
                started=self._started,
                unstarted=self._unstarted,
                ended=self._ended,
                lost=self._lost,
            ),
        )

    @property
    def is_starting(self) -> bool:
        """True while the parent has not answered an order of a starter."""
        return bool(self._starting)

    def start(self, placeholder: Placeholder) -> None:
        """Start a job; `started` or `failed` is called now or later."""
        self._starting[placeholder.claim] = placeholder
        if not is_starter(placeholder) or not self._resident.order(
            placeholder, variables(placeholder, scope=self._scope)
        ):
            del self._starting[placeholder.claim]
            self._take_and_spawn(placeholder)

    def resume(self, placeholder: Placeholder) -> None:
        """Go on with a start that an earlier agent, or the resident parent, may have made."""
        if is_starter(placeholder):
            self._take_and_spawn(placeholder)
        else:
            self._failed_unseen(placeholder.claim)

    def adopt(self, claim: str, leader: ProcessIdentity) -> None:
        """Watch a process that was started earlier. Raises ProcessLookupError when it is gone."""
        descriptor = os.pidfd_open(leader.pid)
        if not is_alive(leader):
            os.close(descriptor)
            raise ProcessLookupError(leader.pid)
        self._watch(claim, leader, descriptor)

    def reap(self, claim: str) -> ProcessExit | None:
        """Return the exit of a job's first process, once; None while it lives, and later. Call it
        when the process is over."""
        watched = self._watched.get(claim)
        if watched is not None and watched.descriptor is None and watched.exit is None:
            self._resident.receive()
            watched = self._watched.get(claim)
        if watched is None:
            return None
        self._unwatch(claim)
        return watched.exit or _wait_for(watched.leader)

    def reuse(self, claim: str) -> None:
        """Let the starter of a claim serve another one, now that the claim is over in the job table
        and its exit was reaped."""
        self._resident.reuse(claim)

    def retire(self, claim: str) -> None:
        """Have the starter of a claim exit when it has ended its service."""
        self._resident.retire(claim)

    def close(self) -> None:
        """Release this process's resources and leave jobs as they are."""
        for claim in tuple(self._watched):
            self._unwatch(claim)
        self._resident.close()

    # Processes that the agent executes ------------------------------------------------------------

    def _take_and_spawn(self, placeholder: Placeholder) -> None:
        """Execute a job, a starter only if nobody else has taken its launch."""
        spec = placeholder.argv[-1]
        try:
            if is_starter(placeholder) and not take_launch(spec, f"agent-{os.getpid()}"):
                leader = ProcessIdentity(*launched_by(spec))
                self._callbacks.started(placeholder.claim, leader, 0.0)
                self._adopt_or_end(placeholder.claim, leader)
                return
        except ValueError:  # an earlier agent has, and may have executed it
            self._failed_unseen(placeholder.claim)
            return
        except OSError as error:
            self._unstarted(placeholder.claim, str(error))
            return
        self._spawn(placeholder)

    def _failed_unseen(self, claim: str) -> None:
        reason = "the agent ended while the job was being started"
        self._callbacks.failed(claim, Failure(cause=EndCause.LOST, reason=reason))

    def _spawn(self, placeholder: Placeholder) -> None:
        claim = placeholder.claim
        try:
            leader = spawn(
                placeholder,
                self._environment,
                scope=self._scope,
                umask=self._umask,
                entry=self._account_switch(placeholder.account),
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            failure = Failure(cause=EndCause.EXITED, reason=str(error), exit_status=127)
            self._callbacks.failed(claim, failure)
        except PermissionError as error:
            failure = Failure(cause=EndCause.EXITED, reason=str(error), exit_status=126)
            self._callbacks.failed(claim, failure)
        except OSError as error:
            self._unstarted(claim, str(error))
        else:
            self._watch(claim, leader, os.pidfd_open(leader.pid))
            self._callbacks.started(claim, leader, 0.0)

    def _account_switch(self, account: str) -> AccountSwitch | None:
        """Return the entry of a job's account. Raises OSError for an account that is no longer
        mapped or usable."""
        if not account:
            return None
        if account not in self._switches:
            raise OSError(f"as {account}: accounts.map does not name it any more")
        try:
            return self._switches[account]
        except LocalManagerError as error:
            raise OSError(f"as {account}: {error}") from error

    def _watch(self, claim: str, leader: ProcessIdentity, descriptor: int) -> None:
        self._watched[claim] = _Watched(leader, descriptor)
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, self._exit_seen, claim, descriptor)

    def _exit_seen(self, claim: str, descriptor: int) -> None:
        asyncio.get_running_loop().remove_reader(descriptor)
        self._callbacks.exited(claim)

    def _unwatch(self, claim: str) -> None:
        descriptor = self._watched.pop(claim).descriptor
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    # Processes that the resident parent forks -----------------------------------------------------

    def _started(self, claim: str, leader: ProcessIdentity, earlier_cpu_s: float) -> None:
        del self._starting[claim]
        self._watched[claim] = _Watched(leader)
        self._callbacks.started(claim, leader, earlier_cpu_s)

    def _unstarted(self, claim: str, reason: str) -> None:
        self._starting.pop(claim, None)
        failure = Failure(cause=EndCause.LOST, reason=f"start failed: {reason}")
        self._callbacks.failed(claim, failure)

    def _ended(self, claim: str, end: ProcessExit) -> None:
        watched = self._watched.get(claim)
        if watched is not None:
            watched.exit = end
            self._callbacks.exited(claim)

    def _lost(self, ordered: frozenset[str]) -> None:
        """Go on without the parent: watch its starters, and start what it did not."""
        for claim, watched in tuple(self._watched.items()):
            if watched.descriptor is None and watched.exit is None:
                self._adopt_or_end(claim, watched.leader)
        for claim in sorted(ordered):
            self.resume(self._starting.pop(claim))

    def _adopt_or_end(self, claim: str, leader: ProcessIdentity) -> None:
        try:
            self.adopt(claim, leader)
        except ProcessLookupError:
            self._watched[claim] = _Watched(leader, exit=ProcessExit())
            self._callbacks.exited(claim)


def _wait_for(leader: ProcessIdentity) -> ProcessExit:
    """Return the exit of a process that is over, with its status if it is our child."""
    try:
        waited, status, used = os.wait4(leader.pid, os.WNOHANG)
    except ChildProcessError:
        return ProcessExit()  # an earlier agent's child
    assert waited == leader.pid, leader
    usage = Usage(cpu_s=used.ru_utime + used.ru_stime, peak_memory_bytes=used.ru_maxrss * 1024)
    return ProcessExit(status=os.waitstatus_to_exitcode(status), usage=usage)
