"""Commands that follow jobs: wait, watch; and the live phases of `koala submit --wait`."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

import click
from click.exceptions import Exit

from koala.cli.arguments import WholeNumber, daemon_options, examples, jobs_argument, option
from koala.cli.jobs.interrupt import InterruptNotice
from koala.cli.output import is_json, note, print_json, say, screen
from koala.cli.requests import ask
from koala.common.runtime.progress_bar import QUIET_VARIABLE
from koala.errors import KoalaError
from koala.views.records.phases import TERMINAL_PHASES

if TYPE_CHECKING:
    from koala.client import AsyncClient

COPIES_EVERY_S = 2.0
COPIES_MAX = 20  # jobs whose copies are shown


@click.command
@jobs_argument
@daemon_options
def wait(*, jobs: Sequence[str]) -> None:
    """Wait until jobs are over.

    Exits with 0 only if all of them have Finished.
    """
    interrupt = InterruptNotice(jobs)
    with interrupt:
        ends = ask(lambda client: wait_until_over(client, jobs, interrupt=interrupt))
    if is_json():
        print_json({"jobs": [{"job": job, **end._asdict()} for job, end in ends.items()]})
    else:
        for job, end in ends.items():
            print(f"{job}  {end.phase}")
    for job, end in ends.items():
        if end.text:
            note(f"{job}: {end.text}")
    if any(end.phase != "Finished" for end in ends.values()):
        raise Exit(1)


@examples(
    "koala watch --site atlas",
    "koala watch --after 0 --job j12",
)
@click.command
@option(
    "--after", type=WholeNumber(-1), default=-1,
    help="Start after event N: 0 is the oldest one kept, -1 means only new ones.",
)  # fmt: skip
@option("--job", default="", metavar="JOB", help="Only this job.")
@option("--site", default="", metavar="SITE", help="Only this site.")
@daemon_options
def watch(*, after: int, job: str, site: str) -> None:
    """Print events as they happen.

    The command ends at Ctrl-C, with --job also when that job is over. Each line begins with the
    event's number. `--after` with the last number seen continues without gaps or duplicates. The
    command waits for a daemon that restarts.
    """
    from koala.cli.render.documents import notice_text

    interrupt = InterruptNotice([job] if job else [])

    async def request(client: AsyncClient) -> None:
        if job:
            interrupt.update(job, (await client.show(job)).phase)
        async for notice in client.watch(after=after, job=job, site=site):
            if is_json():
                print_json(notice, indent=None)
            else:
                print(notice_text(notice, screen()), flush=True)

    with interrupt:
        ask(request)


async def newest_notice(client: AsyncClient) -> int:
    """Return the number of the newest notice; a watch after it misses no later notice."""
    return (await client.metrics()).notices


class End(NamedTuple):
    """End of a job: its last phase, and the reason, if any."""

    phase: str
    text: str


async def wait_until_over(
    client: AsyncClient,
    jobs: Sequence[str],
    *,
    interrupt: InterruptNotice,
    after: int | None = None,
    every_event: bool = False,
    in_place: bool = True,
) -> dict[str, End]:
    """Wait for the ends of jobs and return them; show phases on standard error meanwhile.

    The phases shown are those of notices after `after`, or from now on.
    """
    begin = await newest_notice(client) if after is None else after
    summaries = {job: await client.show(job) for job in jobs}
    ends: dict[str, End] = {}
    is_quiet = bool(os.environ.get(QUIET_VARIABLE))
    is_live = sys.stderr.isatty() and in_place and not (every_event or is_quiet)
    with Progress(is_live=is_live, every_event=every_event, is_quiet=is_quiet) as progress:
        for job, summary in summaries.items():
            interrupt.update(job, summary.phase)
            if summary.is_over:
                ends[job] = End(summary.phase, summary.reason)
            elif after is None:
                progress.update(job, summary.phase, summary.reason)
        waited = summaries.keys() - ends.keys()
        if not waited:
            return ends
        async with _showing_copies(client, waited, progress, is_live=is_live):
            only = next(iter(waited)) if len(waited) == 1 else ""
            async for notice in client.watch(after=begin, job=only):
                if notice.job not in waited:
                    continue
                if notice.phase not in TERMINAL_PHASES:
                    progress.update(notice.job, notice.phase, notice.text)
                    continue
                interrupt.update(notice.job, notice.phase)
                waited.remove(notice.job)
                ends[notice.job] = End(notice.phase, notice.text)
                if not waited:
                    break
    for job in waited:  # over, but the daemon no longer keeps its notices
        summary = await client.show(job)
        ends[job] = End(summary.phase, summary.reason)
    return {job: ends[job] for job in jobs}


@asynccontextmanager
async def _showing_copies(
    client: AsyncClient, waited: Collection[str], progress: Progress, *, is_live: bool
) -> AsyncGenerator[None, None]:
    """Show on a terminal how far the copies are that the jobs wait for."""
    import asyncio

    from koala.cli.render.job_list import copying_text

    async def show() -> None:
        while True:
            await asyncio.sleep(COPIES_EVERY_S)
            with suppress(KoalaError):
                for job in await client.list_jobs(jobs=sorted(waited)[:COPIES_MAX]):
                    if job.copying is not None:
                        progress.update(job.job, job.phase, copying_text(job))

    showing = asyncio.gather(show()) if is_live else None
    try:
        yield
    finally:
        if showing is not None:
            showing.cancel()
            with suppress(asyncio.CancelledError):
                await showing


class Progress:
    """Phases of jobs on standard error: one line in place on a terminal, otherwise a line each.

    The line in place is erased at the end. A quiet user sees only events that were asked for.
    """

    def __init__(self, *, is_live: bool, every_event: bool, is_quiet: bool = False) -> None:
        self._is_live = is_live
        self._every_event = every_event
        self._is_quiet = is_quiet
        self._phases: dict[str, str] = {}

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_live and self._phases:
            sys.stderr.write("\r\x1b[2K" if kind is None else "\n")
            sys.stderr.flush()

    def update(self, job: str, phase: str, reason: str) -> None:
        """Show the phase if it is new, or if every event is shown."""
        from koala.cli.render.table import cut

        text = progress_text(job, phase, reason)
        if self._is_live:
            sys.stderr.write(f"\r\x1b[2K{cut(text, _terminal_width())}")
            sys.stderr.flush()
        elif self._every_event or (not self._is_quiet and phase != self._phases.get(job)):
            say(text)
        self._phases[job] = phase


def progress_text(job: str, phase: str, text: str) -> str:
    """Format the line for a job's phase."""
    from koala.cli.render.table import clean

    return f"{job}  {phase:<9}  {clean(text)}".rstrip()


def _terminal_width() -> int:
    import shutil

    return int(shutil.get_terminal_size().columns) - 1
