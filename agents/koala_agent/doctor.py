"""`koala-agent doctor`: check all that the agent of a configuration needs.

Each need is looked at as the agent would use it, and has one line: ok, warning, or FAILED with the
reason and what to do. A need that is not met does not hide the others.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from koala.common.identity.keys import expires_at
from koala.common.identity.tls import identity_path
from koala.common.runtime import clock
from koala.common.runtime.checkup import (
    Finding,
    NotableError,
    Result,
    document,
    examine,
    is_well,
)
from koala.common.runtime.service.detached import find
from koala.common.wire.listen_ports import check_free
from koala.errors import ConfigError, LocalManagerError, UnreachableError
from koala_agent import environments
from koala_agent.accounts import accepted_users
from koala_agent.assembly import dialect_of
from koala_agent.background import lock_of, status_of
from koala_agent.config import read_config
from koala_agent.config_tables import Config
from koala_agent.link.endpoints import certified_address, why_refused
from koala_agent.link.enrolment import find_identity
from koala_agent.lrm.dialect import Dialect, Figures
from koala_agent.lrm.gate_probe import OPEN_S, SHUT_S
from koala_agent.probes.gate_probe import probe_gate, recorded_gate
from koala_agent.probes.probe_job import LIMIT_S, may_submit, run_probe
from koala_agent.site_access import (
    agent_endpoint,
    check_installation,
    mailbox_of,
    missing_programs,
    reached,
)
from koala_agent.starter.mailbox.layout import POLL_S, UP
from koala_agent.starter_link.mailbox import make_mailbox
from koala_agent.state_folder import check_state
from koala_agent.transport.interface import Command, CommandRunner, SiteAwayError, Transport
from koala_agent.transport.shell import Shell
from koala_agent.transport.ssh import SSHTransport
from koala_agent.transport.ssh_words import remote_line, unheard, unmarked

PYTHON_MIN = (3, 6)
DISCARD_PORT = 9
"""Port of this machine behind the one that the check opens at the login node: nothing listens."""
TRIAL_BYTES = 65_536
TABLE_BYTES_MAX = 16 * 2**20
LISTENING = "0A"
CONNECT_S = 5.0
CRON_PATH = "/usr/bin:/bin"
TELLING = (
    *("MODULEPATH", "MODULESHOME", "LMOD_CMD", "BASH_ENV", "BASH_FUNC_*", "LANG", "LC_*"),
    *("LD_LIBRARY_PATH", "MANPATH", "http*_proxy"),
)
"""Variables by which one sees that a login shell has read its start-up files."""
JSON_VERSION = 1
Need = Callable[[Config], Awaitable[str]]


def doctor(path: Path, *, is_probed: bool, as_json: bool) -> int:
    """Check each need of this configuration, and print a line for each."""
    config = read_config(path)
    accepted_users(config)

    async def configuration() -> str:
        return f"{path} is valid"

    needs = {**NEEDS, "probe job": run_probe, "gate": probe_gate} if is_probed else NEEDS
    if config.transport.kind == "ssh":
        needs = {"login node": _login_node, **needs}
    if config.starter.line == "files":
        needs["mailbox"] = _mailbox
    checks = {name: partial(need, config) for name, need in needs.items()}

    def show(finding: Finding) -> None:
        if not as_json:
            print(finding.line, flush=True)

    if is_probed:
        sys.stderr.write(
            f"koala-agent: the probe job may take up to {LIMIT_S:g} s, and those of the gate up to"
            f" {SHUT_S + OPEN_S:g} s\n"
        )
    findings = asyncio.run(examine({"configuration": configuration, **checks}, show))
    failed = {finding.check for finding in findings if finding.result is Result.FAILED}
    if not (is_probed or config.system.is_emulated or failed & NEEDS_OF_PROBE):
        sys.stderr.write(
            f"koala-agent: next, `koala-agent doctor {path} --probe` submits a small job that calls"
            " back from a compute node\n"
        )
    if as_json:
        print(json.dumps({"version": JSON_VERSION, **document(findings)}, indent=2))
    return 0 if is_well(findings) else 1


async def _state_directory(config: Config) -> str:
    state_dir = Path(config.agent.state_dir)
    check_state(state_dir)
    there = next(folder for folder in (state_dir, *state_dir.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(
            f"agent.state_dir = {str(state_dir)!r}: {there} is not a folder that this account can"
            " write (expected a folder of yours)"
        )
    trial = there / f".koala-doctor-{secrets.token_hex(4)}"
    try:
        trial.write_bytes(os.urandom(TRIAL_BYTES))
    except OSError as error:  # full, over a quota, read-only
        raise ConfigError(
            f"agent.state_dir = {str(state_dir)!r}: a file cannot be written ({error.strerror};"
            " expected a folder with room)"
        ) from error
    finally:
        trial.unlink(missing_ok=True)
    if os.statvfs(there).f_flag & os.ST_NOEXEC:
        raise NotableError(
            f"{there} is mounted noexec: programs that are staged there cannot run; choose another"
            " agent.state_dir"
        )
    return f"{state_dir} {'is ours' if there == state_dir else 'can be made'}"


async def _batch_system(config: Config) -> str:
    """Check that the commands of the batch system are there and answer."""
    system = config.system
    if system.is_emulated:
        return f"{system.title}, {config.site.processors} processors on this machine"
    async with reached(config) as site:
        figures = await ask_batch_system(config, dialect_of(config), site)
    program = system.programs[0]
    is_set = config.transport.kind != "local" or "PATH" in config.lrm.environment
    if is_set or shutil.which(program, path=CRON_PATH):
        return figures
    folder = Path(shutil.which(program) or program).parent
    raise NotableError(
        f"{figures}; cron does not find {program} (its PATH is {CRON_PATH}): write environment ="
        f' {{ PATH = "{folder}:{CRON_PATH}" }} into [lrm]'
    )


async def _login(config: Config) -> str:
    """Look at what start-up files do at a host."""
    host = config.transport.host
    async with reached(config) as site:
        assert isinstance(site, SSHTransport)
        await site.run(Command(argv=("/bin/sh", "-c", ":"), hands_on=True))
        if not site.has_login:
            raise NotableError(
                f"a login at {host} starts another program before any command, so programs have"
                " the environment without a login: look for `exec` in .profile, .bash_profile"
            )
        if site.noise:
            raise NotableError(
                f"start-up files at {host} write {site.noise[:80]!r} before each command's output,"
                " which breaks scp and rsync: put `[[ $- == *i* ]] || return` at the head of"
                " .bashrc (.cshrc: `if (! $?prompt) exit`)"
            )
    return f"programs have that of a login at {host}"


async def _environment(config: Config) -> str:
    """Compare what programs get from the agent, or from this shell, with a login of the user."""
    if config.transport.kind == "ssh":
        return await _login(config)
    ask = Command(argv=("/usr/bin/env", "-0"), hands_on=True)
    line = remote_line(ask, environment={}, limit_s=CONNECT_S)
    bare = environments.left_out((*environments.LOCALE, "LANG"), environments.of_commands({}))
    shell = Shell(environment=bare, limit_s=2 * CONNECT_S)
    marked = await shell.run(Command(argv=("/bin/sh", "-c", line)))
    if (answer := unmarked(marked)) is None:
        raise NotableError(unheard("this machine", marked))
    login = dict(word.split("=", 1) for word in answer.out.split("\0") if "=" in word)
    running = find(lock_of(config))
    own = os.environ if running is None else running.environ()
    telling = (name for name in login if environments.matches(name, TELLING))
    lost = sorted(name for name in telling if name not in {**own, **config.lrm.environment})
    who = "this shell" if running is None else f"the agent (process {running.pid})"
    if lost:
        raise NotableError(
            f"{who} has no {', '.join(lost)}, which a login shell has, so programs have none; let a"
            f" login shell start it: bash -lc 'koala-agent start CONFIG.toml'"
        )
    return f"programs have that of {who}"


async def ask_batch_system(config: Config, dialect: Dialect, runner: CommandRunner) -> str:
    """Look for the commands of a batch system, and ask it for jobs and processors."""
    system = config.system
    try:
        check_installation(config, is_complete=True)
        if config.transport.kind != "local":
            await _check_programs(config, runner)
        if system.check is not None:
            await system.check(config.lrm, runner)
        dialect.read_jobs(await runner.run(dialect.list_jobs()))
        answers = tuple([await runner.run(command) for command in dialect.figures()])
        figures = dialect.read_figures(answers)
        rights = tuple([await runner.run(command) for command in dialect.booking()])
        booker = dialect.read_booking(rights) if config.site.booking_ahead_s else None
    except LocalManagerError as error:
        if isinstance(error, SiteAwayError) or not (advice := _variables_left_out(config)):
            raise
        raise LocalManagerError(f"{error}; {advice}") from error
    label = f"tried with {system.tried_with}" if system.tried_with else system.notice
    budget = f"an agent asks at most {config.lrm.commands_per_minute} times a minute"
    books = f"bookings by {booker.name}" if booker is not None else "no bookings"
    return f"{system.kind} answers: {_in_words(figures, config)} ({label}); {books}; {budget}"


def _in_words(figures: Figures | None, config: Config) -> str:
    if figures is None:
        return f"it tells no processors, so Koala counts on {config.site.processors} of its own"
    gpus = figures.resources.gpus
    more = f", {figures.idle_gpus} of {gpus} GPUs" if gpus else ""
    return f"{figures.idle} of {figures.processors} processors are idle{more}"


def _variables_left_out(config: Config) -> str:
    """Advise to configure the variables of this shell that the agent does not pass on."""
    if config.transport.kind == "ssh":
        return ""
    known = config.lrm.environment
    left_out = [
        name for name in config.system.variables if name in os.environ and name not in known
    ]
    if not left_out:
        return ""
    pairs = ", ".join(f"{name} = {json.dumps(os.environ[name])}" for name in left_out)
    return (
        f"the agent does not pass on {', '.join(left_out)} of this shell: write environment ="
        f" {{ {pairs} }} into [lrm]"
    )


async def _check_programs(config: Config, site: CommandRunner) -> None:
    """Look for the commands of the batch system where the agent would."""
    programs = config.system.programs
    find_all = 'for p do command -v "$p" >/dev/null || echo "$p"; done; printf "%s\\n" "$PATH"'
    answer = await site.run(Command(argv=("/bin/sh", "-c", find_all, "-", *programs)))
    if answer.status:
        raise LocalManagerError(f"/bin/sh cannot look for {programs[0]}: {answer.complaint()}")
    *lines, path = answer.out.splitlines()
    if lost := [name for name in programs if name in lines]:
        raise ConfigError(missing_programs(lost, path, where=f" of {config.transport.host}"))


async def _interpreter(config: Config) -> str:
    python = config.starter.python or sys.executable
    question = "import sys; print(*sys.version_info[:3], sep='.')"
    allowed = f"expected Python {'.'.join(map(str, PYTHON_MIN))} or newer, here and on the nodes"
    try:
        async with reached(config) as site:
            answer = await site.run(Command(argv=(python, "-I", "-S", "-c", question)))
    except SiteAwayError:
        raise
    except LocalManagerError as error:
        raise ConfigError(f"starter.python = {python!r}: {error} ({allowed})") from error
    version = answer.out.strip()
    is_version = re.fullmatch(r"\d{1,3}(\.\d{1,3}){2}", version) is not None
    if answer.status or not is_version or tuple(map(int, version.split("."))) < PYTHON_MIN:
        detail = f"Python {version}" if is_version else answer.complaint()
        raise ConfigError(f"starter.python = {python!r}: {detail} ({allowed})")
    return f"{python} is Python {version}; the compute nodes need it at the same path"


async def _login_node(config: Config) -> str:
    """Connect to the login node, write a file in the home directory there, and look at the port
    that it opens for starters."""
    host = config.transport.host
    if config.starter.line == "files":
        async with reached(config) as site:
            await _try_home(site, host)
        return f"{host} answers; starters dial nobody"
    async with reached(config, agent_port=DISCARD_PORT) as site:
        endpoint = agent_endpoint(config, site, agent_port=DISCARD_PORT)
        await _try_home(site, host)
        table = b"".join([await _sockets(site, name) for name in ("tcp", "tcp6")])
    if not is_open_to_all(table.decode(), endpoint.port):
        raise NotableError(
            f"{host} answers, and opens the port of starters for itself alone: compute nodes on"
            " other machines cannot dial it until its ssh server has GatewayPorts"
            " clientspecified; --probe tries it"
        )
    return f"{host} answers; starters dial {', '.join(endpoint.addresses)}"


async def _mailbox(config: Config) -> str:
    """Make the mailbox as the agent does, and exchange a message with it."""
    folder, content = mailbox_of(config), os.urandom(TRIAL_BYTES)
    name = f".koala-doctor-{secrets.token_hex(4)}"
    began_at = clock.now()
    try:
        async with reached(config) as site:
            await make_mailbox(site, folder)
            path = f"{folder}/{UP}/{name}"
            await site.put(path, content, is_durable=False)
            is_there = name in await site.list(f"{folder}/{UP}")
            is_same = await site.get(path, TRIAL_BYTES) == content
            await site.remove(path)
    except OSError as error:
        raise ConfigError(
            f"starter.mailbox {folder}: {error.strerror or error} (expected a folder of this"
            " account with room in it, which the compute nodes see under the same path)"
        ) from error
    if not (is_there and is_same):
        raise ConfigError(f"starter.mailbox {folder}: a file that was written cannot be read back")
    return (
        f"{folder} takes messages, here in {clock.now() - began_at:.2f} s; starters look every"
        f" {POLL_S:g} s (--probe tries a compute node)"
    )


async def _sockets(site: Transport, protocol: str) -> bytes:
    """Read Linux's table of sockets; empty where the kernel lacks the protocol."""
    try:
        return await site.get(f"/proc/net/{protocol}", TABLE_BYTES_MAX)
    except FileNotFoundError:
        return b""


