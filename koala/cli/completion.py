"""Completion in the shell: its script, printed or installed, and the values that it offers."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class, shell_complete

from koala.errors import SpecError

VARIABLE = "_KOALA_COMPLETE"
SHELLS = {
    "bash": (".bash_completions/koala.sh", ".bashrc", "source {path}"),
    "zsh": (".zfunc/_koala", ".zshrc", "fpath+={folder}; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/koala.fish", "", ""),
}
"""For each shell the script's path in the home directory, the file of settings that must name it,
and the line there."""


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
