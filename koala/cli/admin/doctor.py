"""`koala doctor`: check everything between the user and a first job."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from koala.cli.arguments import daemon_options
from koala.cli.output import is_json, print_json
from koala.cli.requests import ask
from koala.common.runtime import clock
from koala.common.runtime.checkup import Check, Finding, NotableError, document, examine, is_well
from koala.errors import DeniedError, KoalaError

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.client.records import DaemonInfo, SiteStatus

CLOCK_OFFSET_S_MAX = 5.0
"""Deadlines are instants; programs and people compare them with their own clocks."""
EXPIRY_S = 7 * 86_400.0
"""Time before the end of credentials from which on it is worth a warning."""
FREE_BYTES_MIN = 1_000_000_000
SITES_NAMED_MAX = 10
SMALLEST = "&(executable=/bin/true)(maxWallTime=1)"


@click.command
@daemon_options
def doctor() -> None:
    """Check what a first job needs, from address to disks.

    Each check has a line: ok, warning or FAILED, with what to do. Exits with 0 if none has failed.
    `koala-agent doctor CONFIG.toml` checks a site.
    """

    def show(finding: Finding) -> None:
        if not is_json():
            from koala.cli.output import clean_lines

            print(clean_lines(finding.line), flush=True)

    async def request(client: AsyncClient) -> list[Finding]:
        examination = Examination(client)
        found = await examine({"daemon": examination.daemon}, show)
        checks = examination.checks if is_well(found) else {"disk here": disk_here}
        return [*found, *await examine(checks, show)]

    findings = ask(request)
    if is_json():
        print_json(document(findings))
    if not is_well(findings):
        raise Exit(1)


class Examination:
    """The checks of a daemon, by its client."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._info: DaemonInfo
        self._offset_s = 0.0
        self._took_s = 0.0
        self.checks: dict[str, Check] = {
            "identity": self._identity,
            "versions": self._versions,
            "clock": self._clock,
            "sites": self._sites,
            "submission": self._submission,
            "disk of the daemon": self._disk,
            "disk here": disk_here,
        }

    async def daemon(self) -> str:
        """Check that the daemon answers."""
        await self._client.hello()  # connects
        begun_s, begun_at = clock.now(), clock.unix_now()
        self._info = info = await self._client.hello()
        self._took_s = clock.now() - begun_s
        self._offset_s = info.now.timestamp() - begun_at - self._took_s / 2
        return f"{self._client.address} answers in {1_000 * self._took_s:.0f} ms"

    async def _identity(self) -> str:
        from koala.views.waiting import span

        article = "a" if self._info.role == "user" else "an"
        shown = self._client.credentials_source
        text = f"you are {self._info.user}, {article} {self._info.role} (credentials: {shown})"
        if self._info.expires_at is None:
            return text
        left_s = (self._info.expires_at - self._info.now).total_seconds()
        left = f"{text}; they expire in {span(left_s)}"
        if left_s < EXPIRY_S:
            raise NotableError(f"{left}: ask for koala user set {self._info.user} --expires 90d")
        return left

    async def _versions(self) -> str:
        from koala.common.runtime.software import software_version

        own = software_version()
        sites = {site.site: site.version for site in await self._client.sites() if site.version}
        others = {name: found for name, found in sites.items() if found != self._info.version}
        if own != self._info.version:
            raise NotableError(
                f"this client is {own}, the daemon {self._info.version}: install the daemon's"
                " version here, as `pip install koala-scheduler==VERSION`"
            )
        if others:
            named = ", ".join(f"{name} {found}" for name, found in sorted(others.items()))
            raise NotableError(
                f"the daemon is {own}, other versions are at {named}: its administrators install"
                " the daemon's version and restart the agent; jobs go on"
            )
        return f"client, daemon and {len(sites)} connected agents are {own}"

    async def _clock(self) -> str:
        named = f"{abs(self._offset_s):.2f} s {'ahead of' if self._offset_s > 0 else 'behind'}"
        if abs(self._offset_s) > CLOCK_OFFSET_S_MAX + self._took_s:
            raise NotableError(
                f"the daemon's clock is {named} this machine's (expected at most"
                f" {CLOCK_OFFSET_S_MAX:g} s, since deadlines are instants); run NTP on both"
            )
        return f"the daemon's is {named} this machine's"

    async def _sites(self) -> str:
        sites = await self._client.sites()
        usable = [site for site in sites if site.state == "usable" and not site.trouble]
        others = [site for site in sites if site not in usable]
        named = "; ".join(_state(site) for site in others[:SITES_NAMED_MAX])
        more = f"; {len(others) - SITES_NAMED_MAX} more" if others[SITES_NAMED_MAX:] else ""
        if not sites:
            raise KoalaError(
                "you see none: an operator adds one with `koala site add`, or gives you access"
            )
        text = f"{len(usable)} of {len(sites)} usable"
        if not usable:
            raise KoalaError(f"{text}: {named}{more}; run `koala-agent doctor CONFIG.toml` there")
        if others:
            raise NotableError(f"{text}: {named}{more}; `koala-agent doctor CONFIG.toml` tells why")
        idle = sum(site.idle for site in usable)
        return f"{text}; {idle} of {sum(site.processors for site in usable)} processors are idle"

    async def _submission(self) -> str:
        submitted = await self._client.submit(SMALLEST, dry_run=True)
        if submitted.warnings:
            raise NotableError("; ".join(submitted.warnings))
        return "a small job would be accepted (nothing was submitted)"

    async def _disk(self) -> str:
        try:
            disk = (await self._client.metrics()).disk
        except DeniedError:
            return "only an operator can see it"
        free = _gigabytes(disk.free_bytes)
        if disk.is_low:
            raise KoalaError(
                f"{free} are free: it accepts no jobs until an administrator makes room"
            )
        return f"{free} are free"


async def disk_here() -> str:
    """Check that outputs have room in the present folder."""
    folder = Path.cwd()
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < FREE_BYTES_MIN:
        raise NotableError(f"{_gigabytes(free_bytes)} are free in {folder}: outputs need room")
    return f"{_gigabytes(free_bytes)} are free in {folder}"


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB"


def _state(site: SiteStatus) -> str:
    return f"{site.site}: {site.state}" + (f" ({site.trouble})" if site.trouble else "")
