"""Commands with one request about jobs: list, show, why, timeline, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.exceptions import Exit

from koala.cli.arguments import (
    STANDARD_INPUT,
    OneOf,
    WholeNumber,
    daemon_options,
    examples,
    file,
    job_argument,
    jobs_argument,
    offered,
    option,
    read_instant,
)
from koala.cli.output import is_json, note, print_answer, print_json, print_list, screen
from koala.cli.requests import ask
from koala.common.runtime import clock
from koala.common.runtime.option_values import did_you_mean
from koala.errors import DeniedError, RejectedError, SpecError
from koala.views.records.phases import PHASES

if TYPE_CHECKING:
    from koala.client import AsyncClient
    from koala.views.records.jobs import JobSummary


@examples(
    "koala list --mine --phase running",
    "koala list --last 10 --format job,phase,sites",
)
@click.command("list")
@option(
    "--phase", type=OneOf(PHASES), multiple=True, metavar="PHASE",
    help="Only jobs in this phase.",
)  # fmt: skip
@option("--mine", is_flag=True, help="Only your own jobs.")
@option("--user", default="", metavar="USER", help="Only jobs of this user.")
@option(
    "--since",
    metavar="INSTANT",
    help="Only jobs submitted since then: 12h, 7d, yesterday, or ISO 8601.",
)
@option("--site", metavar="SITE", help="Only jobs placed at this site.")
@option("--last", type=WholeNumber(0), default=0, help="Only the newest N; 0 means all.")
@option("--all", "past", is_flag=True, help="Also archived jobs, which ended long ago.")
@option(
    "--format", "form", metavar="COLUMNS",
    help="Columns with commas between, as in job,phase,sites; or a template for each line, as in"
    " '{job} {phase}', with the names of --json.",
    unset="a table",
)  # fmt: skip
@daemon_options
def list_jobs(
    *,
    phase: Sequence[str],
    mine: bool,
    user: str,
    since: str | None,
    site: str | None,
    last: int,
    past: bool,
    form: str | None,
) -> None:
    """List jobs, in the order of their submission."""
    from koala.cli.render.job_list import read_format

    since_at = read_instant("--since", since)
    if mine and user:
        raise SpecError("--mine and --user cannot be combined")
    render = read_format("--format", form, now=clock.unix_now())
    is_filtered = since_at is not None or site is not None

    async def request(client: AsyncClient) -> list[JobSummary]:
        owner = (await client.hello()).user if mine else user  # the name that the daemon uses
        newest = 0 if is_filtered else last
        found = await client.list_jobs(phases=phase, owner=owner, last=newest, past=past)
        chosen = [
            job
            for job in found
            if (since_at is None or float(job.submitted_at) >= since_at)
            and (site is None or site in job.sites)
        ]
        if site is not None and not chosen:
            await _check_site(client, site)
        if user and not found:
            await _check_user(client, user)
        return chosen[-last:] if last else chosen

    jobs = ask(request)
    print_list("jobs", jobs, lambda: render(jobs, screen()))


async def _check_site(client: AsyncClient, name: str) -> None:
    """Check that the grid has a site. Raises SpecError."""
    _check_known("--site", name, [site.site for site in await client.sites()])


async def _check_user(client: AsyncClient, name: str) -> None:
    """Check that there is a user, where the caller may know all. Raises SpecError."""
    try:
        known = [user.user for user in await client.users()]
    except (DeniedError, RejectedError):  # not an administrator; or plain text, without users
        return
    _check_known("--user", name, known)


def _check_known(option: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        names, hint = ", ".join(known) or "none", did_you_mean(name, known)
        raise SpecError(f"{option} {name} is unknown (expected one of {names}{hint})")


@click.command
@job_argument
@daemon_options
def show(*, job: str) -> None:
    """Show a job's components, start and recent history."""
    from koala.cli.render.documents import job_text

    shown = ask(lambda client: client.show(job))
    print_answer(shown, lambda: job_text(shown, screen()))


