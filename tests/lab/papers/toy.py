"""A paper with two policies whose response times are known: what the framework is tried on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from koala.lab.papers.comparisons import close, higher, lower, lower_by
from koala.lab.papers.paper import (
    Claim,
    Comparison,
    Figure,
    Panel,
    Paper,
    Rule,
    Untestable,
)
from koala.lab.sim.runs import Effort, Level, Outcome, Quantity, Run

LOW, HIGH = Level(name="low"), Level(name="high", is_near=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A policy at a load."""

    policy: str
    load: float

    def __str__(self) -> str:
        return f"{self.policy} at {self.load:g}"


MEANS = {
    ("slow", 0.5): 2.0,
    ("quick", 0.5): 2.0,
    ("slow", 0.9): 9.0,
    ("quick", 0.9): 6.0,
    ("worst", 0.5): 4.0,
}


def run(one: Run) -> Outcome:
    """Responses share a large noise of the seed and have a small one of their own."""
    point = one.setting
    assert isinstance(point, Point)
    shared, own = Random(one.seed), Random(f"{one.seed} {point}")
    mean = MEANS.get((point.policy, point.load), float("nan"))
    response = mean + shared.gauss(0, 1.0) + own.gauss(0, 0.01)
    is_saturated = point == Point(policy="worst", load=0.9)
    return Outcome(values={"response": response}, is_saturated=is_saturated)


def response(policy: str, load: float) -> Quantity:
    """Its mean response time."""
    return Quantity(Point(policy=policy, load=load), "response", f"{policy} {load:g}")


def at(level: Level, policy: str) -> Quantity:
    """Its mean response time at a level."""
    return response(policy, 0.9 if level.is_near else 0.5)


def quicker(level: Level) -> Comparison:
    """Quick is quicker: at high load only."""
    return lower(at(level, "quick"), at(level, "slow"))


CLAIMS = (
    Claim(
        "worst is higher than quick",
        lambda level: higher(at(level, "worst"), at(level, "quick")),
        figures=(1,),
        id="1-1",
    ),
    Claim("quick is quicker", quicker, id="1-2", figures=(1,)),
    Claim(
        "quick is slower",
        lambda level: higher(at(level, "quick"), at(level, "slow")),
        figures=(1, 2),
        id="1-3",
        why_it_fails="quick is quick",
    ),
    Claim(
        "quick is quicker by less than a hundredth of itself, or more",
        lambda level: lower_by(0.5, at(level, "quick"), at(level, "slow")),
        reading="undecided by construction",
        id="2-1",
    ),
    Claim(
        "in most cases quick is close to slow",
        lambda level: (
            *close(response("quick", 0.5), response("slow", 0.5)),
            higher(at(level, "quick"), at(level, "slow")),
        ),
        rule=Rule.MOST,
        id="2-2",
    ),
    Claim(
        "quick is quicker on the left and slower on the right",
        lambda level: (
            replace(quicker(level), where="left"),
            replace(higher(at(level, "quick"), at(level, "slow")), where="right"),
        ),
        id="2-3",
    ),
)

FIGURES = (
    Figure(
        number=1,
        title="Bars",
        panels=(
            Panel(
                title="response",
                x=("0.5", "0.9"),
                series={
                    name: (response(name, 0.5), response(name, 0.9))
                    for name in ("slow", "quick", "worst")
                },
                y_label="time",
            ),
        ),
        note="With SAT.",
    ),
    Figure(
        number=2,
        title="Lines",
        panels=(
            Panel(
                title="response",
                x=(0.5, 0.9),
                series={
                    "slow": (response("slow", 0.5), None),
                    "quick": (response("quick", 0.5), response("quick", 0.9)),
                },
                x_label="load",
            ),
        ),
    ),
)

PAPER = Paper(
    name="toy",
    title="A toy",
    run=run,
    length_unit="jobs",
    efforts={"quick": Effort(name="quick", replications=6, length=10, levels=(LOW, HIGH))},
    figures=FIGURES,
    claims=CLAIMS,
    measures="Responses are in seconds.",
    ours="All of it.",
    levels="Low and high.",
    diverging=("response",),
    untestable=(Untestable("users like it", "there are no users", id="3-1"),),
)
