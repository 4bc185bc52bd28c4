"""Staged programs of a submission: the uploaded archives that its components unpack. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from koala.core.model.job_spec import ComponentSpec, JobSpec
from koala.daemon.files.uploads import Content, content_of
from koala.errors import RejectedError

ITSELF = ("yes",)


def with_archives(
    spec: JobSpec, staged: Mapping[str, str], is_uploaded: Callable[[Content], bool]
) -> JobSpec:
    """Name the archive of each component that stages files. `staged` has `checksum:size` by the
    component's index. Raises RejectedError for one that was not uploaded, SpecError."""
    if not any(component.stage for component in spec.components):
        return spec
    return replace(
        spec,
        components=tuple(
            _with_archive(spec, index, staged.get(str(index), ""), is_uploaded)
            for index in range(len(spec.components))
        ),
    )


def _with_archive(
    spec: JobSpec, index: int, staged: str, is_uploaded: Callable[[Content], bool]
) -> ComponentSpec:
    component = spec.components[index]
    if not component.stage:
        return component
    content = content_of(staged, spec.owner)
    if content is None or not is_uploaded(content):
        raise RejectedError(
            f"component {spec.label(index)} stages files, and this submission brings none: `koala"
            " submit`, `koala run --stage` and the Python client upload them"
        )
    executable = component.executable
    if component.stage == ITSELF or executable in component.stage:
        executable = PurePosixPath(executable).name
    return replace(component, archive=staged, executable=executable)
