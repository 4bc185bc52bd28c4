"""One run of a daemon: its start, its tasks and its end, in this order."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial

from koala.common.runtime.disk_space import DiskSpace
from koala.common.runtime.service.systemd import ServiceManager
from koala.common.runtime.structured_log import get_logger
from koala.common.runtime.threads import keep_threads
from koala.common.wire.grpc_shutdown import start_uninterrupted
from koala.daemon.assembly import Assembly, Foundation, assemble
from koala.daemon.auth.audit import record_local_operation
from koala.daemon.config import Config
from koala.daemon.files.relay_process import RunRelay, run_relay_process
from koala.daemon.listeners import Listeners, check_state
from koala.daemon.loop.event_loop import FAILED, STOPS
from koala.daemon.loop.gc_tuning import freeze_all, gc_paused
from koala.daemon.state.initialization import record_initialized
from koala.daemon.state.recovery import begin_run, read_secret
from koala.errors import DiskError, first_error

LAST_WORDS_S = 0.2  # for calls to receive their error
STOP_S = 2.0  # for running calls, after Goodbye

log = get_logger()


class Daemon:
    """One run of a daemon. `serve` returns after an ordered end and raises the error otherwise."""

    def __init__(
        self, config: Config, *, accept_loss: bool = False, run_relay: RunRelay = run_relay_process
    ) -> None:
        self.address = ""  # where clients and agents reach it, once it serves
        self.started = asyncio.Event()
        self._config = config
        self._accept_loss = accept_loss
        self._run_relay = run_relay
        self._disk = DiskSpace(
            config.state_dir,
            low_bytes=config.low_disk_bytes,
            ballast_bytes=config.ballast_bytes,
        )
        self._manager = ServiceManager.of(os.environ)

    async def serve(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        keep_threads(asyncio.get_running_loop())
        config, state_dir = self._config, self._config.state_dir
        check_state(state_dir)
        listeners = None
        begin = partial(
            begin_run,
            config,
            make_room=self._disk.give_up_ballast,
            accept_loss=self._accept_loss,
        )
        with gc_paused():
            journal, recovered = await asyncio.to_thread(begin)
            freeze_all()
        try:
            listeners = Listeners(config, self._disk.write_with_ballast)
            await listeners.reserve_relay_port()
            epoch = recovered.scheduler.epoch
            if self._accept_loss:
                record_local_operation(state_dir, verb="AcceptLoss", subject=f"epoch {epoch}")
            base = Foundation(
                config=config,
                journal=journal,
                recovered=recovered,
                listeners=listeners,
                disk=self._disk,
                secret=read_secret(state_dir),
                run_relay=self._run_relay,
            )
            await self._run(assemble(base), listeners, epoch, stop)
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        finally:
            with suppress(FileNotFoundError):
                (state_dir / "endpoint").unlink()
            if listeners is not None:
                listeners.close()
            journal.close()

    async def _run(
        self, parts: Assembly, listeners: Listeners, epoch: int, stop: asyncio.Event
    ) -> None:
        """Run all tasks, serve, and end: first the calls, then the event loop, then the others."""
        self.address = parts.address
        async with asyncio.TaskGroup() as group:
            running = group.create_task(parts.event_loop.run())
            others = [group.create_task(run()) for run in parts.background]
            others.append(group.create_task(self._manager.feed()))
            relaying = group.create_task(parts.relay.run())
            why = FAILED
            try:
                # A client that finds the endpoint must find its credentials, too.
                listeners.announce(self.address)
                await start_uninterrupted(parts.server)
                self._write_endpoint()
                record_initialized(self._config.state_dir)
                log.info("daemon.started", address=self.address, epoch=epoch)
                self.started.set()
                self._manager.ready(f"serving at {self.address}, epoch {epoch}")
                await stop.wait()
                why = STOPS
                log.info("daemon.stopping")
                self._manager.stopping("jobs run on")
            finally:
                # Also when the event loop failed: after that no call may be answered.
                parts.notices.close(why)
                parts.registry.close(why)
                has_failed = parts.event_loop.has_failed
                await parts.server.stop(LAST_WORDS_S if has_failed else STOP_S)
                parts.parser.close()
            parts.event_loop.close()
            await running
            for task in (relaying, *others):
                task.cancel()
        log.info("daemon.ended")

    def _write_endpoint(self) -> None:
        path = self._config.state_dir / "endpoint"
        part = path.with_suffix(".new")

        def write() -> None:
            part.touch(mode=0o600)
            part.write_text(self.address + "\n", encoding="utf-8")
            part.rename(path)

        try:
            self._disk.write_with_ballast(write)
        except OSError as error:
            raise DiskError(f"{path}: cannot be written: {error.strerror}") from error
