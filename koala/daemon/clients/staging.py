"""Staged programs of a submission: the uploaded archives that its components unpack. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePosixPath

from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.daemon.files.uploads import Content, content_of
from koala.errors import RejectedError, SpecError

ITSELF = ("yes",)
NAMED_MAX = 10  # components in an error


def with_archives(
    spec: JobSpec, staged: Mapping[str, str], problems: Mapping[Content, str]
) -> JobSpec:
    """Name the archive of each component that stages files. `staged` has `checksum:size` by the
    component's index; `problems` has each upload, with why agents would refuse it.

    Raises RejectedError for an archive that was not uploaded; SpecError for one that agents would
    refuse, or of a component that stages nothing.
    """
    staging = {str(index) for index, component in enumerate(spec.components) if component.stage}
    if more := staged.keys() - staging:
        raise SpecError(
            f"staged files for component {min(more)[:80]!r}, which stages nothing (expected those"
            f" of {', '.join(sorted(staging)[:NAMED_MAX]) or 'none'})"
        )
    if not staging:
        return spec
    return replace(
        spec,
        components=tuple(
            _with_archive(spec, index, staged.get(str(index), ""), problems)
            for index in range(len(spec.components))
        ),
    )


def _with_archive(
    spec: JobSpec, index: int, staged: str, problems: Mapping[Content, str]
) -> ComponentSpec:
    component = spec.components[index]
    if not component.stage:
        return component
    content = content_of(staged, spec.owner)
    if content is None or content not in problems:
        raise RejectedError(
            f"component {spec.label(index)} stages files, and this submission brings none: `koala"
            " submit`, `koala run --stage` and the Python client upload them"
        )
    if problem := problems[content]:
        raise SpecError(f"component {spec.label(index)}: {problem}")
    executable = component.executable
    if component.stage == ITSELF or executable in component.stage:
        executable = PurePosixPath(executable).name
    return replace(component, archive=staged, executable=executable)


def contents_of(spec: JobSpec, staged: Mapping[str, str]) -> Iterator[Content]:
    """Yield the uploads that components which stage files name as `with_archives` reads them, each
    once."""
    named = (staged.get(str(index), "") for index, part in enumerate(spec.components) if part.stage)
    for text in dict.fromkeys(named):
        with suppress(SpecError):  # `with_archives` reports it
            content = content_of(text, spec.owner)
            if content is not None:
                yield content
