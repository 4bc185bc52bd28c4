"""Simulated daemon: the real batches, agent registry, leases, action dispatch, journal and
recovery, assembled as in koala.daemon.assembly, without a loop, gRPC or files.

A crash before a commit loses events and actions together. Each start replays the journal with the
daemon's own code, with policies that must not be called. Sometimes the replay first gets a damaged
disk, which must be refused or give the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from koala.common.protocol.messages import Watermark
from koala.common.runtime.clock import Clock
from koala.common.runtime.sqlite_store import Database
from koala.common.wire.v1 import link_pb2 as pb
from koala.core.digest import digest
from koala.core.model.actions import Action, Announce, PublishOutputs
from koala.core.model.claim import Claim
from koala.core.model.events import Event
from koala.core.model.job import Job
from koala.core.model.values import FOREVER, Instant, JobId, Seconds, SiteName
from koala.core.scheduler import Scheduler
from koala.daemon.agents.connections import AgentConnection, SiteSessions
from koala.daemon.agents.registry import AgentRegistry, LinkCallbacks
from koala.daemon.agents.session import Allowlist, Timing
from koala.daemon.agents.starter_requests import StarterRequests
from koala.daemon.config import CoreSettings
from koala.daemon.files.additions import Additions
from koala.daemon.loop.action_dispatcher import ActionDispatcher
from koala.daemon.loop.group_commit import BatchContext, GroupCommit, InboxItem, Retention
from koala.daemon.state.recovery import Recovered, recover
from koala.daemon.storage.archive import check_jobs
from koala.daemon.storage.journal import SCHEMA, Journal
from koala.daemon.storage.records import Batch, Notice
from koala.daemon.storage.watermark import Watermarks
from koala.errors import JournalError, KoalaError, RejectedError
from koala.lab.sim.engine import Engine, Rank
from koala.policies.slots import guards_of
from tests.swarm.system.disk import PATH, Copy, Disk, change_row, spoilt
from tests.swarm.system.faults import FaultPlan
from tests.swarm.system.journals import archived_job, archived_key, last_seq, replayed, state_of
from tests.swarm.system.machines import CrashedError, Machine, Process, Timer
from tests.swarm.system.network import End, Pipe

T = TypeVar("T")
RESTART_S = 1.0
ROUND_S = 1.0
REBOOT_CHANCE = 0.3
"""Share of the daemon's lives before which its machine was started again."""
SECRET = b"simulated"
RELAY = "relay:1"


class Overseer(Protocol):
    """Observer of the daemon."""

    def handled(self, scheduler: Scheduler, event: Event, now: Instant) -> None:
        """Receive a handled event; nothing has been sent yet."""

    def committed(self, scheduler: Scheduler, event: Event, actions: list[Action]) -> None:
        """Receive a durable event; its actions are about to be sent."""

    def replayed(self, before: str, after: str) -> None:
        """Receive the result of a replay: the digest of the lost state, all of which was durable,
        and of the replayed one."""

    def crashed(self) -> None:
        """Receive a crash: handled and uncommitted events are lost."""

    def damage_detected(self, how: str) -> None:
        """Receive the detection of a damaged disk."""

    def noticed(self, notices: Sequence[Notice]) -> None:
        """Receive the notices to watchers."""

    def restored(self, daemon: Daemon) -> None:
        """Receive a restore: a backup replaced the disk, and later events are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Custody:
    """Retention of state and journal: bounds their growth, and keeps events for a time that no
    start needs."""

    snapshot_events: int = 10_000
    keep_jobs: int = 1_000_000
    keep_jobs_s: Seconds = FOREVER
    keep_s: Seconds = FOREVER
    lot: int = 1
    images: float = 0.01  # how often an image of the disk is taken, by commit


STANDARD_CUSTODY = Custody()


class Settings(CoreSettings, frozen=True, kw_only=True):
    """Settings of the configuration that are part of the state, and the retention."""

    upkeep: Custody = STANDARD_CUSTODY


class Line:
    """An agent's stream, as in koala.daemon.agents.connections."""

    def __init__(self, end: End[Any], over: Callable[[], None], point: Callable[[], None]) -> None:
        self.has_ended = False
        self._end = end
        self._over = over
        self._point = point

    def put(self, lot: Sequence[pb.ToAgent]) -> bool:
        """See koala.daemon.agents.connections."""
        for message in lot:
            self._point()
            self._end.send(message)
        return True

    def report_committed(self) -> None:
        """See koala.daemon.agents.connections."""

    def end(self) -> None:
        """See koala.daemon.agents.connections."""
        if not self.has_ended:
            self.has_ended = True
            self._end.close()
            self._over()


