"""Bounds of a flexible job: read from several attributes, checked together, and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from koala.core.model.job_spec import ComponentSpec, InputMode, JobSpec, JobType, Split, StartType
from koala.job_descriptions import fields
from koala.job_descriptions.attributes import PROCESSORS_MAX
from koala.job_descriptions.fields import AttributeText

COMPONENTS_MAX = 1000
_UNSAID = Split(total=0, least=0, part_min=0, part_max=0, parts_max=0)
"""Bounds of which none is given yet: 0 for each."""


def _bound(name: str, high: int, spec: JobSpec, attribute: AttributeText) -> JobSpec:
    bound: dict[str, Any] = {name: fields.whole(attribute, low=1, high=high)}
    return replace(spec, split=replace(spec.split or _UNSAID, **bound))


def _malleable(spec: JobSpec, attribute: AttributeText) -> JobSpec:
    if not fields.is_yes(attribute):  # as without it, also where nothing is split
        return spec
    return replace(spec, split=replace(spec.split or _UNSAID, is_malleable=True))


SPLIT_READERS: dict[str, Callable[[JobSpec, AttributeText], JobSpec]] = {
    "totalcount": partial(_bound, "total", PROCESSORS_MAX),
    "mincount": partial(_bound, "part_min", PROCESSORS_MAX),
    "maxcount": partial(_bound, "part_max", PROCESSORS_MAX),
    "maxcomponents": partial(_bound, "parts_max", COMPONENTS_MAX),
    "mintotalcount": partial(_bound, "least", PROCESSORS_MAX),
    "malleable": _malleable,
}
"""Readers of the attributes by canonical name."""

_OF_ONE = {
    "count": "only bounds, such as minCount",
    "hostcount": "none: it would spread one of them",
    "resourcemanagercontact": "none: `sites` limits where they may run",
    "label": "none: they are numbered",
}
"""Attributes that cannot be of all components of a flexible job, and what is expected instead."""


class SplitError(Exception):
    """A bound contradicts another one, or an attribute; `at` is the name of the one to change."""

    def __init__(self, at: str, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


def flexible(spec: JobSpec, spelt: Mapping[str, str]) -> JobSpec:
    """Complete the bounds of a flexible job and give it its nominal components; `spelt` are the
    attributes of its description by canonical name, as they are written there. Raises
    SplitError."""
    split = spec.split
    assert split is not None
    if not split.total:
        at = next(name for name in SPLIT_READERS if name in spelt)
        raise SplitError(at, f"{spelt[at]} needs totalCount, the processors of all components")
    total = spelt["totalcount"]
    if len(spec.components) > 1:
        raise SplitError(
            "totalcount",
            f"{total} splits a job of one component, found {len(spec.components)} (expected one"
            " for all)",
        )
    for name, expected in _OF_ONE.items():
        if name in spelt:
            raise SplitError(
                name,
                f"{spelt[name]} and {total} contradict: the scheduler chooses the components"
                f" (expected {expected})",
            )
    component = spec.components[0]
    if component.start_type is not StartType.STRICT:
        raise SplitError(
            "subjobstarttype",
            f"{total} needs all its components at the start (expected strict-barrier)",
        )
    if split.is_malleable:
        _check_malleable(spec)
    if spec.quorum is not None:
        raise SplitError(
            "quorum",
            f"quorum counts components, and {total} leaves their number open (expected malleable"
            " and minTotalCount)",
        )
    completed = _completed(split, component, spelt)
    for path in spec.connect:
        if not {path.source, path.target} <= {"all", "0"}:
            raise SplitError(
                "connect",
                f"connect: the components of {total} are numbered when it is placed (expected all,"
                " or 0, the first)",
            )
    return replace(spec, split=completed).shaped(completed.nominal)


def _check_malleable(spec: JobSpec) -> None:
    """Refuse what cannot be of components that join later."""
    if spec.components[0].job_type is JobType.MPI:
        raise SplitError(
            "malleable",
            "malleable: an MPI_COMM_WORLD neither grows nor shrinks (expected jobType single or"
            " multiple)",
        )
    for name, is_given, words in (
        ("ports", spec.components[0].ports, "ports are told at the start"),
        ("inputmode", spec.input_mode is InputMode.CHUNK, "a file is divided at the start"),
        ("progress", spec.is_controlled, "progress is compared from the start on"),
    ):
        if is_given:
            message = f"{words}, and components of a malleable job join later"
            raise SplitError(name, f"{message} (expected malleable=no)")


def _completed(split: Split, component: ComponentSpec, spelt: Mapping[str, str]) -> Split:
    """Fill in the bounds that were not given, and check that they leave a way."""
    step = component.cpus_per_task or 1
    for name, bound in (("totalcount", split.total), ("mincount", split.part_min),
                        ("maxcount", split.part_max), ("mintotalcount", split.least)):  # fmt: skip
        if bound % step:
            message = f"{spelt[name]} is {bound} (expected a multiple of"
            raise SplitError(name, f"{message} {spelt['cpuspertask']}, {step})")
    part_min = split.part_min or step
    part_max = min(split.part_max or split.total, split.total)
    if part_min > part_max:
        limit = spelt["totalcount" if part_max == split.total else "maxcount"]
        message = f"{spelt['mincount']} is {part_min} (expected at most {limit}, {part_max})"
        raise SplitError("mincount", message)
    if split.least and not split.is_malleable:
        message = f"{spelt['mintotalcount']} is of a job that may start with less (expected"
        raise SplitError("mintotalcount", f"{message} malleable=yes beside it)")
    if 0 < split.least < part_min:
        message = f"{spelt['mintotalcount']} is {split.least} (expected at least"
        raise SplitError("mintotalcount", f"{message} {spelt['mincount']}, {part_min})")
    if split.least > split.total:
        message = f"{spelt['mintotalcount']} is {split.least} (expected at most"
        raise SplitError("mintotalcount", f"{message} {spelt['totalcount']}, {split.total})")
    parts_max = min(split.parts_max or COMPONENTS_MAX, split.total // part_min)
    least = (split.least or part_min) if split.is_malleable else split.total
    completed = Split(
        total=split.total,
        least=least,
        part_min=part_min,
        part_max=part_max,
        parts_max=parts_max,
        step=step,
        is_malleable=split.is_malleable,
    )
    if not completed.nominal:
        raise SplitError(
            "totalcount",
            f"{spelt['totalcount']} is {split.total} (expected a sum of at most {parts_max}"
            f" components of {part_min} to {part_max})",
        )
    return completed


def bounds_of(split: Split) -> list[tuple[str, str]]:
    """Return the attributes that describe a flexible job, without those that follow from others."""
    written = [("totalCount", str(split.total))]
    if split.part_min != split.step:
        written.append(("minCount", str(split.part_min)))
    if split.part_max != split.total:
        written.append(("maxCount", str(split.part_max)))
    if split.parts_max != min(COMPONENTS_MAX, split.total // split.part_min):
        written.append(("maxComponents", str(split.parts_max)))
    if split.is_malleable:
        written.append(("malleable", "yes"))
        if split.least != split.part_min:
            written.append(("minTotalCount", str(split.least)))
    return written
