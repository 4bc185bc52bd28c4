"""Pure state machine of the starter: events in, actions out; no I/O, clock or randomness.

- A lease counts from the sending of the newest ping that the daemon answered; one that became
  shorter, from the next one. At a lease's end, and at the hold deadline before the barrier, it
  stops all that it runs and exits.
- Armed promises: no abort until D, unless by D or because the daemon says Stop or the site signals.
- It passes if and only if it holds the Release that matches its latest Arm, which it had answered,
  and neither D nor its lease has run out at a check of the clock just before the program goes.
  Without a barrier it passes at its first answered ping: by then the daemon still wanted it.
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
import signal

from koala_agent.starter.compat import to_number, to_whole
from koala_agent.starter.daemon_clock import DaemonClock
from koala_agent.starter.events import (
    Answer,
    Arming,
    Asked,
    ClosePaths,
    Connected,
    Deliver,
    Delivered,
    Delivering,
    Dial,
    Disconnected,
    Ending,
    Exit,
    Exited,
    Fork,
    Holding,
    Look,
    Looked,
    MachineLost,
    Measured,
    Open,
    Opened,
    OpenedEverywhere,
    Over,
    Prepare,
    ProcessEnded,
    RankEnded,
    Ready,
    Received,
    Running,
    Send,
    Settings,
    Signal,
    SiteSignalled,
    TooLate,
    Tried,
    Unexecutable,
    Woken,
    WriteEnd,
    to_arm_number,
    to_try_paths,
)
from koala_agent.starter.pacing import Pacing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from koala_agent.starter.events import Action, Event, Phase

PING_MAX_S = 60.0
"""The longest time between two pings, whatever the lease."""
PINGS_A_LEASE = 8
ALONE_PINGS = 3
"""After so many unanswered pings a program that is slowed down runs freely again, and the line is
dialled again: a half-open one looks as if the daemon were away."""
BURST = 5
"""Pings one after the other when it is adopted, to measure the daemon's clock."""
DIAL_MIN_S, DIAL_MAX_S = 0.1, 2.0
DIAL_LIMIT_S = 3.0
POLL_S = 0.05
LINGER_S = 60.0
"""Time for which an end is sent without an acknowledgement; it is on disk anyway."""
LEASE_LINGER_S = 1.0
"""The same after a lease: a peer that was silent for all of it will hardly receive the end."""
VALUE_MAX_BYTES = 4096
NAME_MAX_BYTES = 256
QUESTIONS_MAX = 1024
PUT_LIMIT_S = 60.0
ANSWER_SLACK_S = 1.0
REFORKS_MAX = 3
FOREIGN_SIGNALS = (-signal.SIGTERM, -signal.SIGKILL, -signal.SIGXCPU)
PROGRAM_ENDS = ("exited", "unexecutable", "wall-time")
SPREAD_S = 2.0
"""Time limit for the reports of other machines before a pass is reported without them."""
DELIVER_S, DELIVER_LOGS_S = 3600.0, 10.0
"""Time limits of a delivery: outputs of a program that ended; logs of one that was ended."""
FOREIGN_S = 0.25
"""Time to wait for the starter's own signal before a death counts as the program's.

A site that ends a batch job signals all processes; the program's death may be seen first."""


class _Question:
    """A put or get under way; it fails when no answer came until `until`."""

    def __init__(self, message: dict[str, object], until: float) -> None:
        self.message = message
        self.until = until


