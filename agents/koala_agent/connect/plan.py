"""The plan of `koala site connect`: configuration and steps, made from a survey. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from koala_agent.connect.survey import AGENT_MIN, STARTER_MIN, Survey

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
    partition: str = ""
    parallel_environment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One thing that is looked for at the host. `text` says what was found, or what to do."""

    name: str
    is_met: bool
    text: str


def needs(survey: Survey, request: ConnectRequest) -> list[Need]:
    """Compare what the host has with what the way needs."""
    kind = survey.batch_system
    system = Need(
        name="batch system",
        is_met=True,
        text=f"{kind}: {survey.submit_command}",
    )
    if not kind and request.is_there:
        text = f"none: the agent gets a queue of its own with {survey.processors} processors"
        system = Need(name="batch system", is_met=True, text=text)
    elif not kind:
        text = (
            "none of sbatch, qsub, oarsub and condor_submit is in the PATH of a login shell there;"
            " a host without a batch system can run an agent: --agent there"
        )
        system = Need(name="batch system", is_met=False, text=text)
    found = [system, _python(survey, is_there=request.is_there)]
    if kind == "gridengine":
        found.append(_parallel_environment(survey, request.parallel_environment))
    if "timeout" not in survey.commands and not request.is_there:
        text = "`timeout` of the GNU coreutils is missing: it ends commands that hang"
        found.append(Need(name="commands", is_met=False, text=text))
    return found


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


def _parallel_environment(survey: Survey, wished: str) -> Need:
    known = ", ".join(survey.environments) or "none"
    chosen = chosen_environment(survey, wished)
    if chosen:
        return Need(name="parallel environment", is_met=True, text=chosen)
    text = f"{wished or 'several'}: choose one with --parallel-environment: {known}"
    return Need(name="parallel environment", is_met=False, text=text)


def chosen_environment(survey: Survey, wished: str) -> str:
    """Return the parallel environment; empty when it must be chosen."""
    if wished:
        return wished if wished in survey.environments else ""
    return survey.environments[0] if len(survey.environments) == 1 else ""


def configuration(survey: Survey, request: ConnectRequest, *, processors: int) -> Tree:
    """Return the agent's file as tables."""
    kind = survey.batch_system or "emulated"
    tree: Tree = {
        "agent": {"site": request.site, "daemon": request.daemon, "state_dir": request.state_dir},
        "site": {"processors": processors},
        "accounts": {"user": request.user},
        "lrm": {"kind": kind},
    }
    if kind != "emulated":
        tree["site"] |= {"address": survey.name, "grace_s": 60.0}
        tree["lrm"] |= {"environment": {**survey.variables, "PATH": survey.path}}
    if kind == "slurm" and request.partition:
        tree["lrm"]["partition"] = request.partition
    if kind == "gridengine":
        chosen = chosen_environment(survey, request.parallel_environment)
        tree["lrm"]["parallel_environment"] = chosen
    if not request.is_there:
        tree["starter"] = {"python": survey.python(STARTER_MIN)}
        given = {"options": list(request.options), "control": request.control}
        more = {key: value for key, value in given.items() if value}
        tree["transport"] = {"kind": "ssh", "host": request.host, **more}
    elif kind != "emulated":
        tree["starter"] = {"listen": "0.0.0.0"}  # compute nodes dial the agent
    return tree


def tunnel_ports(daemon: str, relay: str, agents_port: int) -> tuple[int, ...]:
    """Return the ports that a host can only reach through the connection: those of a daemon, and of
    its relay of files (empty: unknown), that listen for their own machine alone."""
    host, _, port = daemon.rpartition(":")
    relay_host, _, relay_port = relay.rpartition(":")
    ports = (int(port), agents_port) if host in _LOOPBACK else ()
    return (*ports, int(relay_port)) if relay_host in _LOOPBACK else ports
