"""`koala authority`: show the daemon's certificate authority."""

from __future__ import annotations

from pathlib import Path

import click

from koala.cli.arguments import json_option, state_dir_argument
from koala.cli.lazy_group import LazyGroup
from koala.cli.output import print_answer
from koala.errors import ConfigError

authority = LazyGroup(
    "authority",
    {"": {"show": "koala.local.authority:show"}},
    help="Show the daemon's certificate authority.",
    no_args_is_help=True,
)


@click.command
@state_dir_argument
@json_option
def show(*, state_dir: Path) -> None:
    """Show expiry and fingerprint of the authority.

    With --json also its certificate."""
    from koala.cli.render.documents import moment
    from koala.daemon.auth.certificate_authority import AUTHORITY_FILE, FOLDER, CertificateAuthority

    if not (state_dir / FOLDER / AUTHORITY_FILE).is_file():
        raise ConfigError(f"{state_dir}: no state directory of a daemon with an authority")
    found = CertificateAuthority.open(state_dir).document()
    print_answer(
        found,
        lambda: f"expires      {moment(found['expires_at'])}\nfingerprint  {found['fingerprint']}",
    )
