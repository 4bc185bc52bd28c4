"""`koala run`: run one command on several sites at once, and show its output.

The command is submitted as a job whose components all run it. Output is shown live, each line
behind the site and the process that wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
from click.exceptions import Exit

from koala.cli.arguments import WholeNumber, daemon_options, examples, option, read_definitions
from koala.cli.jobs.follow import newest_notice, wait_until_over
from koala.cli.jobs.interrupt import InterruptNotice, offer_to_cancel
from koala.cli.jobs.logs import show_logs_meanwhile
from koala.cli.jobs.submit import print_submitted
from koala.cli.output import note
from koala.cli.requests import ask
from koala.errors import SpecError

if TYPE_CHECKING:
    from koala.client import AsyncClient, Job

STATUS_MAX = 125
"""Largest exit status that is passed on; shells use those above."""

OPTIONS = {
    "wall_time": "--time",
    "memory": "--memory",
    "gpus": "--gpus",
    "processors": "--processes",
    "site": "--site",
    "totalCount": "--total",
    "name": "--name",
    "after": "--after",
    "output_files": "--output",
    "outputs": "--output",
    "stage": "--stage",
}
"""Maps attributes of the job that is made to the options that set them."""


@examples(
    "koala run --sites 2 -n 4 -- hostname",
    "koala run --site atlas --site boreas --time 1h -- python train.py",
    "koala run --site atlas -n 3 --site boreas -n 4 -- hostname",
    "koala run --stage tools --output 'results/*.csv' -- tools/measure.sh",
)
@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@option("--site", multiple=True, metavar="SITE", help="Run on this site.", unset="any")
@option(
    "--sites",
    type=WholeNumber(1, 1000),
    metavar="N",
    help="Run on N different sites.",
    unset="1, or as many as --site",
)
@option(
    "-n", "--processes", type=WholeNumber(1), multiple=True, metavar="N",
    help="Processes on each site, or on that of the --site in the same place.", unset="1",
)  # fmt: skip
@option(
    "--total", type=WholeNumber(1), metavar="N",
    help="Processes on all sites together, split over those with most idle processors; --site"
    " names the ones that may be used.",
)  # fmt: skip
@option(
    "--time", "wall_time", metavar="TIME", help="Time limit, such as 30 (minutes) or 1h30m.",
    unset="that of the site's batch system",
)  # fmt: skip
@option(
    "--memory", metavar="SIZE", help="Memory that each process needs, such as 4G.",
    unset="that of the site's batch system",
)  # fmt: skip
@option("--gpus", type=WholeNumber(1), metavar="N", help="GPUs on each site.", unset="none")
@option("--name", metavar="NAME", help="Name of the job.", unset="that of the command")
@option("--env", multiple=True, metavar="NAME=VALUE", help="Set a variable.")
@option(
    "--output",
    multiple=True,
    metavar="FILE",
    help="File to bring back (koala outputs), or a pattern.",
)
@option(
    "--stage", multiple=True, type=click.Path(exists=True), metavar="PATH",
    help="File or folder of this machine to take along.",
)  # fmt: skip
@option("--after", multiple=True, metavar="JOB", help="Run after this job has ended; see submit.")
@option(
    "--group", metavar="GROUP", help="Group of users that the job counts for.",
    unset="your default one",
)  # fmt: skip
@option("--detach", is_flag=True, help="Print the job's id and return; do not wait.")
@click.argument("command", metavar="-- COMMAND [ARGUMENT]...", nargs=-1, required=True)
@daemon_options
def run(
    *,
    site: Sequence[str],
    sites: int | None,
    processes: Sequence[int],
    total: int | None,
    wall_time: str | None,
    memory: str | None,
    gpus: int | None,
    name: str | None,
    env: Sequence[str],
    output: Sequence[str],
    stage: Sequence[str],
    after: Sequence[str],
    group: str | None,
    detach: bool,
    command: Sequence[str],
) -> None:
    """Run a command on several sites at the same time.

    The output is shown live. The exit status is that of the command: 0 only if all processes ended
    with 0. Ctrl-C asks whether the job is to be cancelled.
    """
    from koala.client import Component, Job

    if site and sites is not None:
        raise SpecError(f"--sites {sites} and --site {site[0]} (expected only one of them)")
    if twice := next((site_name for site_name in site if site.count(site_name) > 1), None):
        raise SpecError(
            f"--site {twice} is given twice (expected once; -n N runs more processes there)"
        )
    if total is not None and (processes or sites is not None):
        other = f"-n {processes[0]}" if processes else f"--sites {sites}"
        raise SpecError(f"--total {total} and {other} (expected only one of them)")
    names: list[str | None] = [*site] or [None] * (sites or 1)
    allowed = site if total is not None else ()
    if total is not None:
        names = [None]
    if len(processes) > 1 and len(processes) != len(site):
        words = " ".join(f"-n {count}" for count in processes)
        raise SpecError(
            f"{words} (expected one, or one for each --site, as in --site atlas -n 3 --site"
            " boreas -n 4)"
        )
    sizes = processes if len(processes) > 1 else [*processes, None][:1] * len(names)
    components = [
        Component(
            executable=command[0],
            arguments=command[1:],
            site=site_name,
            sites=allowed,
            processors=size,
            environment=read_definitions(env, option="--env"),
            wall_time=wall_time,
            memory=memory,
            gpus=gpus,
            output_files=[pattern for pattern in output if not _is_pattern(pattern)],
            outputs=[pattern for pattern in output if _is_pattern(pattern)],
            stage=stage,
        )
        for site_name, size in zip(names, sizes, strict=True)
    ]
    job = Job(
        name=name or Path(command[0]).name,
        distinct=len(names) > 1 and not site,
        after=after,
        group=group,
        total_processors=total,
        components=components,
    )
    try:
        job.check()
    except SpecError as error:
        raise _in_options(error) from error
    interrupt = InterruptNotice()
    interrupt.before = "nothing was submitted"
    try:
        with interrupt:
            end = ask(lambda client: _run(client, job, interrupt, detach=detach))
    except KeyboardInterrupt:
        offer_to_cancel(interrupt)
        raise
    if end is not None and end.phase != "Finished":
        note(f"{end.job} {end.phase}: {end.text}")
        raise Exit(end.status if 0 < end.status <= STATUS_MAX else 1)


def _in_options(error: SpecError) -> SpecError:
    """Name options in place of a description's attributes and lines, and each mistake once."""
    mistakes = []
    for mistake in (error, *error.others):
        attribute, colon, text = mistake.message.partition(":")
        mistakes.append(f"{OPTIONS.get(attribute, attribute)}{colon}{text}")
    return SpecError("\n".join(dict.fromkeys(mistakes)))


class _JobEnd(NamedTuple):
    """End of the job, and the exit status of its programs."""

    job: str
    phase: str
    text: str
    status: int


async def _run(
    client: AsyncClient, job: Job, interrupt: InterruptNotice, *, detach: bool
) -> _JobEnd | None:
    """Submit the job, show its output until it is over, and return its end."""
    after = await newest_notice(client)
    submitted = await client.submit(job)
    interrupt.before = ""
    interrupt.add(submitted.job)
    if detach:
        print_submitted(submitted, is_dry_run=False)
        return None
    for warning in submitted.warnings:
        note(f"warning: {warning}")
    note(f"submitted {submitted.job}")
    waiting = wait_until_over(
        client, [submitted.job], interrupt=interrupt, after=after, in_place=False
    )
    ends = await show_logs_meanwhile(client, submitted.job, waiting, by_site=True)
    end = ends[submitted.job]
    status = (await client.show(submitted.job)).status
    return _JobEnd(submitted.job, end.phase, end.text, 1 if status is None else status)


def _is_pattern(name: str) -> bool:
    """Return True for a pattern of files, such as `*.csv` or `plots/`."""
    return name.endswith("/") or any(character in name for character in "*?[")
