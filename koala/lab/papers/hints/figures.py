"""Figure 2 of the hints paper: response times by class, and over the share of I/O-bound jobs."""

from __future__ import annotations

from koala.lab.papers.hints.points import FRACTIONS, HEAVY, INSIDE, POLICIES, Reading, of, response
from koala.lab.papers.hints.simulation.counting import KINDS, LABELS
from koala.lab.papers.paper import Difference, Figure, Mark, Panel

PERCENTAGES = tuple(100 * fraction for fraction in FRACTIONS)

BY_CLASS = Panel(
    title="20 % I/O-bound jobs",
    x=tuple(LABELS[kind] for kind in KINDS),
    series={policy: [response(policy, kind=kind) for kind in KINDS] for policy in POLICIES},
    y_label="mean response time, s",
)


def _by_share(title: str, reading: Reading) -> Panel:
    return Panel(
        title=title,
        x=PERCENTAGES,
        series={
            policy: [response(policy, part, reading) for part in FRACTIONS] for policy in POLICIES
        },
        x_label="I/O-bound jobs, percent",
        y_label="mean response time, s",
    )


def _gain(title: str, reading: Reading) -> Panel:
    """Chart by how much Service differs from the others, in percent of theirs."""
    return Panel(
        title=title,
        x=PERCENTAGES,
        series={
            f"Service against {policy}": [
                Difference(
                    response("Service", part, reading),
                    response(policy, part, reading),
                    is_relative=True,
                )
                for part in FRACTIONS
            ]
            for policy in POLICIES[:-1]
        },
        x_label="I/O-bound jobs, percent",
        y_label="difference, percent of the other policy's response time",
        marks=(Mark("up to 30 % better", -30.0),),
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
        panels=(
            BY_CLASS,
            _by_share("heavy load", Reading()),
            _gain("heavy load, paired", Reading()),
            _by_share("inside capacity", Reading(rate=INSIDE)),
            _gain("inside capacity, paired", Reading(rate=INSIDE)),
            BUSIEST,
        ),
        note=f"The heavy load, {HEAVY:g} jobs a second, is more than jobs that insist on their "
        f"preferred rate can use; {INSIDE:g} is inside capacity. The first chart has the heavy "
        "load. The numbers on the paper's axes are not known to us.",
    ),
)
