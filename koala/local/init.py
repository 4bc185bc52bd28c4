"""`koala init`: write commented files to start from: a job, a daemon, an agent, a policy."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import tomllib
from collections.abc import Mapping
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import OneOf, examples, file, option
from koala.cli.output import note
from koala.errors import ConfigError, LocalManagerError

if TYPE_CHECKING:
    from koala_agent.lrm.batch_system import BatchSystem, Setting

TEMPLATES = {
    "job": "job.yaml",
    "daemon": "daemon.toml",
    "site-mode": "site/agent.toml",
    "policy": "policy/my_policy.py",
}
"""Maps each kind that is no batch system to its template below deploy/; the new file has the same
name."""

TEMPLATE_NAME = "AGENT.toml"
"""Name of an agent's configuration in the steps at the head of its template."""
NO_AGENTS = ("job", "daemon", "policy")
SURVEY_S = 60.0
"""Longest time of a command that looks at this host."""
COLUMN = 44
"""Column of the comments in templates of agents."""
SYSTEMS = "SYSTEMS"
"""Line of the help text in place of which the batch systems are listed."""


class Kinds(OneOf):
    """A kind of file: one of the templates, or a batch system."""

    def __init__(self) -> None:
        pass  # the words are found when they are needed: that looks at all packages

    @cached_property
    def words(self) -> tuple[str, ...]:  # type: ignore[override] # read only
        """The words."""
        from koala_agent.lrm.batch_system import known_kinds

        return (*TEMPLATES, *known_kinds())


class InitCommand(click.Command):
    """The command, whose help text lists the batch systems that are installed."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text."""
        from koala_agent.lrm.batch_system import known_systems

        lines = [f"{one.kind:<12}an agent in front of {one.place}" for one in known_systems()]
        template = inspect.cleandoc(self.help or "")
        self.help = template.replace(SYSTEMS, "\n".join(lines))
        super().format_help_text(ctx, formatter)
        self.help = template


@examples(
    "koala init job",
    "koala init site-mode --site atlas --daemon head.example.org:7740",
)
@click.command(cls=InitCommand)
@click.argument(
    "kind",
    type=Kinds(),
    required=False,
    metavar="[KIND]",
    help="A word of the list above.",
)
@click.argument(
    "path", type=file, required=False, help="The new file.  [default: the template's name, here]"
)
@option("--site", metavar="SITE", help="Name of the site; the new file is then SITE.toml.")
@option("--daemon", metavar="HOST:PORT", help="Address that the agent dials.")
def init(*, kind: str | None, path: Path | None, site: str | None, daemon: str | None) -> None:
    """Write a commented file to start from.

    \b
    job         a job of two components, in YAML
    daemon      the daemon of a laptop or a head node
    site-mode   an agent that an administrator runs for several users
    policy      policies of your own in Python, with a test
    SYSTEMS

    Without a kind: the job, the daemon, and an agent in front of the batch system whose commands
    this shell finds. For an agent's file that is asked for processors, queues with their limits,
    GPUs and what else must be chosen; the reason stands beside each value.
    """
    kinds = [kind] if kind else ["job", "daemon", *_systems_here()]
    if (site or daemon) and (kind is None or kind in NO_AGENTS):
        raise ConfigError(
            "--site and --daemon without a kind of agent (expected a batch system as KIND)"
        )
    if site and path is None:
        path = Path(f"{site}.toml")
    templates = {name: _template(name) for name in kinds}
    targets = {name: path or Path(file_name) for name, (file_name, _) in templates.items()}
    if kind == "policy":
        _write_policy(targets[kind])
        return
    for target in targets.values():
        if target.exists():
            raise ConfigError(f"{target} exists (expected a new file)")
    for name, target in targets.items():
        text = templates[name][1].read_text(encoding="utf-8")
        if name not in NO_AGENTS:
            text = _filled_in(text, target, site=site, daemon=daemon)
        _write(target, text)
    if "job" in kinds:
        note(f"submit it with: koala submit --watch {targets['job']}")


def _systems_here() -> list[str]:
    """Return the kind of the batch system whose commands this shell finds; none without one."""
    from koala_agent.lrm.batch_system import known_systems

    kinds = [system.kind for system in known_systems() if system.is_installed(shutil.which)]
    if not kinds:
        note("found no batch system here: `koala init KIND` writes an agent for one elsewhere")
    return kinds[:1]


def _template(kind: str) -> tuple[str, Traversable]:
    """Return the name of the new file, and the template. Raises ConfigError."""
    from koala.local.folders import shipped
    from koala_agent.lrm.batch_system import find_system

    if kind in TEMPLATES:
        template = shipped("deploy") / TEMPLATES[kind]
        return template.name, template
    return f"agent-{kind}.toml", find_system(kind).template


def _write(target: Path, text: str) -> None:
    """Write a new file and print its name. Raises ConfigError."""
    try:
        with target.open("x", encoding="utf-8") as new:
            new.write(text)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error
    print(target)


