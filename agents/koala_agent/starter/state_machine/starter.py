"""Pure state machine of the starter: events in, actions out; no I/O, clock or randomness.

- At the end of a lease, and at the hold deadline before the barrier, it stops all that it runs and
  exits (`leases`). It passes the barrier only at the daemon's Release (`barrier`).
- It stays the program's parent. When one process fails, the others of the component are ended, too
  (TERM, then KILL after `kill_s`; their statuses say -15 or -9). What outlives the main processes,
  daemons that left their session included, is ended in the same way.
- Its end is written to its folder and sent until it is noted. Then it exits, always with 0.

A component on several machines, or with jobType=mpi, has helpers as its main processes
(`mpi_launchers`); "processes" are then those. The programs of all
processes are forked at check-in and wait on a pipe each, so that opening the barrier is one write
a process.
"""

from __future__ import annotations

import math

from koala_agent.starter import events as ev
from koala_agent.starter import messages
from koala_agent.starter.light import signal
from koala_agent.starter.state_machine.barrier import Barrier, PathProbing, has_peers
from koala_agent.starter.state_machine.clock_offset import EVEN_S, EXACT_S, ClockOffset
from koala_agent.starter.state_machine.exit_statuses import ExitStatuses, status_text
from koala_agent.starter.state_machine.keepalive import Keepalive
from koala_agent.starter.state_machine.kv_requests import KvRequests, refused
from koala_agent.starter.state_machine.leases import StarterLeases
from koala_agent.starter.state_machine.pacing import Pacing
from koala_agent.starter.state_machine.phases import (
    Delivering,
    Ending,
    Exited,
    Holding,
    Over,
    Running,
    changed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event
    from koala_agent.starter.state_machine.phases import Phase

POLL_S = 0.05
LINGER_S = 60.0
"""Time for which an end is sent without an acknowledgement; it is on disk anyway."""
LEASE_LINGER_S = 1.0
"""The same after a lease: a peer that was silent for all of it will hardly receive the end."""
PROGRAM_ENDS = ("exited", "unexecutable", "wall-time")
DELIVER_S, DELIVER_LOGS_S = 3600.0, 10.0
"""Time limits of a delivery: outputs of a program that ended; logs of one that was ended."""


class StarterMachine:
    """State machine of one starter; its first lease counts from the construction."""

    def __init__(self, settings: ev.Settings, *, now: float, wall_offset_s: float) -> None:
        self.phase: Phase = Holding()
        self.passed_at: float | None = None
        self.clock = ClockOffset(wall_offset_s)
        self._is_clock_shared = False
        self._settings = settings
        self._now = now
        self._began_at = now if settings.began_at is None else settings.began_at
        self._actions: list[Action] = []
        self._kill_s = settings.kill_s
        self._leases = StarterLeases(settings, now)
        self._keepalive = Keepalive(now, settings.answer_s)
        self._barrier = Barrier(settings, now)
        self._paths = PathProbing()
        self._kv_requests = KvRequests()
        self._statuses = ExitStatuses(settings, now)
        self._counted_from = now
        self._pacing = Pacing(settings.progress_s)
        self._resized = 0  # the greatest number of a Resize
        self._is_pass_told = False
        self._pass_offset_s: float | None = None  # the daemon's time minus ours, at the pass

    def handle(self, event: Event, now: float) -> list[Action]:
        """Handle one event; return the actions to carry out, in order."""
        self._now = now
        self._actions = []
        if isinstance(self.phase, Exited):
            return []
        if isinstance(event, (ev.Connected, ev.Disconnected, ev.Received, ev.ValueRequested)):
            self._on_message(event)
        elif not isinstance(event, ev.Woken):
            self._on_process(event)
        self._tick()
        return self._actions

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `Woken` is due."""
        if isinstance(self.phase, Exited):
            return None
        dues = [*self._kv_requests.dues, self._keepalive.wake_at]
        dues += self._phase_dues()
        return min(dues)

    def lease_until(self) -> float:
        """Return the end of the present lease."""
        return self._leases.until(is_held=self.passed_at is None)

    def to_daemons(self, instant: float) -> float:
        """Convert an instant of our clock to the daemon's time.

        From the pass on the offset stays as it was then. So the time from pass to end is measured
        by our clock alone, whatever becomes of the daemon's.
        """
        offset_s = self._pass_offset_s
        return instant + (self.clock.offset_s(self._now) if offset_s is None else offset_s)

    # Messages ------------------------------------------------------------------------------------

    def _on_message(
        self, event: ev.Connected | ev.Disconnected | ev.Received | ev.ValueRequested
    ) -> None:
        if isinstance(event, ev.Received):
            self._receive(event.message)
        elif isinstance(event, ev.ValueRequested):
            self._ask(event)
        elif isinstance(event, ev.Connected):
            self._keepalive.connect(self._now)
            self._emit(ev.Send(message=self._hello()))
            self._ping()
        else:
            self._keepalive.disconnect(self._now)

    def _hello(self) -> dict[str, object]:
        """Make the check-in; after a reconnection it has the whole state."""
        arming = self._barrier.arming
        is_armed = arming is not None and arming.is_promised
        hello = messages.Hello(
            claim=self._settings.claim,
            secret=self._settings.secret,
            nonce=self._settings.nonce,
            hosts=self._settings.hosts,
            began_at=self.to_daemons(self._began_at),
            armed=arming.number if arming is not None and is_armed else None,
            passed_at=None if self.passed_at is None else self.to_daemons(self.passed_at),
            end=self._end_until_now(self.phase.end) if isinstance(self.phase, Over) else None,
        )
        return messages.to_message(hello)

    def _receive(self, message: dict[str, object]) -> None:  # noqa: C901 - a line a kind
        kind = message.get("kind")
        if kind == messages.PingAnswered.KIND:
            self._pong(messages.read(messages.PingAnswered, message))
        elif kind == messages.AdoptOrder.KIND:
            self._adopt(messages.read(messages.AdoptOrder, message))
        elif kind == messages.PathsOrder.KIND:
            self._try_paths(messages.read(messages.PathsOrder, message))
        elif kind == messages.ArmOrder.KIND:
            self._arm(messages.read(messages.ArmOrder, message), self._now)
        elif kind == messages.ReleaseOrder.KIND:
            self._release(messages.read(messages.ReleaseOrder, message))
        elif kind == messages.RequestAnswered.KIND:
            self._actions += self._kv_requests.answer(
                messages.read(messages.RequestAnswered, message)
            )
        elif kind == messages.ResizeOrder.KIND:
            self._resize(messages.read(messages.ResizeOrder, message))
        elif kind == messages.PaceOrder.KIND and isinstance(self.phase, Running):
            self._pacing.set_share(messages.read(messages.PaceOrder, message).share, self._now)
        elif kind == messages.StopOrder.KIND:
            if isinstance(self.phase, (Holding, Running)):
                self._begin_end("stopped", "")
            elif isinstance(self.phase, Delivering):
                self._cut_short(self.phase, "stopped", "its outputs are not wanted any more")
        elif kind == messages.DismissOrder.KIND:
            self._dismiss(messages.read(messages.DismissOrder, message).reason)
        elif kind == messages.EndAcknowledged.KIND and isinstance(self.phase, Over):
            self._exit()

    def _pong(self, answer: messages.PingAnswered) -> None:
        sent_at = answer.sent_at
        if sent_at > self._now:
            return  # not a ping of ours
        self._leases.answer(sent_at)
        self._barrier.is_wanted = True
        self._keepalive.note_answer(self._now)
        self._barrier.open_unarmed(self._now)
        self.clock.sample(sent_at=sent_at, answered_at=answer.now, now=self._now)
        self._barrier.correct(self.clock.offset_s(self._now))
        self._actions += self._keepalive.continue_burst(self._now, self._lease_s())

    def _adopt(self, order: messages.AdoptOrder) -> None:
        sample = None if order.clock is None else messages.read(messages.ClockSample, order.clock)
        if self._leases.change(order.hold_lease_s, order.run_lease_s):
            self._ping()
        self._kill_s = order.kill_s
        if sample is not None:
            self._share_clock(sample)
        if not self._is_clock_shared or self.clock.error_s(self._now) > EXACT_S:
            self._keepalive.start_burst()
        self._actions += [ev.Send(message=asked) for asked in self._kv_requests.messages]
        if not isinstance(self.phase, Holding) or self.phase.is_adopted:
            return
        self.phase = Holding(is_adopted=True)
        self._emit(ev.Fork())
        if self._settings.no_barrier:
            self._emit(ev.Prepare(bundle={}))

    def _share_clock(self, sample: messages.ClockSample) -> None:
        """Take over the agent's measurement of the daemon's clock, if it has our clock."""
        if sample.boot == self._settings.boot != "" and sample.at <= self._now:
            self.clock.share(sample.at, max(0.0, sample.half_s), sample.offset_s)
            self._is_clock_shared = True

    def _try_paths(self, order: messages.PathsOrder) -> None:
        """Probe the paths, before the barrier is armed."""
        phase = self.phase
        if isinstance(phase, Holding) and phase.is_adopted and self._barrier.arming is None:
            self._actions += self._paths.begin(order)

    def _ready(self) -> None:
        """Continue with what had to wait for the processes."""
        waiting = self._barrier.ready(self._now)
        if waiting is not None and isinstance(self.phase, Holding):
            received_at, order = waiting
            self._arm(order, received_at)

    def _arm(self, order: messages.ArmOrder, received_at: float) -> None:
        barrier = self._barrier
        if not isinstance(self.phase, Holding) or not self.phase.is_adopted:
            return
        if barrier.is_stale(order.number):
            return
        if barrier.is_promised(order.number):
            self._actions += barrier.repeat(self._now)
            return
        self._actions += self._paths.close()
        self._measure_clock(has_peers=has_peers(order))
        self._actions += barrier.arm(
            order, received_at, now=self._now, lease_until=self.lease_until()
        )

    def _release(self, order: messages.ReleaseOrder) -> None:
        if self.passed_at is not None and self._barrier.arming is not None:
            if order.number == self._barrier.arming.number:
                self._send_passed()
        elif isinstance(self.phase, Holding) and self._barrier.release(
            order, self.clock.offset_s(self._now)
        ):
            assert self._barrier.arming is not None
            self._measure_clock(has_peers=self._barrier.arming.has_peers)

    def _resize(self, order: messages.ResizeOrder) -> None:
        """Let the program know of a change, once; a later start learns of it as well."""
        if order.number > self._resized and isinstance(self.phase, (Holding, Running)):
            self._resized = order.number
            self._emit(ev.Resize(number=order.number, bundle=order.bundle, leave_s=order.leave_s))

    def _dismiss(self, reason: str) -> None:
        phase = self.phase
        if isinstance(phase, Over):
            self._exit()
        elif isinstance(phase, Delivering):
            self._over(phase, "", is_dismissed=True)
        elif isinstance(phase, Ending):
            self.phase = changed(phase, is_dismissed=True)
        elif isinstance(phase, (Holding, Running)):
            self._begin_end("stopped", reason, is_dismissed=True)

    def _ask(self, event: ev.ValueRequested) -> None:
        refusal = self._kv_requests.refusal(event)
        if refusal:
            self._emit(refused(event.question, refusal))
        else:
            self._send(self._kv_requests.ask(event, self._now))

    # Processes -----------------------------------------------------------------------------------

    def _on_process(self, event: Event) -> None:  # noqa: C901 - a line a kind
        if isinstance(event, (ev.Ready, ev.Opened, ev.OpenedEverywhere, ev.TooLate)):
            self._on_barrier(event)
        elif isinstance(event, ev.Unexecutable):
            self._unexecutable(event.reason)
        elif isinstance(event, ev.NodeLost):
            self._lose(event.kind, event.reason)
        elif isinstance(event, ev.ProcessEnded):
            self._process_ended(event)
        elif isinstance(event, ev.RankEnded):
            self._rank_ended(event)
        elif isinstance(event, ev.ProgressMeasured):
            report = self._pacing.measured(event, self._now)
            if report is not None and isinstance(self.phase, Running):
                self._send(messages.to_message(report))
        elif isinstance(event, ev.SiteSignalled):
            self._signalled_by_site(event.reason)
        elif isinstance(event, ev.ProcessesCounted):
            self._processes_counted(event)
        elif isinstance(event, ev.PathsProbed):
            self._paths.end(event.problem, event.reached, event.ports)
            self._send(self._paths.report)
        elif isinstance(event, ev.PortsMoved):
            self._send(messages.to_message(messages.PortsCounted(ports=event.ports)))
        elif isinstance(event, ev.Delivered) and isinstance(self.phase, Delivering):
            if event.is_lost:
                problem = event.problem or "a machine was lost with what it had to bring"
                self._cut_short(self.phase, "vanished", problem)
            else:
                self._over(self.phase, event.problem)

    def _on_barrier(self, event: ev.Ready | ev.Opened | ev.OpenedEverywhere | ev.TooLate) -> None:
        if isinstance(event, ev.Opened):
            self._opened(event)
        elif isinstance(event, ev.OpenedEverywhere):
            self._opened_everywhere(event.at)
        elif isinstance(event, ev.Ready):
            self._ready()
        elif isinstance(self.phase, Holding):
            self._begin_end("late", "the barrier could not be opened in time")

    def _signalled_by_site(self, reason: str) -> None:
        phase = self.phase
        if isinstance(phase, (Holding, Running)):
            self._begin_end("site", reason)
        elif isinstance(phase, Delivering):
            self._cut_short(phase, "site", f"{reason}, before its outputs were at the agent")
        elif isinstance(phase, Ending) and self._counted_from < self._statuses.final_at:
            self._begin_end("site", reason, is_dismissed=phase.is_dismissed)

    def _opened(self, event: ev.Opened) -> None:
        assert isinstance(self.phase, Holding), self.phase
        assert self.passed_at is None, "the barrier opens once"
        self.passed_at = event.at
        self._pass_offset_s = self.clock.offset_s(self._now)
        wall_time_s = self._settings.wall_time_s
        self.phase = Running(wall_until=event.at + wall_time_s if wall_time_s > 0 else math.inf)
        self._pacing.begin(event.at, self._now)
        if event.is_everywhere:
            self._send_passed()
        if self._barrier.problem:
            self._begin_end(*self._barrier.problem)

    def _opened_everywhere(self, at: float) -> None:
        """Set the pass to that of the last process: it determines the skew of a start. A pass that
        is not told, because a machine is frozen, ends the attempt (`koala.core.leases`).
        """
        if self.passed_at is not None and not self._is_pass_told:
            self.passed_at = max(self.passed_at, at)
            self._send_passed()

    def _send_passed(self) -> None:
        assert self.passed_at is not None
        self._is_pass_told = True
        passed_at = self.to_daemons(self.passed_at)
        self._send(messages.to_message(messages.PassReported(passed_at=passed_at)))

    def _unexecutable(self, reason: str) -> None:
        phase = self.phase
        if isinstance(phase, Ending) and phase.kind == "exited":
            # Its exit status was seen before its error text.
            self.phase = changed(phase, kind="unexecutable", reason=reason)
        else:
            self._lose("unexecutable", reason)

    def _lose(self, kind: str, reason: str) -> None:
        """End the claim, or postpone that while a promise forbids it."""
        barrier = self._barrier
        if isinstance(self.phase, Holding) and barrier.is_promising(self._now):
            barrier.problem = barrier.problem or (kind, reason)  # an abort is not allowed now
        elif isinstance(self.phase, (Holding, Running)):
            self._begin_end(kind, reason)

    def _process_ended(self, event: ev.ProcessEnded) -> None:
        phase, statuses = self.phase, self._statuses
        if isinstance(phase, Holding):
            # Only an outsider ends a blocked process: fork another one in its place.
            is_wanted = not self._barrier.problem
            if not statuses.may_fork_again(event.index, event.status, is_wanted=is_wanted):
                self._unexecutable("the blocked processes end again and again")
            elif is_wanted:
                self._emit(ev.Fork())
            return
        statuses.note(event.index, event.status)
        if isinstance(phase, Ending):
            self._count_processes()
        elif isinstance(phase, Running):
            statuses.defer_if_foreign(event.status, self._now)
            if event.status != 0 and self._settings.processes > 1:
                reason = f"process {event.index} ended with {status_text(event.status)}"
                self._begin_end("exited", reason)
            elif statuses.is_complete:
                self._actions += self._pacing.end()
                self.phase = Ending(kind="exited", reason="", kill_at=None, poll_at=self._now)

    def _rank_ended(self, event: ev.RankEnded) -> None:
        """Handle the end of a rank, which is reported before its launcher ends for it."""
        if self.passed_at is None or not 0 <= event.rank < self._settings.ranks:
            return
        self._statuses.note_rank(event.rank, event.status)
        if isinstance(self.phase, Running) and event.status != 0:
            self._statuses.defer_if_foreign(event.status, self._now)
            reason = f"process {event.rank} ended with {status_text(event.status)}"
            self._begin_end("exited", reason)

    def _processes_counted(self, event: ev.ProcessesCounted) -> None:
        phase = self.phase
        if not isinstance(phase, Ending):
            return
        # The pause begins now: on a busy machine a count takes longer, and what the agent and the
        # other machines say is to be heard before the next one.
        self.phase = phase = changed(phase, poll_at=self._now + POLL_S)
        if event.left == 0:
            # A slow count hides what came meanwhile: one is begun when the statuses are final.
            if self._counted_from >= self._statuses.final_at:
                self._deliver(phase, event)
        elif phase.kill_at is None:
            if not event.is_known:
                return
            self._begin_end(phase.kind, phase.reason, is_dismissed=phase.is_dismissed)
        elif self._now >= phase.kill_at:
            self._emit(ev.Signal(number=signal.SIGKILL))

    # The end -------------------------------------------------------------------------------------

    def _begin_end(self, kind: str, reason: str, *, is_dismissed: bool = False) -> None:
        self._actions += [*self._paths.close(), *self._pacing.end()]
        self._emit(ev.Signal(number=signal.SIGTERM))
        self.phase = Ending(
            kind=kind,
            reason=reason,
            kill_at=self._now + self._kill_s,
            poll_at=self._now,
            is_dismissed=is_dismissed,
        )

    def _deliver(self, phase: Ending, used: ev.ProcessesCounted) -> None:
        """Start the delivery of logs and outputs, which precedes the report of the end."""
        is_whole = phase.kind in PROGRAM_ENDS
        until = self._now + (DELIVER_S if is_whole else DELIVER_LOGS_S)
        done = Delivering(kind=phase.kind, reason=phase.reason, used=used, until=until)
        self._actions += self._kv_requests.give_up()
        is_wanted = not phase.is_dismissed and phase.kind != "lease"
        if not self._settings.delivers or not is_wanted:
            self._over(done, "", is_dismissed=phase.is_dismissed)
            return
        self.phase = done
        self._emit(ev.Deliver(is_whole=is_whole))

    def _cut_short(self, phase: Delivering, kind: str, problem: str) -> None:
        """End a delivery early.

        A program that ended well and loses its outputs ends by the cause of the loss, since it had
        written them. Logs alone fail no job.
        """
        has_succeeded = phase.kind == "exited" and not any(self._statuses.final())
        if has_succeeded and self._settings.has_outputs:
            phase = Delivering(**{**vars(phase), "kind": kind, "reason": ""})
        self._over(phase, problem)

    def _over(self, phase: Delivering, problem: str, *, is_dismissed: bool = False) -> None:
        reason = "; ".join(text for text in (phase.reason, problem) if text)
        end = messages.End(
            kind=phase.kind,
            reason=reason,
            statuses=() if self.passed_at is None else tuple(self._statuses.final()),
            cpu_s=phase.used.cpu_s,
            memory_bytes=phase.used.memory_bytes,
            forwarded_bytes=phase.used.forwarded_bytes,
        )
        self._write_end(end)
        is_by_lease = phase.kind == "lease"
        if is_dismissed or (is_by_lease and not self._keepalive.is_connected):
            self._exit()  # the next agent reads it from disk
            return
        if self.passed_at is not None and not self._is_pass_told:
            self._send_passed()
        linger_s = LEASE_LINGER_S if is_by_lease else LINGER_S
        if self._settings.delivers and not is_by_lease:
            linger_s = max(
                linger_s, min(self._leases.length_s(is_held=False), DELIVER_S)
            )  # the agent cannot read it here
        self.phase = Over(until=self._now + linger_s, end=end)
        self._send(messages.to_message(messages.EndReported(end=self._end_until_now(end))))

    def _write_end(self, end: messages.End) -> None:
        self._emit(
            ev.WriteEnd(end=self._end_until_now(end), began_at=self.to_daemons(self._began_at))
        )

    def _end_until_now(self, end: messages.End) -> dict[str, object]:
        """Return an end as it is told now: the batch job has its processors until then."""
        return {**messages.to_json(end), "ended_at": self.to_daemons(self._now)}

    def _exit(self) -> None:
        self.phase = Exited()
        self._emit(ev.Exit())

    # Time ----------------------------------------------------------------------------------------

    def _phase_dues(self) -> list[float]:
        phase = self.phase
        if isinstance(phase, Holding):
            return self._barrier.dues(self.lease_until())
        if isinstance(phase, Running):
            return [phase.wall_until, self.lease_until(), self._pacing.wake_at]
        if isinstance(phase, Ending):
            return [phase.poll_at]
        if isinstance(phase, Delivering):
            return [phase.until, self.lease_until()]
        return [phase.until] if isinstance(phase, Over) else []

    def _tick(self) -> None:
        """Do all that is due by now; called after every event."""
        self._actions += self._kv_requests.give_up(self._now)
        self._actions += self._keepalive.tick(self._now, self._lease_s())
        phase = self.phase
        if isinstance(phase, Holding):
            self._tick_holding()
        elif isinstance(phase, Running):
            self._tick_running(phase)
        elif isinstance(phase, Delivering):
            if self._now >= min(phase.until, self.lease_until()):
                self._cut_short(phase, "lease", "its outputs took too long to the agent")
        elif isinstance(phase, Over) and self._now >= phase.until:
            self._write_end(phase.end)
            self._exit()
        if isinstance(self.phase, Ending) and self._now >= self.phase.poll_at:
            self._poll_again(self.phase)

    def _tick_running(self, phase: Running) -> None:
        if self._now >= self.lease_until():
            self._begin_end("lease", "no ping was answered within the run lease")
        elif self._now >= phase.wall_until:
            limit_s = self._settings.wall_time_s
            self._begin_end("wall-time", f"the job's limit of {limit_s:g} s")
        else:
            is_alone = self._keepalive.is_alone(self._now, self._leases.answered_at)
            self._actions += self._pacing.tick(self._now, is_alone=is_alone)

    def _tick_holding(self) -> None:
        lost = self._barrier.lost(self._now, self.lease_until())
        if lost is not None:
            self._begin_end(*lost)
        else:
            self._actions += self._barrier.open(self._now, self.lease_until())

    def _poll_again(self, phase: Ending) -> None:
        self.phase = changed(phase, poll_at=self._now + POLL_S)
        self._count_processes()

    def _count_processes(self) -> None:
        self._counted_from = self._now
        self._emit(ev.CountProcesses())

    def _lease_s(self) -> float:
        return self._leases.length_s(is_held=self.passed_at is None)

    def _measure_clock(self, *, has_peers: bool) -> None:
        """Send a burst of pings at the barrier. A start with others has to be even; alone, what the
        agent has measured suffices.
        """
        if not self._is_clock_shared:
            self._ping(burst=2)
        elif has_peers and self.clock.error_s(self._now) > EVEN_S:
            self._ping(burst=4)

    def _ping(self, *, burst: int = 0) -> None:
        self._actions += self._keepalive.ping(self._now, self._lease_s(), burst=burst)

    def _send(self, message: dict[str, object]) -> None:
        self._actions += self._keepalive.send(message)

    def _emit(self, action: Action) -> None:
        self._actions.append(action)
