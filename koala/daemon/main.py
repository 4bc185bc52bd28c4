"""Start and stop the daemon process; `assembly` has its parts.

    koala daemon CONFIG.toml        or        python -m koala.daemon CONFIG.toml

The daemon serves once `state_dir/endpoint` has its address. TERM and INT end it in order: agents
receive Goodbye, watchers learn where to resume, and pending events are committed. A failed commit
or a bug ends it at once; the next start replays. Exit status: 0 ended in order, 1 failed, 2 wrong
configuration, 74 the journal could not be written.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from koala.common.runtime.freed_memory import map_large_buffers
from koala.common.runtime.standard_streams import log_stream, open_standard_streams
from koala.common.runtime.structured_log import configure_logging, get_logger
from koala.common.wire import connection_limits
from koala.common.wire.grpc_shutdown import run_and_drain
from koala.daemon.config import read_config
from koala.daemon.lifecycle import Daemon
from koala.daemon.state.initialization import INIT, require_initialized
from koala.errors import ConfigError, DiskError, KoalaError, system_error_text

DISK_FAILED = 74  # EX_IOERR of sysexits.h
ACCEPT_LOSS = "--accept-loss"

log = get_logger()


def run(config_path: Path, *, accept_loss: bool = False, may_begin: bool = False) -> int:
    """Run a daemon until TERM or INT and return the exit status.

    It initializes a new state directory if that is safe or `may_begin` is set. Raises KoalaError.
    """
    config = read_config(config_path)
    os.umask(0o077)  # all files are private, whatever the inherited mask
    require_initialized(config.state_dir, may_begin=may_begin)
    configure_logging(config.daemon.log_level)
    map_large_buffers()
    connection_limits.raise_limit()

    async def until_signal() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await Daemon(config, accept_loss=accept_loss).serve(stop)

    try:
        asyncio.run(run_and_drain(until_signal()))
    except DiskError as error:
        log.error("journal.failed", reason=str(error))  # noqa: TRY400 - the reason suffices
        log_stream(sys.stderr).write(f"koala daemon: {error}\n")
        # Closing the database would write to a disk that has just failed.
        os._exit(DISK_FAILED)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the process's own command line and run the daemon."""
    open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    paths = [word for word in words if word not in (ACCEPT_LOSS, INIT)]
    if len(paths) != 1:
        usage = f"python -m koala.daemon CONFIG.toml [{ACCEPT_LOSS}] [{INIT}]"
        sys.stderr.write(f"usage: {usage}\n")
        return 2
    try:
        return run(Path(paths[0]), accept_loss=ACCEPT_LOSS in words, may_begin=INIT in words)
    except KoalaError as error:
        log_stream(sys.stderr).write(f"koala daemon: {error}\n")
        return 2 if isinstance(error, ConfigError) else 1
    except OSError as error:
        log_stream(sys.stderr).write(f"koala daemon: {system_error_text(error)}\n")
        return 1
