"""What a paper is to a reproduction: settings that are run, figures and claims, all of it data."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koala.papers.claims import Claim

Setting = Hashable
"""One point of a paper's experiment: a frozen dataclass of that paper's module whose `str` is what
tables call it. Neither seed nor length of the run are in it, see `Run` and `Effort`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A load at which claims are tested. A paper's levels ascend; those that are near saturation
    are the ones of its charts, where a claim must hold to hold at all."""

    name: str
    is_near: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long and how often is run, and at which levels claims are tested."""

    name: str
    replications: int
    length: float
    """Of one run, in the unit of the paper: jobs or simulated seconds."""
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. Equal seeds mean the same job stream in every setting (common random numbers)."""

    setting: Setting
    seed: int
    effort: Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run measured, by the name of the metric; nan where nothing of the kind happened."""

    values: Mapping[str, float]
    is_saturated: bool = False
    notes: tuple[str, ...] = ()
    """What numbers do not say: why jobs had not ended."""


def most_are_saturated(outcomes: Sequence[Outcome]) -> bool:
    """More than half of the replications are."""
    return 2 * sum(outcome.is_saturated for outcome in outcomes) > len(outcomes)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric at a setting: what figures draw and claims compare."""

    setting: Setting
    metric: str
    name: str = ""
    """How tables call it; the setting and the metric without one."""

    def __str__(self) -> str:
        return self.name or f"{self.metric} of {self.setting}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A row of bars or a line: a quantity (None: nothing there) for each place on the axis."""

    name: str
    of: tuple[Quantity | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One chart. Numbers on the x axis make lines, words make groups of bars."""

    title: str
    x: tuple[float | str, ...]
    series: tuple[Series, ...]
    x_label: str = ""
    y_label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the paper, with the paper's number."""

    number: int
    title: str
    panels: tuple[Panel, ...]
    note: str = ""

    def quantities(self) -> tuple[Quantity, ...]:
        """All that is drawn."""
        return tuple(
            quantity
            for panel in self.panels
            for series in panel.series
            for quantity in series.of
            if quantity is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Untestable:
    """A sentence of a paper that no simulation of ours can speak to, and why."""

    id: str
    section: str
    text: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """Everything that `koala reproduce` needs to know of a paper."""

    name: str
    title: str
    run: Callable[[Run], Outcome]
    """Pure, and picklable: a function of a module."""
    efforts: Mapping[str, Effort]
    """By name: quick and full."""
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    ours: str
    """Markdown: which settings the paper does not print, and how they were chosen."""
    levels: str
    """Markdown: what the levels are, and what near saturation means in this paper."""
    diverging: tuple[str, ...] = ()
    """Prefixes of metrics that have no finite mean in a saturated system."""
    saturation: Callable[[Sequence[Outcome]], bool] = most_are_saturated
    """Whether a setting is saturated, from all its replications."""
    readings: tuple[Level, ...] = ()
    """Other ways to read what the paper leaves open. Claims are judged at them, too, without a say
    in their verdicts: it shows what these depend on."""
    untestable: tuple[Untestable, ...] = ()
    """What the text says and is not tested, so that the list of claims is whole."""
