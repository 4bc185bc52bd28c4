"""Ctrl-C in a command that waits for jobs: they go on, unless `koala run` may cancel its job."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable

import click

from koala.cli.output import note, say
from koala.cli.requests import ask, given_address
from koala.errors import KoalaError
from koala.views.records.phases import TERMINAL_PHASES

JOBS_NAMED_MAX = 20
"""Jobs named in the message of Ctrl-C; its cancel command names all of them."""
_SEVERAL = ("go", "JOB", "them")


class InterruptNotice:
    """Context manager of a waiting command: on Ctrl-C print that its jobs continue.

    The message names the commands that show and cancel them. KeyboardInterrupt passes on.
    """

    def __init__(self, jobs: Iterable[str] = ()) -> None:
        address = given_address()
        is_found = address is None or address == os.environ.get("KOALA_ADDRESS")
        self._at = "" if is_found else f" --address {shlex.quote(address or '')}"
        self._jobs = list(dict.fromkeys(jobs))
        self.before = ""
        """First line of the message; the only one if no job is known to continue."""

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            for line in filter(None, (self.before, self._continuing())):
                say(f"koala: {line}")

    def update(self, job: str, phase: str) -> None:
        """Drop the job if it is over."""
        if phase in TERMINAL_PHASES and job in self._jobs:
            self._jobs.remove(job)

    @property
    def continuing(self) -> list[str]:
        """Jobs that continue."""
        return list(self._jobs)

    def add(self, job: str) -> None:
        """Add a job that the message names."""
        self._jobs.append(job)

    def _continuing(self) -> str:
        if not self._jobs:
            return ""
        named = ", ".join(self._jobs[:JOBS_NAMED_MAX])
        if len(self._jobs) > JOBS_NAMED_MAX:
            named = f"{named} and {len(self._jobs) - JOBS_NAMED_MAX:,} more"
        goes, each, it = ("goes", self._jobs[0], "it") if len(self._jobs) == 1 else _SEVERAL
        every = " ".join(self._jobs)
        return (
            f"{named} {goes} on; `koala show {each}{self._at}` shows {it},"
            f" `koala cancel {every}{self._at}` cancels {it}"
        )


def offer_to_cancel(interrupt: InterruptNotice) -> None:
    """Ask whether the job is to be cancelled; without a terminal it goes on."""
    jobs = interrupt.continuing
    if not jobs or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    try:
        if click.confirm(f"cancel {jobs[0]}?", default=False, err=True):
            ask(lambda client: client.cancel(jobs))
            note(f"{jobs[0]} is cancelled")
    except (click.Abort, KoalaError) as error:
        note(f"{jobs[0]} goes on" + (f": {error}" if str(error) else ""))
