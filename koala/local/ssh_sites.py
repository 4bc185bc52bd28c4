"""Commands for sites over ssh: `koala site login` and `koala site connect`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from koala.cli.arguments import Number, OneOf, WholeNumber, address_option, examples, file, option
from koala.cli.output import note
from koala.cli.requests import ask, given_address
from koala.common.protocol.names import SITE
from koala.errors import ConfigError, LocalManagerError, SpecError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala_agent.connect.plan import ConnectRequest, Need
    from koala_agent.connect.site_record import SiteRecord
    from koala_agent.connect.survey import Survey
    from koala_agent.lrm.batch_system import Setting
    from koala_agent.transport.ssh import SSHTransport
    from koala_agent.transport.ssh_socket import SSHSettings

STATE = ".local/state/koala"


@click.command
@click.argument("site", help="The name of a connected site, or the path of its agent's file.")
@option(
    "--limit",
    "limit_s",
    type=Number(1, 3600),
    default=180,
    metavar="SECONDS",
    help="Give up when ssh is not connected by then.",
)
def login(*, site: str, limit_s: float) -> None:
    """Open the ssh connection of a site; answer what ssh asks, once.

    The connection stays in the background, and serves the agent until it is lost. For a site with
    an agent of its own the forwarded ports are opened again, too.
    """
    from koala_agent.transport.ssh_socket import log_in, open_tunnel

    settings, tunnel = _connection_of(site)
    is_new = log_in(settings, limit_s=limit_s, notify=note)
    for port in tunnel:
        open_tunnel(settings, port)
    opened = f", with ports {', '.join(map(str, tunnel))} of this machine" if tunnel else ""
    print(f"ssh to {settings.host} is {'open' if is_new else 'open already'}{opened}")


def _connection_of(site: str) -> tuple[SSHSettings, tuple[int, ...]]:
    """Return the connection and the tunnel of a site, which is a name or a path. Raises ConfigError
    and UnknownNameError."""
    from koala_agent.config import read_config
    from koala_agent.connect import site_record
    from koala_agent.site_access import ssh_settings

    path = Path(site)
    if not site.endswith(".toml"):
        record = site_record.find(site)
        path = site_record.agent_file(site)  # it may name a connection that sites share
        if record.tunnel or not path.exists():  # its agent runs there
            return record.settings(), record.tunnel
    config = read_config(path)
    if config.transport.kind != "ssh":
        raise ConfigError(f"{path}: transport.kind = 'local' (expected a site behind ssh)")
    return ssh_settings(config), ()


@examples(
    "koala site connect --dry-run login.example.org",
)
@click.command
@click.argument("host", help="A host of your ssh configuration.")
@option("--site", metavar="SITE", help="Name of the site.", unset="the first part of HOST")
@option(
    "--agent",
    "where",
    type=OneOf(("here", "there")),
    default="here",
    help="Run the agent here, and nothing at HOST; or install it there.",
)
@option(
    "--processors",
    type=WholeNumber(1),
    metavar="N",
    help="Processors that Koala may use there.",
    unset="all, where the batch system or the machine tells them",
)
@option(
    "--set",
    "wishes",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the batch system, a key of [lrm], as in partition=batch.",
)
@option(
    "--ssh-option",
    "options",
    multiple=True,
    metavar="ARGUMENT",
    help="A further argument for ssh.",
)
@option("--wheel", type=file, help="Wheel of Koala to install there.", unset="this installation")
@option(
    "--tunnel",
    multiple=True,
    type=WholeNumber(1, 65_535),
    metavar="PORT",
    help="Forward this port of HOST to this machine.",
)
@option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@option("--yes", is_flag=True, help="Carry out the plan without a question.")
@address_option
def connect(
    *,
    host: str,
    site: str | None,
    where: str,
    processors: int | None,
    wishes: tuple[str, ...],
    options: tuple[str, ...],
    wheel: Path | None,
    tunnel: tuple[int, ...],
    dry_run: bool,
    yes: bool,
) -> None:
    """Bring a host into the grid over ssh.

    Logs in, checks the batch system and the other requirements, shows its plan, and asks. Then it
    writes the agent's file, joins the grid and starts the agent: here, with every command of the
    batch system over ssh, or at the host. After an interruption run it again. For operators.
    """
    import asyncio

    from koala_agent.connect.plan import ConnectRequest
    from koala_agent.connect.site_record import SiteRecord, shared_control
    from koala_agent.transport.ssh_socket import log_in

    name = _site_name(site, host)
    settings = dict(map(_setting, wishes))
    daemon, user = ask(_caller)
    state_dir = str(Path.home() / STATE / name)
    control = shared_control(name, host, options) if where == "here" else ""
    record = SiteRecord(site=name, host=host, state_dir=state_dir, options=options, control=control)
    log_in(record.settings(), notify=note)
    request = ConnectRequest(
        site=name,
        host=host,
        is_there=where == "there",
        daemon=daemon,
        state_dir=f"~/{STATE}/{name}",
        user=user,
        options=options,
        control=control,
        processors=processors,
        wishes=settings,
    )
    work = Connecting(request=request, record=record, wheel=wheel, tunnel=tunnel)
    asyncio.run(work.run(is_dry=dry_run, is_agreed=yes))


def _site_name(given: str | None, host: str) -> str:
    """Return the name of a site, by default the first part of its host. Raises SpecError."""
    name = host.rpartition("@")[2].partition(".")[0] if given is None else given
    if SITE.fullmatch(name) is None:
        raise SpecError(
            f"--site {name!r} (expected letters, digits, '.', '_' and '-', at most 64, a letter"
            " or digit first)"
        )
    if given is None and name.isdecimal():
        raise SpecError(f"{host} is an address: give --site NAME")
    return name


def _setting(word: str) -> tuple[str, str]:
    """Return the key and the value of a setting. Raises SpecError."""
    key, equals, value = word.partition("=")
    if not (equals and key.strip() and value):
        raise SpecError(f"--set {word!r} (expected KEY=VALUE, as in partition=batch)")
    return key.strip(), value


async def _caller(client: AsyncClient) -> tuple[str, str]:
    return client.address, (await client.hello()).user


class Connecting:
    """One run of `koala site connect`, after the login."""

    def __init__(
        self,
        *,
        request: ConnectRequest,
        record: SiteRecord,
        wheel: Path | None,
        tunnel: tuple[int, ...],
    ) -> None:
        self._request = request
        self._record = record
        self._wheel = wheel
        self._tunnel = tunnel

    async def run(self, *, is_dry: bool, is_agreed: bool) -> None:
        """Look, show, ask and do. Raises KoalaError."""
        from koala.common.runtime import clock
        from koala_agent.connect import plan
        from koala_agent.connect.bring_up import INSTALL_S, ask_host
        from koala_agent.transport.ssh import SSHTransport

        settings = self._record.settings(INSTALL_S)
        site = SSHTransport(settings, environment={}, clock=clock.now, is_trial=True)
        async with site.connected(0):
            survey = await ask_host(site, self._request.host)
            found = plan.needs(survey, self._request)
            self._show_needs(found)
            if missing := [need.name for need in found if not need.is_met]:
                raise ConfigError(f"{self._request.host}: missing: {', '.join(missing)}; see above")
            chosen = await _settings(site, survey, self._request)
            tree = plan.configuration(survey, self._request, chosen)
            text = plan.file_text(tree, chosen)
            self._show_plan(text)
            if is_dry:
                note("dry run: nothing was changed; the ssh connection stays open")
                return
            _agree(is_agreed)
            if self._request.is_there:
                await self._bring_up_there(site, survey, text)
            else:
                await self._bring_up_here(text)

    def _show_needs(self, found: list[Need]) -> None:
        for need in found:
            print(f"{'ok' if need.is_met else 'FAILED':<8}{need.name}: {need.text}", flush=True)

    def _show_plan(self, text: str) -> None:
        from koala_agent.connect.plan import FOLDER

        request = self._request
        if request.is_there:
            print(f"\nAt {request.host}: install Koala below ~/{FOLDER}, write its file, join the")
            print(f"grid at {request.daemon} as {request.site}, start the agent in the background.")
        else:
            print(f"\nHere: write {self._config}, join the grid at {request.daemon} as")
            print(f"{request.site}, start the agent in the background. At {request.host}: nothing.")
        print(f"The agent's file:\n\n{text}", flush=True)

    @property
    def _config(self) -> Path:
        from koala_agent.connect.site_record import agent_file

        return agent_file(self._request.site)

    async def _token(self) -> str:
        from koala.client import AsyncClient

        async with AsyncClient(given_address()) as client:
            return str((await client.add_site(self._request.site)).token)

    async def _relay(self) -> str:
        """Return the address of the daemon's relay, which starts a little later than the daemon."""
        from koala.client import AsyncClient

        async with AsyncClient(given_address()) as client:
            return (await client.hello()).relay

    async def _bring_up_here(self, text: str) -> None:
        import asyncio

        from koala.common.identity.tls import JoinToken, identity_path
        from koala_agent.connect import bring_up, site_record
        from koala_agent.link.enrolment import join

        config = self._config
        site_record.keep(self._record)
        if not config.exists():
            config.write_text(text, encoding="utf-8")
            note(f"{config} is written")
        elif config.read_text(encoding="utf-8") != text:
            note(f"{config} differs, and is left as it is: remove it to have it written again")
        state_dir = Path(self._record.state_dir)
        if not identity_path(state_dir).exists():
            await join(JoinToken.parse(await self._token()), self._request.site, state_dir)
            note(f"{self._request.site} has joined")
        for verb in ("doctor", "start"):
            if status := await asyncio.to_thread(bring_up.local_agent, verb, config):
                raise ConfigError(f"koala-agent {verb} {config} ended with status {status}")

    async def _bring_up_there(self, site: SSHTransport, survey: Survey, text: str) -> None:
        import asyncio
        from tempfile import TemporaryDirectory

        from koala.common.identity.tls import JoinToken
        from koala_agent.connect import bring_up, plan, site_record, wheel
        from koala_agent.transport.ssh_socket import open_tunnel

        host = bring_up.Host(site=site, survey=survey, name=self._request.host)
        with TemporaryDirectory(prefix="koala-wheel-") as folder:
            made = self._wheel
            if made is None:
                made = await asyncio.to_thread(wheel.own_wheel, Path(folder))
            note(f"installing {made.name} at {host.name}: this takes up to a few minutes")
            agent = await host.install(made)
        config = await host.configure(self._request.site, text)
        state_dir = self._request.state_dir.replace("~", survey.home, 1)
        token = await self._token()
        port = await bring_up.agents_port(JoinToken.parse(token))
        python = f"{agent.rpartition('/')[0]}/python"
        ports = [
            one
            for one in plan.tunnel_ports(self._request.daemon, await self._relay(), port)
            if not await host.reaches(python, one)
        ]
        earlier = site_record.tunnel_of(self._request.site)
        self._record = site_record.with_tunnel(self._record, (*earlier, *ports, *self._tunnel))
        site_record.keep(self._record)
        for one in self._record.tunnel:
            await asyncio.to_thread(open_tunnel, self._record.settings(), one)
        if not await host.has_joined(state_dir):
            await host.join(agent, config, token)
            note(f"{self._request.site} has joined")
        print(await host.doctor(agent, config))
        print(await host.start(agent, config))


