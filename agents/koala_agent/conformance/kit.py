"""`koala-agent conformance`: try the contract of batch systems at the site of a configuration.

For the author of a dialect, before its users rely on it. The jobs are small, carry names of their
own, and are ended after each check.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from koala.common.runtime import clock
from koala.common.runtime.checkup import Finding, NotableError, Show, document, examine, is_well
from koala.errors import ConfigError, KoalaError
from koala_agent.assembly import dialect_of
from koala_agent.config import read_config
from koala_agent.config_tables import Config
from koala_agent.conformance.checks import CHECKS, tried, with_failures
from koala_agent.conformance.trial_system import BenchSettings, Failures
from koala_agent.doctor import ask_batch_system
from koala_agent.lrm.dialect import Dialect
from koala_agent.site_access import account_at, reached
from koala_agent.transport.interface import Answer, Command, CommandRunner

JSON_VERSION = 1
NEEDED_CHECK = "listing"
"""Check without which all others fail: they would tell of nothing but its consequences."""
NEEDED = (
    "a batch system whose commands run on this machine and whose nodes see agent.state_dir: a kind"
    " that is not emulated, transport.kind = 'local', starter.shared = true"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KitOptions:
    """Options of the kit: the names of the checks to make (none: all), the longest wait for one
    thing to happen, and a short time limit of a job."""

    only: Sequence[str] = ()
    limit_s: float = 120.0
    time_limit_s: float = 90.0


def conformance(path: Path, options: KitOptions, *, as_json: bool) -> int:
    """Make each check, and print a line for each. Raises ConfigError."""
    config = read_config(path)
    is_here = config.transport.kind == "local" and config.starter.shared
    if config.system.is_emulated or not is_here:
        raise ConfigError(f"{path}: conformance cannot be tried there (expected {NEEDED})")
    if unknown := [name for name in options.only if name not in CHECKS]:
        raise ConfigError(f"--only {unknown[0]!r} (expected one of {', '.join(CHECKS)})")
    sys.stderr.write(
        f"koala-agent: {len(options.only or CHECKS)} checks with small jobs of"
        f" {config.system.title}; each waits for at most {options.limit_s:g} s at a time\n"
    )

    def show(finding: Finding) -> None:
        if not as_json:
            print(finding.line, flush=True)

    parent = Path(config.agent.state_dir)
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="conformance-", dir=parent))
    try:
        findings = asyncio.run(_examine(config, folder, options, show))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    made = {finding.check for finding in findings}
    left_out = [name for name in options.only or CHECKS if name not in made]
    if as_json:
        report = {**document(findings), "left_out": left_out}
        print(json.dumps({"version": JSON_VERSION, **report}, indent=2))
    elif left_out:
        print(f"left out, as they need `{findings[-1].check}`: {', '.join(left_out)}")
    return 0 if is_well(findings) else 1


async def _examine(config: Config, folder: Path, options: KitOptions, show: Show) -> list[Finding]:
    dialect = dialect_of(config)
    settings = BenchSettings(
        processors=config.site.processors,
        folder=folder,
        account=account_at(config),
        limit_s=options.limit_s,
        poll_s=min(config.lrm.poll_s, options.limit_s / 10),
        time_limit_s=options.time_limit_s,
    )
    async with reached(config) as site:
        runner = CountingRunner(site, config)
        checks = {
            name: partial(
                tried, CHECKS[name], dialect, runner, replace(settings, folder=folder / str(number))
            )
            for number, name in enumerate(options.only or CHECKS)
        }
        findings = await examine({"batch system": partial(_answers, config, dialect, runner)}, show)
        if NEEDED_CHECK in checks and is_well(findings):
            findings += await examine({NEEDED_CHECK: checks.pop(NEEDED_CHECK)}, show)
        if not is_well(findings):
            return findings
        return [*findings, *await examine({**checks, "commands": runner.summary}, show)]


async def _answers(config: Config, dialect: Dialect, runner: CommandRunner) -> str:
    """Make the doctor's check. Raises KoalaError with the commands that failed."""
    failures = Failures(runner)
    try:
        return await ask_batch_system(config, failures.noted(dialect), failures)
    except KoalaError as error:
        raise with_failures(error, failures.text) from error


class CountingRunner:
    """A `CommandRunner` that counts commands and measures their time."""

    def __init__(self, runner: CommandRunner, config: Config) -> None:
        self._runner = runner
        self._config = config
        self._took_s: list[float] = []

    async def run(self, command: Command, account: str = "") -> Answer:
        """See `CommandRunner`."""
        began_at = clock.now()
        try:
            return await self._runner.run(command, account)
        finally:
            self._took_s.append(clock.now() - began_at)

    async def summary(self) -> str:
        """Describe the commands so far, and how many an agent asks with. Raises NotableError for a
        slow one."""
        per_minute = self._config.lrm.commands_per_minute
        slowest_s, limit_s = max(self._took_s), self._config.lrm.command_limit_s
        text = (
            f"{len(self._took_s)} commands, {sum(self._took_s) / len(self._took_s):.2f} s each, the"
            f" slowest {slowest_s:.2f} s; an agent asks at most {per_minute} a minute"
        )
        if slowest_s > limit_s / 2:
            raise NotableError(f"{text}: near lrm.command_limit_s = {limit_s:g}")
        return text
