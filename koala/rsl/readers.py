"""Table of readers: the function and field for each attribute of a job or component.

Names are canonical: lower case, without underscores. `SPECIAL` lists the honoured attributes that
map to several fields, or none; the reader of jobs handles them itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from koala.core.model.job import ComponentSpec, InputMode, JobSpec, JobType, StartType
from koala.core.model.values import Priority
from koala.rsl import fields
from koala.rsl.fields import Given

COMPONENTS_MAX = 1000
PROCESSORS_MAX = 1_000_000
RETRIES_MAX = 1000

_PRIORITIES = {priority.value: priority for priority in Priority}
_INPUT_MODES = {mode.value: mode for mode in InputMode}
_JOB_TYPES = {kind.value: kind for kind in JobType}
_START_TYPES = {kind.value: kind for kind in StartType}


def _processors(given: Given) -> int:
    return fields.whole(given, low=1, high=PROCESSORS_MAX)


def _job_type(given: Given) -> JobType:
    if fields.string(given).text.lower() == "condor":
        message = "condor is not there yet, expected single, multiple or mpi"
        raise given.error(message, given.relation.values[0])
    return fields.choice(given, _JOB_TYPES)


def _max_hold_s(given: Given) -> float:
    literal = fields.string(given)
    return fields.minutes_s(given, literal, literal.text)


COMPONENT_READERS: dict[str, Callable[[ComponentSpec, Given], ComponentSpec]] = {
    "executable": lambda spec, given: replace(spec, executable=fields.path(given)),
    "arguments": lambda spec, given: replace(spec, arguments=fields.arguments(given)),
    "directory": lambda spec, given: replace(spec, directory=fields.path(given)),
    "environment": lambda spec, given: replace(spec, environment=fields.environment(given)),
    "stdin": lambda spec, given: replace(spec, stdin=fields.path(given)),
    "stdout": lambda spec, given: replace(spec, stdout=fields.path(given)),
    "stderr": lambda spec, given: replace(spec, stderr=fields.path(given)),
    "count": lambda spec, given: replace(spec, processors=_processors(given)),
    "hostcount": lambda spec, given: replace(spec, hosts=_processors(given)),
    "jobtype": lambda spec, given: replace(spec, job_type=_job_type(given)),
    "maxwalltime": lambda spec, given: replace(spec, wall_time_s=fields.time_limit_s(given)),
    "maxcputime": lambda spec, given: replace(spec, cpu_time_s=fields.time_limit_s(given)),
    "minmemory": lambda spec, given: replace(spec, memory_min_mb=fields.memory_mb(given)),
    "maxmemory": lambda spec, given: replace(spec, memory_max_mb=fields.memory_mb(given)),
    "queue": lambda spec, given: replace(spec, queue=fields.word(given)),
    "project": lambda spec, given: replace(spec, project=fields.word(given)),
    "label": lambda spec, given: replace(spec, label=fields.label(given)),
    "subjobstarttype": lambda spec, given: replace(
        spec, start_type=fields.choice(given, _START_TYPES)
    ),
    "rate": lambda spec, given: replace(spec, rate=fields.amount(given)),
    "outputfile": lambda spec, given: replace(spec, output_files=fields.output_files(given)),
}

JOB_READERS: dict[str, Callable[[JobSpec, Given], JobSpec]] = {
    "name": lambda spec, given: replace(spec, name=fields.label(given)),
    "distinct": lambda spec, given: replace(spec, distinct=fields.is_yes(given)),
    "priority": lambda spec, given: replace(spec, priority=fields.choice(given, _PRIORITIES)),
    "inputfile": lambda spec, given: replace(spec, input_file=fields.input_file(given)),
    "inputmode": lambda spec, given: replace(spec, input_mode=fields.choice(given, _INPUT_MODES)),
    "deadline": lambda spec, given: replace(spec, deadline=fields.deadline(given)),
    "hint": lambda spec, given: replace(spec, hint=fields.hint(given)),
    "length": lambda spec, given: replace(spec, length_mi=fields.amount(given)),
    "mips": lambda spec, given: replace(spec, preferred_mips=fields.amount(given)),
    "maxhold": lambda spec, given: replace(spec, max_hold_s=_max_hold_s(given)),
    "quorum": lambda spec, given: replace(
        spec, quorum=fields.whole(given, low=1, high=COMPONENTS_MAX)
    ),
    "retry": lambda spec, given: replace(
        spec, retries=fields.whole(given, low=0, high=RETRIES_MAX)
    ),
    "rerun": lambda spec, given: replace(spec, rerun=fields.is_yes(given)),
    "progress": lambda spec, given: replace(spec, progress=fields.word(given).lower()),
    "asynchrony": lambda spec, given: replace(spec, asynchrony_s=fields.amount(given)),
    "deviation": lambda spec, given: replace(spec, deviation_s=fields.amount(given)),
    "connect": lambda spec, given: replace(spec, connect=fields.connect(given)),
}

SPECIAL = ("maxtime", "dryrun", "resourcemanagercontact", "rslsubstitution")
