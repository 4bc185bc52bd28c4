"""Scenario of a seed: grid, workload, parameters, faults.

Parameters are often drawn at their bounds, because rules interact there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

from koala.common.protocol.ordering import ORDERS
from koala.core.model.allowances import Allowance, Payer, group_payer, user_payer
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import (
    ComponentSpec,
    Deadline,
    Hint,
    InputFile,
    InputMode,
    JobSpec,
    Split,
    StartType,
)
from koala.core.model.parameters import Parameters
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import (
    ALL,
    FOREVER,
    FileName,
    Instant,
    JobId,
    Priority,
    Seconds,
    SiteName,
    TcpPath,
    UserName,
)
from koala.core.splitting import Room, most_of
from koala.policies.queueing.multiqueue import DISCIPLINES
from koala.queue_model import Discipline
from tests.swarm import foreign
from tests.swarm.focus import focused, rush
from tests.swarm.system.agents import MUTE
from tests.swarm.system.daemons import Custody
from tests.swarm.system.faults import Chances, Fault, Incident
from tests.swarm.system.world import STANDARD_PACE, Pace, Setting

FAULTS_S_MAX = 240.0
HARD = (
    (Incident.LINK_DOWN, Incident.STARTER_KILLED),
    (Incident.STARTER_DEAF, Incident.STARTER_KILLED),
    (Incident.AGENT_CRASH, Incident.SITE_CANCEL),
    (Incident.DAEMON_CRASH, Incident.LINK_CUT, Incident.LINK_DOWN),
    (Incident.AGENT_CRASH, Incident.DAEMON_CRASH, Incident.STARTER_KILLED),
)
"""Kinds of faults that together leave one component alive and unreachable, while the job is
lost."""
BANDWIDTH_BPS = 1_000_000.0
FLEXIBLE_FIRST = 2000
BUSY_FIRST = 1000
"""First seed that may draw busy sites: most seeds that find mutants are below."""
BOOKED_FIRST = 2000
"""First seed in which busy sites may book: those that find mutants of tickets are below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything that the seed draws."""

    seed: int
    settings: tuple[Setting, ...]
    parameters: Parameters
    specs: dict[JobId, JobSpec]
    arrivals: dict[JobId, Instant]
    programs: dict[tuple[JobId, int], tuple[Seconds, int]]
    replicas: tuple[tuple[FileName, SiteName, int], ...]
    locals_: tuple[tuple[Instant, SiteName, int, Seconds], ...]
    chances: Chances
    kinds: tuple[Incident, ...]
    placement: str
    queueing: str
    latency_s: Seconds
    bookable: tuple[tuple[SiteName, SiteName, float], ...] = ()
    tickets: str = "none"
    allowances: tuple[tuple[Payer, Allowance], ...] = ()
    pace: Pace = STANDARD_PACE
    faults_s: Seconds = FAULTS_S_MAX
    lasts_s_max: Seconds = 90.0  # of what happens for a while
    only: frozenset[Fault] | None = None
    again: Mapping[JobId, tuple[Instant, ...]] = field(default_factory=dict)
    cancels: Mapping[JobId, Instant] = field(default_factory=dict)
    resizes: tuple[tuple[Instant, JobId, int], ...] = ()  # totals that owners ask for
    resizing: str = "FPSMA"
    foreign: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """Slots whose policy is another package's, which misbehaves after some answers."""


