"""Figures 7 to 10 of the synchronous-queuing paper, each with its two charts."""

from __future__ import annotations

from collections.abc import Iterator

from koala.lab.papers.paper import Difference, Figure, Mark, Panel
from koala.lab.papers.synchronous.claims import of
from koala.lab.papers.synchronous.points import (
    DENSE_S,
    LEVELS,
    MACHINES,
    SCHEMES,
    SPARSE_S,
    SWEEP_S,
)

CHARTS = ((LEVELS[0], DENSE_S), (LEVELS[1], SPARSE_S))
WINDOWS = Mark("windows drawn from 100 to 500 s", 100, 500)
AGAINST = "SQ less QoS, paired"


def _panels(metric: str, label: str, *marks: Mark) -> Iterator[Panel]:
    """Make the two charts of a metric, and one of the differences between the schemes."""
    for level, at_s in CHARTS:
        yield Panel(
            title=f"every {at_s:g} s",
            x=MACHINES,
            series={
                scheme: [of(level, scheme, metric, count, at_s) for count in MACHINES]
                for scheme in SCHEMES
            },
            x_label="machines",
            y_label=label,
            marks=marks,
        )
    yield Panel(
        title=AGAINST,
        x=MACHINES,
        series={
            f"every {at_s:g} s": [
                Difference(
                    of(level, "SQ", metric, count, at_s), of(level, "QoS", metric, count, at_s)
                )
                for count in MACHINES
            ]
            for level, at_s in CHARTS
        },
        x_label="machines",
        y_label=label,
    )


def _swept(metric: str, label: str) -> Panel:
    """Chart a metric over all interarrival times of table 2."""
    return Panel(
        title=f"over the interarrival times of table 2, {SWEPT} machines",
        x=SWEEP_S,
        series={
            scheme: [of(LEVELS[1], scheme, metric, SWEPT, at_s) for at_s in SWEEP_S]
            for scheme in SCHEMES
        },
        x_label="seconds between tasks",
        y_label=label,
    )


SWEPT = MACHINES[-1]
SKEW = "skew by equation (2), s"
FINISH = "difference of finish times, s"

FIGURES = (
    Figure(
        number=7,
        title="Variation of co-allocation skew with the number of machines",
        panels=(
            *_panels("skew_eq2", SKEW, WINDOWS),
            *_panels("skew_finish", FINISH, WINDOWS),
            *_panels("skew_eq2.several", f"{SKEW}; tasks of 2 subtasks or more", WINDOWS),
            _swept("skew_eq2", SKEW),
            _swept("skew_finish", FINISH),
        ),
        note="The paper has one curve for each scheme and defines the skew in both ways.",
    ),
    Figure(
        number=8,
        title="QoS conformance with the number of machines",
        panels=(
            *_panels("qos_conformance", "share of the cycles of tasks"),
            *_panels("conforming_tasks", "share of the tasks, in all their cycles"),
        ),
        note="The paper defines it for cycles (5.1) and for tasks (5.4).",
    ),
    Figure(
        number=9,
        title="Effective cycles delivered for the number of machines",
        panels=(
            *_panels("effective_cycles", "share of the quanta"),
            *_panels("synchronous_tasks", "share of the tasks, in all their cycles"),
        ),
        note="The paper defines them for cycles (5.1) and for tasks (5.4).",
    ),
    Figure(
        number=10,
        title="Acceptance ratio with the number of machines",
        panels=tuple(_panels("acceptance_ratio", "share of the tasks submitted")),
    ),
)
