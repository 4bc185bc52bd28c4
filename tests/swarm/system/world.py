"""The whole system in one process: daemon, agents, starters, batch systems and network on one
engine, with clients and a fault plan.

Clients repeat a request until it is durable. A submission is repeated, with the same key, until the
daemon has answered, as the command line does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from koala.core.model.events import (
    Event,
    JobCancelRequested,
    JobResizeRequested,
    JobSubmitted,
    SiteDrained,
    SiteResumed,
)
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import JobSpec
from koala.core.model.parameters import Parameters
from koala.core.model.values import ClaimId, FileName, Instant, JobId, Seconds, SiteName, UserName
from koala.core.policy_api import Policies
from koala.core.splitting import has_place
from koala.daemon.agents.session import Timing
from koala.daemon.clients.submit_service import check_predecessors
from koala.daemon.loop.group_commit import BatchContext
from koala.errors import RejectedError
from koala.lab.sim.engine import Engine
from koala.queue_model import Discipline
from koala_agent.link import session
from tests.swarm.system.agents import Agent, limits_of
from tests.swarm.system.batch import BatchSystem, Job, Room, Runs
from tests.swarm.system.copies import Sources
from tests.swarm.system.daemons import STANDARD_CUSTODY, Custody, Daemon, Overseer, Settings
from tests.swarm.system.faults import FaultPlan, Happening, Incident
from tests.swarm.system.machines import Machine
from tests.swarm.system.mailboxes import SharedFolder
from tests.swarm.system.network import NEAR, End, Network, Pipe
from tests.swarm.system.starters import Folder, Node, Starter, Witness

OPERATOR = UserName("operator")
RESTART_S_MAX = 30.0
CLIENT_AGAIN_S = 10.0
WALL_JUMPS_S = (-3600.0, -1.0, 1.0, 3600.0)


class Onlooker(Overseer, Witness, Room, Protocol):
    """Observer of the daemon and of the truth at the sites."""

    def is_lost(self, job: JobId) -> bool:
        """True if the job went with the end of a journal, and a backup does not have it."""

    def accepted(self, job: JobId) -> None:
        """Receive an accepted job: it must be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Setting of a site: its registration, and its hidden properties."""

    name: SiteName
    facts: SiteFacts
    discipline: Discipline = Discipline.FCFS
    rate: float = 1.0  # of the agent's clock; 1 is the daemon's
    node_rate: float = 1.0  # of its nodes' clocks
    offset_s: Seconds = 0.0  # error of its nodes' wall clocks
    is_by_files: bool = False  # its starters dial nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Durations of the protocol that are no parameters of the core."""

    beat_s: Seconds = 5.0
    silence_s: Seconds = 15.0
    again_s: Seconds = 5.0
    linger_s: Seconds = 30.0
    custody: Custody = STANDARD_CUSTODY


STANDARD_PACE = Pace()