async def _settings(
    site: SSHTransport, survey: Survey, request: ConnectRequest
) -> tuple[Setting, ...]:
    """Collect what was found, with its reasons. Raises KoalaError where no processors are told."""
    from koala_agent.connect.capacity import ask_capacity
    from koala_agent.connect.plan import environment_of, settings_of
    from koala_agent.lrm.batch_system import Setting

    system, key = survey.system, "site.processors"
    given, advice = request.processors, "give --processors N, the most that Koala may use there"
    if system is None:
        count = given or survey.processors
        reason = "as you wish" if given else "those of the machine"
        return (Setting(key=key, value=count, reason=reason),)
    settings = settings_of(survey, system, request.wishes)
    try:
        environment = environment_of(survey, system)
        told = {one.key: one for one in await ask_capacity(system, settings, site, environment)}
    except LocalManagerError as error:
        if not given:
            raise ConfigError(f"{error}: {advice}") from error
        told = {}
    if given:
        told[key] = Setting(key=key, value=given, reason="as you wish")
    if key not in told:
        raise SpecError(f"{system.title} tells no processors: {advice}")
    return tuple({**told, **{one.key: one for one in settings}}.values())


def _agree(is_agreed: bool) -> None:
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise SpecError("standard input is not a terminal to ask: give --yes, or --dry-run")
    if not click.confirm("Go on?"):
        raise SystemExit(1)
