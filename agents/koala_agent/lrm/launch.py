"""How a placeholder becomes a process of this machine: what is refused, and the start itself."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from koala.errors import LocalManagerError
from koala_agent.lrm.port import OUTPUT_FILE, Placeholder
from koala_agent.lrm.processes import CLAIM_VARIABLE, SCOPE_VARIABLE, Identity, identify_child
from koala_agent.lrm.shell import Entry


def check(placeholder: Placeholder, processors: int) -> None:
    """Raises `LocalManagerError` for what could never run."""
    claim = placeholder.claim
    if not 1 <= placeholder.processors <= processors:
        message = (
            f"{claim} asks for {placeholder.processors} processors: this site has {processors}"
        )
        raise LocalManagerError(message)
    if not placeholder.time_limit_s > 0:
        message = f"{claim} has a time limit of {placeholder.time_limit_s} s, it must be above 0"
        raise LocalManagerError(message)
    if not placeholder.argv:
        raise LocalManagerError(f"{claim} has no program to run")
    for name, value in placeholder.environment:
        if not name or "=" in name or "\0" in name + value:
            raise LocalManagerError(
                f"{claim} sets {name!r}, which cannot be an environment variable"
            )
    if any("\0" in argument for argument in placeholder.argv):
        raise LocalManagerError(f"{claim} has an argument with a NUL character")


IN_ITS_FOLDER = f'cd "$1" && shift && exec "$@" >>{OUTPUT_FILE} 2>&1'
"""What a shell of an account does with the folder and the argv of a job: it opens with the
account's rights what the agent's would follow anywhere. Nothing of a job is a part of it."""


def spawn(
    placeholder: Placeholder,
    environment: Mapping[str, str],
    *,
    scope: str,
    entry: Entry | None = None,
) -> Identity:
    """Starts the first process of a job, in a session of its own; with an entry as that account,
    which has made the folder. Raises OSError.

    It is our child and nobody waits for it: that is the caller's, or the next agent's, to do.
    """
    own = {
        **(environment if entry is None else entry.alone()),
        **dict(placeholder.environment),
        CLAIM_VARIABLE: placeholder.claim,
        SCOPE_VARIABLE: scope,
    }
    if entry is not None:
        shell = ("/bin/sh", "-c", IN_ITS_FOLDER, "koala")
        child = subprocess.Popen(
            (*entry.prefix, *shell, str(placeholder.directory), *placeholder.argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=own,
            start_new_session=True,
            umask=0o077,
        )
        child.returncode = 0  # as below
        return identify_child(child.pid)
    placeholder.directory.mkdir(parents=True, exist_ok=True)
    with (placeholder.directory / OUTPUT_FILE).open("ab") as output:
        # vfork and exec on this thread: 0.6 ms, less than a coroutine and a watcher thread.
        child = subprocess.Popen(
            placeholder.argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=placeholder.directory,
            env=own,
            start_new_session=True,
        )
    child.returncode = 0  # so that the object neither waits for the process nor complains
    return identify_child(child.pid)
