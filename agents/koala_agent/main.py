"""`koala-agent CONFIG.toml ...`, the agent's process, and the commands around it.

`koala-agent join` runs once before it. `start`, `stop` and `status` are about an agent in the
background, `doctor` checks what it needs.

Exit status: 0 ended in order (jobs run on); 1 refused by the daemon, or the local manager or the
state directory cannot be used; 2 wrong usage or configuration; 74 a decision could not be written
down (nothing of it was reported or done). Messages go to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from koala.common.identity.tls import JoinToken
from koala.common.runtime import clock
from koala.common.runtime.paths import SETTINGS_MAX
from koala.common.runtime.service.systemd import ServiceManager
from koala.common.runtime.software import software_version
from koala.common.runtime.standard_streams import open_standard_streams
from koala.common.runtime.structured_log import bind_to_all, configure_logging, get_logger
from koala.common.runtime.threads import keep_threads
from koala.common.wire.grpc_shutdown import run_and_drain
from koala.errors import ConfigError, DiskError, KoalaError, system_error_text
from koala_agent.agent import Agent
from koala_agent.assembly import LiveAgent, live_agent
from koala_agent.config import read_config, read_configs
from koala_agent.config_tables import Config
from koala_agent.link.enrolment import join
from koala_agent.state_folder import PID_FILE, REGISTERED, STATUS_FILE
from koala_agent.transport.ssh_host import SSHHosts

DISK_FAILED = 74  # EX_IOERR of sysexits.h, as the daemon's

log = get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    open_standard_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    name = OTHER_NAMES.get(words[0], words[0]) if words else ""
    if name in COMMANDS:
        return _run_command(name, words[1:])
    options = _parser().parse_args(words)
    if name.isalpha() and not Path(name).exists():
        commands = ", ".join(COMMANDS)
        return _fail(f"no command {name} (expected {commands}, or the path of a configuration)", 2)
    try:
        configs = read_configs(options.configs)
    except ConfigError as error:
        return _fail(str(error), 2)
    umask = os.umask(0o077)  # all that the agent makes is for its account alone
    configure_logging(configs[0].agent.log_level)
    try:
        return asyncio.run(run_and_drain(serve(configs, umask=umask)))
    except (KoalaError, OSError) as error:
        return _fail_for(error)
    except ExceptionGroup as group:
        expected, others = group.split((KoalaError, OSError))
        if expected is None or others is not None:
            raise
        return _fail_for(_first(expected))


def _run_command(name: str, words: Sequence[str]) -> int:
    """Run `koala-agent NAME CONFIG.toml`."""
    run, description = COMMANDS[name]
    parser = argparse.ArgumentParser(
        prog=f"koala-agent {name}", description=description, formatter_class=BlankFormatter
    )
    if name == "start":
        _add_configs(parser)
    else:
        parser.add_argument("config", metavar="CONFIG.toml", type=Path, help="the configuration")
    if name == "doctor":
        parser.add_argument(
            "--probe",
            action="store_true",
            help="submit small batch jobs: one calls back from a compute node, two try the gate",
        )
    if name == "conformance":
        _add_kit_options(parser)
    if name in ("status", "doctor", "conformance"):
        parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    options = parser.parse_args(words)
    try:
        return run(options)
    except (KoalaError, OSError, EOFError) as error:
        return _fail_for(error)


def _join(options: argparse.Namespace) -> int:
    """Get the certificate; the token comes by standard input, where no process list shows it."""
    config = read_config(options.config)
    if sys.stdin.isatty():
        text = getpass.getpass("join token (not shown): ")
    else:
        text = sys.stdin.readline(SETTINGS_MAX)
    token = JoinToken.parse(text)
    path = asyncio.run(join(token, config.agent.site, Path(config.agent.state_dir)))
    sys.stderr.write(f"koala-agent: {config.agent.site} has joined; its certificate is in {path}\n")
    return 0


def _start(options: argparse.Namespace) -> int:
    from koala_agent import background

    return background.start(options.configs)


def _stop(options: argparse.Namespace) -> int:
    from koala_agent import background

    return background.stop(options.config)


def _status(options: argparse.Namespace) -> int:
    from koala_agent import background

    return background.status(options.config, as_json=options.json)


def _add_kit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only", action="append", default=[], metavar="CHECK", help="make this check alone"
    )
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=120.0,
        metavar="SECONDS",
        help="longest wait for one thing to happen, as for a job to start (default: %(default)g)",
    )
    parser.add_argument(
        "--time-limit",
        type=_seconds,
        default=90.0,
        metavar="SECONDS",
        help="time limit of the job that is to be ended at it (default: %(default)g)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0.1 <= seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} (expected seconds, from 0.1 to 86400)")
    return seconds


def _conformance(options: argparse.Namespace) -> int:
    from koala_agent.conformance import kit

    configure_logging("error")  # the findings say the rest
    chosen = kit.KitOptions(
        only=options.only, limit_s=options.limit, time_limit_s=options.time_limit
    )
    return kit.conformance(options.config, chosen, as_json=options.json)


def _doctor(options: argparse.Namespace) -> int:
    from koala_agent import doctor

    configure_logging("error")  # the findings say the rest
    return doctor.doctor(options.config, is_probed=options.probe, as_json=options.json)


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "join": (
        _join,
        "Gets the certificate by which this site is known to the daemon. The join token comes by "
        "standard input, as `koala site add` prints it; it can be used once. The private key is "
        "made here and stays here.",
    ),
    "start": (
        _start,
        "Starts the agent in the background, and waits for its first attempt to register. It goes "
        "on after logout; its log is STATE_DIR/agent.log, of the first of several files. Exit "
        "status: 0 it runs, otherwise that of the agent.",
    ),
    "stop": (
        _stop,
        "Ends the agent in order, with all sites that it serves. Jobs run on, and the next agent "
        "with the same state directory finds them. Exit status: 0 no agent runs any more, 1 it "
        "has not ended in time.",
    ),
    "status": (
        _status,
        "Prints whether the agent runs, and whether its site is registered. Exit status: 0 it "
        "runs, 1 it does not.",
    ),
    "doctor": (
        _doctor,
        "Checks all that the agent needs: state directory, batch system, account, interpreter, "
        "ports, daemon and certificate. Each need has a line (ok, warning or FAILED), with what to "
        "do. Exit status: 0 none has failed, 1 one has, 2 the configuration is wrong. `koala-agent "
        "check` is the same.",
    ),
    "conformance": (
        _conformance,
        "Tries what a batch system must do for Koala, for authors of a dialect. It runs small jobs "
        "of its own: one at a time, once two of site.processors. Each check has a line (ok, "
        "warning or FAILED). Exit status: 0 none has failed, 1 one has, 2 the configuration is "
        "wrong.",
    ),
}
"""Function and description of each command."""

OTHER_NAMES = {"check": "doctor"}
"""Other spellings of commands."""


async def serve(configs: Sequence[Config], *, umask: int) -> int:
    """Run the agents of these sites until a signal, or until the daemon has refused all for good;
    return the exit status. Processes that they start for users get this umask, the one that this
    process was started with."""
    manager = ServiceManager.of(os.environ)  # before anybody copies the environment
    hosts = SSHHosts(clock=clock.now)
    lives = [
        live_agent(config, hosts, version=software_version(), umask=umask) for config in configs
    ]
    loop = asyncio.get_running_loop()
    keep_threads(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, manager, lives, f"the agent got {number.name}")
    report = StateReport(manager, len(configs))
    async with asyncio.TaskGroup() as group:
        feeding = group.create_task(manager.feed())
        serving = [
            group.create_task(_serve_site(live, config, report, is_alone=len(configs) == 1))
            for live, config in zip(lives, configs, strict=True)
        ]
        await asyncio.wait(serving)
        feeding.cancel()
    return max(task.result() for task in serving)


async def _serve_site(
    live: LiveAgent, config: Config, report: StateReport, *, is_alone: bool
) -> int:
    """Run the agent of one site; return its part of the exit status. Each line of the log names the
    site, unless it `is_alone`."""
    if not is_alone:
        bind_to_all(site=config.agent.site)
    settings = config.agent
    log.info("agent.started", site=settings.site, daemon=settings.daemon, pid=os.getpid())
    with announced(Path(settings.state_dir)):
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(_report_state(report, live.agent, config))]
            if live.serve_metrics is not None:
                helpers.append(group.create_task(live.serve_metrics()))
            finish = await live.agent.run()
            for helper in helpers:
                helper.cancel()
    if finish.is_refused:
        report.refuse(_place(config), finish.reason)
        return _fail(f"{settings.daemon} refuses site {settings.site}: {finish.reason}", 1)
    log.info("agent.ended", reason=finish.reason)
    return 0


def _end(manager: ServiceManager, lives: Sequence[LiveAgent], reason: str) -> None:
    manager.stopping("jobs run on")
    for live in lives:
        live.agent.close(reason)


class StateReport:
    """Report to the service manager: ready when each site has tried to register once, afterwards
    each change. An agent whose daemon is away keeps dialling."""

    def __init__(self, manager: ServiceManager, sites: int) -> None:
        self._manager = manager
        self._sites = sites
        self._texts: dict[str, str] = {}
        self._refused: set[str] = set()
        self._is_ready = False

    def refuse(self, where: str, reason: str) -> None:
        """Report a site that the daemon refused for good. The last of all ends the process, whose
        exit status says it."""
        self._refused.add(where)
        if len(self._refused) < self._sites:
            self.update(where, f"refused: {reason}")

    def update(self, where: str, text: str) -> None:
        """Report the state of the site at this place."""
        self._texts[where] = text
        if len(self._texts) < self._sites:
            return
        # `koala-agent start` looks at the end for one that is not registered.
        ordered = sorted(self._texts, key=lambda one: self._texts[one] != REGISTERED)
        notify = self._manager.status if self._is_ready else self._manager.ready
        self._is_ready = True
        notify("; ".join(f"{one}: {self._texts[one]}" for one in ordered))


async def _report_state(report: StateReport, agent: Agent, config: Config) -> None:
    """Report the state of a site after its first attempt to register, and each change afterwards.
    `koala-agent status` reads the last state from a file."""
    path = Path(config.agent.state_dir) / STATUS_FILE
    reported = ""
    trouble = await agent.attempted()
    while True:
        text = trouble or REGISTERED
        if text != reported:
            with suppress(OSError):  # of a full disk
                path.write_text(text, encoding="utf-8")
            report.update(_place(config), text)
            reported = text
        trouble = await agent.trouble_changed()


def _place(config: Config) -> str:
    return f"site {config.agent.site}, daemon {config.agent.daemon}"


@contextmanager
def announced(state_dir: Path) -> Iterator[None]:
    """Keep our process id in `agent.pid`; a file that a killed agent left has no meaning."""
    path, status = state_dir / PID_FILE, state_dir / STATUS_FILE
    status.unlink(missing_ok=True)
    path.write_text(f"{os.getpid()}\n", encoding="ascii")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        status.unlink(missing_ok=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="koala-agent",
        formatter_class=BlankFormatter,
        description=(
            "Runs the agent of a site in the foreground. The agent connects to the daemon, "
            "registers the site, and submits claims to the site's batch system. Each site has a "
            "state directory of its own. One process may serve several sites behind ssh, each "
            "with a file; those with the same transport.control share connection and limits."
        ),
        epilog=(
            "SIGTERM and SIGINT end the agent in order: the daemon is notified; jobs run on; the "
            "next agent with the same state directory finds them. Exit status: 0 ended in order, "
            "1 refused or unable to run, 2 wrong usage or configuration, 74 the state directory "
            "could not be written."
        ),
    )
    _add_configs(parser)
    firsts = {name: text.partition(". ")[0] for name, (_, text) in COMMANDS.items()}
    parser.add_argument_group(
        "other commands (koala-agent COMMAND --help has more)",
        "\n".join(f"{name:<12} {first}." for name, first in firsts.items()),
    )
    parser.add_argument("--version", action="version", version=f"koala-agent {software_version()}")
    return parser


class BlankFormatter(argparse.HelpFormatter):
    """Writer of help texts that breaks lines at blanks only, never in `koala-agent`."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Fill each line of the text; what a line explains is below its explanation's begin."""
        lines: list[str] = []
        for line in text.splitlines():
            term = TERM.match(line)
            below = indent + " " * (len(term.group()) if term else 0)
            lines += textwrap.wrap(
                line, width, initial_indent=indent, subsequent_indent=below, break_on_hyphens=False
            )
        return "\n".join(lines)


TERM = re.compile(r"\S+ {2,}")
"""Term at the begin of a line, before its explanation."""


def _add_configs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "configs",
        metavar="CONFIG.toml",
        type=Path,
        nargs="+",
        help="the configuration; several for several sites behind ssh",
    )


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """Return the first error in nested groups."""
    error: Exception = group
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _fail_for(error: Exception) -> int:
    if isinstance(error, DiskError):
        return _fail(str(error), DISK_FAILED)
    if isinstance(error, OSError) and not isinstance(error, KoalaError):
        return _fail(system_error_text(error), 1)
    return _fail(str(error), 2 if isinstance(error, ConfigError) else 1)


def _fail(message: str, status: int) -> int:
    sys.stderr.write(f"koala-agent: {message}\n")
    return status