async def _try_home(site: Transport, host: str) -> None:
    """Write a file in the home directory. The agent needs no space there; programs may."""
    path, content = f".koala-doctor-{secrets.token_hex(4)}", os.urandom(TRIAL_BYTES)
    try:
        await site.put(path, content)
        await site.remove(path)
    except OSError as error:
        raise NotableError(
            f"{host} answers, but a file cannot be written in the home directory there"
            f" ({error.strerror}): claims need none, but programs may"
        ) from error


def is_open_to_all(table: str, port: int) -> bool:
    """Test for a listening port that other machines reach, in Linux's tables of sockets."""
    rows = [line.split()[1:4] for line in table.splitlines() if len(line.split()) > 3]
    local = [row[0].partition(":") for row in rows if row[2] == LISTENING]
    return any(int(where[2], 16) == port and not int(where[0], 16) for where in local)


async def _ports(config: Config) -> str:
    addresses = {"files.serve": config.files.serve or ""}
    if config.starter.port:
        addresses["starter.port"] = f"{config.starter.listen}:{config.starter.port}"
    fixed = {key: text for key, text in addresses.items() if text}
    running = find(lock_of(config))
    if running is None:
        for key, address in fixed.items():
            check_free(key, address)
    detail = ", ".join(f"{key} {address}" for key, address in fixed.items())
    free = f"in use by this agent (process {running.pid})" if running else "free"
    starters = "no port" if config.starter.line == "files" else "any free port"
    return f"{detail}: {free}" if detail else f"{starters} for starters; none for files"


