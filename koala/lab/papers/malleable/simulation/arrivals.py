"""Jobs of the experiment: half of them run FT and half GADGET-2, at random, at regular times.

Each purpose has its own random stream, so that settings with one seed have the same jobs.
"""

from __future__ import annotations

from collections.abc import Iterator

from koala.core.model.job_spec import ComponentSpec, JobSpec, Split
from koala.core.model.values import JobId, UserName
from koala.lab.papers.malleable.simulation.setting import APPLICATIONS, LEAST, Application, Setting
from koala.lab.sim.experiment.setting import MalleableProgram, Submission
from koala.lab.workload.random_streams import stream

OWNER = UserName("koala")
RIGID = "rigid"


def submissions(setting: Setting, seed: int) -> Iterator[Submission]:
    """Generate the submissions. The name of a job begins with its application, and with `rigid` if
    it is none of those that the setting gives a shape."""
    kinds, shares = stream(seed, "applications"), stream(seed, "malleable")
    offset_s = stream(seed, "offset").random() * setting.interval_s
    names = tuple(APPLICATIONS)
    for number in range(setting.jobs):
        name = names[int(kinds.random() * len(names))]
        is_shaped = shares.random() < setting.malleable_share
        job = JobId(f"{'' if is_shaped else RIGID + '-'}{name}-{number + 1}")
        shape = setting.shape if is_shaped else "least"
        at = offset_s + number * setting.interval_s
        yield _submission(setting, job, at, APPLICATIONS[name], shape)


def _submission(
    setting: Setting, job: JobId, at: float, application: Application, shape: str
) -> Submission:
    component = ComponentSpec(executable="program", processors=LEAST)
    if shape == "least":
        spec = JobSpec(components=(component,), owner=OWNER)
        return Submission(job=job, at=at, spec=spec, run_s=(application.run_s(LEAST),))
    most, is_malleable = application.most, shape != "most"
    split = Split(
        total=most,
        least=LEAST if is_malleable else most,
        part_min=LEAST,
        part_max=setting.component_max,
        parts_max=most // LEAST,
        is_malleable=is_malleable,
    )
    components = (component,) * len(split.nominal)
    spec = JobSpec(components=components, split=split, owner=OWNER).shaped(split.nominal)
    if is_malleable:
        program = MalleableProgram(run_s=application.run_s, leave_s=setting.leave_s)
        return Submission(job=job, at=at, spec=spec, program=program)
    run_s = (application.run_s(most),) * split.parts_max
    return Submission(job=job, at=at, spec=spec, run_s=run_s)
