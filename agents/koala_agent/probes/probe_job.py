"""The probe job of `koala-agent doctor --probe`: a real batch job that calls back.

The job goes through the queue with the site's own options, runs the interpreter of the starters on
a compute node, and connects to the addresses that starters use. It reserves nothing, and is
withdrawn when it does not answer in time.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from koala.common.runtime.checkup import NotableError
from koala.errors import ConfigError, KoalaError, LocalManagerError, UnreachableError
from koala_agent.assembly import dialect_of
from koala_agent.config_tables import Config
from koala_agent.lrm.dialect import Dialect, JobState, job_name, script
from koala_agent.lrm.local_manager import Placeholder
from koala_agent.site_access import agent_endpoint, mailbox_of, reached
from koala_agent.starter.mailbox.layout import POLL_S, UP
from koala_agent.starter_link.mailbox import make_mailbox
from koala_agent.transport.interface import CommandRunner, SiteFiles

OVER = (JobState.ENDED, JobState.STUCK, JobState.HELD)
"""States in which a job makes no call any more."""
LIMIT_S = 300.0
"""Time limit of the whole probe; a busy queue takes longer."""
JOB_LIMIT_S = 60.0
CALL_LATE_S, FILE_LATE_S = 2.0, 30.0
"""How long after its end a job's call may arrive, by a connection or by a file: a shared file
system keeps what it knows of a folder for so long (`acdirmin` of NFS)."""
POLLS_MIN = 3
"""Listings after which a job that is in none of them has ended."""
LINE_BYTES_MAX = 65_536

CALL = """\
import json, os, socket, sys
token, folder, port = sys.argv[1:4]
tried = []
for address in sys.argv[4:]:
    try:
        call = socket.create_connection((address, int(port)), 10)
    except OSError as error:
        tried.append(address + ": " + str(error))
        continue
    answer = {"token": token, "host": socket.gethostname(), "address": address, "tried": tried,
            "python": ".".join(map(str, sys.version_info[:3])), "sees": os.path.isdir(folder)}
    call.sendall((json.dumps(answer) + "\\n").encode())
    call.close()
    sys.exit(0)
sys.exit(3)
"""
"""Program of the job, for Python 3.6 or newer; exits with 3 if no address answers."""


CALL_BY_FILES = """\
import json, os, socket, sys
token, folder, mailbox = sys.argv[1:]
path = os.path.join(os.path.expanduser("~"), mailbox, "up", ".probe-" + token)
answer = {"token": token, "host": socket.gethostname(), "address": mailbox, "tried": [],
        "python": ".".join(map(str, sys.version_info[:3])), "sees": os.path.isdir(folder)}
with open(path + ".new", "w") as file:
    json.dump(answer, file)
