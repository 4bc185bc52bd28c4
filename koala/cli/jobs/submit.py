"""`koala submit`: submit a description, and optionally wait for the job's end.

- The daemon parses the description, so that its meaning does not depend on the client's version.
- A submission without waiting needs only a connection, for a fast start.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import click
from click.exceptions import Exit

from koala.cli.arguments import (
    Number,
    SourceError,
    daemon_options,
    define_option,
    definitions_of,
    examples,
    option,
    read_text,
    source_argument,
)
from koala.cli.jobs.interrupt import InterruptNotice
from koala.cli.output import is_json, note, print_json, say
from koala.cli.requests import ask, call
from koala.common.runtime.progress_bar import QUIET_VARIABLE
from koala.errors import KoalaError, SpecError

if TYPE_CHECKING:
    from koala.client.client import AsyncClient
    from koala.client.connection import Connection
    from koala.job_descriptions.scripts.draft import ScriptSite

Shown: TypeAlias = Literal["phases", "events", "log"]
"""Display of a waiting command."""
TEXT_CHARACTERS_MAX = 1_000_000
"""Limit of `job_descriptions`, repeated here to avoid its import; longer texts stay unsent."""
SCRIPT_SUFFIXES = (".py", ".sh")
"""Ends of names that no job description has."""


class Submitted(Protocol):
    """Answer to a submission."""

    @property
    def job(self) -> str:
        """Id of the job; empty after a dry run."""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about the description."""

    @property
    def is_known(self) -> bool:
        """True if the key was used before."""

    @property
    def expected(self) -> str:
        """When the job of a dry run would start; else empty."""


@examples(
    "koala submit --watch job.yaml",
    "koala submit --dry-run -D STEPS=100 job.rsl",
    "koala submit train.sh",
    "koala submit --component atlas:train.sh --component boreas:train.sh",
)
@click.command
@source_argument(required=False)
@option(
    "--component", multiple=True, metavar="SITE:SCRIPT",
    help="A batch script with its directives as a component at this site (without SITE: at any"
    " site). It replaces FILE.",
)  # fmt: skip
@option("--show-rsl", is_flag=True, help="Print the job as RSL; do not submit it.")
@option("--wait", is_flag=True, help="Wait for the end; exit with 0 only if it Finished.")
@option("--watch", is_flag=True, help="Like --wait, and print every event of the job.")
@option("--logs", is_flag=True, help="Like --wait, and print what the programs write, live.")
@option("--dry-run", is_flag=True, help="Check the job without submitting it.")
@option(
    "--key", "keys", metavar="KEY", multiple=True,
    help="Idempotency key: the same key gives the same job.",
)  # fmt: skip
@option(
    "--reject-if-full",
    is_flag=True,
    help="Reject the job instead of delaying it when queues are full.",
)
@option(
    "--queue", default="", metavar="SITE",
    help="Submit to this site's local queue: a job of one component runs there only.",
)  # fmt: skip
@option(
    "--after", multiple=True, metavar="JOB",
    help="Place the job only after this job has ended well; JOB:any: however it ended.",
)  # fmt: skip
@option(
    "--group", default="", metavar="GROUP", help="Group of users that the job counts for.",
    unset="that of the description, else yours",
)  # fmt: skip
@option(
    "--retry-for", type=Number(0), default=0.0, metavar="SECONDS",
    help="How long to retry while the daemon is full.",
)  # fmt: skip
@define_option
@daemon_options
def submit(
    *,
    source: str,
    component: Sequence[str],
    show_rsl: bool,
    wait: bool,
    watch: bool,
    logs: bool,
    dry_run: bool,
    keys: Sequence[str],
    reject_if_full: bool,
    queue: str,
    after: Sequence[str],
    group: str,
    retry_for: float,
    define: Sequence[str],
) -> None:
    """Submit a job description or batch script.

    It prints the job's id.
    """
    if len(set(keys)) > 1:
        raise SpecError(f"--key is given {len(keys)} times, with different keys (expected one)")
    key = keys[0] if keys else None
    if key is not None and not key.strip():  # typical of an unset shell variable
        raise SpecError(f"--key {key!r}: the key is empty; leave out --key to submit without one")
    text = _chosen(source, component)
    definitions = definitions_of(text.encode(), source, define)
    if show_rsl:
        print(_as_rsl(text))
        return

    interrupt = InterruptNotice()
    interrupt.before = "nothing was submitted"
    shown: Shown = "log" if logs else "events" if watch else "phases"

    settings: dict[str, Any] = {
        "definitions": definitions,
        "key": key or "",
        "reject_if_full": reject_if_full,
        "queue": queue,
        "after": after,
        "group": group,
    }

    async def submit_only(daemon: Connection) -> None:
        from koala.client.batched_submission import submit_one
        from koala.client.submission import Submission

        submission = Submission(rsl=text, **settings)
        answer = submit_one(daemon, submission, dry_run=dry_run, retry_for_s=retry_for)
        await _announced(answer, interrupt, source=source, key=key, dry_run=dry_run)

    async def submit_and_wait(client: AsyncClient) -> bool:
        from koala.cli.jobs.follow import newest_notice

        since = await newest_notice(client)
        answer = client.submit(text, retry_for_s=retry_for, **settings)
        job = await _announced(answer, interrupt, source=source, key=key)
        return await _wait(client, job, interrupt, since, shown=shown)

    with interrupt:
        if dry_run or not (wait or watch or logs):
            call(submit_only)
        elif not ask(submit_and_wait):
            raise Exit(1)


