"""Names of input files as users write them, and the files of the catalogue that they mean. Pure.

- A name means the user's own file of that name, or else the common one.
- `NAME/` means all files of the catalogue whose names begin so.
- Files of other users are as good as unknown, unless they are shared.
"""

from __future__ import annotations

from dataclasses import replace

from koala.core.model.job import InputFile, JobSpec
from koala.core.model.values import FileName
from koala.core.scheduler import Scheduler
from koala.errors import RejectedError
from koala.files.names import own_prefix, shown
from koala.protocol.names import SHARED
from koala.rsl.fields import INPUT_FILES_MAX, seen_twice


def may_read(user: str, name: str) -> bool:
    """Return True if jobs of this user may read the file of this name."""
    if not name.startswith("~") or name.startswith(own_prefix(user)):
        return True
    return name.partition("/")[2].startswith(SHARED)


def with_inputs(spec: JobSpec, scheduler: Scheduler) -> JobSpec:
    """Replace the names of a job's input files by those of the catalogue. Raises RejectedError."""
    if spec.input_file is None:
        return spec
    found = tuple(one for file in spec.input_files for one in _meant(file, spec.owner, scheduler))
    if len(found) > INPUT_FILES_MAX:
        raise RejectedError(
            f"inputFile names {len(found)} files: allowed are {INPUT_FILES_MAX}; an archive of them"
            " is one file"
        )
    if twice := seen_twice(found):
        raise RejectedError(
            f"inputFile names two files that a program sees as {shown(twice)}: allowed is one"
        )
    if len(found) > 1 and spec.input_mode != "whole":
        raise RejectedError(
            f"inputMode = {spec.input_mode} divides one input file: inputFile names {len(found)}"
        )
    return spec if found == spec.input_files else spec.with_inputs(found)


def _meant(file: InputFile, user: str, scheduler: Scheduler) -> tuple[InputFile, ...]:
    """Find the files that a name means. A name with a size may mean a file that is yet to come."""
    for name in (own_prefix(user) + file.name, file.name):
        if not may_read(user, name):
            continue
        if name.endswith("/"):
            names = sorted(one for one in scheduler.replicas if one.startswith(name))
        else:
            names = [FileName(name)] if name in scheduler.replicas else []
        if names:
            return tuple(replace(file, name=one) for one in names)
    if file.size_bytes is None or file.name.endswith("/") or not may_read(user, file.name):
        raise _unknown(file.name)
    return (file,)


def _unknown(name: FileName) -> RejectedError:
    text = shown(name)
    if name.endswith("/"):
        return RejectedError(
            f"inputFile {text}: the catalogue has no file of such a name: allowed is a folder that"
            " `koala files add` has put there (koala files)"
        )
    return RejectedError(
        f"inputFile {text} is not in the catalogue: `koala files add FILE` puts a file there,"
        f" `koala files` lists them; or give the size of a file that a site will have:"
        f" (inputFile=({name} BYTES))"
    )
