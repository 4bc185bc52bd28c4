"""`koala authority`: show and rotate the daemon's certificate authority."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from koala.cli.arguments import Json
from koala.cli.connection import say, show_json

if TYPE_CHECKING:
    from koala.daemon.auth.authority_rotation import RotationProgress

StateDir = Annotated[
    Path, typer.Argument(metavar="STATE_DIR", help="The state directory of a daemon.")
]

NEXT = {
    "whole": "one authority signs and is trusted",
    "spread": "both are trusted, the old one signs; the next step lets the new one sign",
    "moved": "both are trusted, the new one signs; the next step drops the old one",
}


def authority_commands(_words: Sequence[str] = ()) -> typer.Typer:
    """Build the group `koala authority`: show, rotate."""
    group = typer.Typer(
        help="Show or rotate the daemon's certificate authority (show, rotate).",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("show")(show)
    group.command("rotate")(rotate)
    return group


def show(state_dir: StateDir, json: Json = False) -> None:
    """Show the state of a rotation, and the sites and users that its next step would lock out."""
    from koala.daemon.auth.authority_rotation import progress

    _print_progress(progress(state_dir), json=json)


def rotate(
    state_dir: StateDir,
    force: Annotated[
        bool, typer.Option("--force", help="Proceed even if sites or users would be locked out.")
    ] = False,
    json: Json = False,
) -> None:
    """Take the next of three steps to a new authority, while the daemon is stopped.

    First both are trusted, then the new one signs, then the old one is dropped. A step is refused
    while it would lock out sites or users. Jobs continue.
    """
    from koala.daemon.auth.authority_rotation import rotate as step

    _print_progress(step(state_dir, force=force), json=json)


def _print_progress(found: RotationProgress, *, json: bool) -> None:
    if json:
        show_json(found.document())
        return
    print(found.standing.value)
    say(f"koala authority: {NEXT[found.standing.value]}")
    for what, names in (("sites", found.sites), ("users", found.users)):
        if names:
            say(f"koala authority: {what} that the next step would shut out: {', '.join(names)}")