class _Batches(GroupCommit):
    """The daemon's batches, with an observer."""

    def __init__(self, daemon: Daemon, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.daemon = daemon
        self.said: list[Action] = []

    def on_arrival(self) -> None:
        """See koala.daemon.loop.group_commit."""
        self.daemon.work_soon()

    def _handle(self, event: Event, now: Instant) -> None:
        before = len(self._actions)
        self.said = []
        super()._handle(event, now)
        self.daemon.handled.append((event, [*self._actions[before:], *self.said]))
        self.daemon.overseer.handled(self._scheduler, event, now)

    def _notice(self, action: Announce) -> Notice:
        self.said.append(action)
        return super()._notice(action)


class Daemon(Process):
    """One daemon and its lives."""

    crash_kind = "crash_daemon"

    def __init__(
        self,
        engine: Engine,
        plan: FaultPlan,
        machine: Machine,
        *,
        settings: Settings,
        timing: Timing,
        overseer: Overseer,
    ) -> None:
        super().__init__(engine, plan, machine)
        self.disk = Disk(point=self.point, errs=lambda: plan.strikes("disk_error", engine.now))
        self.disk.now = lambda: engine.now
        self.overseer = overseer
        self.handled: list[tuple[Event, list[Action]]] = []
        self.down_until: Instant = 0.0
        self.scheduler = Scheduler(settings.parameters, settings.policies)
        self._base: Instant | None = None  # of its newest clock
        self.shift_s: Seconds = 0.0  # the daemon's time less the true one
        self._settings = settings
        self._timing = timing
        self._is_committing = False
        self._works_soon = False
        self._is_assembled = False
        self._lost_digest: str | None = None
        self._is_restored = False
        self._older: tuple[bytes, bytes] | None = None  # an image, and the mark of its time
        self._lines: list[End[Any]] = []

    # --- lives ---

    def start(self) -> None:
        """Replay, and begin a new epoch."""
        self.begin_life()
        self.run(self._start)

    def _start(self) -> None:
        for guard in guards_of(self._settings.policies):
            guard.trouble = ""  # a new process does not know how its policies behave
        if self.life > 1:
            self._try_lies()
            self._compare_replay()
            self._restore()
        try:
            database = Database(PATH, SCHEMA, connection=self.disk.connection)
            check_jobs(self.disk.connection, PATH)
            journal = Journal(self.disk, database, keep_s=self._settings.upkeep.keep_s)
            recovered = recover(journal, self._settings, self._clock, accept_loss=self._is_restored)
        except JournalError as error:
            if "damaged" in str(error) or "replay" in str(error):
                raise AssertionError(f"an honest disk is refused: {error}") from error
            raise CrashedError from error
        self._assemble(journal, recovered)
        if self._is_restored:
            self._is_restored = False
            self.overseer.restored(self)

    def _restore(self) -> None:
        """Replace the lost disk by a backup (`koala restore`)."""
        if self._older is None or not self.plan.strikes("restore", self.engine.now):
            return
        (image, self.disk.mark), self._older = self._older, None
        self.disk.connection.deserialize(image)
        self._is_restored = True  # until a start goes well (recovery.RESTORED)

    def _compare_replay(self) -> None:
        """Check promise 8, if all that the last life had handled was durable."""
        if self._lost_digest is not None and self.plan.stream("replay").random() < 0.15:
            self.overseer.replayed(self._lost_digest, digest(replayed(self.disk)))

    def _clock(self, not_before: Instant, *, has_claims: bool) -> Clock:
        """Begin the clock of a life: the time goes on with claims (`koala.daemon.state.kept_clock`)
        or begins by the wall clock, as after a reboot."""
        is_rebooted = self.plan.stream("reboot").random() < REBOOT_CHANCE
        clock = Clock(
            not_before,
            base=self._base if has_claims and not is_rebooted else None,
            wall=self.machine.wall,
            boot=self.machine.boot,
        )
        self._base = clock.base
        self.shift_s = clock.now() - self.engine.now
        return clock

    def _assemble(self, journal: Journal, recovered: Recovered) -> None:
        self.scheduler = scheduler = recovered.scheduler
        self.clock = clock = recovered.clock
        self._journal = journal
        custody = self._settings.upkeep
        watermarks = Watermarks(
            secret=SECRET,
            epoch=scheduler.epoch,
            loss_epoch=scheduler.loss_epoch,
            newest=lambda: journal.position,
            chain_at=journal.chain_at,
        )
        sessions = SiteSessions(watermarks)
        dispatcher = ActionDispatcher(
            send=sessions.send,
            publish=self._publish,
            relay=lambda: RELAY,
            sites=lambda: scheduler.sites,
            secret=SECRET,
        )
        self.batches = batches = _Batches(
            self,
            scheduler,
            journal,
            clock,
            digest=digest,
            jobs=recovered.jobs,
            receiver=_Receiver(self, dispatcher),
            retention=Retention(
                keep_jobs=custody.keep_jobs,
                keep_jobs_s=custody.keep_jobs_s,
                snapshot_events=custody.snapshot_events,
                settings=recovered.settings,
                replayed=recovered.replayed,
                chunk=custody.lot,
            ),
        )
        self.requests = StarterRequests(
            scheduler,
            batches,
            clock,
            send=sessions.send,
            is_heard=sessions.is_heard,
            deliver_log=lambda _site, _part: None,
        )
        self.registry = AgentRegistry(
            scheduler,
            batches,
            clock,
            sessions=sessions,
            links=LinkCallbacks(
                messages=dispatcher.messages,
                relay=lambda: RELAY,
                answer=self.requests.answer,
                additions=Additions(send=sessions.send, relay=lambda: RELAY, secret=b""),
                session_ended=lambda _site: None,
                forked=_forked,
            ),
            allowlist=Allowlist(
                epoch=scheduler.epoch, sites={}, is_open=True, verdict=watermarks.verify
            ),
            timing=self._timing,
        )
        self.handled = []
        self._is_committing = self._works_soon = False
        self._is_assembled = True
        self._wake = Timer(self, self._work)
        self._set_wake()
        self.after(ROUND_S, self._round)

    def _publish(self, _action: PublishOutputs) -> None:
        """Publish nothing: there are no outputs here."""

    def crash(self) -> None:
        """Kill the daemon (SIGKILL): all that is not in the journal is lost."""
        if not self.is_up:
            return
        is_whole = self._is_assembled and not self._is_committing and not self.handled
        self._lost_digest = digest(self.scheduler) if is_whole else None
        self._is_assembled = False
        self.overseer.crashed()
        self.is_up = False
        self.life += 1
        self.disk.crashed()
        for end in self._lines:
            end.reset()
        self._lines.clear()
        self.engine.after(RESTART_S, self._revive)

    def _revive(self) -> None:
        if self.is_up:
            return
        if self.engine.now < self.down_until:
            self.engine.at(self.down_until, self._revive)
        else:
            self.start()

    # --- the event loop (koala.daemon.loop.event_loop) ---

    def work_soon(self) -> None:
        """Schedule work: the inbox is not empty."""
        if not self._works_soon and not self._is_committing:
            self._works_soon = True
            self.soon(self._work)

    def _work(self) -> None:
        self._works_soon = False
        if self._is_committing:
            return
        batches = self.batches
        items = batches.handle_batch()
        batch = batches.prepare_commit()
        if batch is None:
            self._deliver(items, ())
            return
        self._is_committing = True
        commit_s = self.plan.commit_s(self.engine.now)
        self.after(commit_s, lambda: self._commit(items, batch))

    def _commit(self, items: list[InboxItem], batch: Batch) -> None:
        try:
            self._journal.append(batch)
        except (JournalError, CrashedError) as error:
            self.disk.crashed()
            if last_seq(self.disk) >= batch.records[-1].seq:
                self._report_committed()  # durable, though nothing of it will leave in this life
            self.batches.on_commit_failed()
            raise CrashedError from error
        self.batches.on_committed(batch)
        self._is_committing = False
        self._report_committed()
        if self.plan.stream("image").random() < self._settings.upkeep.images:
            self._older = (self.disk.image(), self.disk.mark)
        self._deliver(items, batch.notices)

    def _report_committed(self) -> None:
        handled, self.handled = self.handled, []
        for event, actions in handled:
            self.overseer.committed(self.scheduler, event, actions)

    def _deliver(self, items: list[InboxItem], notices: Sequence[Notice]) -> None:
        self.batches.deliver(items, notices)
        if self.batches.inbox_size:
            self.work_soon()
        self._set_wake()

    def _set_wake(self) -> None:
        if not self._is_committing:
            self._wake.set(self._to_boot(self.batches.wake_at), rank=Rank.WAKE)

    def _to_boot(self, instant: Instant | None) -> Instant | None:
        """Convert an instant of the daemon's clock to its machine's boot time."""
        if instant is None:
            return None
        return instant - self.clock.now() + self.machine.boot()

    def _round(self) -> None:
        if self.scheduler.ledger:
            for _ in range(4):
                self.requests.expire()
        self.after(ROUND_S, self._round)

    def ask(self, decide: Callable[[BatchContext], T], on_commit: Callable[[T], None]) -> None:
        """Handle a client's request; the answer comes once it is durable, and never if the daemon
        dies."""

        def committed(result: T, error: KoalaError | None) -> None:
            assert error is None or isinstance(error, RejectedError), error
            if error is None:
                on_commit(result)

        if self.is_up:
            self.run(lambda: self.batches.post(decide, committed))

    @property
    def is_at_rest(self) -> bool:
        """True if all that it has handled is durable."""
        is_there = self.is_up and self._is_assembled
        return is_there and not self._is_committing and not self.batches.inbox_size

    def finish(self) -> None:
        """Finish on TERM: say goodbye to the agents, finish pending work, and leave a snapshot
        (koala.daemon.lifecycle)."""
        if self.is_up and self._is_assembled:
            self.run(self._finish)

    def _finish(self) -> None:
        if self._is_committing or self.batches.inbox_size:
            self.after(0.01, self._finish)
            return
        self.registry.close("the daemon stops")
        snapshot = self.batches.snapshot()
        try:
            self._journal.append(Batch(records=(), snapshot=snapshot))
        except JournalError as error:
            raise CrashedError from error
        raise CrashedError  # all is written: it is simply not there any more

    def job(self, job: JobId) -> Job | None:
        """Return a job from state or archive."""
        return self.scheduler.jobs.get(job) or archived_job(self.disk, job)

    def job_of_key(self, turn: BatchContext, key: str) -> tuple[JobId, str] | None:
        """Return the submission under this key (koala.daemon.clients.submit_service). Raises
        RejectedError when a job may just be on its way from the state to the archive: the client
        tries again."""
        if turn.scheduler.keys_forgotten != self.batches.keys_archived:
            raise RejectedError("try again")
        return turn.scheduler.keys.get(key) or archived_key(self.disk, key)

    # --- agents' streams (koala.daemon.agents.streams.Streams) ---

    def accept(self, pipe: Pipe[Any]) -> None:
        """Accept the connection of an agent."""
        end = pipe.ends[1]
        self._lines = [other for other in self._lines if other.is_believed]
        self._lines.append(end)
        line = Line(end, lambda: self.soon(left), self.point)
        connection = self.registry.accept(line, end.name)
        timer = Timer(self, lambda: self._woke(connection, timer))
        life = self.life
        is_left: list[bool] = []

        def arm() -> None:
            timer.set(self._to_boot(connection.session.wake_at))

        def heard(message: pb.FromAgent) -> None:
            if life == self.life:
                self.run(partial(self._receive, connection, message, arm))

        def left() -> None:
            if not is_left:
                is_left.append(True)
                line.has_ended = True
                timer.stop()
                self.registry.detach(connection)

        def lost() -> None:
            if life == self.life:
                self.run(left)

        end.take, end.lost = heard, lost
        arm()

    def _woke(self, connection: AgentConnection, timer: Timer) -> None:
        self.registry.wake(connection)
        timer.set(self._to_boot(connection.session.wake_at))

    def _receive(
        self, connection: AgentConnection, message: pb.FromAgent, arm: Callable[[], None]
    ) -> None:
        self.registry.receive(connection, message)
        arm()

    # --- leases ---

    def fence_at(self, claim: Claim) -> Instant:
        """Return the instant after which no process of the claim can live, in true time."""
        limits = self._settings.parameters
        return (
            self.requests.leases.fence_at(
                claim,
                self.scheduler.sites,
                fence_s=limits.fence_s,
                hold_fence_s=limits.hold_fence_s,
                now=self.clock.now(),
            )
            - self.shift_s
        )

    # --- disks that lie ---

    def _try_lies(self) -> None:
        """Check promise 4: a damaged journal is detected and refused, never half read."""
        if not self.plan.strikes("corrupt", self.engine.now):
            return
        random = self.plan.stream("spoil")
        image, mark = self.disk.image(), self.disk.mark
        honest = state_of(Copy(image, mark), self._settings)
        if self._older is not None and random.random() < 0.5 and self._older[1] != mark:
            lie, how = Copy(self._older[0], mark), "an older journal under the newest mark"
        elif random.random() < 0.5:
            lie, how = Copy(image, mark), "a journal with a row that was changed"
            change_row(lie, random)
        else:
            lie, how = Copy(spoilt(image, random), mark), "a journal with a spoilt page"
        found = state_of(lie, self._settings)
        is_well = found in (None, honest)
        assert is_well, f"promise 4: {how} is read, and gives another state"
        self.overseer.damage_detected(f"{how}: {'refused' if found is None else 'harmless'}")


def _forked(site: SiteName, mark: Watermark) -> None:
    raise AssertionError(
        f"promise 4: {site} acted on event {mark.seq}, which is not in the journal"
    )


class _Receiver:
    """Receiver of the batches' results."""

    def __init__(self, daemon: Daemon, dispatcher: ActionDispatcher) -> None:
        self._daemon = daemon
        self._dispatcher = dispatcher

    def carry_out(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self._dispatcher.carry_out(action)

    def publish(self, notices: Sequence[Notice]) -> None:
        """See koala.daemon.loop.group_commit."""
        self._daemon.overseer.noticed(notices)