def _write_policy(target: Path) -> None:
    """Write a module of policies and its test. Raises ConfigError."""
    from koala.local.folders import shipped

    template = shipped("deploy") / TEMPLATES["policy"]
    if target.suffix != ".py" or not target.stem.isidentifier():
        raise ConfigError(f"{target} (expected the name of a Python module, as {template.name})")
    sources = {target: template, _test_of(target): _test_of(template)}
    for one in sources:
        if one.exists():
            raise ConfigError(f"{one} exists (expected a new file)")
    for one, source in sources.items():
        text = source.read_text(encoding="utf-8")
        _write(one, text.replace(template.stem, target.stem))
    note(f"try it with: koala simulate koala --jobs 20 --queueing {target.stem}:small_first")


def _test_of(path: Path) -> Path:
    return path.with_name(f"test_{path.name}")


def _filled_in(text: str, target: Path, *, site: str | None, daemon: str | None) -> str:
    """Put the site, the daemon's address and what this host has into an agent's template, and its
    name into the steps. Raises ConfigError."""
    from koala_agent.config import parse_config
    from koala_agent.lrm.batch_system import DEFAULT, find_system

    tree = tomllib.loads(text)
    agent, system = tree["agent"], find_system(tree.get("lrm", {}).get("kind", DEFAULT))
    text = text.replace(TEMPLATE_NAME, str(target))
    changes = {agent["site"]: site or agent["site"], agent["daemon"]: daemon or agent["daemon"]}
    text = "".join(_replaced(line, changes) for line in text.splitlines(keepends=True))
    if not system.is_emulated:
        for setting in _settings_here(system):
            text = _with(text, setting)
            note(f"{target}: {_named(setting)}: {setting.reason}")
    parse_config(text, source=str(target), folder=target.resolve().parent)
    return text


def _settings_here(system: BatchSystem) -> list[Setting]:
    """Look for the batch system on this host, as `koala site connect` does at another one."""
    import asyncio

    from koala_agent.connect.capacity import ask_capacity
    from koala_agent.connect.plan import environment_of, settings_of
    from koala_agent.connect.survey import read_survey, survey_command
    from koala_agent.lrm.batch_system import Setting
    from koala_agent.transport.shell import Shell

    async def survey_here() -> list[Setting]:
        site = Shell(environment=os.environ, limit_s=SURVEY_S)
        survey = read_survey(await site.run(survey_command()))
        if survey is None:
            return []
        is_here = system.is_installed(survey.commands.get)
        environment = environment_of(survey, system)
        found = list(settings_of(survey, system, {}) if is_here else ())
        try:
            found += await ask_capacity(system, found, site, environment) if is_here else ()
        except LocalManagerError as error:
            note(f"{system.title} tells no processors: {error}")
        if environment:
            reason = f"of the shell that wrote this file; {system.programs[0]} is in "
            reason += str(Path(survey.commands.get(system.programs[0], "no folder of it")).parent)
            found.append(Setting(key="lrm.environment", value=environment, reason=reason))
        return list({one.key: one for one in reversed(found)}.values())[::-1]

    return asyncio.run(survey_here())


def _with(text: str, setting: Setting) -> str:
    """Put a setting with its reason into a file: into the line that has its key, also one that is
    switched off, else below the table's head."""
    table, _, key = setting.key.partition(".")
    head, mark, rest = text.partition(f"[{table}]\n")
    body, gap, tail = rest.partition("\n\n")
    line = re.search(rf"^(?:# )?{key} = (.*)\n", body + "\n", re.MULTILINE)
    if setting.value is not None:
        value = f"{key} = {_shown(setting.value)}"
    elif line is not None:
        value = line[0].partition("  #")[0].rstrip()
    else:
        value = f"# {key}:"
    new = f"{value:<{COLUMN}}  # {setting.reason}" if line or setting.value is not None else ""
    new = new or f"{value} {setting.reason}"
    if line is not None:
        body = f"{body}\n".replace(line[0], f"{new}\n", 1).removesuffix("\n")
    else:
        first, _, others = body.partition("\n")
        body = "\n".join(filter(None, (first, new, others)))
    return f"{head}{mark}{body}{gap}{tail}"


def _named(setting: Setting) -> str:
    """Name a setting, and its value where that is short."""
    if isinstance(setting.value, dict):
        return f"{setting.key} has {', '.join(setting.value)}"
    return setting.key if setting.value is None else f"{setting.key} = {_shown(setting.value)}"


def _shown(value: object) -> str:
    """Write a value of TOML in one line."""
    import tomli_w

    if isinstance(value, dict):
        pairs = ", ".join(tomli_w.dumps({name: text}).strip() for name, text in value.items())
        return f"{{ {pairs} }}"
    return tomli_w.dumps({"x": value}).strip().removeprefix("x = ")


def _replaced(line: str, changes: Mapping[str, str]) -> str:
    """Replace words in a line, and leave the comment behind a value in its column."""
    column = line.rfind("  #")
    for old, new in changes.items():
        line = line.replace(old, new)
    if column < 0:
        return line
    value, comment = line.rsplit("  #", 1)
    return f"{value.rstrip():<{column}}  #{comment}"
