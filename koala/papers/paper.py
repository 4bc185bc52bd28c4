"""Data types of a paper: settings to run, figures and claims."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

Setting = Hashable
"""One point of a paper's experiment: a frozen dataclass of that paper's module whose `str` is what
tables call it. Neither seed nor length of the run are in it, see `Run` and `Effort`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A load at which claims are tested. A paper's levels ascend. Those near saturation are the
    loads of its charts; a claim must hold there to hold at all."""

    name: str
    is_near: bool = False

    def __str__(self) -> str:
        return self.name


def changes(reading: Any, number: str = "") -> str:  # noqa: ANN401 - a dataclass
    """Name the fields of a reading that differ from their defaults; `number` is the format of those
    that are no words."""
    found = [
        f"{one.name} {value if isinstance(value, str) else format(value, number)}"
        for one in fields(reading)
        if (value := getattr(reading, one.name)) != one.default
    ]
    return ", ".join(found) or "as read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Length and number of runs, and the levels at which claims are tested."""

    name: str
    replications: int
    length: float
    """Length of one run, in the unit of the paper: jobs or simulated seconds."""
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. Equal seeds mean the same job stream in every setting (common random numbers)."""

    setting: Setting
    seed: int
    effort: Effort


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Measurements of a run by the name of the metric; nan where nothing of the kind happened."""

    values: Mapping[str, float]
    is_saturated: bool = False
    notes: tuple[str, ...] = ()
    """Remarks beside the numbers: why jobs had not ended."""


def most_are_saturated(outcomes: Sequence[Outcome]) -> bool:
    """True if more than half of the replications are saturated."""
    return 2 * sum(outcome.is_saturated for outcome in outcomes) > len(outcomes)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A metric at a setting: the unit that figures draw and claims compare."""

    setting: Setting
    metric: str
    name: str = ""
    """Name in tables; the setting and the metric without one."""

    def __str__(self) -> str:
        return self.name or f"{self.metric} of {self.setting}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: bars or a line for each name, a quantity (None: nothing there) at each place on
    the x axis. Numbers on it make lines, words make groups of bars."""

    title: str
    x: tuple[float | str, ...]
    series: Mapping[str, Sequence[Quantity | None]]
    x_label: str = ""
    y_label: str = ""

    @property
    def points(self) -> Iterator[tuple[str, float | str, Quantity]]:
        """List all quantities that are drawn, each with its name and place."""
        for name, quantities in self.series.items():
            for x, quantity in zip(self.x, quantities, strict=True):
                if quantity is not None:
                    yield name, x, quantity


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper, with the paper's number."""

    number: int
    title: str
    panels: tuple[Panel, ...]
    note: str = ""

    def quantities(self) -> tuple[Quantity, ...]:
        """List all quantities that are drawn."""
        return tuple(quantity for panel in self.panels for _, _, quantity in panel.points)


class Rule(StrEnum):
    """Share of the comparisons of a level that must hold."""

    ALL = "all"
    MOST = "most"


class Part(StrEnum):
    """Part of a claim that a comparison tests: is it so, and as much as the text says."""

    DIRECTION = "direction"
    SIZE = "size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A contrast of quantities, positive where the claim is right."""

    text: str
    of: tuple[Quantity, ...]
    contrast: Callable[..., float]
    part: Part = Part.DIRECTION
    where: str = ""
    """The conditions that the quantities share and that their names omit."""
    is_of_every_run: bool = False
    """If True, a single run in which the contrast is not positive refutes the claim."""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" if self.where else self.text


Found: TypeAlias = "Comparison | Iterable[Found]"
"""Result of a test: its comparisons, however they are nested."""


def listed(found: Found) -> tuple[Comparison, ...]:
    """Return the comparisons of a test, one after the other."""
    if isinstance(found, Comparison):
        return (found,)
    return tuple(comparison for one in found for comparison in listed(one))


Test = Callable[[Level], Found]
"""Makes the comparisons of a level; none where the sentence does not speak of that level."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a paper in our words. Papers list their sentences in tables by id, see
    `numbered`."""

    text: str
    id: str = field(default="", kw_only=True)

    @property
    def section(self) -> str:
        """Section of the paper: the first part of the id."""
        return self.id.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class Claim(Sentence):
    """A sentence of a paper and its test."""

    test: Test
    _: KW_ONLY
    figures: tuple[int, ...] = ()
    """Numbers of the figures that it is about."""
    rule: Rule = Rule.ALL
    reading: str = ""
    """The reading of the sentence, where the test needs an explanation."""

    def at(self, level: Level) -> tuple[Comparison, ...]:
        """Return the comparisons of a level."""
        return listed(self.test(level))

    def comparisons(self, levels: Sequence[Level]) -> tuple[Comparison, ...]:
        """Return the comparisons of all levels."""
        return tuple(one for level in levels for one in self.at(level))


@dataclass(frozen=True, slots=True)
class Untestable(Sentence):
    """A sentence of a paper that our simulations cannot test, and why."""

    reason: str


OneKind = TypeVar("OneKind", bound=Sentence)


def numbered(*tables: Mapping[str, OneKind]) -> tuple[OneKind, ...]:
    """Give each sentence of the tables its id: section, hyphen, number."""
    rows = [row for table in tables for row in table.items()]
    assert len(rows) == len(dict(rows)), "two sentences with one id"
    return tuple(replace(sentence, id=number) for number, sentence in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """All that `koala reproduce` needs of a paper."""

    name: str
    title: str
    run: Callable[[Run], Outcome]
    """Makes a run. Pure and picklable: a function of a module."""
    efforts: Mapping[str, Effort]
    """Efforts by name: quick and full."""
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    ours: str
    """Markdown: settings that the paper does not print, and the reason for each choice."""
    levels: str
    """Markdown: the levels, and the meaning of near saturation in this paper."""
    diverging: tuple[str, ...] = ()
    """Prefixes of metrics that have no finite mean in a saturated system."""
    saturation: Callable[[Sequence[Outcome]], bool] = most_are_saturated
    """Judges from all replications of a setting whether it is saturated."""
    readings: tuple[Level, ...] = ()
    """Other readings of what the paper leaves open. Claims are judged under them too, without
    effect on their verdicts; that shows how far verdicts depend on the reading."""
    untestable: tuple[Untestable, ...] = ()
    """Untested sentences of the text, so that the list of claims is complete."""
