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

import click

from koala.cli.arguments import Words, examples, file, option
from koala.cli.output import note
from koala.errors import ConfigError

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
SYSTEMS = "SYSTEMS"
"""Line of the help text in place of which the batch systems are listed."""


class Kinds(Words):
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
    this shell finds. An agent's file takes over the variables of this shell that select it.
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
    """Put the site, the daemon's address and the shell's variables of the batch system into an
    agent's template, and its name into the steps. Raises ConfigError."""
    import tomli_w

    from koala_agent.config import parse_config
    from koala_agent.lrm.batch_system import DEFAULT, find_system

    tree = tomllib.loads(text)
    agent, system = tree["agent"], find_system(tree.get("lrm", {}).get("kind", DEFAULT))
    text = text.replace(TEMPLATE_NAME, str(target))
    changes = {agent["site"]: site or agent["site"], agent["daemon"]: daemon or agent["daemon"]}
    text = "".join(_replaced(line, changes) for line in text.splitlines(keepends=True))
    found = {name: os.environ[name] for name in system.variables if os.environ.get(name)}
    if system.is_installed(shutil.which):
        found["PATH"] = os.environ["PATH"]  # under cron it is another one
    for name, key in system.profile.items():
        if given := os.environ.get(name):
            line = (
                f"{tomli_w.dumps({key: given}).strip()}  # {name} of the shell that wrote this file"
            )
            kind = f'kind = "{system.kind}"\n'
            text = re.sub(rf"^(?:# )?{key} = .*\n", "", text, flags=re.MULTILINE)
            text = text.replace(kind, f"{kind}{line}\n", 1)
            note(f"{target}: {key} = {given}, as {name} of this shell says")
    if found:
        pairs = ", ".join(tomli_w.dumps({name: value}).strip() for name, value in found.items())
        line = f"environment = {{ {pairs} }}  # of the shell that wrote this file"
        text = re.sub(r"^# environment = .*$", lambda _: line, text, flags=re.MULTILINE)
        note(f"{target}: environment has {', '.join(found)} of this shell")
    parse_config(text, source=str(target), folder=target.resolve().parent)
    return text


def _replaced(line: str, changes: Mapping[str, str]) -> str:
    """Replace words in a line, and leave the comment behind a value in its column."""
    column = line.rfind("  #")
    for old, new in changes.items():
        line = line.replace(old, new)
    if column < 0:
        return line
    value, comment = line.rsplit("  #", 1)
    return f"{value.rstrip():<{column}}  #{comment}"
