"""Notifications of the ends of jobs (`notify`): MQTT topics, and programs of the daemon's own user.

A program runs in the daemon's account. So it is allowed only to the user whose account that is, and
who is authenticated; never to others, on plain text, or where the daemon is root.

An end is notified once it is durable. A program runs at most once: a daemon that is killed at that
moment runs it never. A message reaches the broker at least once, with the same exception.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from koala.common.runtime.structured_log import get_logger
from koala.core.model.job import TERMINAL, Failed, Job
from koala.core.model.job_spec import JobSpec
from koala.core.model.values import JobId
from koala.daemon.storage.records import Notice
from koala.errors import RejectedError

LIMIT_S = 60.0
"""Time limit of a program; then its process group is killed."""
AT_ONCE = 4
WAITING_MAX = 10_000
"""Programs that wait; when more jobs end at once, the oldest are dropped and logged."""
PASSED_ON = ("HOME", "PATH", "LANG", "USER", "LOGNAME", "TMPDIR")


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyRules:
    """Notifications that this daemon can send; `account` may run programs, empty: nobody."""

    has_bus: bool
    account: str

    @classmethod
    def of_daemon(cls, *, has_bus: bool, is_plain: bool) -> NotifyRules:
        """Rules of this process."""
        uid = os.geteuid()
        account = ""
        if uid and not is_plain:
            with suppress(KeyError):
                account = pwd.getpwuid(uid).pw_name
        return cls(has_bus=has_bus, account=account)

    def check(self, spec: JobSpec) -> None:
        """Check that a job's notifications can be sent. Raises RejectedError."""
        wanted = spec.notify
        if wanted is None:
            return
        if wanted.topic and not self.has_bus:
            raise RejectedError(
                f"notify: topic {wanted.topic!r}: this daemon has no MQTT broker ([bus] url)"
            )
        if wanted.command and (not self.account or spec.owner != self.account):
            allowed = f"the user {self.account}" if self.account else "nobody here"
            raise RejectedError(
                f"notify: command {wanted.command[0]}: the daemon runs programs for {allowed}"
                " (expected a topic, or koala wait in a script of yours)"
            )


class Notifier:
    """Sends what the jobs that end ask for. `run` belongs into a task of the daemon."""

    def __init__(
        self,
        jobs: Callable[[JobId], Job | None],
        send: Callable[[str, Mapping[str, object]], None] | None,
    ) -> None:
        """`send` publishes a message under a topic; None without a bus."""
        self._jobs = jobs
        self._send = send
        self._waiting: deque[tuple[Sequence[str], dict[str, str]]] = deque(maxlen=WAITING_MAX)
        self._arrived = asyncio.Event()
        self._log = get_logger()

    def publish(self, notices: Sequence[Notice]) -> None:
        """Take the ends among durable notices; must not block."""
        for notice in notices:
            job = self._jobs(JobId(notice.job)) if notice.job and notice.phase else None
            if job is None or job.spec.notify is None or not isinstance(job.phase, TERMINAL):
                continue
            if notice.phase != job.phase_name:
                continue  # an earlier notice of the same batch
            wanted = job.spec.notify
            if wanted.topic and self._send is not None:
                self._send(f"notify/{job.spec.owner}/{wanted.topic}", _message(job, notice))
            if wanted.command:
                if len(self._waiting) == WAITING_MAX:
                    self._log.warning("notify.dropped", command=self._waiting[0][0][0])
                self._waiting.append((wanted.command, _variables(job, notice)))
                self._arrived.set()

    async def run(self) -> None:
        """Run the programs, a few at a time, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._run())

    async def _run(self) -> None:
        while True:
            while self._waiting:
                await self._call(*self._waiting.popleft())
            self._arrived.clear()
            await self._arrived.wait()

    async def _call(self, command: Sequence[str], variables: dict[str, str]) -> None:
        log = self._log.bind(job=variables["KOALA_JOB"], command=command[0])
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env={**kept, **variables},
                cwd=kept.get("HOME", "/"),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            log.warning("notify.program_not_started", reason=str(error))
            return
        try:
            async with asyncio.timeout(LIMIT_S):
                status = await process.wait()
            log.info("notify.program_ended", status=status)
        except TimeoutError:
            log.warning("notify.program_killed", after_s=LIMIT_S)
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def _message(job: Job, notice: Notice) -> dict[str, object]:
    return {
        "job": job.id,
        "name": job.spec.name,
        "phase": job.phase_name,
        "text": notice.text,
        "status": job.phase.status if isinstance(job.phase, Failed) else None,
        "at": notice.at,
    }


def _variables(job: Job, notice: Notice) -> dict[str, str]:
    message = _message(job, notice)
    names = ("job", "name", "phase", "text", "status")
    values = {f"KOALA_{name.upper()}": message[name] for name in names}
    return {
        name: "" if value is None else str(value).replace("\0", "")
        for name, value in values.items()
    }