async def _daemon(config: Config) -> str:
    await _connect(config.agent.daemon, "agent.daemon", "the daemon's `daemon.listen`")
    state = status_of(config)
    agent = f" (the agent: {state['status']})" if state["running"] else ""
    return f"{config.agent.daemon} accepts connections{agent}"


async def _connect(address: str, key: str, what: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        writer.close()
    except OSError as error:  # TimeoutError, too
        reason = error.strerror or str(error) or f"no answer in {CONNECT_S:g} s"
        raise UnreachableError(
            f"{key} = {address!r}: {reason}. It must be the address of {what}: does the daemon run,"
            " and does a firewall let this machine dial it?"
        ) from error


async def _certificate(config: Config) -> str:
    if config.agent.plain:
        return "none is needed: agent.plain = true"
    identity = find_identity(Path(config.agent.state_dir), config.agent.site)
    ends_at = expires_at(identity.read().certificate)
    ends = f"{datetime.fromtimestamp(ends_at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if ends_at < clock.unix_now():
        raise ConfigError(
            f"expired at {ends}: join again, with the command that an operator's"
            f" `koala site add {config.agent.site}` prints"
        )
    return f"joined; valid until {ends}"


async def _port_for_agents(config: Config) -> str:
    if config.agent.plain:
        return f"{config.agent.daemon}: agent.plain = true"
    if not identity_path(Path(config.agent.state_dir)).exists():
        raise ConfigError("can be tried when the site has joined")
    identity = find_identity(Path(config.agent.state_dir), config.agent.site)
    address, _ = await certified_address(config.agent.daemon, identity.read(), options=())
    await _connect(address, "the port for agents", "the daemon's `daemon.agents`")
    if reason := await why_refused(config.agent.daemon, identity):
        raise UnreachableError(f"{address}: {reason}")
    return f"{address} accepts our certificate"


NEEDS: dict[str, Need] = {
    "state directory": _state_directory,
    "batch system": _batch_system,
    "environment": _environment,
    "account": may_submit,
    "gate": recorded_gate,
    "interpreter": _interpreter,
    "ports": _ports,
    "daemon": _daemon,
    "certificate": _certificate,
    "port for agents": _port_for_agents,
}
NEEDS_OF_PROBE = {
    "login node",
    "state directory",
    "batch system",
    "account",
    "interpreter",
    "ports",
    "mailbox",
}
"""Needs without which a probe job could tell nothing; it needs no daemon."""
