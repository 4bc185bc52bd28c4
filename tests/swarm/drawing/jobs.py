"""Jobs that ask for more than processors: files of their own, order, progress, paths and ports."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from koala.core.model.job_spec import InputFile, InputMode, JobSpec, StartType
from koala.core.model.predecessors import Ended, Predecessor
from koala.core.model.values import ALL, JobId, TcpPath
from tests.swarm.scenario import Scenario


def owning(seed: int, drawn: Scenario) -> Scenario:
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


def in_turn(seed: int, drawn: Scenario) -> Scenario:
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


def kept_together(seed: int, drawn: Scenario) -> Scenario:
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


def pathed(seed: int, drawn: Scenario) -> Scenario:
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


def with_ports(seed: int, drawn: Scenario) -> Scenario:
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