class StarterMachine:
    """State machine of one starter; its first lease counts from the construction."""

    def __init__(self, settings: Settings, *, now: float, wall_offset_s: float) -> None:
        self.phase: Phase = Holding()
        self.arming: Arming | None = None
        self.passed_at: float | None = None
        self.clock = DaemonClock(wall_offset_s)
        self._settings = settings
        self._now = now
        self._actions: list[Action] = []
        self._hold_until = now + settings.hold_s
        self._hold_lease_s = settings.hold_lease_s
        self._run_lease_s = settings.run_lease_s
        self._next_leases: tuple[float, float] | None = None  # hold and run, from an answer on
        self._kill_s = settings.kill_s
        self._answered_at = now
        self._is_connected = False
        self._dial_at = now
        self._failures = 0
        self._pinged_at = self._ping_at = now
        self._burst = 0
        self._unanswered = 0  # pings on this line since the last answer
        self._promised_until: float | None = None
        self._is_listening = False
        self._tried: str | None = None
        self._open_at: float | None = None
        self._released_at = 0.0  # T in the daemon's time, when `_open_at` is set by a Release
        self._is_open_due = True
        self._is_ready = False
        self._is_wanted = False  # the daemon has answered a ping: it has not given the claim up
        self._unready_arm: tuple[float, dict[str, object]] | None = None
        self._problem: tuple[str, str] | None = None
        self._send_passed_at: float | None = None
        self._ranks: dict[int, int] = {}
        self._reforks = 0
        self._statuses: dict[int, int] = {}
        self._settled_at = now
        self._end: dict[str, object] | None = None
        self._ended_at = now
        self._questions: dict[int, _Question] = {}
        self._pacing = Pacing(settings.progress_s)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Handle one event; return the actions to carry out, in order."""
        self._now = now
        self._actions = []
        if isinstance(self.phase, Exited):
            return []
        if isinstance(event, (Connected, Disconnected, Received, Asked)):
            self._on_message(event)
        elif not isinstance(event, Woken):
            self._on_process(event)
        self._tick()
        return self._actions

    @property
    def wake_at(self) -> float | None:
        """The next instant at which `Woken` is due."""
        if isinstance(self.phase, Exited):
            return None
        dues = [question.until for question in self._questions.values()]
        dues.append(self._ping_at if self._is_connected else self._dial_at)
        dues += self._phase_dues()
        return min(dues)

    def lease_until(self) -> float:
        """Return the end of the present lease."""
        is_held = self.passed_at is None
        return self._answered_at + (self._hold_lease_s if is_held else self._run_lease_s)

    def to_daemons(self, instant: float) -> float:
        """Convert an instant of our clock to the daemon's time."""
        return instant + self.clock.offset_s(self._now)

    # Messages ------------------------------------------------------------------------------------

    def _on_message(self, event: Connected | Disconnected | Received | Asked) -> None:
        if isinstance(event, Received):
            self._receive(event.message)
        elif isinstance(event, Asked):
            self._ask(event)
        elif isinstance(event, Connected):
            self._is_connected = True
            self._failures = 0
            self._unanswered = 0
            self._emit(Send(message=self._hello()))
            self._ping()
        else:
            self._is_connected = False
            wait_s = min(DIAL_MAX_S, DIAL_MIN_S * 2.0 ** min(self._failures, 10))
            self._failures += 1
            self._dial_at = self._now + wait_s

    def _hello(self) -> dict[str, object]:
        """Make the check-in; after a reconnection it has the whole state."""
        arming = self.arming
        is_armed = arming is not None and arming.is_promised
        return {
            "kind": "hello",
            "claim": self._settings.claim,
            "secret": self._settings.secret,
            "nonce": self._settings.nonce,
            "hosts": [list(host) for host in self._settings.hosts],
            "armed": list(arming.number) if arming is not None and is_armed else None,
            "passed_at": None if self.passed_at is None else self.to_daemons(self.passed_at),
            "end": self._end_document() if isinstance(self.phase, Over) else None,
        }

    def _receive(self, message: dict[str, object]) -> None:  # noqa: C901 - a line a kind
        kind = message.get("kind")
        if kind == "pong":
            self._pong(to_number(message, "sent_at"), to_number(message, "now"))
        elif kind == "adopted":
            self._adopt(message)
        elif kind == "paths":
            self._try_paths(message)
        elif kind == "arm":
            self._arm(message, self._now)
        elif kind == "release":
            self._release(message)
        elif kind == "answer":
            self._answer(to_whole(message, "request"), message)
        elif kind == "pace" and isinstance(self.phase, Running):
            self._pacing.set_share(to_number(message, "share"), self._now)
        elif kind == "stop":
            if isinstance(self.phase, (Holding, Running)):
                self._begin_end("stopped", "")
            elif isinstance(self.phase, Delivering):
                self._cut_short(self.phase, "stopped", "its outputs are not wanted any more")
        elif kind == "dismissed":
            self._dismiss(str(message.get("reason", "")))
        elif kind == "noted" and isinstance(self.phase, Over):
            self._exit()

    def _pong(self, sent_at: float, answered_at: float) -> None:
        if sent_at > self._now:
            return  # not a ping of ours
        self._answered_at = max(self._answered_at, sent_at)
        if self._next_leases is not None:
            self._hold_lease_s, self._run_lease_s = self._next_leases
            self._next_leases = None
        self._is_wanted = True
        self._unanswered = 0
        self._open_without_barrier()
        self.clock.sample(sent_at=sent_at, answered_at=answered_at, now=self._now)
        if self.arming is not None and self._open_at is not None:
            self._set_open_at(self.arming)
        if self._burst > 0:
            self._burst -= 1
            self._ping()

    def _adopt(self, message: dict[str, object]) -> None:
        hold_lease_s = to_number(message, "hold_lease_s")
        run_lease_s = to_number(message, "run_lease_s")
        # A lease that became shorter since the last answer would be over already. The daemon goes
        # by the longer one for a claim that was made with it.
        self._next_leases = (hold_lease_s, run_lease_s)
        is_shorter = hold_lease_s < self._hold_lease_s or run_lease_s < self._run_lease_s
        self._hold_lease_s = max(self._hold_lease_s, hold_lease_s)
        self._run_lease_s = max(self._run_lease_s, run_lease_s)
        if is_shorter:
            self._ping()
        self._kill_s = to_number(message, "kill_s")
        self._burst = BURST - 1
        for question in self._questions.values():
            self._emit(Send(message=question.message))
        if not isinstance(self.phase, Holding) or self.phase.is_adopted:
            return
        self.phase = Holding(is_adopted=True)
        self._emit(Fork())
        if self._settings.no_barrier:
            self._emit(Prepare(bundle={}))

    def _try_paths(self, message: dict[str, object]) -> None:
        """Probe the paths once; a repeated order gets the same answer."""
        if not isinstance(self.phase, Holding) or not self.phase.is_adopted or self.arming:
            return
        if self._tried is not None:
            self._send({"kind": "tried", "problem": self._tried})
        elif not self._is_listening:
            order = to_try_paths(message)
            self._is_listening = True
            self._emit(order)

    def _close_paths(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._emit(ClosePaths())

    def _ready(self) -> None:
        """Continue with what had to wait for the processes."""
        self._is_ready = True
        if not isinstance(self.phase, Holding):
            return
        self._open_without_barrier()
        if self._unready_arm is not None:
            received_at, message = self._unready_arm
            self._unready_arm = None
            self._arm(message, received_at)

    def _open_without_barrier(self) -> None:
        """Pass without a barrier, once the daemon has granted a lease.

        Without the lease, an agent that was away might adopt a starter whose claim has been fenced,
        and whose job runs elsewhere by now (promise 3).
        """
        if self._settings.no_barrier and self._is_ready and self._is_wanted and self._is_open_due:
            self._open_at = self._now

    def _arm(self, message: dict[str, object], received_at: float) -> None:
        """Promise when lease and hold deadline both outlast D, and all processes are ready.

        D counts from the receipt, however long the processes took.
        """
        number = to_arm_number(message)
        if not isinstance(self.phase, Holding) or not self.phase.is_adopted or self._problem:
            return
        arming = self.arming
        if arming is not None and number < arming.number:
            return
        if arming is not None and number == arming.number and arming.is_promised:
            if self._now < arming.until:  # at D the promise is over, and the end of the hold is due
                self._emit(Send(message={"kind": "armed", "number": list(number)}))
            return
        self._close_paths()
        self._burst = max(self._burst, 2)
        self._ping()
        if not self._is_ready:
            earlier = self._unready_arm
            if earlier is None or to_arm_number(earlier[1]) <= number:
                self._unready_arm = (received_at, message)
            return
        late_s = to_number(message, "late_s")
        until = received_at + late_s
        is_promised = min(self.lease_until(), self._hold_until) > until > self._now
        self.arming = Arming(
            number=number,
            release_at=to_number(message, "release_at"),
            late_s=late_s,
            until=until,
            is_promised=is_promised,
        )
        self._open_at = None
        if is_promised:
            self._promised_until = max(until, self._promised_until or until)
            bundle = message.get("bundle")
            self._emit(Prepare(bundle=bundle if isinstance(bundle, dict) else {}))
            self._emit(Send(message={"kind": "armed", "number": list(number)}))

    def _release(self, message: dict[str, object]) -> None:
        number = to_arm_number(message)
        if self.passed_at is not None and self.arming is not None:
            if number == self.arming.number:
                self._send_passed()
            return
        arming = self.arming
        if not isinstance(self.phase, Holding) or arming is None or not arming.is_promised:
            return
        if number == arming.number:
            # The decided instant may be later than the requested one.
            is_later = "release_at" in message
            told_at = to_number(message, "release_at") if is_later else arming.release_at
            self._released_at = max(arming.release_at, told_at)
            self._set_open_at(arming)
            self._burst = max(self._burst, 2)
            self._ping()

    def _set_open_at(self, arming: Arming) -> None:
        """Convert T to our clock, by the best sample so far: each pong may bring a better one.

        A wrong offset must not carry it past D.
        """
        at = self._released_at - self.clock.offset_s(self._now)
        self._open_at = min(at, arming.until - min(1.0, arming.late_s / 2))

    def _dismiss(self, reason: str) -> None:
        phase = self.phase
        if isinstance(phase, Over):
            self._exit()
        elif isinstance(phase, Delivering):
            self._over(phase, "", is_dismissed=True)
        elif isinstance(phase, Ending):
            self.phase = Ending(
                kind=phase.kind,
                reason=phase.reason,
                kill_at=phase.kill_at,
                poll_at=phase.poll_at,
                is_dismissed=True,
            )
        elif isinstance(phase, (Holding, Running)):
            self._begin_end("stopped", reason, is_dismissed=True)

    # Values --------------------------------------------------------------------------------------

    def _ask(self, event: Asked) -> None:
        refusal = _refusal(event, len(self._questions))
        if refusal:
            self._reply(event.question, {"ok": False, "error": refusal})
            return
        message: dict[str, object] = {"request": event.question, "name": event.name}
        if event.value is None:
            message.update(kind="get", wait_s=event.wait_s)
            limit_s = event.wait_s + ANSWER_SLACK_S
        else:
            message.update(kind="put", value=event.value)
            limit_s = PUT_LIMIT_S
        self._questions[event.question] = _Question(message, self._now + limit_s)
        if self._is_connected:
            self._emit(Send(message=message))

    def _answer(self, number: int, message: dict[str, object]) -> None:
        question = self._questions.pop(number, None)
        if question is None:
            return
        if not message.get("ok"):
            self._reply(number, {"ok": False, "error": str(message.get("error", ""))})
        elif question.message["kind"] == "get":
            self._reply(number, {"ok": True, "value": str(message.get("value", ""))})
        else:
            self._reply(number, {"ok": True})

    def _give_up(self, number: int) -> None:
        message = self._questions.pop(number).message
        name = message["name"]
        if message["kind"] == "get":
            error = f"no value for {name!r} after {message['wait_s']:g} s"
        else:
            error = f"no answer to the put of {name!r} within {PUT_LIMIT_S:g} s"
        self._reply(number, {"ok": False, "error": error})

    def _reply(self, question: int, answer: dict[str, object]) -> None:
        self._emit(Answer(question=question, answer=answer))

    # Processes -----------------------------------------------------------------------------------

    def _on_process(self, event: Event) -> None:  # noqa: C901 - a line a kind
        if isinstance(event, (Ready, Opened, OpenedEverywhere, TooLate)):
            self._on_barrier(event)
        elif isinstance(event, Unexecutable):
            self._unexecutable(event.reason)
        elif isinstance(event, MachineLost):
            self._lose(event.kind, event.reason)
        elif isinstance(event, ProcessEnded):
            self._process_ended(event)
        elif isinstance(event, RankEnded):
            self._rank_ended(event)
        elif isinstance(event, Measured):
            report = self._pacing.measured(event, self._now)
            if report is not None and isinstance(self.phase, Running):
                self._send(report)
        elif isinstance(event, SiteSignalled):
            self._signalled_by_site(event.reason)
        elif isinstance(event, Looked):
            self._looked(event)
        elif isinstance(event, Tried):
            self._tried = event.problem
            self._send({"kind": "tried", "problem": event.problem})
        elif isinstance(event, Delivered) and isinstance(self.phase, Delivering):
            if event.is_lost:
                problem = event.problem or "a machine was lost with what it had to bring"
                self._cut_short(self.phase, "vanished", problem)
            else:
                self._over(self.phase, event.problem)

    def _on_barrier(self, event: Ready | Opened | OpenedEverywhere | TooLate) -> None:
        if isinstance(event, Opened):
            self._opened(event)
        elif isinstance(event, OpenedEverywhere):
            self._opened_everywhere(event.at)
        elif isinstance(event, Ready):
            self._ready()
        elif isinstance(self.phase, Holding):
            self._begin_end("late", "the barrier could not be opened in time")

    def _signalled_by_site(self, reason: str) -> None:
        phase = self.phase
        if isinstance(phase, (Holding, Running)):
            self._begin_end("site", reason)
        elif isinstance(phase, Delivering):
            self._cut_short(phase, "site", f"{reason}, before its outputs were at the agent")
        elif isinstance(phase, Ending) and self._now < self._settled_at:
            self._begin_end("site", reason, is_dismissed=phase.is_dismissed)

    def _opened(self, event: Opened) -> None:
        assert isinstance(self.phase, Holding), self.phase
        assert self.passed_at is None, "the barrier opens once"
        self.passed_at = event.at
        wall_time_s = self._settings.wall_time_s
        self.phase = Running(wall_until=event.at + wall_time_s if wall_time_s > 0 else math.inf)
        self._pacing.begin(event.at, self._now)
        if event.is_everywhere:
            self._send_passed()
        else:
            self._send_passed_at = self._now + SPREAD_S
        if self._problem:
            self._begin_end(*self._problem)

    def _opened_everywhere(self, at: float) -> None:
        """Set the pass to that of the last process: it determines the skew of a start."""
        if self.passed_at is not None and self._send_passed_at is not None:
            self.passed_at = max(self.passed_at, at)
            self._send_passed()

    def _send_passed(self) -> None:
        assert self.passed_at is not None
        self._send_passed_at = None
        passed_at = self.to_daemons(self.passed_at)
        self._send({"kind": "passed", "passed_at": passed_at})

    def _unexecutable(self, reason: str) -> None:
        phase = self.phase
        if isinstance(phase, Ending) and phase.kind == "exited":
            # Its exit status was seen before its error text.
            self.phase = Ending(
                kind="unexecutable", reason=reason, kill_at=phase.kill_at, poll_at=phase.poll_at
            )
        else:
            self._lose("unexecutable", reason)

    def _lose(self, kind: str, reason: str) -> None:
        """End the claim, or postpone that while a promise forbids it."""
        if isinstance(self.phase, Holding) and self._is_promising():
            self._problem = self._problem or (kind, reason)  # an abort is not allowed now
        elif isinstance(self.phase, (Holding, Running)):
            self._begin_end(kind, reason)

    def _process_ended(self, event: ProcessEnded) -> None:
        phase = self.phase
        if isinstance(phase, Holding):
            # Only an outsider ends a blocked process: fork another one in its place.
            self._statuses[event.index] = event.status
            self._reforks += 1
            if self._reforks > REFORKS_MAX * self._settings.processes:
                self._unexecutable("the blocked processes end again and again")
            elif not self._problem:
                del self._statuses[event.index]
                self._emit(Fork())
            return
        self._statuses[event.index] = event.status
        if isinstance(phase, Ending):
            self._emit(Look())
        elif isinstance(phase, Running):
            if event.status in FOREIGN_SIGNALS:
                self._settled_at = self._now + FOREIGN_S
            if event.status != 0 and self._settings.processes > 1:
                reason = f"process {event.index} ended with {_status_text(event.status)}"
                self._begin_end("exited", reason)
            elif len(self._statuses) == self._settings.processes:
                self._actions += self._pacing.end()
                self.phase = Ending(kind="exited", reason="", kill_at=None, poll_at=self._now)

    def _rank_ended(self, event: RankEnded) -> None:
        """Handle the end of a rank, which is reported before its launcher ends for it."""
        if self.passed_at is None or not 0 <= event.rank < self._settings.ranks:
            return
        self._ranks.setdefault(event.rank, event.status)
        if isinstance(self.phase, Running) and event.status != 0:
            if event.status in FOREIGN_SIGNALS:
                self._settled_at = self._now + FOREIGN_S
            reason = f"process {event.rank} ended with {_status_text(event.status)}"
            self._begin_end("exited", reason)

    def _looked(self, event: Looked) -> None:
        phase = self.phase
        if not isinstance(phase, Ending):
            return
        if event.left == 0:
            if self._now >= self._settled_at:
                self._deliver(phase, event)
        elif phase.kill_at is None:
            if not event.is_known:
                return
            self._begin_end(phase.kind, phase.reason, is_dismissed=phase.is_dismissed)
        elif self._now >= phase.kill_at:
            self._emit(Signal(number=signal.SIGKILL))

    # The end -------------------------------------------------------------------------------------

    def _begin_end(self, kind: str, reason: str, *, is_dismissed: bool = False) -> None:
        self._close_paths()
        self._actions += self._pacing.end()
        self._emit(Signal(number=signal.SIGTERM))
        self.phase = Ending(
            kind=kind,
            reason=reason,
            kill_at=self._now + self._kill_s,
            poll_at=self._now,
            is_dismissed=is_dismissed,
        )

    def _deliver(self, phase: Ending, used: Looked) -> None:
        """Start the delivery of logs and outputs, which precedes the report of the end."""
        is_whole = phase.kind in PROGRAM_ENDS
        until = self._now + (DELIVER_S if is_whole else DELIVER_LOGS_S)
        done = Delivering(kind=phase.kind, reason=phase.reason, used=used, until=until)
        for number in list(self._questions):
            self._give_up(number)
        is_wanted = not phase.is_dismissed and phase.kind != "lease"
        if not self._settings.delivers or not is_wanted:
            self._over(done, "", is_dismissed=phase.is_dismissed)
            return
        self.phase = done
        self._ended_at = self._now
        self._emit(Deliver(is_whole=is_whole))

    def _cut_short(self, phase: Delivering, kind: str, problem: str) -> None:
        """End a delivery early.

        A program that ended well and loses its outputs ends by the cause of the loss, since it had
        written them. Logs alone fail no job.
        """
        is_well = phase.kind == "exited" and not any(self._final_statuses())
        if is_well and self._settings.has_outputs:
            phase = Delivering(kind=kind, reason="", used=phase.used, until=phase.until)
        self._over(phase, problem)

    def _over(self, phase: Delivering, problem: str, *, is_dismissed: bool = False) -> None:
        if not isinstance(self.phase, Delivering):
            self._ended_at = self._now
        reason = "; ".join(text for text in (phase.reason, problem) if text)
        self._end = {
            "kind": phase.kind,
            "reason": reason,
            "statuses": [] if self.passed_at is None else self._final_statuses(),
            "cpu_s": phase.used.cpu_s,
            "memory_bytes": phase.used.memory_bytes,
        }
        self._emit(WriteEnd(end=self._end_document()))
        is_by_lease = phase.kind == "lease"
        if is_dismissed or (is_by_lease and not self._is_connected):
            self._exit()  # the next agent reads it from disk
            return
        linger_s = LEASE_LINGER_S if is_by_lease else LINGER_S
        if self._settings.delivers and not is_by_lease:
            linger_s = max(
                linger_s, min(self._run_lease_s, DELIVER_S)
            )  # the agent cannot read it here
        self.phase = Over(until=self._now + linger_s)
        self._send({"kind": "ended", "end": self._end_document()})

    def _final_statuses(self) -> list[int]:
        """Return the statuses of the ranks if they reported any, else of the main processes."""
        if self._ranks:
            ranks = range(self._settings.ranks)
            return [self._ranks.get(rank, -signal.SIGKILL) for rank in ranks]
        processes = range(self._settings.processes)
        return [self._statuses.get(index, -signal.SIGKILL) for index in processes]

    def _end_document(self) -> dict[str, object]:
        assert self._end is not None
        return {**self._end, "ended_at": self.to_daemons(self._ended_at)}

    def _exit(self) -> None:
        self.phase = Exited()
        self._emit(Exit())

    # Time ----------------------------------------------------------------------------------------

    def _is_promising(self) -> bool:
        return self._promised_until is not None and self._now < self._promised_until

    def _phase_dues(self) -> list[float]:
        phase = self.phase
        if isinstance(phase, Holding):
            dues = [min(self.lease_until(), self._hold_until)]
            if self._promised_until is not None:
                dues = [self._promised_until]
            if self._open_at is not None:
                dues.append(self._open_at)
            return dues
        if isinstance(phase, Running):
            dues = [phase.wall_until, self.lease_until(), self._pacing.wake_at]
            return dues if self._send_passed_at is None else [*dues, self._send_passed_at]
        if isinstance(phase, Ending):
            return [phase.poll_at]
        if isinstance(phase, Delivering):
            return [phase.until, self.lease_until()]
        return [phase.until] if isinstance(phase, Over) else []

    def _tick(self) -> None:
        """Do all that is due by now; called after every event."""
        self._tick_connection()
        phase = self.phase
        if isinstance(phase, Holding):
            self._tick_holding()
        elif isinstance(phase, Running):
            self._tick_running(phase)
        elif isinstance(phase, Delivering):
            if self._now >= min(phase.until, self.lease_until()):
                self._cut_short(phase, "lease", "its outputs took too long to the agent")
        elif isinstance(phase, Over) and self._now >= phase.until:
            self._exit()
        if isinstance(self.phase, Ending) and self._now >= self.phase.poll_at:
            self._poll_again(self.phase)

    def _tick_connection(self) -> None:
        for number in [n for n, q in self._questions.items() if q.until <= self._now]:
            self._give_up(number)
        if self._is_connected and self._now >= self._ping_at:
            if self._unanswered < ALONE_PINGS:
                self._ping()
                return
            self._is_connected = False
            self._dial_at = self._now
        if not self._is_connected and self._now >= self._dial_at:
            self._dial_at = self._now + DIAL_LIMIT_S
            self._emit(Dial())

    def _tick_running(self, phase: Running) -> None:
        if self._send_passed_at is not None and self._now >= self._send_passed_at:
            self._send_passed()
        if self._now >= self.lease_until():
            self._begin_end("lease", "no ping was answered within the run lease")
        elif self._now >= phase.wall_until:
            limit_s = self._settings.wall_time_s
            self._begin_end("wall-time", f"the job's limit of {limit_s:g} s")
        else:
            alone_s = ALONE_PINGS * (self._ping_at - self._pinged_at)
            is_alone = self._now - self._answered_at > alone_s
            self._actions += self._pacing.tick(self._now, is_alone=is_alone)

    def _tick_holding(self) -> None:
        now = self._now
        arming = self.arming
        if self._promised_until is not None and arming is not None:
            if now >= self._promised_until:
                late = ("late", "armed, and no Release came in time")
                self._begin_end(*(self._problem or late))
            elif self._open_at is not None and now >= self._open_at:
                self._open(arming.until)
        elif now >= self.lease_until():
            self._begin_end("lease", "no ping was answered within the hold lease")
        elif now >= self._hold_until:
            self._begin_end("hold", f"held for {self._settings.hold_s:g} s")
        elif self._open_at is not None and now >= self._open_at:
            self._open(self._hold_until)

    def _open(self, not_after: float) -> None:
        """Open the barrier. It is the only place that does, and never repeats it."""
        if self._is_open_due:
            self._is_open_due = False
            self._open_at = None
            self._emit(Open(not_after=min(not_after, self.lease_until())))

    def _poll_again(self, phase: Ending) -> None:
        self.phase = Ending(
            kind=phase.kind,
            reason=phase.reason,
            kill_at=phase.kill_at,
            poll_at=self._now + POLL_S,
            is_dismissed=phase.is_dismissed,
        )
        self._emit(Look())

    def _ping(self) -> None:
        lease_s = self._hold_lease_s if self.passed_at is None else self._run_lease_s
        self._pinged_at = self._now
        self._ping_at = self._now + min(PING_MAX_S, lease_s / PINGS_A_LEASE)
        if self._is_connected:
            self._unanswered += 1
            self._emit(Send(message={"kind": "ping", "sent_at": self._now}))

    def _send(self, message: dict[str, object]) -> None:
        """Send a message if connected; otherwise the next hello has its contents."""
        if self._is_connected:
            self._emit(Send(message=message))

    def _emit(self, action: Action) -> None:
        self._actions.append(action)


def _refusal(event: Asked, questions: int) -> str:
    if questions >= QUESTIONS_MAX:
        return f"{questions} requests are under way: no more are taken"
    try:
        name_size, size = len(event.name.encode()), len((event.value or "").encode())
    except UnicodeEncodeError:  # JSON can hold half a pair of surrogates, nothing after us can
        return f"the name or value of {event.name!r} is no text that UTF-8 can hold"
    if not 1 <= name_size <= NAME_MAX_BYTES:
        return f"a name has 1 to {NAME_MAX_BYTES} bytes"
    if size > VALUE_MAX_BYTES:
        return f"the value of {event.name!r} has {size} bytes: {VALUE_MAX_BYTES} are allowed"
    return ""


def _status_text(status: int) -> str:
    return f"status {status}" if status >= 0 else f"signal {-status}"
