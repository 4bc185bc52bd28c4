"""`koala init`: write commented files to start from: a job, a daemon, an agent, a policy."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

import click

from koala.cli.arguments import Words, examples, file, option
from koala.cli.output import note
from koala.errors import ConfigError

TEMPLATES = {
    "job": "job.yaml",
    "daemon": "daemon.toml",
    "slurm": "agent-slurm.toml",
    "gridengine": "agent-gridengine.toml",
    "htcondor": "agent-htcondor.toml",
    "oar": "agent-oar.toml",
    "pbs": "agent-pbs.toml",
    "emulated": "agent.toml",
    "site-mode": "site/agent.toml",
    "policy": "policy/my_policy.py",
}
"""Maps each kind to its template below deploy/; the new file has the same name."""

TEMPLATE_NAME = "AGENT.toml"
"""Name of an agent's configuration in the steps at the head of its template."""
AGENTS = tuple(kind for kind in TEMPLATES if kind not in ("job", "daemon", "policy"))


@examples(
    "koala init job",
    "koala init slurm --site atlas --daemon head.example.org:7740",
)
@click.command
@click.argument(
    "kind",
    type=Words(TEMPLATES),
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
    slurm       an agent in front of a Slurm cluster, for your own jobs
    gridengine  an agent in front of a Grid Engine cell, for your own jobs
    htcondor    an agent in front of an HTCondor pool, for your own jobs
    oar         an agent in front of an OAR server, for your own jobs
    pbs         an agent in front of a PBS server, for your own jobs
    emulated    an agent with a queue of its own on this machine
    site-mode   an agent that an administrator runs for several users
    policy      policies of your own in Python, with a test

    Without a kind: the job, the daemon and the Slurm agent. An agent's file takes over SLURM_CONF,
    SGE_ROOT and the like from this shell.
    """
    from koala.cli.local.folders import shipped

    kinds = [kind] if kind else ["job", "daemon", "slurm"]
    if (site or daemon) and kind not in AGENTS:
        raise ConfigError(f"--site and --daemon: allowed with {', '.join(AGENTS)}")
    if site and path is None:
        path = Path(f"{site}.toml")
    targets = {one: path or Path(Path(TEMPLATES[one]).name) for one in kinds}
    if kind == "policy":
        _write_policy(targets[kind])
        return
    for target in targets.values():
        if target.exists():
            raise ConfigError(f"{target} exists: allowed is a new file")
    for one, target in targets.items():
        text = (shipped("deploy") / TEMPLATES[one]).read_text(encoding="utf-8")
        if one in AGENTS:
            text = _filled_in(text, target, one, site=site, daemon=daemon)
        _write(target, text)
    if "job" in kinds:
        note(f"submit it with: koala submit --watch {targets['job']}")


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
    from koala.cli.local.folders import shipped

    template = shipped("deploy") / TEMPLATES["policy"]
    if target.suffix != ".py" or not target.stem.isidentifier():
        raise ConfigError(f"{target}: allowed is the name of a Python module, as {template.name}")
    sources = {target: template, _test_of(target): _test_of(template)}
    for one in sources:
        if one.exists():
            raise ConfigError(f"{one} exists: allowed is a new file")
    for one, source in sources.items():
        text = source.read_text(encoding="utf-8")
        _write(one, text.replace(template.stem, target.stem))
    note(f"try it with: koala simulate koala --jobs 20 --queueing {target.stem}:small_first")


def _test_of(path: Path) -> Path:
    return path.with_name(f"test_{path.name}")


def _filled_in(text: str, target: Path, kind: str, *, site: str | None, daemon: str | None) -> str:
    """Put the site, the daemon's address and the shell's variables of the batch system into an
    agent's template, and its name into the steps. Raises ConfigError."""
    import tomli_w

    from koala_agent.config import parse_config
    from koala_agent.doctor import VARIABLES

    agent = tomllib.loads(text)["agent"]
    text = text.replace(TEMPLATE_NAME, str(target))
    changes = {agent["site"]: site or agent["site"], agent["daemon"]: daemon or agent["daemon"]}
    text = "".join(_replaced(line, changes) for line in text.splitlines(keepends=True))
    found = {name: os.environ[name] for name in VARIABLES.get(kind, ()) if os.environ.get(name)}
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
