"""Table of readers: the function and field for each attribute of the whole job.

Names are canonical: lower case, without underscores. `SPECIAL` lists the honoured attributes that
map to several fields, or none; the reader of jobs handles them itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from koala.core.model.job_spec import InputMode, JobSpec
from koala.core.model.values import Priority
from koala.job_descriptions import fields, job_fields
from koala.job_descriptions.fields import Given

COMPONENTS_MAX = 1000
RETRIES_MAX = 1000

_PRIORITIES = {priority.value: priority for priority in Priority}
_INPUT_MODES = {mode.value: mode for mode in InputMode}


def _max_hold_s(given: Given) -> float:
    literal = fields.string(given)
    return fields.minutes_s(given, literal, literal.text)


JOB_READERS: dict[str, Callable[[JobSpec, Given], JobSpec]] = {
    "name": lambda spec, given: replace(spec, name=fields.label(given)),
    "group": lambda spec, given: replace(spec, group=fields.label(given)),
    "distinct": lambda spec, given: replace(spec, distinct=fields.is_yes(given)),
    "priority": lambda spec, given: replace(spec, priority=fields.choice(given, _PRIORITIES)),
    "inputfile": lambda spec, given: spec.with_inputs(fields.input_files(given)),
    "inputmode": lambda spec, given: replace(spec, input_mode=fields.choice(given, _INPUT_MODES)),
    "deadline": lambda spec, given: replace(spec, deadline=fields.deadline(given)),
    "hint": lambda spec, given: replace(spec, hint=fields.hint(given)),
    "length": lambda spec, given: replace(spec, length_mi=fields.amount(given)),
    "mips": lambda spec, given: replace(spec, preferred_mips=fields.amount(given)),
    "maxhold": lambda spec, given: replace(spec, max_hold_s=_max_hold_s(given)),
    "quorum": lambda spec, given: replace(
        spec, quorum=fields.whole(given, low=1, high=COMPONENTS_MAX)
    ),
    "redundancy": lambda spec, given: replace(
        spec, redundancy=fields.whole(given, low=1, high=fields.SITES_MAX)
    ),
    "retry": lambda spec, given: replace(
        spec, retries=fields.whole(given, low=0, high=RETRIES_MAX)
    ),
    "rerun": lambda spec, given: replace(spec, rerun=fields.is_yes(given)),
    "progress": lambda spec, given: replace(spec, progress=fields.word(given).lower()),
    "asynchrony": lambda spec, given: replace(spec, asynchrony_s=fields.amount(given)),
    "deviation": lambda spec, given: replace(spec, deviation_s=fields.amount(given)),
    "after": lambda spec, given: replace(spec, after=job_fields.after(given)),
    "notify": lambda spec, given: replace(spec, notify=job_fields.notify(given)),
    "connect": lambda spec, given: replace(spec, connect=fields.connect(given)),
}

SPECIAL = ("maxtime", "dryrun", "resourcemanagercontact", "rslsubstitution")
