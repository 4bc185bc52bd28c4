"""`koala authority`: show the daemon's certificate authority."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from koala.cli.arguments import Json
from koala.cli.connection import show_json


def authority_commands(_words: Sequence[str] = ()) -> typer.Typer:
    """Build the group `koala authority`: show."""
    group = typer.Typer(
        help="Show the daemon's certificate authority (show).",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(lambda: None)  # a group of one command stays a group
    group.command("show")(show)
    return group


def show(
    state_dir: Annotated[
        Path, typer.Argument(metavar="STATE_DIR", help="The state directory of a daemon.")
    ],
    json: Json = False,
) -> None:
    """Show expiry and fingerprint of the authority; with --json also its certificate."""
    from koala.cli.render.documents import moment
    from koala.daemon.auth.authority import AUTHORITY_FILE, FOLDER, Authority
    from koala.errors import ConfigError

    if not (state_dir / FOLDER / AUTHORITY_FILE).is_file():
        raise ConfigError(f"{state_dir}: no state directory of a daemon with an authority")
    found = Authority.open(state_dir).document()
    if json:
        show_json(found)
    else:
        print(f"expires      {moment(found['expires_at'], None)}")
        print(f"fingerprint  {found['fingerprint']}")
