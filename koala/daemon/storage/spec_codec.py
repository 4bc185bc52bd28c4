"""Encode job descriptions as short JSON, and decode them quickly.

Descriptions are most of a journal. They have fifty fields, of which a user gives five. Empty ones
(None, False, 0, "", ()) are left out; any other default is written, since it may change.

A description is decoded into a *row*, a struct whose defaults cost nothing. Equal rows in sequence
give the same object: alike components, and alike jobs, are built once and share their memory. A row
without its empty fields is also how a description is encoded.
"""

from __future__ import annotations

import types
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, TypeAlias, get_type_hints

import msgspec

from koala.core.model.events import JobSubmitted
from koala.core.model.job_spec import ComponentSpec, JobSpec

Row: TypeAlias = Any
"""A struct made for a class of the core."""


class _Rows:
    """The row struct of one class; `nested` are fields whose type is another row."""

    def __init__(self, cls: type, nested: dict[str, Any]) -> None:
        hints = {**get_type_hints(cls, include_extras=True), **nested}
        needed = [item for item in fields(cls) if _is_needed(item)]
        others = [item for item in fields(cls) if not _is_needed(item)]
        self.struct: Any = msgspec.defstruct(
            f"{cls.__name__}Row",
            [
                *[(item.name, hints[item.name]) for item in needed],
                *[(item.name, hints[item.name], item.default) for item in others],
            ],
            frozen=True,
            omit_defaults=True,
            gc=False,
        )
        self.names = [item.name for item in (*needed, *others)]
        self.values_of = attrgetter(*self.names)


def _is_needed(field: Any) -> bool:  # noqa: ANN401 - a field of any type
    return field.default is MISSING or bool(field.default)


_COMPONENT = _Rows(ComponentSpec, {})
_SPEC = _Rows(JobSpec, {"components": types.GenericAlias(list, _COMPONENT.struct)})
_SUBMITTED = _Rows(JobSubmitted, {"spec": _SPEC.struct})
_COMPONENTS_AT = _SPEC.names.index("components")
_SPEC_AT = _SUBMITTED.names.index("spec")
SPEC_ROW = _SPEC.struct
SUBMITTED_ROW = _SUBMITTED.struct


def row_of_spec(spec: JobSpec) -> Row:
    """Return the row of a description, to be encoded."""
    values = list(_SPEC.values_of(spec))
    last, row, rows = None, None, []
    for component in spec.components:
        if component is not last:
            last, row = component, _COMPONENT.struct(*_COMPONENT.values_of(component))
        rows.append(row)
    values[_COMPONENTS_AT] = rows
    return _SPEC.struct(*values)


def row_of_submission(event: JobSubmitted) -> Row:
    """Return the row of a submission, to be encoded."""
    values = list(_SUBMITTED.values_of(event))
    values[_SPEC_AT] = row_of_spec(event.spec)
    return _SUBMITTED.struct(*values)


class SpecReader:
    """Builds descriptions of rows; one that equals its predecessor is the same object."""

    def __init__(self) -> None:
        self._rows: Row = None  # of components
        self._row: Row = None  # without them
        self._spec: Any = None
        self._component_row: Row = None
        self._component: Any = None

    def spec(self, row: Row) -> JobSpec:
        """Return the description of a decoded row, which is used up."""
        rows = row.components
        msgspec.structs.force_setattr(row, "components", ())
        if rows != self._rows or row != self._row:
            converted = msgspec.convert(row, JobSpec, from_attributes=True)
            components = self._of_components(rows)
            object.__setattr__(converted, "components", components)  # nobody has it yet
            self._rows, self._row, self._spec = rows, row, converted
        spec: JobSpec = self._spec
        return spec

    def _of_components(self, rows: list[Row]) -> tuple[ComponentSpec, ...]:
        last, component, components = self._component_row, self._component, []
        for row in rows:
            if row != last:
                component = msgspec.convert(row, ComponentSpec, from_attributes=True)
                last = row
            components.append(component)
        self._component_row, self._component = last, component
        return tuple(components)

    def submission(self, row: Row) -> JobSubmitted:
        """Return the submission of a decoded row."""
        spec = self.spec(row.spec)
        return JobSubmitted(job=row.job, spec=spec, key=row.key, digest=row.digest)
