"""`koala simulate sq`: synchronous queuing against strict admission control (SQ 5)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from koala.cli.research import simulation_options as shared

if TYPE_CHECKING:
    from koala.papers.synchronous.simulation import Summary

WORDS = {
    "skew_eq2": ("skew by equation (2), mean over cycles", "s"),
    "skew_eq2_largest": ("  its largest value", "s"),
    "skew_finish": ("difference of finish times", "s"),
    "qos_conformance": ("cycles within the overall deviation", ""),
    "effective_cycles": ("quanta given within the asynchrony", ""),
    "acceptance_ratio": ("tasks accepted", ""),
    "corrections": ("corrections a task", ""),
}


def sq(
    *,
    scheme: Annotated[
        str, typer.Option(help="SQ: synchronous queuing; QoS: strict admission control.")
    ] = "SQ",
    machines: Annotated[
        int, typer.Option(min=1, max=1_000, help="Machines, and the most subtasks of a task.")
    ] = 5,
    interarrival: Annotated[
        float, typer.Option(help="Mean seconds between tasks of each of the three kinds.")
    ] = 10.0,
    beta: Annotated[float, typer.Option(help="Over-subscription that SQ admits.")] = 0.05,
    quantum: Annotated[
        float, typer.Option(help="Seconds of a quantum; a schedule cycle is 100 quanta.")
    ] = 0.1,
    partition: Annotated[
        str,
        typer.Option(help="soft: unused time of a queue goes to the others; hard: it is lost."),
    ] = "soft",
    test: Annotated[
        str,
        typer.Option(help="Figure 5: corrected; or printed: all are corrected in every cycle."),
    ] = "corrected",
    dummy: Annotated[
        str,
        typer.Option(help="start: it holds the unallocated share; demand: slow-downs create it."),
    ] = "start",
    mapping: Annotated[
        str,
        typer.Option(
            help="least: the least loaded machines; fit: the least loaded with room; random."
        ),
    ] = "least",
    release: Annotated[
        str, typer.Option(help="Weight is released at the real or at the agreed end.")
    ] = "real",
    tasks: Annotated[
        int, typer.Option(min=1, max=shared.JOBS_MAX, help="Tasks of each of the three kinds.")
    ] = 1500,
    seed: shared.Seed = 1,
    reps: shared.Reps = 3,
    workers: shared.Workers = 0,
    as_json: shared.JSON = False,
    jobs_out: shared.JobsOut = None,
    plot: shared.Plot = None,
) -> None:
    """Simulate subtasks that must advance together, on machines with other users.

    Each machine shares its processor among local tasks, Grid QoS subtasks and Grid best-effort
    tasks, quantum by quantum. SQ watches the subtasks of each task and slows down or speeds up
    those that drift apart; QoS admits tasks strictly and leaves them alone. --jobs-out writes the
    QoS tasks of the first replication.
    """
    from koala.papers.synchronous.simulation import Setting, simulate, simulate_to_file, summarize

    setting = Setting(
        scheme=shared.one_of("scheme", scheme, ("SQ", "QoS")),
        machines=machines,
        interarrival_s=interarrival,
        beta=beta,
        quantum_s=quantum,
        partition=shared.one_of("partition", partition, ("soft", "hard")),
        test=shared.one_of("test", test, ("corrected", "printed")),
        dummy=shared.one_of("dummy", dummy, ("start", "demand")),
        mapping=shared.one_of("mapping", mapping, ("least", "fit", "random")),
        release=shared.one_of("release", release, ("real", "agreed")),
        tasks=tasks,
    )
    shared.check_outputs(jobs_out, plot)
    run = partial(simulate, setting)
    with shared.jobs_file(jobs_out) as part:
        if part is not None:
            run = partial(simulate_to_file, setting, part, seed)
        done = shared.replications(run, seed, reps, workers)
        shared.keep_jobs(part, jobs_out, is_whole=done.has(seed))
    found = summarize(done.results)
    document = {**found.document(), "replications": len(done.finished)}
    shared.show(document, as_json=as_json, text=lambda: _table(found, len(done.finished)))
    if plot is not None:
        from koala.papers.synchronous.simulation.drawing import draw

        draw(done.results, plot)
    if done.is_interrupted:
        raise typer.Exit(shared.INTERRUPTED)


def _table(found: Summary, replications: int) -> str:
    lines = [
        f"{words:<38} {found.metrics[name]!s:>20} {unit}".rstrip()
        for name, (words, unit) in WORDS.items()
    ]
    lines.append(
        f"{found.accepted} of {found.tasks} tasks accepted;"
        f" 95 % confidence intervals over {replications} replications"
    )
    return "\n".join(lines)