async def _announced(
    answer: Awaitable[Submitted],
    interrupt: InterruptNotice,
    *,
    source: str,
    key: str | None,
    dry_run: bool = False,
) -> str:
    """Wait for the answer to a submission, print it, and return the job."""
    if not dry_run:
        interrupt.before = _unanswered(key)
    try:
        submitted = await answer
    except SpecError as error:
        raise SourceError(source, error) from error
    if submitted.job:
        interrupt.before = f"{submitted.job} was accepted"
        interrupt.add(submitted.job)
    try:
        print_submitted(submitted, is_dry_run=dry_run)
    except OSError as error:
        accepted = f"{submitted.job} was accepted, but " if submitted.job else ""
        reason = error.strerror or str(error)
        raise KoalaError(f"{accepted}standard output cannot be written: {reason}") from error
    return submitted.job


async def _wait(
    client: AsyncClient,
    job: str,
    interrupt: InterruptNotice,
    since: int,
    *,
    shown: Shown,
) -> bool:
    """Show phases, events or the log until the job is over; return True if it has Finished."""
    from koala.cli.jobs.follow import progress_text, wait_until_over

    if shown != "log" and not os.environ.get(QUIET_VARIABLE):
        note(f"koala logs -f {job} shows what it writes")
    waiting = wait_until_over(
        client,
        [job],
        interrupt=interrupt,
        after=since,
        every_event=shown == "events",
        in_place=shown != "log",
    )
    if shown == "log":
        from koala.cli.jobs.logs import show_logs_meanwhile

        ends = await show_logs_meanwhile(client, job, waiting)
    else:
        ends = await waiting
    end = ends[job]
    say(progress_text(job, end.phase, end.text))
    return end.phase == "Finished"


def _as_rsl(text: str) -> str:
    """Return a description in RSL; text that is RSL already stays as it is."""
    from koala.job_descriptions import read_job, write_job
    from koala.job_descriptions.document import is_document

    return write_job(read_job(text).spec) if is_document(text) else text


def _unanswered(key: str | None) -> str:
    """Return the message for a Ctrl-C between the submission and its answer."""
    if key:
        again = f"run it again with --key {shlex.quote(key)}: it prints that job, or submits it"
    else:
        again = "`koala list --mine` shows it then; with --key K you can repeat a command safely"
    return f"the daemon has not answered; the job may have been accepted: {again}"


