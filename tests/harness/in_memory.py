"""Run pytest with the folders of its tests in memory, where the machine has room for them.

    python -m tests.harness.in_memory [--folders DIR] -- python -m pytest -q

A run makes some ten thousand files and removes them, and a disk takes longer for that than memory.
In memory is a private folder that is removed at the end, also after Ctrl-C or TERM; what a run that
was killed has left, the next one removes. With `--folders` the folders are made in that folder, and
those of failed tests stay there. Where memory is unsuitable (too little room, or no program can be
started there), a line says why, and pytest makes its folders where it always does.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from tests.harness.moments import moment

MEMORY = Path("/dev/shm")
PREFIX = "koala-tests-"
ROOM_MIN_BYTES = 2 * 2**30
AVAILABLE_MIN_BYTES = 2 * ROOM_MIN_BYTES
"""Least memory for folders and processes together."""
LOOK_S = 0.2
REMOVAL_LIMIT_S = 20.0
REMOVAL_PAUSE_S = 0.2


class UnsuitableError(Exception):
    """Memory cannot have the folders; the text says why."""


def main(words: Sequence[str] | None = None) -> int:
    """Run a command of pytest; return its status."""
    parser = argparse.ArgumentParser(prog="in_memory", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folders", default="", metavar="DIR", help="make the folders here")
    parser.add_argument("--memory", type=Path, default=MEMORY, metavar="DIR", help=str(MEMORY))
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(words)
    if any(word.startswith("--basetemp") for word in options.command):
        return run(options.command)
    if options.folders:
        try:
            folder = tempfile.mkdtemp(prefix=PREFIX, dir=options.folders)
        except OSError as error:
            parser.error(f"--folders: {error.filename}: {error.strerror}")
        say(f"the folders of the tests are in {folder}; those of failed tests stay")
        return run([*options.command, f"--basetemp={folder}/t"])
    try:
        return run_in_memory(options.command, options.memory)
    except UnsuitableError as error:
        say(f"the folders of the tests are not in memory, where they would be quicker: {error}")
        return run(options.command)


def run_in_memory(command: Sequence[str], memory: Path) -> int:
    """Run the command with its folders in memory; return its status. Raises UnsuitableError."""
    remove_what_is_left(memory)
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=memory))
    except OSError as error:
        raise UnsuitableError(f"{memory}: {error.strerror}") from None
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        check(folder)
        say(
            f"the folders of the tests are in memory, in {folder}, until the run ends"
            " (FOLDERS=/var/tmp: there, and those of failed tests stay)"
        )
        return run([*command, f"--basetemp={folder}/t"], lock)
    finally:
        remove(folder)
        os.close(lock)


def check(folder: Path) -> None:
    """Raise UnsuitableError if there is too little room, or no program runs from here."""
    for what, found, least in (
        (f"free in {folder.parent}", shutil.disk_usage(folder).free, ROOM_MIN_BYTES),
        ("available in all", psutil.virtual_memory().available, AVAILABLE_MIN_BYTES),
    ):
        if found < least:
            raise UnsuitableError(f"{found >> 20} MB are {what}, of {least >> 20} needed")
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    try:
        subprocess.run([program], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnsuitableError(f"no program runs in {folder.parent}: {error}") from None


def run(command: Sequence[str], lock: int | None = None) -> int:
    """Run the command to its end, whatever signals come; return its status as a shell does. The
    lock stays with the command if this process is killed.

    A terminal sends Ctrl-C to the command as well. What is sent to this process alone is passed on.
    """
    asked: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, lambda given, _: asked.append(given)) for number in numbers]
    with subprocess.Popen(command, pass_fds=() if lock is None else (lock,)) as process:
        while (status := process.poll()) is None:
            # Not for ever: a signal that comes just before the wait would not end it.
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_S)
            while asked:
                if (number := asked.pop()) != signal.SIGINT:
                    process.send_signal(number)
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def remove_what_is_left(memory: Path) -> None:
    """Remove the folders of runs that were killed: nobody holds their locks."""
    for folder in memory.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another account's, or just removed
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
            finally:
                os.close(lock)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it. Processes of a run that was interrupted may write
    there for a moment."""
    limit = time.monotonic() + REMOVAL_LIMIT_S
    while folder.exists() and time.monotonic() < limit:
        for path, names, _files in os.walk(folder):
            for one in (Path(path, name) for name in names):
                if not one.is_symlink():
                    with suppress(OSError):
                        one.chmod(0o700)  # else its owner cannot look into some
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            asyncio.run(moment(REMOVAL_PAUSE_S))


def say(text: str) -> None:
    """Tell where the folders are, before anything that pytest says."""
    print(f"tests: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