def draw(seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    random = Random(seed)
    settings = _settings(random)
    names = [setting.name for setting in settings]
    replicas = tuple(
        (FileName(f"file{n}"), site, random.choice((0, 1000, 5_000_000, 40_000_000)))
        for n in range(random.randrange(3))
        for site in random.sample(names, k=random.choice((1, min(2, len(names)))))
    )
    sizes = {file: size for file, _, size in reversed(replicas)}
    replicas = tuple((file, site, sizes[file]) for file, site, _ in replicas)
    specs: dict[JobId, JobSpec] = {}
    arrivals: dict[JobId, Instant] = {}
    programs: dict[tuple[JobId, int], tuple[Seconds, int]] = {}
    for n in range(random.randint(2, 7)):
        job = JobId(f"j{n + 1}")
        specs[job] = _spec(random, settings, tuple(sizes))
        arrivals[job] = random.choice((0.0, 1.0, random.uniform(0, 100.0)))
        run_s = random.choice((0.0, 0.5, 5.0, 20.0, 90.0))
        for component in range(len(specs[job].components)):
            status = 1 if random.random() < 0.04 else 0
            programs[(job, component)] = (run_s * random.uniform(0.9, 1.1), status)
    scenario = Scenario(
        seed=seed,
        settings=settings,
        parameters=_barrier_timed(_parameters(random), seed),
        specs=specs,
        arrivals=arrivals,
        programs=programs,
        replicas=replicas,
        locals_=_locals(random, settings),
        chances=_chances(random),
        kinds=_kinds(random),
        placement=random.choice(("CF", "CF", "WF")),
        queueing="koala",
        latency_s=random.choice((0.001, 0.01, 0.05)),
    )
    scenario = _rush(random, scenario) if random.random() < 0.15 else scenario
    pathed = _pathed(seed, _timed(seed, _line_up(seed, scenario)))
    drawn = _hinted(seed, _with_ports(seed, pathed))
    drawn = _sorted(seed, _in_turn(seed, _kept_together(seed, drawn)))
    drawn = _busy(seed, _owning(seed, focused(seed, _paced(seed, drawn))))
    drawn = _shared(seed, _bookable(seed, drawn))
    drawn = _flexible(seed, drawn)
    counted = Random(f"{seed}/counted").choice(("jobs", "jobs", "all"))
    return replace(
        drawn,
        parameters=replace(drawn.parameters, errors_counted=counted),
        foreign=foreign.drawn(seed),
    )


def _owning(seed: int, drawn: Scenario) -> Scenario:
    """Draw input files that single components read, in a quarter of the seeds; from a stream of its
    own. The seeds that find mutants are below the first of these."""
    random = Random(f"{seed}/owning")
    files = list(dict.fromkeys(file for file, _, _ in drawn.replicas))
    if seed < 1000 or not files or random.random() >= 0.25:
        return drawn
    specs = {}
    for job, spec in drawn.specs.items():
        left = [file for file in files if spec.input_file is None or file != spec.input_file.name]
        components = tuple(
            replace(one, inputs=tuple([InputFile(name=f) for f in left if random.random() < 0.5]))
            for one in spec.components
        )
        specs[job] = replace(spec, components=components, input_mode=InputMode.WHOLE)
    return replace(drawn, specs=specs)


def _flexible(seed: int, drawn: Scenario) -> Scenario:
    """Draw flexible jobs in place of most, some of them malleable, in half of the seeds from
    FLEXIBLE_FIRST on; from a stream of its own. The grid could take each if nothing else ran."""
    random = Random(f"{seed}/flexible")
    if seed < FLEXIBLE_FIRST or random.random() >= 0.5:
        return drawn
    specs = {}
    for job, spec in drawn.specs.items():
        part = replace(spec.components[0], site=None, label=None, start_type=StartType.STRICT)
        total = spec.processors
        most = random.choice((total, max(1, total // 2), random.randint(1, total)))
        split = Split(
            total=total,
            least=total,
            part_min=random.choice((1, 1, random.randint(1, most))),
            part_max=most,
            parts_max=random.choice((2, 4, 1000)),
        )
        if random.random() < 0.4:
            least = random.randint(split.part_min, total)
            more = random.choice((total, 2 * total))
            split = replace(split, total=more, least=least, is_malleable=True)
        rooms = [
            Room(s.name, s.facts.processors, 1 if spec.distinct else s.facts.slots or 1000)
            for s in drawn.settings
            if s.facts.admits(spec.owner)
        ]
        is_free = spec.quorum is None and spec.queue is None and split.nominal
        if not is_free or not most_of(split, rooms) or random.random() < 0.2:
            specs[job] = spec
            continue
        flexible = replace(spec, components=(part,), split=split, connect=())
        specs[job] = flexible.shaped(split.nominal)
    drawn = replace(drawn, specs=specs, placement=random.choice((drawn.placement, "FCM", "CM")))
    return _resized(seed, drawn)


def _resized(seed: int, drawn: Scenario) -> Scenario:
    """Draw other totals of malleable jobs, and how fast these are resized; from a stream of its
    own."""
    random = Random(f"{seed}/resized")
    resizes = []
    for job, spec in drawn.specs.items():
        if spec.split is not None and spec.split.is_malleable:
            most = spec.split.parts_max * spec.split.part_max
            totals = (spec.split.least, spec.split.total, 2 * spec.split.total)
            resizes += [
                (random.uniform(0.0, FAULTS_S_MAX), job, min(most, random.choice(totals)))
                for _ in range(random.choice((0, 1, 3, 8)))
            ]
    limits = replace(
        drawn.parameters,
        resize_first=random.choice(("waiting", "waiting", "running")),
        resize_step_s=random.choice((0.0, 1.0, 10.0)),
        give_way_s=random.choice((0.5, 5.0, 30.0)),
    )
    resizing = random.choice(("FPSMA", "EGS"))
    return replace(drawn, resizes=tuple(resizes), parameters=limits, resizing=resizing)


def _shared(seed: int, drawn: Scenario) -> Scenario:
    """Draw groups with limits, in a sixth of the seeds; from a stream of its own. No job is larger
    than the limits."""
    random = Random(f"{seed}/shared")
    if seed < BUSY_FIRST or random.random() >= 1 / 6:
        return drawn
    specs = {
        job: replace(spec, group=random.choice(("physics", "physics", "")))
        for job, spec in drawn.specs.items()
    }
    largest = max(spec.processors for spec in specs.values())
    allowances = tuple(
        (
            payer,
            Allowance(
                processors=random.choice((None, largest, largest + 2)),
                jobs=random.choice((None, 1, 2)),
                hold_s=random.choice((None, None, 50_000.0)),
                shares=random.choice((0.5, 1.0, 2.0)),
            ),
        )
        for payer in (group_payer("physics"), user_payer("ann"))
    )
    return replace(drawn, specs=specs, allowances=allowances)


def _busy(seed: int, drawn: Scenario) -> Scenario:
    """Draw busy sites whose queues jobs enter, in a quarter of the seeds; from a stream of its own.
    Minutes stand for hours."""
    random = Random(f"{seed}/busy")
    if seed < BUSY_FIRST or random.random() >= 0.25:
        return drawn
    crowd = tuple(
        (
            random.uniform(0.0, FAULTS_S_MAX),
            (setting := random.choice(drawn.settings)).name,
            random.randint(1, setting.facts.processors),
            random.choice((20.0, 100.0, 300.0)),
        )
        for _ in range(random.choice((5, 20, 40)))
    )
    hold_s = random.choice((1.0, 10.0, 60.0))
    more = Random(f"{seed}/busy more")
    return replace(
        drawn,
        specs={
            job: replace(spec, redundancy=more.choice((1, 1, 2, 3)))
            for job, spec in drawn.specs.items()
        },
        tickets=random.choice(("dodge", "dodge", "turns", "spare")),
        settings=tuple(
            replace(
                s,
                facts=replace(
                    s.facts,
                    gate=random.choice(("queue", "queue", MUTE, "")),
                    tickets_max=more.choice((None, None, 1, 4)),
                    held_share_max=more.choice((None, None, 0.5)),
                ),
            )
            for s in drawn.settings
        ),
        parameters=replace(
            drawn.parameters,
            tickets_max=random.choice((1, 3)),
            tickets_user_max=random.choice((3, 100, 100)),
            held_share_max=more.choice((0.2, 0.5, 1.0)),
            redundancy_share_max=more.choice((0.1, 1.0)),
            ticket_plan_s=random.choice((5.0, 20.0)),
            ticket_slack_s=random.choice((0.0, 10.0)),
            ticket_hold_min_s=hold_s,
            ticket_hold_max_s=hold_s * random.choice((1.0, 4.0)),
        ),
        chances=replace(drawn.chances, gate_lost=random.choice((0.0, 0.0, 0.2))),
        locals_=(*drawn.locals_, *crowd),
    )


def _bookable(seed: int, drawn: Scenario) -> Scenario:
    """Draw busy sites that book processors, in half of those with queues that jobs enter; from a
    stream of its own."""
    random = Random(f"{seed}/bookings")
    if seed < BOOKED_FIRST or drawn.tickets == "none" or random.random() < 0.5:
        return drawn
    return replace(
        drawn,
        tickets="book",
        specs={
            job: replace(
                spec,
                components=tuple(
                    one
                    if one.wall_time_s
                    else replace(one, wall_time_s=random.choice((20.0, 200.0)))
                    for one in spec.components
                ),
            )
            for job, spec in drawn.specs.items()
        },
        settings=tuple(
            replace(s, facts=replace(s.facts, books=random.choice(("calendar", "calendar", ""))))
            for s in drawn.settings
        ),
        chances=replace(drawn.chances, booking_revoked=random.choice((0.0, 0.1, 0.5))),
    )


def _sorted(seed: int, drawn: Scenario) -> Scenario:
    """Draw a queue in an order of its jobs, in a tenth of the seeds; from a stream of its own."""
    random = Random(f"{seed}/ordering")
    if random.random() >= 0.1:
        return drawn
    return replace(drawn, queueing=random.choice(tuple(ORDERS)))


def _in_turn(seed: int, drawn: Scenario) -> Scenario:
    """Draw jobs that wait for the ends of others, in a quarter of the seeds; from a stream of its
    own."""
    random = Random(f"{seed}/before")
    if random.random() >= 0.25:
        return drawn
    names = list(drawn.specs)
    specs = {}
    for number, (job, spec) in enumerate(drawn.specs.items()):
        before = random.sample(names[:number], k=min(number, random.choice((0, 1, 1, 2))))
        after = [
            Predecessor(job=one, ended=random.choice((Ended.OK, Ended.OK, Ended.ANY)))
            for one in before
        ]
        specs[job] = replace(spec, after=tuple(after))
    return replace(drawn, specs=specs)


def _kept_together(seed: int, drawn: Scenario) -> Scenario:
    """Draw jobs whose components advance together, in a quarter of the seeds; from a stream of its
    own."""
    random = Random(f"{seed}/progress")
    if random.random() >= 0.25:
        return drawn
    return replace(
        drawn,
        parameters=replace(drawn.parameters, progress_cycle_s=random.choice((0.5, 2.0))),
        specs={
            job: replace(
                spec,
                progress=random.choice((None, "free", "sq", "sq", "sq-printed")),
                asynchrony_s=random.choice((None, 0.1, 5.0)),
                deviation_s=random.choice((None, 1.0)),
            )
            for job, spec in drawn.specs.items()
        },
    )


def _hinted(seed: int, drawn: Scenario) -> Scenario:
    """Draw placement by speed, booked links and hints, in a quarter of the seeds; from a stream of
    its own."""
    random = Random(f"{seed}/hints")
    if random.random() >= 0.25:
        return drawn
    names = [setting.name for setting in drawn.settings]
    links = [(a, b, BANDWIDTH_BPS * random.choice((0.2, 1.0))) for a in names for b in names]
    return replace(
        drawn,
        placement=random.choice(("NoNetwork", "PreferLocal", "Service", "Service")),
        bookable=tuple(link for link in links if random.random() < 0.8),
        settings=tuple(
            replace(
                s,
                facts=replace(
                    s.facts,
                    mips=random.choice((500.0, 1000.0, 3000.0)),
                    slots=random.choice((None, None, 2, 4)),
                ),
            )
            for s in drawn.settings
        ),
        specs={
            job: replace(
                spec,
                hint=random.choice((None, Hint(kind="cpu"), Hint(kind="io", deviation=0.5))),
                length_mi=random.choice((None, 1000.0, 20_000.0)),
                preferred_mips=random.choice((None, None, 500.0)),
            )
            for job, spec in drawn.specs.items()
        },
    )


def _paced(seed: int, drawn: Scenario) -> Scenario:
    """Draw the repetition intervals of the protocol."""
    random = Random(f"{seed}/pace")
    beat_s = random.choice((1.0, 5.0, 5.0))
    return replace(
        drawn,
        faults_s=random.choice((100.0, 150.0, FAULTS_S_MAX)),
        pace=Pace(
            beat_s=beat_s,
            silence_s=beat_s * random.choice((3.0, 7.0)),
            again_s=random.choice((1.0, 5.0)),
            linger_s=random.choice((1.0, 30.0)),
            custody=_custody(seed, snapshot_events=random.choice((40, 40, 300, 10_000))),
        ),
        chances=replace(drawn.chances, restore=_restore(seed), slow_collect=_slow_collect(seed)),
        again=_again(seed, drawn),
    )


def _custody(seed: int, *, snapshot_events: int) -> Custody:
    """Draw the retention of jobs and events: three seeds in ten forget them as soon as they may."""
    random = Random(f"{seed}/custody")
    if random.random() >= 0.3:
        return Custody(snapshot_events=snapshot_events, images=0.05 if _restore(seed) else 0.01)
    return Custody(
        snapshot_events=random.choice((20, 60)),
        keep_jobs=random.choice((0, 0, 2)),
        keep_jobs_s=random.choice((0.0, 20.0, FOREVER)),
        keep_s=random.choice((0.0, 30.0, FOREVER)),
        images=0.05 if _restore(seed) else 0.01,
    )


def _restore(seed: int) -> float:
    """Draw disk losses and restored backups, in one seed of ten."""
    return 0.3 if Random(f"{seed}/restore").random() < 0.1 else 0.0


def _slow_collect(seed: int) -> float:
    """Draw collections of logs and outputs that take longer than leases, in two seeds of three."""
    return Random(f"{seed}/collect").choice((0.0, 0.05, 0.3))


def _again(seed: int, drawn: Scenario) -> dict[JobId, tuple[Instant, ...]]:
    """Draw the instants at which clients repeat a request under the same key."""
    random = Random(f"{seed}/keys")
    return {
        job: tuple(at + random.choice((0.0, 0.5, random.uniform(0.0, 300.0))) for _ in range(n))
        for job, at in drawn.arrivals.items()
        if (n := random.choice((0, 0, 1, 3)))
    }


def _pathed(seed: int, drawn: Scenario) -> Scenario:
    """Draw jobs that need TCP paths, some of them closed, in a quarter of the seeds; from a stream
    of its own."""
    random = Random(f"{seed}/paths")
    if random.random() >= 0.25:
        return drawn
    specs: dict[JobId, JobSpec] = {}
    for job, spec in drawn.specs.items():
        barrier = [
            str(index)
            for index, component in enumerate(spec.components)
            if component.start_type is not StartType.NONE
        ]
        if len(barrier) < 2 or random.random() < 0.2:
            specs[job] = spec
            continue
        first, last = random.sample(barrier, 2)
        ends = random.choice(((ALL, ALL), (first, last), (ALL, last), (first, ALL)))
        path = TcpPath(source=ends[0], target=ends[1], port=29500)
        specs[job] = replace(spec, connect=(path,))
    return replace(
        drawn,
        specs=specs,
        parameters=replace(
            drawn.parameters,
            paths_limit_s=random.choice((0.5, 5.0)),
            blocked_max=random.choice((1, 3, 1000)),
        ),
        chances=replace(drawn.chances, closed_path=random.choice((0.0, 0.1, 0.5))),
    )


def _with_ports(seed: int, drawn: Scenario) -> Scenario:
    """Draw components with named ports, paths to which are closed, and sites that carry no
    connections, in a quarter of the seeds; from a stream of its own."""
    random = Random(f"{seed}/ports")
    if random.random() >= 0.25:
        return drawn
    specs: dict[JobId, JobSpec] = {}
    for job, spec in drawn.specs.items():
        components = list(spec.components)
        for index, component in enumerate(components):
            if component.start_type is not StartType.NONE and random.random() < 0.5:
                ports = (("DATA", 7000 + index), ("CONTROL", 8000 + index))
                components[index] = replace(component, ports=ports[: random.choice((1, 1, 2))])
        specs[job] = replace(spec, components=tuple(components))
    settings = tuple(
        replace(setting, facts=replace(setting.facts, forwards=random.random() < 0.8))
        for setting in drawn.settings
    )
    return replace(
        drawn,
        specs=specs,
        settings=settings,
        parameters=replace(drawn.parameters, paths_limit_s=random.choice((0.5, 5.0))),
        chances=replace(drawn.chances, closed_port=random.choice((0.1, 0.5, 1.0))),
    )


def _line_up(seed: int, drawn: Scenario) -> Scenario:
    """Draw one of the disciplines for several queues, with local jobs, in half of the seeds. It
    uses a stream of its own, so that kept seeds stay the same in all the rest."""
    random = Random(f"{seed}/queueing")
    if random.random() < 0.5:
        return drawn
    specs = {}
    for job, spec in drawn.specs.items():
        fits = [s.name for s in drawn.settings if s.facts.processors >= spec.largest]
        home = spec.components[0].site or random.choice(fits)
        if random.random() < 0.5:
            specs[job] = replace(spec, queue=home)
        else:
            specs[job] = spec
    return replace(
        drawn,
        specs=specs,
        queueing=random.choice(tuple(DISCIPLINES)),
        placement=random.choice((drawn.placement, "WF-distinct")),
    )


def _timed(seed: int, drawn: Scenario) -> Scenario:
    """Draw a required start for most jobs, and local users who fill the sites, in three seeds of
    ten; from a stream of its own."""
    random = Random(f"{seed}/deadlines")
    if random.random() >= 0.3:
        return drawn
    specs: dict[JobId, JobSpec] = {}
    for job, spec in drawn.specs.items():
        if random.random() < 0.3:
            specs[job] = spec
            continue
        at = random.choice((None, random.uniform(20.0, 300.0)))
        after_s = random.choice((0.0, 0.5, 5.0, 30.0, random.uniform(0.0, 200.0)))
        specs[job] = replace(
            spec,
            deadline=Deadline(after_s=after_s) if at is None else Deadline(at=at),
            components=tuple(
                c if c.start_type is not StartType.NONE else replace(c, start_type=StartType.LOOSE)
                for c in spec.components
            ),
        )
    crowd = tuple(
        (
            random.uniform(0.0, FAULTS_S_MAX),
            (setting := random.choice(drawn.settings)).name,
            random.randint(1, setting.facts.processors),
            random.choice((10.0, 100.0)),
        )
        for _ in range(random.choice((0, 20, 40)))
    )
    return replace(
        drawn,
        specs=specs,
        settings=tuple(
            replace(s, facts=replace(s.facts, may_kill_local=random.random() < 0.7))
            for s in drawn.settings
        ),
        parameters=replace(
            drawn.parameters,
            at_deadline=random.choice(("kill", "kill", "fail")),
            deadline_fraction=random.choice((0.1, 0.7, 1.0)),
            deadline_tries_max=random.choice((0, 2, 10)),
            wait_s=random.choice((0.0, 0.0, 20.0, float("inf"))),
            wait_graces=random.choice((0.0, 3.0, 3.0)),
        ),
        locals_=(*drawn.locals_, *crowd),
    )


def _rush(random: Random, drawn: Scenario) -> Scenario:
    """Draw a rush of required starts: a high-priority job waits for its file while low ones take
    the processors of its placement. It must preempt, if it may."""
    return rush(
        drawn,
        preempt=random.choice(("component", "complete")),
        high_every=len(drawn.specs),
        low_run_s=120.0,
        apart_s=3.0,
        file_bytes=40_000_000,
    )


def _settings(random: Random) -> tuple[Setting, ...]:
    rho = random.choice((0.0, 0.0005))
    sizes = random.choice(((1, 2, 4, 8), (1, 2, 4, 8), (8, 16)))
    return tuple(
        Setting(
            name=SiteName(f"s{n + 1}"),
            facts=SiteFacts(
                processors=random.choice(sizes),
                grace_s=random.choice((0.2, 1.0, 5.0, 20.0)),
                starts_after_stop=random.random() < 0.6,
            ),
            discipline=random.choice((Discipline.FCFS, Discipline.EASY)),
            rate=1.0 + random.choice((-rho, rho)),
            offset_s=random.choice((0.0, -0.3, 0.02, 1.0)),
        )
        for n in range(random.choice((1, 2, 2, 3, 3, 4)))
    )


def _spec(random: Random, settings: tuple[Setting, ...], files: tuple[FileName, ...]) -> JobSpec:
    total = sum(setting.facts.processors for setting in settings)
    left = total
    components: list[ComponentSpec] = []
    is_odd = random.random() < 0.35
    is_small = random.random() < 0.5
    # The smallest that are drawn fit an empty grid: one component a site, in order.
    sites = random.sample(settings, k=random.randint(1, len(settings)))
    for setting in sites:
        size = random.choice((1, 1, 2, 2 if is_small else setting.facts.processors))
        size = min(size, setting.facts.processors, left)
        left -= size
        kind = random.choice(tuple(StartType)) if is_odd else StartType.STRICT
        components.append(
            ComponentSpec(
                executable="/bin/true",
                processors=size,
                site=setting.name if random.random() < 0.2 else None,
                start_type=kind,
                wall_time_s=random.choice((None, None, None, 10.0)),
            )
        )
    count = len(components)
    file = random.choice(files) if files and random.random() < 0.5 else None
    return JobSpec(
        components=tuple(components),
        owner=UserName(random.choice(("ann", "bob"))),
        priority=random.choice(tuple(Priority)),
        input_file=InputFile(name=file) if file is not None else None,
        input_mode=random.choice(tuple(InputMode)),
        max_hold_s=random.choice((None, None, 30.0, 300.0)),
        quorum=random.randint(1, count) if count > 1 and random.random() < 0.2 else None,
        retries=random.choice((0, 0, 1, 2)),
        rerun=random.random() < 0.85,
    )


def _barrier_timed(parameters: Parameters, seed: int) -> Parameters:
    """Let every other scenario have the live timing of the barrier; the seeds that find mutants are
    below."""
    if seed >= 1000 and seed % 2:
        return replace(parameters, arm_wait_s=0.25, lead_rounds=1.5)
    return replace(parameters, arm_wait_s=0.0, lead_rounds=1.0)


def _parameters(random: Random) -> Parameters:
    choice = random.choice
    fraction = choice((0.0, 0.5, 0.75, 1.0))
    hold_lease_s = choice((5.0, 20.0, 60.0))
    return Parameters(
        scan=choice(("change", "change", "interval")),
        scan_interval_s=choice((5.0, 30.0)),
        high_scans_per_low=choice((1, 2, 5)),
        queue_jobs_max=choice((1, 2, 10_000, 10_000)),
        placement_tries_max=choice((0, 0, 0, 0, 200)),
        ageing_s=choice((0.0, 30.0, 3600.0, float("inf"))),
        count_placed=random.random() < 0.2,
        bandwidth_default_bps=BANDWIDTH_BPS,
        claim_fraction=fraction,
        claim_fraction_step=choice((0.0, 0.125, 1.0)),
        claim_fraction_min=min(fraction, choice((0.0, 0.25))),
        claim_threshold=choice((0.0, 0.0, 0.5, 1.0)),
        claiming_step_min_s=choice((0.001, 1.0, 5.0)),
        claiming_tries_max=choice((20, 100, 1000)),
        hold_s=choice((60.0, 900.0)),
        preempt=choice(("complete", "component", "none")),
        preempt_rest_s=choice((0.0, 60.0, 600.0)),
        hold_budget_user_s=choice((float("inf"),) * 5 + (50_000.0,)),
        hold_budget_site_s=choice((float("inf"),) * 5 + (50_000.0,)),
        late_max_s=min(choice((0.05, 2.0, 2.0, 10.0)), hold_lease_s / 4),  # else nobody can promise
        lead_min_s=choice((0.05, 0.5)),
        lead_max_s=choice((0.5, 2.0)),
        arms_max=choice((1, 3, 20, 20)),
        hold_lease_s=hold_lease_s,
        run_lease_s=hold_lease_s * choice((1.0, 2.0, 10.0)),
        kill_s=choice((0.0, 5.0)),
        pause_max_s=choice((0.0, 5.0)),
        consecutive_errors_max=choice((1, 3, 3)),
        probe_after_s=choice((0.0, 30.0, 600.0)),
    )


def _locals(
    random: Random, settings: tuple[Setting, ...]
) -> tuple[tuple[Instant, SiteName, int, Seconds], ...]:
    if random.random() < 0.5:
        return ()
    return tuple(
        (
            random.uniform(0.0, FAULTS_S_MAX),
            (setting := random.choice(settings)).name,
            random.randint(1, setting.facts.processors),
            random.choice((1.0, 10.0, 100.0)),
        )
        for _ in range(random.randrange(12))
    )


def _chances(random: Random) -> Chances:
    def some(*values: float) -> float:
        return random.choice((0.0, *values))

    return Chances(
        cut=some(0.0, 0.002, 0.02),
        late=some(0.0, 0.01, 0.1),
        crash_daemon=some(0.0, 0.0005, 0.005),
        crash_agent=some(0.0, 0.0005, 0.005),
        crash_starter=some(0.0, 0.005, 0.1),
        disk_error=some(0.0, 0.001, 0.01),
        slow_commit=some(0.0, 0.02, 0.2),
        slow_store=some(0.0, 0.02, 0.2),
        corrupt=some(0.0, 0.2),
        manager_error=some(0.0, 0.05, 0.3),
        manager_fails_for_now=some(0.0, 0.05, 0.3),
        manager_deaf=some(0.0, 0.05, 0.3),
        manager_late=some(0.0, 0.05, 0.2),
        manager_forgets=some(0.0, 0.2),
        transfer_error=some(0.0, 0.1, 0.5),
        transfer_cut=some(0.0, 0.1, 0.5),
        transfer_spoilt=some(0.0, 0.2),
        transfer_stall=some(0.0, 0.2),
        transfer_busy=some(0.0, 0.2),
        spool_error=some(0.0, 0.1),
        fork_error=some(0.0, 0.05),
        unready=some(0.2),
        pause=some(0.0, 0.2, 1.0),
        requeue=some(0.5),
        slow_end=random.choice((0.0, 0.5, 1.0)),
        incidents_per_s=some(0.01, 0.05, 0.2),
    )


def _kinds(random: Random) -> tuple[Incident, ...]:
    """Draw the kinds of faults: some seeds see every kind, others one or two often."""
    every = tuple(Incident)
    if random.random() < 0.4:
        return every
    if random.random() < 0.5:
        return random.choice(HARD)
    return tuple(random.choices(every, k=2))


def quiet(scenario: Scenario) -> Scenario:
    """Return the same scenario without faults."""
    return replace(scenario, chances=Chances(), kinds=())
