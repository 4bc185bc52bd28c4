"""Names of input files as users write them, and the files of the catalogue that they mean. Pure.

- A name means the user's own file of that name, or else the common one.
- `NAME/` means all files of the catalogue whose names begin so.
- Files of other users are as good as unknown, unless they are shared.
"""

from __future__ import annotations

from dataclasses import replace

from koala.common.files.names import own_prefix, shown
from koala.common.protocol.names import SHARED
from koala.core.model.job_spec import InputFile, InputMode, JobSpec
from koala.core.model.values import FileName
from koala.core.scheduler import Scheduler
from koala.errors import RejectedError
from koala.job_descriptions.fields import inputs_problem
from koala.job_descriptions.job_reader import divided_problem


def may_read(user: str, name: str) -> bool:
    """Return True if jobs of this user may read the file of this name."""
    if not name.startswith("~") or name.startswith(own_prefix(user)):
        return True
    return name.partition("/")[2].startswith(SHARED)


def with_inputs(spec: JobSpec, scheduler: Scheduler) -> JobSpec:
    """Replace the names of a job's input files, and of its components', by those of the catalogue.
    Raises RejectedError."""
    if not spec.all_inputs:
        return spec

    def meant(files: tuple[InputFile, ...], what: str) -> tuple[InputFile, ...]:
        return tuple(file for name in files for file in _meant(name, what, spec.owner, scheduler))

    resolved = spec
    if spec.input_file is not None:
        resolved = spec.with_inputs(meant(spec.input_files, "inputFile"))
    if any(component.inputs for component in spec.components):
        components = [
            replace(component, inputs=meant(component.inputs, "inputs"))
            for component in spec.components
        ]
        resolved = replace(resolved, components=tuple(components))
    for index, component in enumerate(resolved.components):
        if problem := inputs_problem(resolved.inputs_of(index)):
            own = f", and inputs of component {resolved.label(index)}" if component.inputs else ""
            raise RejectedError(f"inputFile{own}: {problem}")
    if resolved.input_mode is InputMode.CHUNK and (problem := divided_problem(resolved)):
        raise RejectedError(f"inputMode=chunk {problem}")
    return spec if resolved == spec else resolved


def _meant(file: InputFile, what: str, user: str, scheduler: Scheduler) -> tuple[InputFile, ...]:
    """Find the files that a name means. A name with a size may mean a file that is yet to come."""
    for name in (own_prefix(user) + file.name, file.name):
        if not may_read(user, name):
            continue
        if name.endswith("/"):
            names = sorted(
                full_name for full_name in scheduler.replicas if full_name.startswith(name)
            )
        else:
            names = [FileName(name)] if name in scheduler.replicas else []
        if names:
            return tuple(replace(file, name=full_name) for full_name in names)
    if file.size_bytes is None or file.name.endswith("/") or not may_read(user, file.name):
        raise _unknown(what, file.name)
    return (file,)


def _unknown(what: str, name: FileName) -> RejectedError:
    text = shown(name)
    if name.endswith("/"):
        return RejectedError(
            f"{what} {text}: the catalogue has no file of such a name (expected a folder that"
            " `koala files add` has put there; `koala files` lists them)"
        )
    return RejectedError(
        f"{what} {text} is not in the catalogue: `koala files add FILE` puts a file there,"
        f" `koala files` lists them; or give the size of a file that a site will have:"
        f" ({what}=({name} BYTES))"
    )