os.rename(path + ".new", path)
"""
"""The same for a site whose starters dial nobody; it fails where the node cannot write there."""


def a_placeholder(config: Config, *, body: str) -> Placeholder:
    """Make a batch job of one processor for a minute."""
    return Placeholder(
        claim=f"j0/1/0/{1 + secrets.randbelow(999_999)}",
        processors=1,
        time_limit_s=JOB_LIMIT_S,
        argv=("/bin/sh",),
        directory=Path(config.agent.state_dir),
        body=body,
    )


async def may_submit(config: Config) -> str:
    """Ask the batch system whether this account may submit a small job; nothing is queued."""
    if config.system.is_emulated:
        return "the emulated queue takes jobs of this account"
    dialect = dialect_of(config)
    placeholder = a_placeholder(config, body="true")
    asked = dialect.ask(placeholder, name="koala-doctor", script="#!/bin/sh\ntrue\n")
    if asked is None:
        return f"{config.lrm.kind} tells at a submission only: --probe submits a small job"
    async with reached(config) as site:
        dialect.read_asked(await site.run(asked))
    return f"{config.lrm.kind} would take a job of one processor"


def _folder(config: Config) -> str:
    """Return the state directory, which is not there before the first start of the agent."""
    folder = config.agent.state_dir
    if config.starter.shared:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


async def run_probe(config: Config) -> str:
    """Submit the probe job, and wait for its call. Raises LocalManagerError, UnreachableError, and
    NotableError if the queue was too long."""
    if config.system.is_emulated:
        return "an emulated queue starts jobs on this machine: nothing to probe"
    token = secrets.token_hex(16)
    answer: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
    python = config.starter.python or sys.executable
    folder = _folder(config)
    if mailbox := mailbox_of(config):
        words = [python, "-I", "-S", "-c", CALL_BY_FILES, token, folder, mailbox]
        placeholder = a_placeholder(config, body=f"exec {shlex.join(words)}")
        async with reached(config) as site:
            await make_mailbox(site, mailbox)
            try:
                async with asyncio.TaskGroup() as group:
                    looking = group.create_task(_poll_mailbox(site, mailbox, token, answer))
                    call = await _await_call(config, placeholder, answer, site=site, where=mailbox)
                    looking.cancel()
            except ExceptionGroup as errors:
                raise errors.exceptions[
                    0
                ] from None  # the one of _await_call: _poll_mailbox raises none
        return _judged(config, call)
    async with (
        _listening(config, token, answer) as port,
        reached(config, agent_port=port) as site,
    ):
        endpoint = agent_endpoint(config, site, agent_port=port)
        words = [
            python,
            "-I",
            "-S",
            "-c",
            CALL,
            token,
            folder,
            str(endpoint.port),
            *endpoint.addresses,
        ]
        placeholder = a_placeholder(config, body=f"exec {shlex.join(words)}")
        where = f"{', '.join(endpoint.addresses)} port {endpoint.port}"
        call = await _await_call(config, placeholder, answer, site=site, where=where)
    return _judged(config, call)


def _judged(config: Config, call: dict[str, object]) -> str:
    node = f"node {call['host']} reached {call['address']} with Python {call['python']}"
    if config.starter.shared and not call["sees"]:
        raise ConfigError(
            f"{node}, but does not see agent.state_dir = {config.agent.state_dir!r}: put it on a"
            " shared file system, or set starter.shared = false"
        )
    if call["tried"]:
        raise NotableError(f"{node}; others of starter.addresses failed: {call['tried']}")
    return node


async def _poll_mailbox(
    site: SiteFiles, mailbox: str, token: str, answer: asyncio.Future[dict[str, object]]
) -> None:
    """Look for the file of the job with this token until it is there. An error is its answer."""
    path = f"{mailbox}/{UP}/.probe-{token}"
    try:
        while await site.stat(path) is None:  # noqa: ASYNC110 - nobody tells of a file
            await asyncio.sleep(POLL_S)
        content = await site.get(path, LINE_BYTES_MAX)
        await site.remove(path)
        answer.set_result(json.loads(content))
    except KoalaError as error:
        answer.set_exception(error)
    except (OSError, ValueError) as error:
        answer.set_exception(LocalManagerError(f"{path}: {error}"))


@asynccontextmanager
async def _listening(
    config: Config, token: str, answer: asyncio.Future[dict[str, object]]
) -> AsyncIterator[int]:
    """Listen where the agent would, for the call with this token."""

    async def receive_call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ValueError, OSError):
            call = json.loads(await reader.readline())
            if isinstance(call, dict) and call.get("token") == token and not answer.done():
                answer.set_result(call)
        writer.close()

    listen, port = config.starter.listen, config.starter.port
    try:
        server = await asyncio.start_server(receive_call, listen, port, limit=LINE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(
            f"starter.listen = {listen!r}, starter.port = {port}: {error.strerror or error}; the"
            " probe needs the port for itself: `koala-agent stop` first if the agent runs"
        ) from error
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _await_call(
    config: Config,
    placeholder: Placeholder,
    answer: asyncio.Future[dict[str, object]],
    *,
    site: CommandRunner,
    where: str,
) -> dict[str, object]:
    """Submit the job and wait for its call, its end, or the time limit; withdraw it at the end."""
    dialect = dialect_of(config)
    scope = f"doctor{secrets.token_hex(2)}"
    name = job_name(placeholder.claim, scope=scope)
    text = script(placeholder, scope=scope)
    number = dialect.read_submitted(
        await site.run(dialect.submit(placeholder, name=name, script=text))
    )
    state = JobState.QUEUED
    try:
        async with asyncio.timeout(LIMIT_S):
            polls = 0
            while not answer.done() and state not in OVER:
                await asyncio.wait([answer], timeout=config.lrm.poll_s)
                polls += 1
                state = await _state(dialect, site, number) or (
                    state if polls < POLLS_MIN else JobState.ENDED
                )
            if state is JobState.ENDED:
                late_s = FILE_LATE_S if config.starter.line == "files" else CALL_LATE_S
                await asyncio.wait([answer], timeout=max(config.lrm.poll_s, late_s))
    except TimeoutError:
        pass
    finally:
        with suppress(KoalaError):
            await site.run(dialect.withdraw(number))
    if answer.done():
        return answer.result()
    if state is JobState.STUCK:
        raise LocalManagerError(f"job {number} can never start: ask the batch system why")
    if state is JobState.HELD:
        raise LocalManagerError(f"job {number} is held: ask the batch system why")
    if state is JobState.QUEUED:
        raise NotableError(
            f"job {number} waited {LIMIT_S:g} s in the queue and was withdrawn: try again when"
            " processors are idle"
        )
    raise UnreachableError(
        f"job {number} ran, and did not reach {where}: check {_keys_of(config)}, and"
        " starter.python on the nodes"
    )


def _keys_of(config: Config) -> str:
    if config.starter.line == "files":
        return "that the nodes see starter.mailbox under the same path and may write there"
    return (
        "starter.listen, starter.addresses and the firewall between compute nodes and this machine"
        " (starter.line = 'files' needs none)"
    )


async def _state(dialect: Dialect, site: CommandRunner, number: str) -> JobState | None:
    """Look up the state of a job; None when it is in no listing."""
    jobs = dialect.read_jobs(await site.run(dialect.list_jobs()))
    return next((job.state for job in jobs if job.number == number), None)
