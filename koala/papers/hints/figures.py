"""Figure 2 of the hints paper: response times by class, and over the share of I/O-bound jobs."""

from __future__ import annotations

from koala.papers.hints.points import FRACTIONS, POLICIES, of, response
from koala.papers.hints.simulation.counting import KINDS, LABELS
from koala.papers.paper import Figure, Panel

PERCENTAGES = tuple(100 * fraction for fraction in FRACTIONS)

BY_CLASS = Panel(
    title="20 % I/O-bound jobs",
    x=tuple(LABELS[kind] for kind in KINDS),
    series={policy: [response(policy, kind=kind) for kind in KINDS] for policy in POLICIES},
    y_label="mean response time, s",
)
BY_SHARE = Panel(
    title="heavy load",
    x=PERCENTAGES,
    series={policy: [response(policy, part) for part in FRACTIONS] for policy in POLICIES},
    x_label="I/O-bound jobs, percent",
    y_label="mean response time, s",
)
BUSIEST = Panel(
    title="the busiest link (not in the paper)",
    x=PERCENTAGES,
    series={
        policy: [of(policy, "busiest_link", part) for part in FRACTIONS] for policy in POLICIES
    },
    x_label="I/O-bound jobs, percent",
    y_label="share of its bandwidth in use",
)

FIGURES = (
    Figure(
        number=2,
        title="Response times by class, and with varying class representation",
        panels=(BY_CLASS, BY_SHARE, BUSIEST),
    ),
)