class Site:
    """A site: its agent, batch system and nodes."""

    def __init__(self, world: World, setting: Setting, pace: Pace) -> None:
        engine, plan = world.engine, world.plan
        self._shared = SharedFolder(engine, plan) if setting.is_by_files else None
        self.setting = setting
        self.name = setting.name
        self.starters: dict[str, Starter] = {}
        self.batch = BatchSystem(
            engine,
            plan,
            setting.name,
            processors=setting.facts.processors,
            discipline=setting.discipline,
            room=world.onlooker,
        )
        self.agent = Agent(
            Machine(engine, rate=setting.rate, boot_at=10_000.0),
            self.batch,
            site=setting.name,
            facts=setting.facts,
            limits=limits_of(setting.facts, again_s=pace.again_s, linger_s=pace.linger_s),
            timing=session.Timing(silence_s=pace.silence_s),
            sources=world.sources,
            begin=self._begin,
            dial=world.dial_daemon,
            shared=self._shared,
        )
        self._world = world
        self._node = Machine(
            engine, rate=setting.node_rate, boot_at=500.0, wall_error_s=setting.offset_s
        )
        self._runs: dict[str, int] = {}

    def _begin(self, claim: str, spec: dict[str, Any], job: Job) -> Runs:
        """Start a placeholder, as the batch system does."""
        world = self._world
        self._runs[claim] = self._runs.get(claim, 0) + 1
        node = Node(
            site=self.name,
            machine=self._node,
            folder=self.agent.folders.setdefault(claim, Folder()),
            pause_max_s=world.pause_max_s,
            program=world.program(ClaimId(claim)),
            dial=self._dial_agent,
            shared=self._shared,
            exited=lambda: self.batch.exited(job),
            witness=world.onlooker,
        )
        starter = Starter(
            world.engine,
            world.plan,
            node,
            spec=spec,
            nonce=f"{claim}#{self._runs[claim]}",
            processors=job.processors,
        )
        self.starters[claim] = starter
        world.engine.at(world.engine.now, starter.begin)
        return starter

    def _dial_agent(self, starter: Starter) -> End[bytes] | None:
        """Dial the agent, for a starter."""
        network = self._world.network
        pipe: Pipe[bytes] = Pipe(network, f"node:{self.name}", f"agent:{self.name}")
        mine, theirs = pipe.ends

        def arrive() -> None:
            agent = self.agent
            if not network.is_open(mine.name, theirs.name):
                return  # nobody says no; the starter gives up by itself
            if agent.is_up and mine.is_believed:
                agent.run(lambda: agent.accept(theirs))
                starter.reached(mine)
            else:
                mine.notice()

        near_s = self._world.plan.latency_s(self._world.engine.now) * NEAR
        self._world.engine.after(near_s, arrive)
        return mine

    @property
    def alive(self) -> list[Starter]:
        """List the running starters."""
        return [starter for starter in self.starters.values() if starter.is_up]

    def submit_local(self, processors: int, run_s: Seconds) -> None:
        """Submit a job of the site's own users."""
        self.batch.submit_local(processors, run_s)


