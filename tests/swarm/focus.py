"""Focused seeds: few kinds of faults in great number, and parameters at which one rule decides.

They soon meet what a general seed meets once in thousands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TypeAlias

from koala.core.model.job_spec import InputFile, InputMode, JobSpec, StartType
from koala.core.model.values import FileName, JobId, Priority, Seconds
from tests.swarm.scenario import Scenario
from tests.swarm.system.faults import Chances, Incident

Focus: TypeAlias = Callable[[Random, Scenario], Scenario]
EVERY = 5
"""One in so many seeds is focused."""
ENDINGS_EVERY = REFUSALS_EVERY = 20
"""One in so many seeds is about ends, and one about refusals."""
FILES_EVERY = FROZEN_EVERY = 40
"""One in so many seeds is about starters that dial nobody, and one about starters that freeze."""


def is_focused(seed: int) -> bool:
    """True if the seed is focused."""
    is_one_of_many = seed % EVERY == EVERY - 1
    kinds = (_is_of_endings, _is_of_refusals, _is_by_files, _is_frozen)
    return is_one_of_many or any(is_of(seed) for is_of in kinds)


def _is_by_files(seed: int) -> bool:
    return seed % FILES_EVERY == 21


def _is_frozen(seed: int) -> bool:
    return seed % FROZEN_EVERY == 26


def _is_of_endings(seed: int) -> bool:
    return seed % ENDINGS_EVERY == 11


def _is_of_refusals(seed: int) -> bool:
    return seed % REFUSALS_EVERY == 17


def focused(seed: int, drawn: Scenario) -> Scenario:
    """Return the scenario, changed if the seed is focused; the focus draws from a stream of its
    own."""
    if not is_focused(seed):
        return drawn
    random = Random(f"{seed}/focus")
    if _is_of_endings(seed):
        return endings(random, drawn)
    if _is_of_refusals(seed):
        return refusals(random, drawn)
    if _is_by_files(seed):
        return by_files(random, drawn)
    if _is_frozen(seed):
        return frozen(random, drawn)
    return random.choice(FOCUSES)(random, drawn)


def leases(random: Random, drawn: Scenario) -> Scenario:
    """Focus on leases: sites are away for longer than leases last, while long programs run there;
    messages are late."""
    lease_s = random.choice((5.0, 10.0))
    return replace(
        _with_programs(drawn, 200.0),
        specs={job: _strict(spec) for job, spec in drawn.specs.items()},
        parameters=replace(
            drawn.parameters,
            hold_lease_s=5.0,
            run_lease_s=lease_s,
            late_max_s=1.0,
            kill_s=random.choice((0.0, 1.0)),
            pause_max_s=0.0,
        ),
        chances=Chances(
            late=random.choice((0.0, 0.3, 0.3)),
            slow_end=random.choice((0.0, 1.0)),
            incidents_per_s=0.04,
        ),
        kinds=random.choice(
            (
                (Incident.LINK_DOWN,),
                (Incident.LINK_DOWN, Incident.HALF_OPEN, Incident.AGENT_CRASH),
                (Incident.STARTER_DEAF, Incident.STARTER_CUT),
            )
        ),
        latency_s=random.choice((0.01, 0.02)),
        lasts_s_max=240.0,
        locals_=(),
    )


def barrier(random: Random, drawn: Scenario) -> Scenario:
    """Focus on the barrier: one direction of a link is stuck for about as long as a round of Arm
    takes; jobs return to the barrier again and again."""
    programs = {key: (random.choice((0.5, 5.0)), 1) for key in drawn.programs}
    return replace(
        drawn,
        specs={job: replace(_strict(spec), retries=8) for job, spec in drawn.specs.items()},
        programs=programs,
        parameters=replace(
            drawn.parameters,
            hold_lease_s=5.0,
            late_max_s=random.choice((0.05, 1.25)),
            lead_min_s=0.5,
            lead_max_s=random.choice((0.5, 2.0)),
            arms_max=20,
        ),
        chances=Chances(
            late=random.choice((0.0, 0.1)),
            unready=random.choice((0.0, 0.2)),
            crash_daemon=random.choice((0.0, 0.002)),
            incidents_per_s=0.3,
        ),
        kinds=random.choice(
            (
                (Incident.TO_DAEMON_STUCK,),
                (Incident.TO_DAEMON_STUCK, Incident.TO_AGENT_STUCK),
                (Incident.TO_STARTER_STUCK, Incident.TO_THE_STARTERS_AGENT_STUCK),
            )
        ),
        latency_s=random.choice((0.01, 0.05)),
        lasts_s_max=10.0,
        locals_=(),
    )


def placeholders(random: Random, drawn: Scenario) -> Scenario:
    """Focus on placeholders: nodes die and batch systems restart the placeholder, agents die
    between two writes, and sites end claims of the scheduler."""
    return replace(
        drawn,
        chances=Chances(
            crash_agent=random.choice((0.0, 0.01, 0.03)),
            requeue=1.0,
            manager_deaf=random.choice((0.0, 0.3)),
            manager_late=random.choice((0.0, 0.3)),
            slow_store=random.choice((0.0, 0.5)),
            unready=0.2,
            incidents_per_s=0.2,
        ),
        kinds=random.choice(
            (
                (Incident.STARTER_KILLED,),
                (Incident.STARTER_KILLED, Incident.AGENT_CRASH),
                (Incident.SITE_CANCEL, Incident.STARTER_KILLED, Incident.STARTER_DEAF),
            )
        ),
        lasts_s_max=20.0,
    )


def holds(random: Random, drawn: Scenario) -> Scenario:
    """Focus on holds: copies take longer than processors may be held for them."""
    file = FileName("slow")
    source = drawn.settings[0].name
    wants = InputFile(name=file)
    specs: dict[JobId, JobSpec] = {}
    for job, spec in list(drawn.specs.items())[:3]:
        strict = _strict(spec)
        specs[job] = replace(
            strict,
            input_file=wants,
            input_mode=InputMode.WHOLE,
            max_hold_s=random.choice((5.0, 30.0)),
        )
    return replace(
        drawn,
        specs=specs,
        replicas=((file, source, 5_000_000),),
        # The daemon takes no job whose hold is too short for a promise.
        parameters=replace(
            drawn.parameters,
            claim_fraction=0.5,
            claim_fraction_min=0.0,
            late_max_s=min(drawn.parameters.late_max_s, 2.0),
        ),
        chances=Chances(transfer_stall=0.3, transfer_cut=0.5, transfer_busy=0.3),
        faults_s=100.0,
        kinds=(),
        locals_=(),
    )


def preemption(random: Random, drawn: Scenario) -> Scenario:
    """Focus on preemption: jobs of high priority wait for their files while low ones take the
    processors, and reports of passes are late."""
    preempt = random.choice(("component", "complete"))
    claim_fraction = random.choice((0.25, 0.75))
    rushed = rush(
        drawn,
        preempt=preempt,
        high_every=2,
        low_run_s=60.0,
        apart_s=6.0,
        file_bytes=random.choice((5_000_000, 20_000_000)),
    )
    return replace(
        rushed,
        specs={
            job: replace(_strict(spec), deadline=None, retries=0)
            for job, spec in rushed.specs.items()
        },
        parameters=replace(
            rushed.parameters,
            preempt_rest_s=0.0,
            claim_fraction=claim_fraction,
            lead_min_s=0.5,
            lead_max_s=2.0,
            late_max_s=2.0,
            hold_lease_s=60.0,
            run_lease_s=600.0,
        ),
        chances=Chances(late=random.choice((0.0, 0.1)), incidents_per_s=0.1),
        kinds=(Incident.TO_DAEMON_STUCK,),
        lasts_s_max=30.0,
    )


def endings(random: Random, drawn: Scenario) -> Scenario:
    """Focus on endings: outputs take longer to collect than leases and fences last, and jobs are
    stopped at the moment of their end, by others or because a site was away."""
    rushed = rush(
        drawn,
        preempt=random.choice(("component", "complete")),
        high_every=2,
        low_run_s=random.choice((5.0, 10.0, 20.0)),
        apart_s=6.0,
        file_bytes=random.choice((200_000, 5_000_000)),
    )
    return replace(
        rushed,
        specs={
            job: replace(_strict(spec), deadline=None, retries=0)
            for job, spec in rushed.specs.items()
        },
        parameters=replace(
            rushed.parameters,
            preempt_rest_s=0.0,
            lead_min_s=0.05,
            late_max_s=1.0,
            hold_lease_s=5.0,
            run_lease_s=5.0,
            kill_s=1.0,
            pause_max_s=0.0,
        ),
        chances=Chances(slow_collect=1.0, incidents_per_s=random.choice((0.0, 0.02, 0.05))),
        kinds=(Incident.LINK_DOWN,),
        lasts_s_max=random.choice((10.0, 30.0)),
    )


def refusals(random: Random, drawn: Scenario) -> Scenario:
    """Focus on refusals: batch systems refuse submissions until the faults stop; sites and the
    daemon come back, and jobs avoid sites meanwhile."""
    return replace(
        drawn,
        parameters=replace(
            drawn.parameters,
            scan=random.choice(("change", "change", "interval")),
            scan_interval_s=random.choice((1.0, 20.0, 240.0)),
            ageing_s=random.choice((0.0, 60.0, 3600.0)),
            claiming_tries_max=random.choice((3, 100)),
        ),
        chances=Chances(
            manager_refuses=random.choice((0.5, 0.9, 1.0)),
            manager_deaf=random.choice((0.0, 0.2)),
            crash_daemon=random.choice((0.0, 0.005)),
            incidents_per_s=random.choice((0.0, 0.05)),
        ),
        kinds=(Incident.LINK_DOWN, Incident.AGENT_CRASH),
        lasts_s_max=30.0,
    )


def by_files(random: Random, drawn: Scenario) -> Scenario:
    """Focus on lines by files: messages become visible late, never, twice or in another order,
    while agents and starters are killed. Leases and barrier have the times that such a line needs.
    """
    lease_s = random.choice((10.0, 20.0))
    return replace(
        drawn,
        settings=tuple(
            replace(s, is_by_files=n == 0 or random.random() < 0.6)
            for n, s in enumerate(drawn.settings)
        ),
        specs={
            job: replace(_strict(spec), deadline=None, connect=(), max_hold_s=None)
            for job, spec in list(drawn.specs.items())[:6]
        },
        parameters=replace(
            drawn.parameters,
            hold_s=300.0,
            hold_lease_s=lease_s,
            run_lease_s=lease_s,
            late_max_s=4.0,
            lead_min_s=0.05,
            lead_max_s=4.0,
            arm_wait_s=1.0,
            probe_after_s=30.0,
        ),
        chances=Chances(
            file_late=random.choice((0.0, 0.02, 0.1)),
            file_lost=random.choice((0.0, 0.01, 0.05)),
            file_again=random.choice((0.0, 0.1, 0.5)),
            file_full=random.choice((0.0, 0.02)),
            crash_agent=random.choice((0.0, 0.001)),
            requeue=random.choice((0.0, 0.5)),
            incidents_per_s=random.choice((0.0, 0.05)),
        ),
        kinds=random.choice(
            (
                (Incident.STARTER_KILLED, Incident.AGENT_CRASH),
                (Incident.LINK_DOWN, Incident.AGENT_CRASH),
            )
        ),
        faults_s=100.0,
        lasts_s_max=30.0,
        locals_=(),
    )


def frozen(random: Random, drawn: Scenario) -> Scenario:
    """Focus on starters that freeze after they armed, for longer than any is assumed to be stopped.
    Nothing else goes wrong, so that each of them must end in time."""
    return replace(
        _with_programs(drawn, random.choice((5.0, 200.0))),
        specs={
            job: replace(_strict(spec), deadline=None, connect=(), rerun=True)
            for job, spec in drawn.specs.items()
        },
        parameters=replace(
            drawn.parameters,
            hold_s=300.0,
            hold_lease_s=60.0,
            run_lease_s=600.0,
            late_max_s=random.choice((0.5, 2.0)),
            kill_s=random.choice((1.0, 5.0)),
            pause_max_s=random.choice((0.0, 5.0, 10.0)),
            probe_after_s=30.0,
        ),
        chances=Chances(freeze=random.choice((0.1, 0.3))),
        kinds=(),
        locals_=(),
    )


def rush(
    drawn: Scenario,
    *,
    preempt: str,
    high_every: int,
    low_run_s: Seconds,
    apart_s: Seconds,
    file_bytes: int,
) -> Scenario:
    """Make a rush: one job in `high_every` is of high priority, short, and waits for a file; the
    others are low and run for `low_run_s`. They come `apart_s` after one another to sites that may
    preempt."""
    file = FileName("rush")
    specs: dict[JobId, JobSpec] = {}
    programs = dict(drawn.programs)
    for n, (job, spec) in enumerate(drawn.specs.items()):
        is_high = n % high_every == 0
        specs[job] = replace(
            spec,
            priority=Priority.HIGH if is_high else Priority.LOW,
            input_file=InputFile(name=file) if is_high else None,
            input_mode=InputMode.WHOLE,
            max_hold_s=None,
        )
        for component in range(len(spec.components)):
            programs[(job, component)] = (5.0 if is_high else low_run_s, 0)
    return replace(
        drawn,
        settings=tuple(
            replace(s, facts=replace(s.facts, starts_after_stop=True)) for s in drawn.settings
        ),
        parameters=replace(
            drawn.parameters, preempt=preempt, claim_fraction=0.75, claim_fraction_min=0.25
        ),
        specs=specs,
        arrivals={job: 5.0 + apart_s * n for n, job in enumerate(specs)},
        programs=programs,
        replicas=((file, drawn.settings[0].name, file_bytes),),
        locals_=(),
    )


FOCUSES: tuple[Focus, ...] = (leases, barrier, placeholders, holds, preemption)


def _with_programs(drawn: Scenario, run_s: Seconds) -> Scenario:
    return replace(drawn, programs=dict.fromkeys(drawn.programs, (run_s, 0)))


def _strict(spec: JobSpec) -> JobSpec:
    """Make all components meet at the barrier, and run without limit."""
    return replace(
        spec,
        components=tuple(
            replace(component, start_type=StartType.STRICT, wall_time_s=None)
            for component in spec.components
        ),
        quorum=None,
    )
