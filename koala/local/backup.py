"""`koala backup` and `koala restore`: copy the state of a running daemon, and restore it."""

from __future__ import annotations

from pathlib import Path

import click

from koala.cli.arguments import file, json_option, option, state_dir_argument
from koala.cli.output import is_json, note, print_json


@click.command
@state_dir_argument
@click.argument(
    "target", type=file, metavar="DIR|FILE",
    help="A new path; .tar, .tar.gz or .tgz makes one archive file.",
)  # fmt: skip
@option("--outputs", is_flag=True, help="Copy outputs and logs of jobs too, not only a list.")
@json_option
def backup(*, state_dir: Path, target: Path, outputs: bool) -> None:
    """Back up a daemon's state; the daemon may be running.

    The backup has the journal as of one commit, with every event verified, and the keys and users.
    Protect it like the directory itself.
    """
    from koala.common.runtime.progress_bar import progress
    from koala.daemon.state.backup import back_up

    with progress("verifying the journal", 1.0) as update:
        made = back_up(state_dir, target, with_spool=outputs, progress=update)
    if is_json():
        print_json(made.document())
        return
    print(made.path)
    spooled = "copied" if made.has_spool else "listed, not copied"
    note(f"{made.events} events; outputs and logs: {made.spooled} files, {spooled}")


@click.command
@click.argument("source", type=file, metavar="BACKUP", help="A backup of `koala admin backup`.")
@click.argument("state_dir", type=file, help="An empty or missing directory.")
@json_option
def restore(*, source: Path, state_dir: Path) -> None:
    """Restore a backup.

    Sites may be ahead of the restored journal. The daemon that starts there begins a later epoch,
    and gives up the attempts whose state is uncertain.
    """
    from koala.common.runtime.progress_bar import progress
    from koala.daemon.state.backup import restore as restore_backup

    with progress("verifying the journal", 1.0) as update:
        found = restore_backup(source, state_dir, progress=update)
    if is_json():
        print_json({**found.document(), "state_dir": str(state_dir)})
        return
    print(state_dir)
    note(f"{found.events} events; start the daemon as usual")
    if found.spooled and not found.has_spool:
        note(f"{found.spooled} files of outputs and logs are not in this backup")