@click.command
@job_argument
@daemon_options
def why(*, job: str) -> None:
    """Explain why a job waits, or how it ended."""
    from koala.cli.render.documents import why_text

    shown = ask(lambda client: client.why(job))
    print_answer(shown, lambda: why_text(shown))


@examples(
    "koala timeline j12",
    "koala timeline --svg j12.svg j12",
    "koala timeline --grid --since 2026-11-30T09:00 --svg grid.svg",
)
@click.command
@click.argument("job", metavar="[JOB]", default="", help="The job's id.", **offered(names_of="job"))
@option("--grid", is_flag=True, help="All claims over the sites, in place of one job.")
@option(
    "--since", metavar="INSTANT", help="With --grid: begin of the period (ISO 8601).",
    unset="half an hour before its end",
)  # fmt: skip
@option("--until", metavar="INSTANT", help="With --grid: its end.", unset="now")
@option("--site", metavar="SITE", help="With --grid: only this site, with a line for each claim.")
@option("--svg", type=file, metavar="FILE", help="Write it as a picture; - prints it.")
@daemon_options
def timeline(
    *,
    job: str,
    grid: bool,
    since: str | None,
    until: str | None,
    site: str | None,
    svg: Path | None,
) -> None:
    """Draw the course of a job, or of the whole grid.

    Each line is a component at a site, each kind of bar a character. The letters are A submitted, B
    placed, C claimed, D started, E ended, with the times between below (KOALA, figure 1).
    """
    if svg is not None and is_json():
        raise SpecError("--svg and --json cannot be combined")
    if bool(job) == grid:
        raise SpecError("timeline: expected a job, or --grid")
    if not grid and any((since, until, site)):
        raise SpecError("--since, --until and --site: allowed with --grid only")
    if grid:
        since_at, until_at = read_instant("--since", since), read_instant("--until", until)
        whole = ask(
            lambda client: client.grid_timeline(since=since_at, until=until_at, site=site or "")
        )
        if svg is not None:
            from koala.views.grid_chart import GridChart

            _write_picture(GridChart(whole, opened=[site] if site else []).document(), svg)
            return
        from koala.cli.render.gantt import grid_text

        print_answer(whole, lambda: grid_text(whole, screen().for_drawing))
        return
    shown = ask(lambda client: client.timeline(job))
    if svg is not None:
        from koala.views.gantt import gantt
        from koala.views.gantt_svg import gantt_svg
        from koala.views.records.base import seconds_of

        _write_picture(gantt_svg(gantt(shown, seconds_of(shown.now_at) or 0.0)), svg)
        return
    from koala.cli.render.timeline import timeline_text

    print_answer(shown, lambda: timeline_text(shown, screen().for_drawing))


def _write_picture(text: str, path: Path) -> None:
    """Write a picture in SVG."""
    from koala.common.runtime.atomic_file import write_atomically

    if str(path) == STANDARD_INPUT:
        print(text, end="")
    else:
        write_atomically(path, text)


@examples(
    "koala resize j12 24",
)
@click.command
@job_argument
@click.argument("processors", metavar="PROCESSORS", type=WholeNumber(1))
@daemon_options
def resize(*, job: str, processors: int) -> None:
    """Ask for another size of a malleable job.

    It grows up to so many PROCESSORS when they are idle. To shrink, its newest components are asked
    to give way."""
    shown = ask(lambda client: client.resize(job, processors))
    print_answer(shown, lambda: f"{shown.job}  {processors} processors wanted")


@examples(
    "koala cancel j12 j13",
)
@click.command
@jobs_argument
@daemon_options
def cancel(*, jobs: Sequence[str]) -> None:
    """Cancel jobs. A job that is over stays unchanged."""
    results = ask(lambda client: client.cancel(jobs))
    if is_json():
        print_json({"jobs": results})
    for result in results:
        if result.error:
            note(result.error)
        elif not is_json():
            print(f"{result.job}  {result.phase}")
    if any(result.error for result in results):
        raise Exit(1)