class World:
    """The world of one run."""

    def __init__(
        self,
        settings: tuple[Setting, ...],
        *,
        parameters: Parameters,
        policies: Policies,
        policy_names: tuple[tuple[str, str], ...] = (),
        plan: FaultPlan,
        onlooker: Onlooker,
        program: Callable[[ClaimId], tuple[Seconds, int]],
        bandwidth: Callable[[SiteName, SiteName], float],
        pace: Pace = STANDARD_PACE,
        bookable: tuple[tuple[SiteName, SiteName, float], ...] = (),
    ) -> None:
        self.engine = Engine()
        self.plan = plan
        self.onlooker = onlooker
        self.program = program
        self.pause_max_s = parameters.pause_max_s
        self.network = Network(self.engine, plan)
        self.daemon = Daemon(
            self.engine,
            plan,
            Machine(self.engine, boot_at=77.0),
            settings=Settings(
                parameters=parameters,
                policies=policies,
                policy_names=policy_names,
                bookable=bookable,
                upkeep=pace.custody,
            ),
            timing=Timing(beat_s=pace.beat_s, silence_s=pace.silence_s),
            overseer=onlooker,
        )
        self.sources = Sources(serves=self._serves, bandwidth=bandwidth, network=self.network)
        self.sites = {setting.name: Site(self, setting, pace) for setting in settings}
        self._jobs: list[JobId] = []
        self._pipes: dict[SiteName, Pipe[Any]] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the daemon, let the agents dial, and schedule the incidents; at the end of the
        block, however it ends, dispose of the agents' event loops."""
        with ExitStack() as stack:
            for site in self.sites.values():
                stack.callback(site.agent.close)
            self.daemon.start()
            for site in self.sites.values():
                site.agent.start()
            for happening in self.plan.happenings:
                self.engine.at(happening.at, partial(self._happen, happening))
            yield

    def _serves(self, site: SiteName, transfer: str) -> bool | None:
        return self.sites[site].agent.serves(transfer)

    def dial_daemon(self, agent: Agent, reached: Callable[[Pipe[Any] | None], None]) -> None:
        """Dial the daemon, for an agent."""
        pipe: Pipe[Any] = Pipe(self.network, f"agent:{agent.site}", "daemon")
        engine = self.engine

        def arrive() -> None:
            names = pipe.ends[0].name, pipe.ends[1].name
            if not self.network.is_open(*names):
                engine.after(3.0, lambda: reached(None))
            elif not self.daemon.is_up:
                reached(None)
            else:
                self._pipes[agent.site] = pipe
                self.daemon.run(lambda: self.daemon.accept(pipe))
                engine.after(self.plan.latency_s(engine.now), lambda: reached(pipe))

        engine.after(self.plan.latency_s(engine.now), arrive)

    # --- clients and operators ---

    def insist(self, event: Event, when_durable: Callable[[], None] | None = None) -> None:
        """Send an event to the daemon until it is durable."""

        self.insist_on(lambda turn: turn.emit(event), when_durable)

    def insist_on(
        self, decide: Callable[[BatchContext], None], when_durable: Callable[[], None] | None = None
    ) -> None:
        """Repeat a request until the daemon has answered."""
        answered: list[bool] = []

        def done(_result: None) -> None:
            if not answered and when_durable is not None:
                when_durable()
            answered.append(True)

        def attempt() -> None:
            if not answered:
                self.daemon.ask(decide, done)
                self.engine.after(CLIENT_AGAIN_S, attempt)

        attempt()

    def submit(
        self, job: JobId, spec: JobSpec, at: Instant, again: tuple[Instant, ...] = ()
    ) -> None:
        """Submit a job as a client, and wait for the answer; at `again` the same request is
        repeated."""
        self._jobs.append(job)
        event = JobSubmitted(job=job, spec=spec, key=f"key of {job}", digest=job)

        def decide(turn: BatchContext) -> None:
            known = self.daemon.job_of_key(turn, event.key)
            assert known in (None, (job, event.digest)), f"promise 4: {event.key} is of {known}"
            if known is None and not self.onlooker.is_lost(job):
                turn.emit(replace(event, spec=self._with_known_predecessors(spec)))

        def insist() -> None:
            self.insist_on(decide, lambda: self.onlooker.accepted(job))

        for instant in (at, *again):
            self.engine.at(instant, insist)

    def _with_known_predecessors(self, spec: JobSpec) -> JobSpec:
        """Leave out predecessors that admission would reject; the client does without them."""
        accepted = []
        for one in spec.after:
            alone = replace(spec, after=(one,))
            with suppress(RejectedError):
                check_predecessors(alone, self.daemon.job, lambda _owner: True)
                accepted.append(one)
        return replace(spec, after=tuple(accepted))

    def cancel(self, job: JobId) -> None:
        """Cancel a job as its owner."""

        def decide(turn: BatchContext) -> None:
            if job in turn.scheduler.jobs:
                turn.emit(JobCancelRequested(job=job, by=OPERATOR))

        self.insist_on(decide)

    def resize(self, job: JobId, total: int) -> None:
        """Ask for another total of a malleable job as its owner."""

        def decide(turn: BatchContext) -> None:
            jobs, sites = turn.scheduler.jobs, turn.scheduler.sites.values()
            if job in jobs and has_place(jobs[job].spec, total, sites):
                turn.emit(JobResizeRequested(job=job, total=total, by=OPERATOR))

        self.insist_on(decide)

    def add_replica(self, file: FileName, site: SiteName, size_bytes: int) -> None:
        """Add a replica of the file at the site."""
        self.sites[site].agent.add_file(file, size_bytes)

    # --- incidents ---

    def cut(self, name: SiteName, *, for_s: Seconds = 0.0) -> None:
        """Cut the connection of a site's agent for `for_s`."""
        self.network.part(f"agent:{name}", "daemon", self.engine.now + for_s)
        pipe = self._pipes.get(name)
        if pipe is not None:
            pipe.cut()

    def crash_daemon(self, *, for_s: Seconds) -> None:
        """Kill the daemon, and restart it when `for_s` have passed."""
        self.daemon.down_until = self.engine.now + for_s
        self.daemon.crash()

    def _happen(self, happening: Happening) -> None:
        site = self._pick_site(happening)
        until = self.engine.now + happening.lasts_s
        match happening.kind:
            case (
                Incident.LINK_CUT
                | Incident.LINK_DOWN
                | Incident.TO_DAEMON_STUCK
                | Incident.TO_AGENT_STUCK
                | Incident.HALF_OPEN
                | Incident.AGENTS_APART
            ):
                self._happen_to_link(happening, site, until)
            case (
                Incident.AGENT_CRASH
                | Incident.AGENT_ENDS
                | Incident.AGENT_STOPPED
                | Incident.AGENT_DISK_FULL
            ):
                self._happen_to_agent(happening, site.agent, until)
            case (
                Incident.DAEMON_CRASH
                | Incident.DAEMON_ENDS
                | Incident.DAEMON_STOPPED
                | Incident.DAEMON_DISK_FULL
                | Incident.WALL_JUMP
            ):
                self._happen_to_daemon(happening, until)
            case Incident.DRAIN | Incident.RESUME | Incident.USER_CANCEL:
                self._happen_by_people(happening, site)
            case _:
                self._happen_at_site(happening, site, until)

    def _pick_site(self, happening: Happening) -> Site:
        sites = tuple(self.sites.values())
        return sites[int(happening.pick * len(sites))]

    def _happen_to_link(self, happening: Happening, site: Site, until: Instant) -> None:
        agent, network = f"agent:{site.name}", self.network
        pipe = self._pipes.get(site.name)
        match happening.kind:
            case Incident.LINK_DOWN:
                network.part(agent, "daemon", until)
                if pipe is not None and int(happening.pick * 7919) % 2:
                    pipe.cut()
            case Incident.TO_DAEMON_STUCK:
                network.hold_back(agent, "daemon", until)
            case Incident.TO_AGENT_STUCK:
                network.hold_back("daemon", agent, until)
            case Incident.AGENTS_APART:
                for other in self.sites:
                    if other != site.name:
                        network.part(agent, f"agent:{other}", until)
            case _:
                if pipe is not None:
                    pipe.cut(is_silent=happening.kind is Incident.HALF_OPEN)

    def _happen_to_agent(self, happening: Happening, agent: Agent, until: Instant) -> None:
        match happening.kind:
            case Incident.AGENT_CRASH:
                agent.down_until = until
                agent.crash()
            case Incident.AGENT_ENDS:
                agent.down_until = until
                agent.finish()
            case Incident.AGENT_STOPPED:
                agent.stopped_until = until
            case _:
                agent.disk.full_until = until

    def _happen_to_daemon(self, happening: Happening, until: Instant) -> None:
        daemon = self.daemon
        until = min(until, self.engine.now + RESTART_S_MAX)
        match happening.kind:
            case Incident.DAEMON_CRASH:
                self.crash_daemon(for_s=until - self.engine.now)
            case Incident.DAEMON_ENDS:
                daemon.down_until = until
                daemon.finish()
            case Incident.DAEMON_STOPPED:
                daemon.stopped_until = until
            case Incident.WALL_JUMP:
                step_s = WALL_JUMPS_S[int(happening.pick * 7919) % len(WALL_JUMPS_S)]
                daemon.machine.wall_error_s += step_s
            case _:
                daemon.disk.full_until = until

    def _happen_by_people(self, happening: Happening, site: Site) -> None:
        match happening.kind:
            case Incident.DRAIN:
                self.insist(SiteDrained(site=site.name, by=OPERATOR))
                resumed = SiteResumed(site=site.name, by=OPERATOR)
                self.engine.after(happening.lasts_s, lambda: self.insist(resumed))
            case Incident.RESUME:
                self.insist(SiteResumed(site=site.name, by=OPERATOR))
            case _:
                if self._jobs:
                    self.cancel(self._jobs[int(happening.pick * len(self._jobs))])

    def _happen_at_site(self, happening: Happening, site: Site, until: Instant) -> None:
        node, agent = f"node:{site.name}", f"agent:{site.name}"
        match happening.kind:
            case Incident.LOCAL_JOB:
                half = max(1, site.batch.queue.processors // 2)
                site.submit_local(half, happening.lasts_s)
            case Incident.MANAGER_AWAY:
                site.batch.away_until = until
            case Incident.STARTER_DEAF:
                self.network.part(node, agent, until)
            case Incident.TO_STARTER_STUCK:
                self.network.hold_back(agent, node, until)
            case Incident.TO_THE_STARTERS_AGENT_STUCK:
                self.network.hold_back(node, agent, until)
            case _:
                self._happen_to_claim(happening, site)

    def _happen_to_claim(self, happening: Happening, site: Site) -> None:
        starters = site.alive
        if not starters:
            return
        starter = starters[int(happening.pick * 7919) % len(starters)]
        match happening.kind:
            case Incident.STARTER_KILLED if int(happening.pick * 104_729) % 2:
                starter.crash()
            case Incident.STARTER_KILLED:
                site.batch.lose_node(starter.claim)
            case Incident.STARTER_CUT:
                starter.cut()
            case _:
                site.batch.cancel_as_site(starter.claim)