def _chosen(source: str, components: Sequence[str]) -> str:
    """Read the description from a file, or build it from batch scripts. Raises SpecError."""
    if components and source:
        raise SpecError(f"{source!r} and --component cannot be combined")
    if components:
        return _rsl_of_components(components)
    if not source:
        raise SpecError("nothing to submit: give a FILE (- is standard input) or --component")
    text = _description(source)
    if text.startswith("#!") or source.endswith(SCRIPT_SUFFIXES):
        return _rsl_of_script(source, text)
    return text


def _rsl_of_script(source: str, text: str) -> str:
    """Convert a batch script to RSL: at the only site of its batch system, else at any. Raises
    SpecError for one without directives."""
    from koala.job_descriptions.scripts.reading import system_of_script

    system = system_of_script(text)
    if system is None:
        raise SpecError(
            f"{source!r} is a script without directives of a batch system (expected a job"
            " description or a batch script); run it with: koala run -- COMMAND"
        )
    sites = _known_sites()
    alike = [name for name, site in sites.items() if site.system == system]
    site = alike[0] if len(alike) == 1 else ""
    note(f"a batch script for {system}: at {site or 'any site; --component SITE:SCRIPT names one'}")
    return _rsl_of_scripts([(site, source, text)], sites)


def _rsl_of_components(components: Sequence[str]) -> str:
    """Convert `SITE:SCRIPT` words to RSL. Raises SpecError."""
    scripts = []
    for word in components:
        site, colon, path = word.rpartition(":")
        if not path or (colon and not site):
            raise SpecError(f"--component {word!r} (expected SITE:SCRIPT or SCRIPT)")
        scripts.append((site, path, _description(path)))
    is_named = any(site for site, _, _ in scripts)
    return _rsl_of_scripts(scripts, _known_sites() if is_named else {})


def _rsl_of_scripts(scripts: list[tuple[str, str, str]], sites: dict[str, ScriptSite]) -> str:
    """Convert scripts to RSL; print a warning for each ignored request."""
    from koala.job_descriptions.job_writer import write_job
    from koala.job_descriptions.scripts.reading import read_scripts

    job = read_scripts(scripts, sites=sites)
    for warning in job.warnings:
        note(f"warning: {warning}")
    return write_job(job.spec)


def _known_sites() -> dict[str, ScriptSite]:
    """Return what the daemon knows of its sites; without it nothing is known."""
    from koala.job_descriptions.scripts.draft import ScriptSite

    try:
        sites = ask(lambda client: client.sites())
    except KoalaError:  # the submission itself tells it
        return {}
    return {
        each.site: ScriptSite(name=each.site, system=each.system, takes_native=each.takes_native)
        for each in sites
        if each.system is not None
    }


def _description(source: str) -> str:
    """Read a description as UTF-8. Raises SpecError with the line of an invalid byte."""
    text = read_text(source)
    if text.startswith(b"\x7fELF"):
        raise SpecError(
            f"{source!r} is a program (expected a job description or a batch script); run it with:"
            " koala run -- COMMAND"
        )
    try:
        description = text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise SpecError(
            f"{source!r}, line {line}: byte 0x{text[error.start]:02x} is not UTF-8 (expected text"
            " in UTF-8)"
        ) from error
    if len(description) > TEXT_CHARACTERS_MAX:
        raise SpecError(
            f"{source!r} has {len(description)} characters: a job description may have"
            f" {TEXT_CHARACTERS_MAX}"
        )
    return description


def print_submitted(submitted: Submitted, *, is_dry_run: bool) -> None:
    """Print the warnings of a submission, and the job's id."""
    for warning in submitted.warnings:
        note(f"warning: {warning}")
    if is_json():
        print_json(
            {
                "job": submitted.job,
                "is_known": submitted.is_known,
                "is_dry_run": is_dry_run,
                "warnings": list(submitted.warnings),
                "expected": submitted.expected,
            }
        )
    elif is_dry_run:
        note("would be accepted; nothing was submitted")
        if submitted.expected:
            note(submitted.expected)
    else:
        if submitted.is_known:
            note("this key was used before; this is its job")
        print(submitted.job, flush=True)
