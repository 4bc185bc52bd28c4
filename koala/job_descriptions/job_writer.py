"""Writer of jobs as RSL text: pretty, without variables; it reads back as the same job."""

from __future__ import annotations

from collections.abc import Sequence as AbstractSequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from koala.core.model.job_spec import ComponentSpec, Deadline, InputMode, JobSpec
from koala.core.model.values import Priority, UserName
from koala.errors import SpecError
from koala.job_descriptions.attributes import ATTRIBUTES
from koala.job_descriptions.fields import amount_text, input_files_text, minutes_text
from koala.job_descriptions.flexible import bounds_of
from koala.job_descriptions.job_fields import predecessor_text
from koala.job_descriptions.job_reader import read_job
from koala.job_descriptions.tree import (
    Compound,
    Connective,
    Literal,
    Operator,
    Relation,
    Sequence,
    Value,
)
from koala.job_descriptions.unparse import unparse


def write_job(spec: JobSpec) -> str:
    """Write the text of a job, without its owner. Raises SpecError when RSL cannot express it."""
    try:
        if spec.split is not None:  # the request alone, not how it is split now
            spec = spec.shaped(spec.split.nominal)
        text = unparse(_tree(spec), pretty=True)
        again = read_job(text).spec
    except (SpecError, ValueError, OverflowError) as error:
        message = error.message if isinstance(error, SpecError) else str(error)
        raise SpecError(f"this job cannot be written as RSL: {message}") from error
    if again != replace(spec, owner=UserName("")):
        changed = next(
            name
            for name in JobSpec.__dataclass_fields__
            if name != "owner" and getattr(again, name) != getattr(spec, name)
        )
        message = f"this job cannot be written as RSL: its {changed} would not read back the same"
        raise SpecError(message)
    return text


def _tree(spec: JobSpec) -> Compound:
    if not spec.components:
        raise SpecError("it has no components")
    job = _job_relations(spec)
    if spec.split is not None:
        (own,) = {replace(component, processors=1) for component in spec.components}
        relations = [
            relation for relation in _component_relations(own) if relation.attribute != "count"
        ]
        return Compound(connective=Connective.AND, operands=(*relations, *job))
    components = [_component_relations(component) for component in spec.components]
    if len(components) == 1:
        return Compound(connective=Connective.AND, operands=(*components[0], *job))
    clauses = [
        Compound(connective=Connective.AND, operands=tuple(relations)) for relations in components
    ]
    return Compound(connective=Connective.MULTI, operands=(*job, *clauses))


def _job_relations(spec: JobSpec) -> list[Relation]:
    single: list[tuple[str, str | None]] = [
        ("name", spec.name or None),
        ("group", spec.group or None),
        ("distinct", "yes" if spec.distinct else None),
        ("priority", None if spec.priority is Priority.LOW else spec.priority),
        ("inputMode", None if spec.input_mode is InputMode.WHOLE else spec.input_mode),
        ("deadline", None if spec.deadline is None else _deadline_text(spec.deadline)),
        ("maxHold", None if spec.max_hold_s is None else minutes_text(spec.max_hold_s)),
        ("quorum", _number(spec.quorum)),
        ("redundancy", _number(spec.redundancy if spec.redundancy > 1 else None)),
        ("retry", _number(spec.retries or None)),
        ("rerun", None if spec.rerun else "no"),
        ("progress", spec.progress),
        ("asynchrony", _amount(spec.asynchrony_s)),
        ("deviation", _amount(spec.deviation_s)),
    ]
    single += [] if spec.split is None else bounds_of(spec.split)
    relations = [_relation(name, [text]) for name, text in single if text is not None]
    if spec.input_files:
        relations.append(_relation("inputFile", input_files_text(spec.input_files)))
    if spec.hint is not None:
        deviation = spec.hint.deviation
        number = [] if deviation is None else [f"{Decimal(repr(float(deviation))):f}"]
        relations.append(_relation("hint", [spec.hint.kind, *number]))
    for attribute, amount in (("length", spec.length_mi), ("mips", spec.preferred_mips)):
        if amount is not None:
            relations.append(_relation(attribute, [f"{Decimal(repr(float(amount))):f}"]))
    if spec.after:
        relations.append(_relation("after", [predecessor_text(after) for after in spec.after]))
    if spec.notify is not None:
        topic, command = spec.notify.topic, spec.notify.command
        receivers: list[str | tuple[str, ...]] = [("topic", topic)] if topic else []
        receivers += [("mail", spec.notify.mail)] if spec.notify.mail else []
        receivers += [("webhook", spec.notify.webhook)] if spec.notify.webhook else []
        receivers += [("command", *command)] if command else []
        receivers += [("on", *spec.notify.on)] if spec.notify.on else []
        relations.append(_relation("notify", receivers))
    if spec.connect:
        paths = [(path.source, path.target, str(path.port)) for path in spec.connect]
        relations.append(_relation("connect", paths))
    return relations


_FIRST = ("label", "site", "start_type", "processors", "hosts", "job_type")
_COMPONENT_FIELDS = sorted(
    (row for row in ATTRIBUTES if row.field),
    key=lambda row: _FIRST.index(row.field) if row.field in _FIRST else len(_FIRST),
)
_DEFAULTS = {field.name: field.default for field in fields(ComponentSpec)}


def _component_relations(spec: ComponentSpec) -> list[Relation]:
    relations = []
    for row in _COMPONENT_FIELDS:
        value = getattr(spec, row.field)
        if value != _DEFAULTS[row.field] or row.field == "processors":
            written = value if row.write is str and isinstance(value, tuple) else row.write(value)
            if isinstance(written, str):
                written = [written]
            relations.append(_relation(row.name, written))
    return relations


def _relation(name: str, values: AbstractSequence[str | tuple[str, ...]]) -> Relation:
    nodes = tuple(_value(value) for value in values)
    return Relation(attribute=name, operator=Operator.EQ, values=nodes)


def _value(value: str | tuple[str, ...]) -> Value:
    if isinstance(value, str):
        return Literal(text=value)
    return Sequence(values=tuple(Literal(text=text) for text in value))


def _amount(value: float | None) -> str | None:
    return None if value is None else amount_text(value)


def _number(number: int | None) -> str | None:
    return None if number is None else str(number)


def _deadline_text(deadline: Deadline) -> str:
    if (deadline.at is None) == (deadline.after_s is None):
        raise SpecError("a deadline has either an instant or a time from submission")
    if deadline.at is not None:
        instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            microseconds=round(deadline.at * 1e6)
        )
        return instant.isoformat()
    assert deadline.after_s is not None
    return f"+{minutes_text(deadline.after_s)}"
