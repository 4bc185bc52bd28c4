"""Data types of a paper: figures and claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from math import nan
from string import ascii_lowercase
from typing import Self, TypeAlias

from koala.lab.sim.runs import Effort, Level, Outcome, Quantity, Run, most_are_saturated


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two quantities, taken within each replication as verdicts do; in percent of the
    other if `is_relative`."""

    one: Quantity
    other: Quantity
    is_relative: bool = False

    @property
    def of(self) -> tuple[Quantity, Quantity]:
        """Both quantities."""
        return self.one, self.other

    def contrast(self, one: float, other: float) -> float:
        """Take the difference of two values; nan is the share of nothing."""
        if self.is_relative and other == 0:
            return nan
        return 100 * (one - other) / other if self.is_relative else one - other


Drawn = Quantity | Difference
"""Quantity at one place of a chart, or the difference of two."""


def parts_of(drawn: Drawn) -> tuple[Quantity, ...]:
    """Return the quantities of which something drawn is made."""
    return drawn.of if isinstance(drawn, Difference) else (drawn,)


@dataclass(frozen=True, slots=True)
class Mark:
    """A number that the paper prints, drawn across a chart: a line, or a band up to `high`."""

    text: str
    low: float
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: bars or a line for each name, a quantity or a difference (None: nothing there) at
    each place on the x axis. Numbers on it make lines, words make groups of bars."""

    title: str
    x: tuple[float | str, ...]
    series: Mapping[str, Sequence[Drawn | None]]
    x_label: str = ""
    y_label: str = ""
    marks: tuple[Mark, ...] = ()

    @classmethod
    def over(
        cls,
        title: str,
        x: Sequence[float],
        lines: Mapping[str, Callable[[float], Drawn]],
        x_label: str,
        y_label: str,
    ) -> Self:
        """Make a chart of what each line has at each place."""
        series = {name: [of(place) for place in x] for name, of in lines.items()}
        return cls(title, tuple(x), series, x_label, y_label)

    @property
    def points(self) -> Iterator[tuple[str, float | str, Drawn]]:
        """List all that is drawn, each with its name and place."""
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
        drawn = (one for panel in self.panels for _, _, one in panel.points)
        return tuple(quantity for one in drawn for quantity in parts_of(one))


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
    """A sentence of a paper in our words; its id is section, hyphen, number."""

    text: str
    id: str = field(default="", kw_only=True)

    @property
    def section(self) -> str:
        """Section of the paper: the first part of the id."""
        return self.id.rpartition("-")[0]

    @property
    def place(self) -> tuple[tuple[int, ...], tuple[int, str]]:
        """Place in the text: the numbers of its section, and its number there with the letter of a
        reading. 5.4-10a follows 5.4-9; the abstract, A, comes first."""
        number = self.id.rpartition("-")[2]
        digits = number.rstrip(ascii_lowercase)
        section = tuple(int(part) for part in self.section.split(".") if part.isdigit())
        return section, (int(digits), number.removeprefix(digits))


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
    why_it_fails: str = ""
    """Why it fails, as far as it was found out."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """All that `koala reproduce` needs of a paper."""

    name: str
    title: str
    run: Callable[[Run], Outcome]
    """Makes a run. Pure and picklable: a function of a module."""
    efforts: Mapping[str, Effort]
    """Efforts by name: quick and full."""
    length_unit: str
    """Plural of what the length of a run counts: jobs, seconds."""
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    measures: str
    """Markdown: what the names of quantities mean, and their units."""
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
    readings_at: Mapping[Level, tuple[Level, ...]] = field(default_factory=dict)
    """Levels of which a reading is another version, where it is not one of all near saturation."""
    are_readings_quick: bool = True
    """If False, readings are left to the effort `full`: they take too long for a quick look."""
    untestable: tuple[Untestable, ...] = ()
    """Untested sentences of the text, so that the list of claims is complete."""
