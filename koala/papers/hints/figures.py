"""Figure 2 of the hints paper: response times by class, and over the share of I/O-bound jobs."""

from __future__ import annotations

from koala.papers.hints.points import FRACTIONS, POLICIES, of, response
from koala.papers.hints.simulation.counting import KINDS
from koala.papers.paper import Figure, Panel, Series

LABELS = {"all": "all jobs", "io": "I/O-bound", "cpu": "CPU-bound"}

BY_CLASS = Panel(
    title="20 % I/O-bound jobs",
    x=tuple(LABELS[kind] for kind in KINDS),
    series=tuple(
        Series(name=policy, of=tuple(response(policy, kind=kind) for kind in KINDS))
        for policy in POLICIES
    ),
    y_label="mean response time, s",
)
BY_SHARE = Panel(
    title="heavy load",
    x=tuple(100 * fraction for fraction in FRACTIONS),
    series=tuple(
        Series(name=policy, of=tuple(response(policy, fraction) for fraction in FRACTIONS))
        for policy in POLICIES
    ),
    x_label="I/O-bound jobs, percent",
    y_label="mean response time, s",
)
BUSIEST = Panel(
    title="the busiest link (not in the paper)",
    x=BY_SHARE.x,
    series=tuple(
        Series(name=policy, of=tuple(of(policy, "busiest_link", part) for part in FRACTIONS))
        for policy in POLICIES
    ),
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
