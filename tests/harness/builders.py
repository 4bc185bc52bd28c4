"""Builders with defaults: a test names only what it is about."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from koala.core.model.events import JobSubmitted, SiteRegistered
from koala.core.model.grid import SiteFacts
from koala.core.model.job_spec import ComponentSpec, InputFile, JobSpec, Split, StartType
from koala.core.model.values import FileName, JobId, Priority, SiteName

LOOSE = StartType.LOOSE
FREE = StartType.NONE
HIGH = Priority.HIGH
LOW = Priority.LOW


def a_site(
    name: str, processors: int = 8, *, idle: int | None = None, **facts: Any
) -> SiteRegistered:
    """A site that registers; all its processors are idle unless said otherwise."""
    facts.setdefault("grace_s", 5.0)
    return SiteRegistered(
        site=SiteName(name),
        facts=SiteFacts(processors=processors, **facts),
        idle=processors if idle is None else idle,
    )


def a_component(processors: int = 1, site: str | None = None, **more: Any) -> ComponentSpec:
    """A component of `processors`, fixed to a site or not."""
    return ComponentSpec(
        executable="/bin/true",
        processors=processors,
        site=None if site is None else SiteName(site),
        **more,
    )


def a_spec(*components: int | ComponentSpec, file: str | None = None, **more: Any) -> JobSpec:
    """A request; a number stands for an unordered strict component of so many processors."""
    return JobSpec(
        components=tuple(a_component(c) if isinstance(c, int) else c for c in components or (1,)),
        input_file=None if file is None else InputFile(name=FileName(file)),
        **more,
    )


def a_job(name: str, *components: int | ComponentSpec, **more: Any) -> JobSubmitted:
    """A submission."""
    return JobSubmitted(job=JobId(name), spec=a_spec(*components, **more))


def a_flexible_job(name: str, total: int, **more: Any) -> JobSubmitted:
    """A submission of a flexible job; `least`, `part_min`, `part_max` and so on are its bounds."""
    bounds = {field.name: more.pop(field.name) for field in fields(Split) if field.name in more}
    wide = {"least": total, "part_max": total, "parts_max": total}
    split = Split(total=total, **{**wide, **bounds})
    spec = a_spec(a_component(**more.pop("component", {})), split=split, **more)
    return JobSubmitted(job=JobId(name), spec=spec.shaped(split.nominal))
