"""Names of measured quantities and load levels that the claims of the KOALA paper share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from koala.papers.claims import MUCH, ascending, higher
from koala.papers.koala.points import ANY, SHAPES, LoadLevel, Watched, changed
from koala.papers.koala.simulation.setting import Setting
from koala.papers.paper import Comparison, Level, Quantity

Test = Callable[[Setting], Iterable[Comparison]]
WORDS = {
    "response_s": "response",
    "placement_s": "placement time",
    "start_delay_s": "start delay",
    "failures_percent": "failures",
    "failures_per_job": "failures a job",
    "coallocated_percent": "co-allocated",
    "attempts": "placements",
    "placement_tries": "placement tries",
    "claiming_tries": "claiming tries",
    "extra_claiming_tries": "additional claiming tries",
    "preemptions_per_job": "preempted",
    "processor_wasted_s": "processor-seconds wasted",
    "sites": "sites",
}


def everywhere(test: Test) -> Callable[[Level], tuple[Comparison, ...]]:
    """Test at each regular load."""

    def find(level: Level) -> tuple[Comparison, ...]:
        return tuple(test(level.setting)) if isinstance(level, LoadLevel) else ()

    return find


def once(*comparisons: Comparison) -> Callable[[Level], tuple[Comparison, ...]]:
    """Test once, because no regular load matters."""
    return lambda level: comparisons if level == ANY else ()


def of(setting: Setting, measure: str, group: str = "all", name: str = "") -> Quantity:
    """Return a measure of a group of jobs (`all`, `72`, `72x8`, `72.high`, `72x8.low`)."""
    said = name or ("" if group == "all" else group)
    return Quantity(setting, f"{measure}.{group}", f"{WORDS[measure]} {said}".rstrip())


def whole(setting: Setting | Watched, metric: str, name: str) -> Quantity:
    """Return a measure of the whole run."""
    return Quantity(setting, metric, name)


def against(setting: Setting, change: str, measure: str, group: str = "all") -> list[Quantity]:
    """Return a measure of the experiment, and of the experiment with one thing changed."""
    said = "" if group == "all" else f"{group} "
    return [
        of(setting, measure, group, f"{said}as in the paper"),
        of(changed(setting, change), measure, group, change),
    ]


def shapes(setting: Setting, measure: str, size: int, priority: str = "") -> tuple[Quantity, ...]:
    """Return a measure of the jobs of a size by number of components, the fewest first."""
    end = f".{priority}" if priority else ""
    return tuple(
        of(setting, measure, f"{size}x{count}{end}") for one, count in SHAPES if one == size
    )


def grows(setting: Setting, measure: str) -> Iterable[Comparison]:
    """Test growth with the number of components, for each size."""
    yield from ascending(*shapes(setting, measure, 36))
    yield from ascending(*shapes(setting, measure, 72))


def by_priority(setting: Setting, measure: str) -> tuple[tuple[Quantity, Quantity], ...]:
    """Compare high and low priority, for each size and number of components."""
    return tuple(
        (
            of(setting, measure, f"{size}x{count}.high"),
            of(setting, measure, f"{size}x{count}.low"),
        )
        for size, count in SHAPES
    )


def much_more(setting: Setting, measure: str, one: str, other: str) -> Comparison:
    """Test that a group has much more of it than another."""
    return higher(of(setting, measure, one), of(setting, measure, other), by=MUCH)


def shown(text: str, contrast: Callable[..., float], *quantities: Quantity) -> Comparison:
    """Make a comparison of a special form."""
    return Comparison(text=text, of=quantities, contrast=contrast)


def above(one: Quantity, bound: float, unit: str = "") -> Comparison:
    """Test that a quantity is higher than a number."""
    return shown(f"{one} > {bound:g} {unit}".rstrip(), lambda value: value - bound, one)


def equal(one: Quantity, number: float) -> Comparison:
    """Test that a quantity is this number in every run."""
    return Comparison(
        text=f"{one} = {number:g}",
        of=(one,),
        contrast=lambda value: 1e-9 - abs(value - number),
        is_of_every_run=True,
    )


def same(one: Quantity, other: Quantity) -> Comparison:
    """Test that two quantities are equal in every run."""
    return Comparison(
        text=f"{one} = {other}",
        of=(one, other),
        contrast=lambda value, another: 1e-9 - abs(value - another),
        is_of_every_run=True,
    )
