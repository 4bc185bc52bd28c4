"""`koala top`: the command."""

from __future__ import annotations

import sys

import click

from koala.cli.arguments import address_option
from koala.cli.requests import ask
from koala.errors import SpecError


@click.command
@address_option
def top() -> None:
    """Watch the grid and its jobs in the terminal.

    Keys choose a job and show its course, its barrier, why it waits and what it writes, or cancel
    it; ? lists them. The view follows one stream of changes and survives restarts of the daemon.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SpecError("standard input and output must be a terminal; see koala list, koala site")
    from koala.cli.top.viewer import run

    ask(run)
