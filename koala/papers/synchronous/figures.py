"""Figures 7 to 10 of the synchronous-queuing paper, each with its two charts."""

from __future__ import annotations

from koala.papers.paper import Figure, Panel
from koala.papers.synchronous.points import DENSE_S, LEVELS, MACHINES, SCHEMES, SPARSE_S
from koala.papers.synchronous.quantities import of

CHARTS = ((LEVELS[0], DENSE_S), (LEVELS[1], SPARSE_S))


def _figure(number: int, title: str, metrics: dict[str, str], note: str = "") -> Figure:
    panels = tuple(
        Panel(
            title=f"{label}, every {at_s:g} s",
            x=MACHINES,
            series={
                scheme: [of(level, scheme, metric, count, at_s) for count in MACHINES]
                for scheme in SCHEMES
            },
            x_label="machines",
            y_label=label,
        )
        for metric, label in metrics.items()
        for level, at_s in CHARTS
    )
    return Figure(number, title, panels, note)


FIGURES = (
    _figure(
        7,
        "Variation of co-allocation skew with the number of machines",
        {"skew_eq2": "skew by equation (2), s", "skew_finish": "difference of finish times, s"},
        note="The paper has one curve for each scheme and defines the skew in both ways.",
    ),
    _figure(
        8,
        "QoS conformance with the number of machines",
        {"qos_conformance": "QoS conformance"},
    ),
    _figure(
        9,
        "Effective cycles delivered for the number of machines",
        {"effective_cycles": "effective cycles"},
    ),
    _figure(
        10,
        "Acceptance ratio with the number of machines",
        {"acceptance_ratio": "acceptance ratio"},
    ),
)
