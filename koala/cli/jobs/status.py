"""Commands with one request about jobs: list, show, why, timeline, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from koala.cli.arguments import Address, JobName, Json
from koala.cli.connection import ask, is_coloured, say, show_json, width
from koala.errors import SpecError

if TYPE_CHECKING:
    from koala.client import Client

PHASES = (
    "Delayed",
    "Placing",
    "Claiming",
    "Starting",
    "Releasing",
    "Running",
    "Stopping",
    "Finished",
    "Failed",
    "Cancelled",
)


def list_jobs(
    phase: Annotated[
        list[str] | None,
        typer.Option("--phase", metavar="PHASE", help="Only jobs in this phase; may be repeated."),
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only your own jobs.")] = False,
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=0, help="Only the newest N; 0 means all.")
    ] = 0,
    past: Annotated[
        bool,
        typer.Option("--all", help="Also archived jobs, which ended long ago."),
    ] = False,
    json: Json = False,
    address: Address = None,
) -> None:
    """List jobs, in the order of their submission."""
    from koala.cli.render.documents import jobs_text

    phases = [_phase(name) for name in phase or ()]

    async def request(client: Client) -> list[dict[str, Any]]:
        owner = (await client.hello())["user"] if mine else ""  # the name that the daemon uses
        return await client.list_jobs(phases=phases, owner=owner, last=last, past=past)

    jobs = ask(address, request)
    if json:
        show_json(jobs)
    else:
        print(jobs_text(jobs, width=width(), coloured=is_coloured()))


def show(job: JobName, json: Json = False, address: Address = None) -> None:
    """Show a job: components with their sites, figures of its start, recent history."""
    from koala.cli.render.documents import job_text

    document = ask(address, lambda client: client.show(job))
    if json:
        show_json(document)
    else:
        print(job_text(document, width=width(), coloured=is_coloured()))


def why(job: JobName, json: Json = False, address: Address = None) -> None:
    """Explain why a job waits, or how it ended."""
    from koala.cli.render.documents import why_text

    document = ask(address, lambda client: client.why(job))
    if json:
        show_json(document)
    else:
        print(why_text(document))


def timeline(job: JobName, json: Json = False, address: Address = None) -> None:
    """Draw the timeline of a job, from submission to end.

    A submitted, B placed, C claimed, D started, E ended, with the times between (KOALA, figure 1).
    """
    from koala.cli.render.timeline import timeline_text

    document = ask(address, lambda client: client.timeline(job))
    if json:
        show_json(document)
    else:
        print(timeline_text(document, width=min(width() or 78, 120)))


def cancel(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.")],
    json: Json = False,
    address: Address = None,
) -> None:
    """Cancel jobs. A job that is over stays unchanged."""
    results = ask(address, lambda client: client.cancel(jobs))
    if json:
        show_json(results)
    for result in results:
        if result["error"]:
            say(f"koala cancel: {result['error']}")
        elif not json:
            print(f"{result['job']}  {result['phase']}")
    if any(result["error"] for result in results):
        raise typer.Exit(1)


def _phase(name: str) -> str:
    """Parse the name of a phase, in any case. Raises SpecError."""
    found = {phase.lower(): phase for phase in PHASES}.get(name.lower())
    if found is None:
        raise SpecError(f"--phase {name!r}: allowed are {', '.join(PHASES)}")
    return found
