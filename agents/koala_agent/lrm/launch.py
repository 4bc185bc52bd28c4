"""Launch of a placeholder as a process of this machine: validation, then the start."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

from koala.errors import LocalManagerError
from koala_agent.environments import CLAIM_VARIABLE
from koala_agent.lrm.claim_processes import (
    SCOPE_VARIABLE,
    ProcessIdentity,
    identify_child,
    tag_of,
)
from koala_agent.lrm.local_manager import OUTPUT_FILE, Placeholder, RequestRefusedError
from koala_agent.starter.process_tree import TAG
from koala_agent.transport.shell import AccountSwitch


def check(placeholder: Placeholder, processors: int) -> None:
    """Validate a placeholder. Raises `LocalManagerError` for one that could never run."""
    claim = placeholder.claim
    if not 1 <= placeholder.processors <= processors:
        message = (
            f"{claim} asks for {placeholder.processors} processors: this site has {processors}"
        )
        raise LocalManagerError(message)
    if not placeholder.time_limit_s > 0:
        message = f"{claim} has a time limit of {placeholder.time_limit_s} s, it must be above 0"
        raise LocalManagerError(message)
    if placeholder.begins_at and placeholder.time_limit_s == math.inf:
        message = f"{claim} is booked without a time limit (expected maxWallTime of its component)"
        raise RequestRefusedError(message)
    if not placeholder.argv:
        raise LocalManagerError(f"{claim} has no program to run")
    for name, value in placeholder.environment:
        if not name or "=" in name or "\0" in name + value:
            raise LocalManagerError(
                f"{claim} sets {name!r}, which cannot be an environment variable"
            )
    if any("\0" in argument for argument in placeholder.argv):
        raise LocalManagerError(f"{claim} has an argument with a NUL character")


def variables(placeholder: Placeholder, *, scope: str) -> dict[str, str]:
    """Return the environment variables of a job's own."""
    return {
        **dict(placeholder.environment),
        CLAIM_VARIABLE: placeholder.claim,
        SCOPE_VARIABLE: scope,
        TAG: str(tag_of(placeholder.claim, scope=scope)),
    }


def spawn(
    placeholder: Placeholder,
    environment: Mapping[str, str],
    *,
    scope: str,
    umask: int = -1,
    entry: AccountSwitch | None = None,
) -> ProcessIdentity:
    """Start the first process of a job, in a session of its own; as the account of an entry, if
    there is one, and with this umask (-1: ours). Raises OSError.

    The process is our child and is not waited for here: the caller, or the next agent, does that.
    """
    placeholder.directory.mkdir(parents=True, exist_ok=True)
    inherited = environment if entry is None else entry.alone()
    output_path = placeholder.directory / OUTPUT_FILE
    with output_path.open("ab") as output, _stdin(placeholder) as stdin:
        # vfork and exec on this thread: 0.6 ms, less than a coroutine and a watcher thread.
        # (Another user by subprocess's own means would be a fork, which gRPC does not survive.)
        child = subprocess.Popen(
            (*(() if entry is None else entry.prefix), *placeholder.argv),
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=placeholder.directory if entry is None else "/",
            env={**inherited, **variables(placeholder, scope=scope)},
            start_new_session=True,
            umask=umask,
        )
    child.returncode = 0  # so that the object neither waits for the process nor complains
    return identify_child(child.pid)


@contextmanager
def _stdin(placeholder: Placeholder) -> Iterator[IO[bytes] | int]:
    """Open the script as an unnamed file."""
    if not placeholder.body:
        yield subprocess.DEVNULL
        return
    with tempfile.TemporaryFile() as file:
        file.write(placeholder.body.encode())
        file.seek(0)
        yield file
