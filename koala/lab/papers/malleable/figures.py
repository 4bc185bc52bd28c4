"""Figures of our own questions about malleable jobs; those of the paper are not at hand."""

from __future__ import annotations

from collections.abc import Iterable

from koala.lab.papers.malleable.points import FIXED, MALLEABLE, MIXED, POLICIES, RATES, Reading, of
from koala.lab.papers.paper import Difference, Figure, Panel

NOTE = "The question and the figure are ours, not the paper's."
MANAGERS, FIRST = ("FPSMA", "EGS"), ("PRA", "PWA")
RESPONSE, SIZE, WAIT = "mean response time, s", "mean processors of a job", "mean wait, s"
RATE = "jobs a minute"


def _means(
    title: str,
    metric: str,
    label: str,
    policies: Iterable[str],
    reading: Reading = Reading(),  # noqa: B008 - frozen
) -> Panel:
    series = {name: [of(name, metric, rate, reading) for rate in RATES] for name in policies}
    return Panel(title, RATES, series, RATE, label)


def _paired(
    title: str,
    metric: str,
    label: str,
    pairs: Iterable[tuple[str, str, str]],
    reading: Reading = Reading(),  # noqa: B008 - frozen
    *,
    is_relative: bool = True,
) -> Panel:
    """Chart differences within the same jobs: a name, and two policies."""
    series = {
        name: [
            Difference(
                of(policy, metric, rate, reading), of(other, metric, rate, reading), is_relative
            )
            for rate in RATES
        ]
        for name, policy, other in pairs
    }
    unit = (
        f"{label.partition(',')[0]}: difference, percent" if is_relative else f"{label}: difference"
    )
    return Panel(title, RATES, series, RATE, unit)


def _managers() -> list[tuple[str, str, str]]:
    return [(f"EGS less FPSMA, {first}", f"EGS {first}", f"FPSMA {first}") for first in FIRST]


def _precedences() -> list[tuple[str, str, str]]:
    return [(f"PWA less PRA, {name}", f"{name} PWA", f"{name} PRA") for name in MANAGERS]


FIGURES = (
    Figure(
        number=1,
        title="Does malleability shorten response times?",
        panels=(
            _means("", "response.all", RESPONSE, [one for one in POLICIES if one != "least"]),
            *(
                _paired(
                    f"against {shape}, paired",
                    "response.all",
                    RESPONSE,
                    [(name, name, shape) for name in MALLEABLE],
                )
                for shape in FIXED
            ),
        ),
        note=f"{NOTE} Jobs keep their least or their most processors, or what was idle at their"
        " start (moldable); or they are malleable.",
    ),
    Figure(
        number=2,
        title="Do jobs have more processors under FPSMA or under EGS?",
        panels=(
            _means("", "size.all", SIZE, MALLEABLE),
            _paired("mean sizes, paired", "size.all", SIZE, _managers()),
            _paired("FT alone, paired", "size.ft", SIZE, _managers()),
            _paired("GADGET-2 alone, paired", "size.gadget", SIZE, _managers()),
            _paired("response times, paired", "response.all", RESPONSE, _managers()),
        ),
        note=NOTE,
    ),
    Figure(
        number=3,
        title="Does precedence to waiting jobs cut waits?",
        panels=(
            _means("all jobs malleable", "wait.all", WAIT, MALLEABLE),
            _paired("paired", "wait.all", WAIT, _precedences(), is_relative=False),
            _paired("response times, paired", "response.all", RESPONSE, _precedences()),
            _means("half rigid: the rigid ones", "wait.rigid", WAIT, MALLEABLE, MIXED),
            _paired("paired, rigid", "wait.rigid", WAIT, _precedences(), MIXED, is_relative=False),
            _paired(
                "half rigid: response times of the malleable ones, paired",
                "response.shaped", RESPONSE, _precedences(), MIXED,
            ),
        ),
        note=NOTE,
    ),
)  # fmt: skip
