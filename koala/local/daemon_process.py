"""`koala daemon`: run the daemon, or start, stop and show one in the background."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from koala.cli.arguments import examples, file, json_option, option
from koala.cli.lazy_group import LazyGroup
from koala.cli.output import note, print_answer
from koala.errors import KoalaError

if TYPE_CHECKING:
    from koala.common.runtime.service.detached import Holder
    from koala.daemon.config import Config

HERE = "koala.local.daemon_process"
LOG_SUFFIX = ".log"
ENDPOINT = "endpoint"
"""File of the state directory with the daemon's address."""


class DaemonGroup(LazyGroup):
    """Group that takes a word that is none of its commands for the file of a daemon to run."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the called command: `koala daemon FILE` is `koala daemon run FILE`."""
        is_file = self.get_command(ctx, args[0]) is None
        return super().resolve_command(ctx, ["run", *args] if is_file else args)


@click.group(
    cls=DaemonGroup,
    sections={"": {name: f"{HERE}:{name}" for name in ("run", "start", "stop", "status")}},
    no_args_is_help=True,
    context_settings={"ignore_unknown_options": True},
)
def daemon() -> None:
    """Run, start, stop or show the daemon.

    `koala daemon CONFIG` is `koala daemon run CONFIG`.
    """


config_argument = click.argument("config", type=file, help="The daemon's TOML file.")
loss_option = option(
    "--accept-loss", is_flag=True,
    help="Start although the end of the journal is lost: jobs recorded only there may run a second"
    " time.",
)  # fmt: skip
init_option = option(
    "--init", is_flag=True,
    help="Create a new state directory although one seems to have existed, or its disk seems not to"
    " be mounted.",
)  # fmt: skip


@click.command
@config_argument
@loss_option
@init_option
def run(*, config: Path, accept_loss: bool, init: bool) -> None:
    """Run the daemon in the foreground, as a service manager does."""
    from koala.daemon.main import run

    raise Exit(run(config, accept_loss=accept_loss, may_begin=init))


@examples("koala daemon start daemon.toml")
@click.command
@config_argument
@loss_option
@init_option
def start(*, config: Path, accept_loss: bool, init: bool) -> None:
    """Start the daemon in the background; return when it serves.

    It goes on after logout. Its log is beside CONFIG, as daemon.log beside daemon.toml. Nothing
    restarts it after a crash or a reboot.
    """
    from koala.common.runtime.service import detached

    _, running = _daemon_of(config)
    if running is not None:
        note(f"it runs already ({running.words}); to apply changes: koala daemon stop {config}")
        return
    words = ["--accept-loss"] * accept_loss + ["--init"] * init
    log = config.resolve().with_suffix(LOG_SUFFIX)
    started = detached.start(["-P", "-m", "koala.daemon", str(config.resolve()), *words], log)
    if started.status is not None:
        note(f"{started.last_line.removeprefix('koala daemon: ')}")
        note(f"the daemon ended with status {started.status}; log: {log}")
        raise Exit(started.status)
    print(f"started (process {started.pid}), {started.report}")
    print(f"log: {log}")


@click.command
@config_argument
def stop(*, config: Path) -> None:
    """End the daemon in order; jobs run on."""
    from koala.common.runtime.service.detached import STOP_S

    _, running = _daemon_of(config)
    if running is None:
        print("no daemon of this file runs here")
        return
    if running.process is None:
        command = running.at_its_host(f"koala daemon stop {config}")
        raise KoalaError(f"it runs on another machine ({running.words}): {command}")
    if not running.stop():
        raise KoalaError(f"{running.words} has not ended in {STOP_S:g} s")
    print(f"the daemon has ended ({running.words}); jobs run on")


@click.command
@config_argument
@json_option
def status(*, config: Path) -> None:
    """Say whether the daemon runs, and where it serves.

    Exits with 1 if it does not run.
    """
    settings, running = _daemon_of(config)
    address = ""
    if running is not None and (settings.state_dir / ENDPOINT).exists():
        address = (settings.state_dir / ENDPOINT).read_text(encoding="utf-8").strip()
    found = {
        "running": running is not None,
        "pid": None if running is None else running.pid,
        "host": None if running is None else running.host,
        "since": (running.since or None) if running is not None else None,
        "address": address or None,
        "state_dir": str(settings.state_dir),
    }
    if running is None:
        text = f"not running; start it with: koala daemon start {config}"
    else:
        since = f", since {running.since}" if running.since else ""
        text = f"running ({running.words}{since}), serving at {address or 'no address yet'}"
    print_answer(found, lambda: text)
    if running is None:
        sys.stdout.flush()
        raise Exit(1)


def _daemon_of(config: Path) -> tuple[Config, Holder | None]:
    """Read a file, and find the daemon that has its state directory. Raises ConfigError."""
    from koala.common.runtime.service.detached import holder
    from koala.daemon.config import read_config
    from koala.daemon.storage.folder import LOCK

    settings = read_config(config)
    return settings, holder(settings.state_dir / LOCK)
