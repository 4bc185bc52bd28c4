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
from koala.job_descriptions.fields import AttributeText
from koala.job_descriptions.flexible import COMPONENTS_MAX, SPLIT_READERS

RETRIES_MAX = 1000

_PRIORITIES = {priority.value: priority for priority in Priority}
_INPUT_MODES = {mode.value: mode for mode in InputMode}


def _max_hold_s(attribute: AttributeText) -> float:
    literal = fields.string(attribute)
    return fields.minutes_s(attribute, literal, literal.text)


JOB_READERS: dict[str, Callable[[JobSpec, AttributeText], JobSpec]] = {
    "name": lambda spec, attribute: replace(spec, name=fields.label(attribute)),
    "group": lambda spec, attribute: replace(spec, group=fields.label(attribute)),
    "distinct": lambda spec, attribute: replace(spec, distinct=fields.is_yes(attribute)),
    "priority": lambda spec, attribute: replace(
        spec, priority=fields.choice(attribute, _PRIORITIES)
    ),
    "inputfile": lambda spec, attribute: spec.with_inputs(fields.input_files(attribute)),
    "inputmode": lambda spec, attribute: replace(
        spec, input_mode=fields.choice(attribute, _INPUT_MODES)
    ),
    "deadline": lambda spec, attribute: replace(spec, deadline=fields.deadline(attribute)),
    "hint": lambda spec, attribute: replace(spec, hint=fields.hint(attribute)),
    "length": lambda spec, attribute: replace(spec, length_mi=fields.amount(attribute)),
    "mips": lambda spec, attribute: replace(spec, preferred_mips=fields.amount(attribute)),
    "maxhold": lambda spec, attribute: replace(spec, max_hold_s=_max_hold_s(attribute)),
    "quorum": lambda spec, attribute: replace(
        spec, quorum=fields.whole(attribute, low=1, high=COMPONENTS_MAX)
    ),
    "redundancy": lambda spec, attribute: replace(
        spec, redundancy=fields.whole(attribute, low=1, high=fields.SITES_MAX)
    ),
    "retry": lambda spec, attribute: replace(
        spec, retries=fields.whole(attribute, low=0, high=RETRIES_MAX)
    ),
    "rerun": lambda spec, attribute: replace(spec, rerun=fields.is_yes(attribute)),
    "progress": lambda spec, attribute: replace(spec, progress=fields.word(attribute).lower()),
    "asynchrony": lambda spec, attribute: replace(spec, asynchrony_s=fields.amount(attribute)),
    "deviation": lambda spec, attribute: replace(spec, deviation_s=fields.amount(attribute)),
    "after": lambda spec, attribute: replace(spec, after=job_fields.after(attribute)),
    "notify": lambda spec, attribute: replace(spec, notify=job_fields.notify(attribute)),
    "connect": lambda spec, attribute: replace(spec, connect=fields.connect(attribute)),
    **SPLIT_READERS,
}

SPECIAL = ("maxtime", "dryrun", "resourcemanagercontact", "rslsubstitution")
