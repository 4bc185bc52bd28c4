"""The plan of `koala site connect`: needs and configuration, made from a survey. Pure.

`koala init` makes its settings with it, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec
import tomli_w

from koala.errors import ConfigError
from koala_agent.connect.survey import AGENT_MIN, STARTER_MIN, Survey
from koala_agent.lrm.batch_system import DEFAULT, BatchSystem, Setting, known_systems

FOLDER = ".local/share/koala"
"""Folder of the program, below the home directory of the account at the host."""

_LOOPBACK = ("127.0.0.1", "localhost")

Tree = dict[str, dict[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequest:
    """Options of the command. `is_there`: the agent runs at the host, else here. `daemon` is the
    address that the agent dials. `control` is the socket of a connection that sites share."""

    site: str
    host: str
    is_there: bool
    daemon: str
    state_dir: str
    user: str
    options: tuple[str, ...] = ()
    control: str = ""
    processors: int | None = None
    wishes: Mapping[str, str] = field(default_factory=dict)
    """Keys of the batch system's table that the user has given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that is looked for at the host. `text` says what was found, or what to do."""

    name: str
    is_met: bool
    text: str


def needs(survey: Survey, request: ConnectRequest) -> list[Need]:
    """Compare what the host has with what the way needs."""
    system = survey.system
    listed = [_batch_system(survey, system, request), _python(survey, is_there=request.is_there)]
    is_told = system is not None and not system.profile.keys().isdisjoint(survey.variables)
    if system is not None and (request.wishes or is_told or system.configure is not None):
        listed.append(_settings(survey, system, request))
    if "timeout" not in survey.commands and not request.is_there:
        text = "`timeout` of the GNU coreutils is missing: it ends commands that hang"
        listed.append(Need(name="commands", is_met=False, text=text))
    return listed


def _python(survey: Survey, *, is_there: bool) -> Need:
    least = AGENT_MIN if is_there else STARTER_MIN
    path, wanted = survey.python(least), ".".join(map(str, least))
    if path:
        return Need(name="interpreter", is_met=True, text=path)
    if is_there and "uv" in survey.commands:
        text = f"none from Python {wanted} on: uv fetches one"
        return Need(name="interpreter", is_met=True, text=text)
    text = f"Python {wanted} or newer is missing there"
    more = "; uv would fetch one (astral.sh/uv), or use --agent here" if is_there else ""
    return Need(name="interpreter", is_met=False, text=text + more)


def _batch_system(survey: Survey, system: BatchSystem | None, request: ConnectRequest) -> Need:
    name = "batch system"
    if system is not None:
        return Need(name=name, is_met=True, text=f"{system.kind}: {survey.submit_command}")
    if request.is_there:
        text = f"none: the agent gets a queue of its own with {survey.processors} processors"
        return Need(name=name, is_met=True, text=text)
    commands = ", ".join(sorted({word for each in known_systems() for word in each.programs[:1]}))
    text = (
        f"none of {commands} is in the PATH of a login shell there; a host without a batch system"
        " can run an agent: --agent there"
    )
    return Need(name=name, is_met=False, text=text)


def _settings(survey: Survey, system: BatchSystem, request: ConnectRequest) -> Need:
    try:
        settings = settings_of(survey, system, request.wishes)
    except ConfigError as error:
        return Need(name="settings", is_met=False, text=str(error))
    is_met = not any(setting.is_needed for setting in settings)
    return Need(name="settings", is_met=is_met, text=", ".join(map(_in_words, settings)))


def _in_words(setting: Setting) -> str:
    name = setting.key.removeprefix("lrm.")
    if setting.value is None:
        advice = f"; give --set {name}=VALUE" if setting.is_needed else ""
        return f"{name}: {setting.reason}{advice}"
    return f"{name} = {setting.value} ({setting.reason})"


def settings_of(
    survey: Survey, system: BatchSystem, wishes: Mapping[str, str]
) -> tuple[Setting, ...]:
    """Return the batch system's settings: those of the user's profile there, those that the user
    wishes, and those that it chooses by the survey's answers. Raises ConfigError."""
    names = system.setting_names()
    kinds = {field.name: field.type for field in msgspec.structs.fields(system.settings)}
    found = [
        Setting(key=f"lrm.{key}", value=survey.variables[name], reason=f"{name} of the shell")
        for name, key in system.profile.items()
        if name in survey.variables
    ]
    for key, text in wishes.items():
        if key not in names:
            raise ConfigError(
                f"{key} means nothing with {system.title} (expected one of {', '.join(names)})"
            )
        try:
            value = msgspec.convert(text, kinds[key], strict=False)
        except msgspec.ValidationError as error:
            expected = str(error).replace("Expected", "expected").replace("`", "")
            raise ConfigError(f"{key} = {text!r} ({expected})") from error
        found.append(Setting(key=f"lrm.{key}", value=value, reason="as you wish"))
    if system.configure is not None:
        found += system.configure(survey.answers.get(system.kind, {}), wishes)
    return tuple({one.key: one for one in found}.values())


def environment_of(survey: Survey, system: BatchSystem) -> dict[str, str]:
    """Return the variables by which the batch system is found, with the PATH that its commands are
    in: under cron it is another one."""
    given = {key: text for key, text in survey.variables.items() if key in system.variables}
    return given | ({"PATH": survey.path} if system.is_installed(survey.commands.get) else {})


def configuration(survey: Survey, request: ConnectRequest, settings: Iterable[Setting]) -> Tree:
    """Return the agent's file as tables."""
    system = survey.system
    tree: Tree = {
        "agent": {"site": request.site, "daemon": request.daemon, "state_dir": request.state_dir},
        "site": {},
        "accounts": {"user": request.user},
        "lrm": {"kind": system.kind if system else DEFAULT},
    }
    for setting in settings:
        if setting.value is not None:
            table, _, key = setting.key.partition(".")
            tree[table][key] = setting.value
    if system is not None:
        tree["site"] |= {"address": survey.name, "grace_s": 60.0}
        tree["lrm"]["environment"] = environment_of(survey, system)
    if not request.is_there:
        tree["starter"] = {"python": survey.python(STARTER_MIN)}
        given = {"options": list(request.options), "control": request.control}
        more = {key: value for key, value in given.items() if value}
        tree["transport"] = {"kind": "ssh", "host": request.host, **more}
    elif system is not None:
        tree["starter"] = {"listen": "0.0.0.0"}  # compute nodes dial the agent
    return tree


def file_text(tree: Tree, settings: Iterable[Setting]) -> str:
    """Return the text of the agent's file, with the reason beside each setting."""
    reasons = {setting.key: setting.reason for setting in settings}
    lines = []
    table = ""
    for line in tomli_w.dumps(tree).splitlines():
        table = line.strip("[]") if line.startswith("[") else table
        reason = reasons.get(f"{table}.{line.partition(' = ')[0]}")
        lines.append(f"{line}  # {reason}" if reason else line)
    return "\n".join([*lines, ""])


def tunnel_ports(daemon: str, relay: str, agents_port: int) -> tuple[int, ...]:
    """Return the ports that a host can only reach through the connection: those of a daemon, and of
    its relay of files (empty: unknown), that listen for their own machine alone."""
    host, _, port = daemon.rpartition(":")
    relay_host, _, relay_port = relay.rpartition(":")
    ports = (int(port), agents_port) if host in _LOOPBACK else ()
    return (*ports, int(relay_port)) if relay_host in _LOOPBACK else ports
