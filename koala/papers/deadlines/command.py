"""`koala simulate deadlines`: jobs with a required start beside local users (Deadlines 2, 3)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from koala.cli.research import simulation_options as shared
from koala.errors import ConfigError

if TYPE_CHECKING:
    from koala.papers.deadlines.simulation import Summary

POLICIES = {"GP": "kill", "LP": "fail"}
UNITS = {"local_response": "s"}
WORDS = {
    "success_rate": "deadlines met",
    "local_kill_rate": "local jobs killed",
    "total_load": "busy or claimed",
    "global_load": "busy with global jobs",
    "local_load": "busy with local jobs",
    "wasted": "claimed before the deadline",
    "local_response": "response time of local jobs",
}


def deadlines(
    *,
    policy: Annotated[
        str,
        typer.Option(help="GP: at its deadline a job may kill local jobs; LP: it fails."),
    ] = "GP",
    lp: Annotated[
        float,
        typer.Option(help="Lp: share of the time to the deadline that passes before a try."),
    ] = 0.7,
    mp: Annotated[int, typer.Option(help="Mp: tries 0 to Mp are made.")] = 10,
    wait: Annotated[
        float, typer.Option(help="Wait-X: ignore a job until X s before its deadline; inf: never.")
    ] = 10.0,
    local_load: Annotated[float, typer.Option(help="Offered load of local users.")] = 0.3,
    global_load: Annotated[float, typer.Option(help="Offered load of global jobs.")] = 0.2,
    lead: Annotated[
        str, typer.Option(metavar="LOW:HIGH", help="Seconds from submission to deadline; uniform.")
    ] = "1:3599",
    sites: Annotated[str, typer.Option(help="Processors of each site.")] = "4x32",
    components: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH",
            help="Components of a global job; uniform.  [default: 2 to the number of sites]",
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH",
            help="Processors of a global component.  [default: 4 to the smallest site]",
        ),
    ] = None,
    local_sizes: Annotated[
        str | None,
        typer.Option(
            metavar="LOW:HIGH", help="Processors of a local job.  [default: 1 to the smallest site]"
        ),
    ] = None,
    q: Annotated[float, typer.Option(help="q of D(q), of which sizes are drawn.")] = 0.9,
    uniform_sizes: Annotated[
        bool, typer.Option("--uniform-sizes", help="Draw global sizes uniformly, not of D(q).")
    ] = False,
    global_run: Annotated[float, typer.Option(help="Mean run time of global jobs, s.")] = 200.0,
    local_run: Annotated[float, typer.Option(help="Mean run time of local jobs, s.")] = 100.0,
    killed: Annotated[
        str, typer.Option(help="Killed local jobs: lost, or requeue: back to their queue's head.")
    ] = "lost",
    time: Annotated[float, typer.Option(help="Simulated seconds, the warm-up included.")] = 3e6,
    warmup: Annotated[float, typer.Option(help="Simulated seconds that are not counted.")] = 3e5,
    seed: shared.Seed = 1,
    reps: shared.Reps = 5,
    workers: shared.Workers = 0,
    as_json: shared.JSON = False,
    jobs_out: shared.JobsOut = None,
    plot: shared.Plot = None,
) -> None:
    """Simulate jobs with deadlines on clusters with local users.

    The components of a global job must start together at its deadline. Tries to place and claim
    them come ever closer to it (the Repeated Placement Policy with Lp, Mp and Wait-X). Events in
    the warm-up are not counted. One replication gives batch means. --jobs-out writes the jobs of
    the first replication.
    """
    from koala.papers.deadlines.simulation import Setting, simulate, simulate_to_file, summarize

    setting = Setting(
        at_deadline=POLICIES[shared.one_of("policy", policy, tuple(POLICIES))],
        fraction=lp,
        tries_max=mp,
        wait_s=wait,
        local_load=local_load,
        global_load=global_load,
        lead_s=_span("lead", lead),
        sites=shared.sites("sites", sites),
        components=_bounds("components", components),
        sizes=_bounds("sizes", sizes),
        local_sizes=_bounds("local-sizes", local_sizes),
        q=q,
        is_uniform=uniform_sizes,
        global_run_s=global_run,
        local_run_s=local_run,
        is_requeued=shared.one_of("killed", killed, ("lost", "requeue")) == "requeue",
        time_s=time,
        warmup_s=warmup,
    )
    shared.check_outputs(jobs_out, plot)
    run = partial(simulate, setting)
    with shared.jobs_file(jobs_out) as part:
        if part is not None:
            run = partial(simulate_to_file, setting, part, seed)
        done = shared.replications(run, seed, reps, workers)
        shared.keep_jobs(part, jobs_out, is_whole=done.has(seed))
    found = summarize(setting, done.results)
    document = {**found.document(), "replications": len(done.finished)}
    shared.show(document, as_json=as_json, text=lambda: _table(found, len(done.finished)))
    if plot is not None:
        from koala.papers.deadlines.simulation.drawing import draw

        draw(setting, done.results, plot)
    if done.is_interrupted:
        raise typer.Exit(shared.INTERRUPTED)


def _span(option: str, text: str) -> tuple[float, float]:
    ends = shared.numbers(option, text, separator=":")
    if len(ends) != 2:
        raise ConfigError(f"--{option} {text}: allowed is LOW:HIGH, for instance 1:3599")
    return ends[0], ends[1]


def _bounds(option: str, text: str | None) -> tuple[int, int] | None:
    return None if text is None else shared.bounds(option, text)


def _table(found: Summary, replications: int) -> str:
    lines = [
        f"{words:<28} {found.metrics[name]!s:>20} {UNITS.get(name, '%')}"
        for name, words in WORDS.items()
    ]
    by = f"{replications} replications" if replications > 1 else "batches of one replication"
    lines.append(
        f"{found.deadlines} deadlines and {found.local_jobs} local jobs counted;"
        f" 95 % confidence intervals over {by}"
    )
    if found.is_saturated:
        lines.append("saturated: local queues grow without end, and their figures grow with time")
    return "\n".join(lines)
