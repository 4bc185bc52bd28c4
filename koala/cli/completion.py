"""Completion in the shell: its script, printed or installed, and the values that it offers."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class, shell_complete

from koala.errors import KoalaError, SpecError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.views.records.base import Record

VARIABLE = "_KOALA_COMPLETE"
SHELLS = {
    "bash": (".bash_completions/koala.sh", ".bashrc", "source {path}"),
    "zsh": (".zfunc/_koala", ".zshrc", "fpath+={folder}; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/koala.fish", "", ""),
}
"""For each shell the script's path in the home directory, the file of settings that must name it,
and the line there."""
ANSWER_S = 2.0
"""Time limit of a daemon's answer, after which nothing is offered."""
JOBS_MAX = 200
"""Newest jobs that are offered."""


def answer(command: click.Command, instruction: str) -> int:
    """Answer a request of the shell's script."""
    return shell_complete(command, {}, "koala", VARIABLE, instruction)


def script(command: click.Command, shell: str) -> str:
    """Make the script of a shell; of the user's own if the name is empty. Raises SpecError."""
    shell = shell or Path(os.environ.get("SHELL", "")).name
    made = get_completion_class(shell) if shell in SHELLS else None
    if made is None:
        raise SpecError(f"shell {shell!r}: allowed are {', '.join(SHELLS)}")
    return made(command, {}, "koala", VARIABLE).source()


def install(command: click.Command, shell: str) -> str:
    """Install the script in the user's home directory; return what was done."""
    text = script(command, shell)
    shell = shell or Path(os.environ["SHELL"]).name
    place, settings, line = SHELLS[shell]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if settings:
        file = Path.home() / settings
        line = line.format(path=path, folder=path.parent)
        had = file.read_text(encoding="utf-8") if file.exists() else ""
        if line not in had.splitlines():
            file.write_text(f"{had}\n{line}\n", encoding="utf-8")
    return f"{shell} completion installed in {path}; it works in the next shell"


REQUESTS: dict[str, Callable[[AsyncClient], Awaitable[Sequence[Record]]]] = {
    "job": lambda client: client.list_jobs(last=JOBS_MAX),
    "site": lambda client: client.sites(),
    "user": lambda client: client.users(),
}
"""How the daemon is asked for names, by the attribute that has the name."""


def names_of(kind: str, address: str | None) -> list[str]:
    """Ask the daemon for names, the newest first; none if it does not answer."""
    import asyncio

    from koala.client import AsyncClient

    async def ask() -> list[str]:
        async with asyncio.timeout(ANSWER_S), AsyncClient(address) as client:
            return [str(getattr(one, kind)) for one in await REQUESTS[kind](client)]

    with suppress(KoalaError, OSError, TimeoutError):
        return asyncio.run(ask())[::-1]
    return []
